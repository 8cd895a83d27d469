#include "adapters/http/http_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <utility>

#include "adapters/http/http_message.h"
#include "base/last_chunk.h"

// Receiving, time-outs and the end; answering is in http_connection_answer.cc.

namespace kvrouter {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr size_t kReadBytes = 16 * 1024;
constexpr size_t kBodyStepBytes = 256 * 1024;
// How long a refused client may go on sending before its connection is reset under it.
constexpr std::chrono::milliseconds kDrainTimeout{1000};

}  // namespace

// A request line with its fields fits, and so does whatever else the parser wants to see whole: the
// line before a chunk, a trailer.
size_t HttpConnection::BufferLimit(const HttpServerConfig& config) {
  return std::max<size_t>(64 * 1024, size_t{2} * config.max_header_bytes);
}

void HttpConnection::Start() {
  ErrorCode ignored;
  stream_.socket().set_option(Tcp::no_delay(true), ignored);
  if (server_->tls != nullptr) return ShakeHands();
  AwaitRequest();
}

void HttpConnection::ShakeHands() {
  phase_ = Phase::kHandshaking;
  if (server_->stopping.load() || evicted_) return Close();
  auto session = server_->tls->NewSession(stream_.socket().native_handle());
  if (session == nullptr) return Close();
  stream_.UseTls(std::move(session));
  ArmReadTimer(server_->config.read_timeout);
  stream_.async_handshake([self = shared_from_this()](ErrorCode error) {
    if (self->phase_ == Phase::kClosed) return;
    if (!error) return self->AwaitRequest();
    CountOne(&self->server_->tls_handshakes_failed);
    self->Close();
  });
}

// ---- Receiving ----

void HttpConnection::AwaitRequest() {
  phase_ = Phase::kIdle;
  head_done_ = false;
  server_->connections.SetWaiting(this);
  SkipEmptyLines();
  if (buffer_.size() > 0) return ReadRequest();
  if (server_->stopping.load() || evicted_) return Close();
  ArmReadTimer(server_->config.idle_timeout);
  if (reading_) return;  // since the last answer was awaited
  buffer_.clear();
  buffer_.shrink_to_fit();
  stream_.async_wait_readable([self = shared_from_this()](ErrorCode error) {
    if (self->phase_ != Phase::kIdle) return;
    if (error) return self->Close();
    self->ReadRequest();
  });
}

void HttpConnection::StartRead(size_t bytes) {
  if (reading_) return;
  reading_ = true;
  stream_.async_read_some(
      buffer_.prepare(bytes),
      [self = shared_from_this()](ErrorCode error, size_t read) { self->OnRead(error, read); });
}

void HttpConnection::OnRead(ErrorCode error, size_t bytes) {
  reading_ = false;
  if (phase_ == Phase::kClosed) return;
  if (error) {
    // A client may close its sending side once it has asked; the answer that is ready still goes
    // out.
    const bool answer_is_ready = exchange_ == nullptr || exchange_->Finished();
    if (phase_ == Phase::kAnswering && answer_is_ready && error == asio::error::eof) {
      client_done_ = true;
      return;
    }
    return Close();
  }
  if (phase_ == Phase::kDraining) return StartRead(kReadBytes);  // not committed: thrown away
  buffer_.commit(bytes);
  if (phase_ == Phase::kIdle) return AwaitRequest();
  SkipEmptyLines();
  if (phase_ == Phase::kAnswering && buffer_.size() == 0) StartRead(kNoticeBytes);
}

void HttpConnection::SkipEmptyLines() {
  while (buffer_.size() > 0) {
    const char first = *static_cast<const char*>(buffer_.data().data());
    if (first != '\r' && first != '\n') return;
    buffer_.consume(1);
  }
}

void HttpConnection::ReadRequest() {
  phase_ = Phase::kReading;
  read_timed_out_ = false;
  parser_.emplace();
  parser_->header_limit(server_->config.max_header_bytes);
  parser_->body_limit(server_->config.max_body_bytes);
  ArmReadTimer(server_->config.read_timeout);
  http::async_read_header(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](ErrorCode error, size_t) { self->OnHeader(error); });
}

void HttpConnection::OnHeader(ErrorCode error) {
  if (phase_ == Phase::kClosed) return;
  if (error) return OnReadError(error);
  head_done_ = true;
  server_->connections.SetBusy(this);
  if (const auto refusal = RefusalOfHead(parser_->get(), server_->config)) {
    CountOne(refusal->status == 431 ? &server_->heads_too_large : &server_->malformed);
    return Refuse(*refusal);
  }
  const bool waits_to_send = parser_->get().version() >= 11 &&
                             beast::iequals(parser_->get()[http::field::expect], "100-continue");
  if (!waits_to_send) return ReadBody();
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(stream_, asio::buffer(kContinue),
                    [self = shared_from_this()](ErrorCode write_error, size_t) {
                      if (self->phase_ == Phase::kClosed) return;
                      if (write_error) return self->OnReadError(write_error);
                      self->ReadBody();
                    });
}

void HttpConnection::ReadBody() {
  if (parser_->chunked()) return ReadChunks();
  const uint64_t length_bytes = parser_->content_length().value_or(0);
  if (!MakeRoom(length_bytes)) return;
  if (length_bytes > 0) body_.reserve(length_bytes + kBodyPaddingBytes);
  const size_t early_bytes = std::min<size_t>(buffer_.size(), length_bytes);
  body_.assign(static_cast<const char*>(buffer_.data().data()), early_bytes);
  buffer_.consume(early_bytes);
  body_received_bytes_ = early_bytes;
  ReadAnnouncedBody();
}

// The string grows with what has come, not with what was announced: its memory is not touched
// before.
void HttpConnection::ReadAnnouncedBody() {
  const size_t length_bytes = parser_->content_length().value_or(0);
  if (body_received_bytes_ == length_bytes) return OnRequest();
  body_.resize(std::min(length_bytes, body_received_bytes_ + kBodyStepBytes));
  stream_.async_read_some(asio::buffer(body_) + body_received_bytes_,
                          [self = shared_from_this()](ErrorCode error, size_t bytes) {
                            if (self->phase_ == Phase::kClosed) return;
                            if (error) return self->OnReadError(error);
                            self->body_received_bytes_ += bytes;
                            self->ReadAnnouncedBody();
                          });
}

void HttpConnection::ReadChunks() {
  if (!MakeRoom(parser_->get().body().size())) return;
  if (parser_->is_done()) {
    body_ = std::move(parser_->get().body());
    return OnRequest();
  }
  const auto go_on = [self = shared_from_this()](ErrorCode error, size_t) {
    if (self->phase_ == Phase::kClosed) return;
    if (error) return self->OnReadError(error);
    self->ReadChunks();
  };
  if (buffer_.size() == 0 ||
      MayBeCutLastChunk({static_cast<const char*>(buffer_.data().data()), buffer_.size()})) {
    return stream_.async_read_some(buffer_.prepare(kReadBytes),
                                   [this, go_on](ErrorCode error, size_t bytes) {
                                     buffer_.commit(bytes);
                                     go_on(error, bytes);
                                   });
  }
  http::async_read_some(stream_, buffer_, *parser_, go_on);
}

// Takes as much of the server's buffers as a body of this many bytes needs; false: refused.
bool HttpConnection::MakeRoom(uint64_t body_bytes) {
  const uint64_t more_bytes = body_bytes - body_room_bytes_;
  if (server_->buffers.TryTake(more_bytes)) {
    body_room_bytes_ = body_bytes;
    return true;
  }
  CountOne(&server_->bodies_without_room);
  Refuse(
      Refusal(server_->config, 503, "too many request bodies and answers are held at this moment"));
  return false;
}

void HttpConnection::OnRequest() {
  DisarmReadTimer();
  phase_ = Phase::kAnswering;
  CountOne(&server_->requests);
  Dispatch();
}

void HttpConnection::OnReadError(ErrorCode error) {
  if (read_timed_out_) {
    return Refuse(Refusal(
        server_->config, 408,
        fmt::format("request not complete after {} ms", server_->config.read_timeout.count())));
  }
  const std::optional<HttpResponse> answer = AnswerToReadError(error, server_->config);
  if (!answer) return Close();  // the client left in the middle
  CountOne(answer->status == 413   ? &server_->bodies_too_large
           : answer->status == 431 ? &server_->heads_too_large
                                   : &server_->malformed);
  Refuse(*answer);
}

// Says why where the client may still be listening, then closes.
void HttpConnection::Refuse(const HttpResponse& answer) {
  DisarmReadTimer();
  server_->connections.SetBusy(this);
  ReturnBody();
  phase_ = Phase::kAnswering;
  keep_alive_ = false;
  answer_complete_ = true;
  Append(FormatHead(answer, {.keep_alive = false}));
  Append(answer.body);
  WriteMore();
}

void HttpConnection::ReturnBody() {
  parser_.reset();
  body_ = std::string();
  body_received_bytes_ = 0;
  server_->buffers.Return(std::exchange(body_room_bytes_, 0));
}

// ---- The end ----

void HttpConnection::Retire() {
  if (phase_ == Phase::kHandshaking || phase_ == Phase::kIdle || phase_ == Phase::kDraining) {
    Close();
  }
}

void HttpConnection::Evict() {
  evicted_ = true;
  if (!head_done_) Close();
}

// Closing a socket with unread input resets it, and the reset can overtake the answer: read on
// until the client closes.
void HttpConnection::Drain() {
  phase_ = Phase::kDraining;
  buffer_.clear();
  ErrorCode error;
  stream_.ShutdownSend(&error);
  if (error) return Close();
  ArmReadTimer(kDrainTimeout);
  StartRead(kReadBytes);
}

void HttpConnection::Close() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  if (exchange_ != nullptr) exchange_->Detach(/*delivered=*/false);
  exchange_.reset();
  DisarmReadTimer();
  DisarmWriteTimer();
  server_->buffers.Return(std::exchange(body_room_bytes_, 0));
  server_->buffers.Return(std::exchange(answer_room_bytes_, 0));
  stream_.Close();
  server_->connections.Remove(this);
}

// ---- Time-outs ----

void HttpConnection::ArmReadTimer(std::chrono::milliseconds timeout) {
  const uint64_t round = ++read_timer_round_;
  read_timer_.expires_after(timeout);
  read_timer_.async_wait([self = shared_from_this(), round](ErrorCode error) {
    if (!error && round == self->read_timer_round_) self->OnReadTimeout();
  });
}

void HttpConnection::DisarmReadTimer() {
  ++read_timer_round_;
  read_timer_.cancel();
}

void HttpConnection::OnReadTimeout() {
  if (phase_ == Phase::kHandshaking) CountOne(&server_->tls_handshakes_failed);
  if (phase_ == Phase::kIdle) CountOne(&server_->idle_timeouts);
  if (phase_ != Phase::kReading || read_timed_out_) return Close();
  CountOne(head_done_ ? &server_->body_timeouts : &server_->head_timeouts);
  read_timed_out_ = true;
  ArmReadTimer(kDrainTimeout);  // the cancellation may meet the reader between two reads
  stream_.Cancel();             // the read ends with an error and OnReadError says why
}

void HttpConnection::ArmWriteTimer() {
  write_timer_armed_ = true;
  progress_bytes_ = 0;
  const uint64_t round = ++write_timer_round_;
  write_timer_.expires_after(server_->config.write_timeout);
  write_timer_.async_wait([self = shared_from_this(), round](ErrorCode error) {
    if (error || round != self->write_timer_round_) return;
    CountOne(&self->server_->write_timeouts);
    self->Close();
  });
}

void HttpConnection::DisarmWriteTimer() {
  write_timer_armed_ = false;
  ++write_timer_round_;
  write_timer_.cancel();
}

}  // namespace kvrouter
