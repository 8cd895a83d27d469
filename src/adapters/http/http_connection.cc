#include "adapters/http/http_connection.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <utility>

#include "adapters/http/http_message.h"

namespace kvrouter {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr size_t kReadBytes = 16 * 1024;
constexpr size_t kKeptBufferBytes = 64 * 1024;  // a kept connection gives larger ones back
// How long a refused client may go on sending before its connection is reset under it.
constexpr std::chrono::milliseconds kDrainTimeout{1000};

}  // namespace

void HttpConnection::Start() {
  ErrorCode ignored;
  socket_.set_option(Tcp::no_delay(true), ignored);
  AwaitRequest();
}

// ---- Receiving ----

void HttpConnection::AwaitRequest() {
  phase_ = Phase::kIdle;
  if (buffer_.size() > 0) return ReadRequest();
  if (server_->stopping.load()) return Close();
  ArmReadTimer(server_->config.idle_timeout);
  StartRead();
}

void HttpConnection::StartRead() {
  if (reading_) return;
  reading_ = true;
  socket_.async_read_some(
      buffer_.prepare(kReadBytes),
      [self = shared_from_this()](ErrorCode error, size_t bytes) { self->OnRead(error, bytes); });
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
  if (phase_ == Phase::kDraining) return StartRead();  // not committed: thrown away
  buffer_.commit(bytes);
  if (phase_ == Phase::kIdle) ReadRequest();
}

void HttpConnection::ReadRequest() {
  phase_ = Phase::kReading;
  read_timed_out_ = false;
  parser_.emplace();
  parser_->header_limit(server_->config.max_header_bytes);
  parser_->body_limit(server_->config.max_body_bytes);
  ArmReadTimer(server_->config.read_timeout);
  http::async_read_header(
      socket_, buffer_, *parser_,
      [self = shared_from_this()](ErrorCode error, size_t) { self->OnHeader(error); });
}

void HttpConnection::OnHeader(ErrorCode error) {
  if (phase_ == Phase::kClosed) return;
  if (error) return Refuse(error);
  if (!beast::iequals(parser_->get()[http::field::expect], "100-continue")) return ReadBody();
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(socket_, asio::buffer(kContinue),
                    [self = shared_from_this()](ErrorCode write_error, size_t) {
                      if (self->phase_ == Phase::kClosed) return;
                      if (write_error) return self->Refuse(write_error);
                      self->ReadBody();
                    });
}

void HttpConnection::ReadBody() {
  // Here nothing of it has been received yet, so making room for a reader's padding copies nothing.
  if (const auto length_bytes = parser_->content_length())
    parser_->get().body().reserve(*length_bytes + kBodyPaddingBytes);
  http::async_read(
      socket_, buffer_, *parser_,
      [self = shared_from_this()](ErrorCode error, size_t) { self->OnRequest(error); });
}

void HttpConnection::OnRequest(ErrorCode error) {
  if (phase_ == Phase::kClosed) return;
  if (error) return Refuse(error);
  DisarmReadTimer();
  phase_ = Phase::kAnswering;
  server_->requests.fetch_add(1, std::memory_order_relaxed);
  Dispatch();
}

// Says why where the client may still be listening, then closes.
void HttpConnection::Refuse(ErrorCode error) {
  DisarmReadTimer();
  std::optional<HttpResponse> answer;
  if (read_timed_out_) {
    answer = ErrorResponse(
        408, fmt::format("request not complete after {} ms", server_->config.read_timeout.count()));
  } else {
    answer = AnswerToReadError(error, server_->config);
    if (answer) server_->bad_requests.fetch_add(1, std::memory_order_relaxed);
  }
  if (!answer) return Close();  // the client left in the middle
  phase_ = Phase::kAnswering;
  keep_alive_ = false;
  answer_complete_ = true;
  Append(FormatHead(*answer, {.keep_alive = false}));
  Append(answer->body);
  WriteMore();
}

// ---- Answering ----

void HttpConnection::Dispatch() {
  auto& message = parser_->get();
  HttpRequest request = ToHttpRequest(&message);
  keep_alive_ = message.keep_alive();
  http_1_0_ = message.version() < 11;
  head_only_ = request.method == "HEAD";
  answer_complete_ = false;
  parser_.reset();

  exchange_ = std::make_shared<HttpExchange>(
      [self = shared_from_this()](HttpExchange::Step step, HttpResponse response) {
        asio::post(self->executor(), [self, step, response = std::move(response)]() mutable {
          self->OnStep(step, std::move(response));
        });
      });
  CallHandler(server_->routes, &request, MakeResponder(exchange_));
  if (!exchange_->Finished() && buffer_.size() == 0) StartRead();
}

void HttpConnection::OnStep(HttpExchange::Step step, HttpResponse response) {
  if (phase_ != Phase::kAnswering) return;
  if (server_->stopping.load()) keep_alive_ = false;
  switch (step) {
    case HttpExchange::Step::kComplete:
      Append(FormatHead(response, {.keep_alive = keep_alive_, .http_1_0 = http_1_0_}));
      if (!head_only_) Append(response.body);
      answer_complete_ = true;
      break;
    case HttpExchange::Step::kBegin:
      framing_ = http_1_0_ ? BodyFraming::kUntilClose : BodyFraming::kChunked;
      if (http_1_0_) keep_alive_ = false;
      Append(FormatHead(response,
                        {.framing = framing_, .keep_alive = keep_alive_, .http_1_0 = http_1_0_}));
      [[fallthrough]];
    case HttpExchange::Step::kWrite:
      if (head_only_) break;
      Append(framing_ == BodyFraming::kChunked ? FormatChunk(response.body)
                                               : std::move(response.body));
      if (pending_.size() > server_->config.max_unsent_bytes) {
        server_->streams_overflowed.fetch_add(1, std::memory_order_relaxed);
        return Close();
      }
      break;
    case HttpExchange::Step::kEnd:
      if (!head_only_ && framing_ == BodyFraming::kChunked) Append(kLastChunk);
      answer_complete_ = true;
      break;
    case HttpExchange::Step::kAbort:
      return Close();
  }
  WriteMore();
}

void HttpConnection::WriteMore() {
  if (writing_) return;
  if (in_flight_sent_bytes_ == in_flight_.size()) {
    in_flight_.clear();
    in_flight_sent_bytes_ = 0;
    std::swap(in_flight_, pending_);
    if (in_flight_.empty()) {
      if (answer_complete_) AnswerSent();
      return;
    }
  }
  writing_ = true;
  ArmWriteTimer();
  socket_.async_write_some(asio::buffer(in_flight_) + in_flight_sent_bytes_,
                           [self = shared_from_this()](ErrorCode error, size_t bytes) {
                             self->OnWritten(error, bytes);
                           });
}

void HttpConnection::OnWritten(ErrorCode error, size_t bytes) {
  writing_ = false;
  ++write_timer_round_;
  write_timer_.cancel();
  if (phase_ == Phase::kClosed) return;
  if (error) return Close();
  in_flight_sent_bytes_ += bytes;
  WriteMore();
}

void HttpConnection::AnswerSent() {
  if (exchange_ != nullptr) exchange_->Detach();
  exchange_.reset();
  answer_complete_ = false;
  if (in_flight_.capacity() > kKeptBufferBytes) in_flight_.shrink_to_fit();
  if (pending_.capacity() > kKeptBufferBytes) pending_.shrink_to_fit();
  if (client_done_ && buffer_.size() == 0) return Close();
  if (!keep_alive_ || server_->stopping.load()) return Drain();
  AwaitRequest();
}

// Closing a socket with unread input resets it, and the reset can overtake the answer: read on
// until the client closes.
void HttpConnection::Drain() {
  phase_ = Phase::kDraining;
  ErrorCode error;
  socket_.shutdown(Tcp::socket::shutdown_send, error);
  if (error) return Close();
  ArmReadTimer(kDrainTimeout);
  StartRead();
}

void HttpConnection::Close() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  if (exchange_ != nullptr) exchange_->Detach();
  exchange_.reset();
  DisarmReadTimer();
  ++write_timer_round_;
  write_timer_.cancel();
  ErrorCode ignored;
  socket_.close(ignored);
  const auto self = shared_from_this();  // the set may hold the last reference
  MutexLock lock(server_->mu);
  server_->connections.erase(self);
  if (server_->connections.empty()) server_->none_left.NotifyAll();
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
  if (phase_ != Phase::kReading) return Close();  // idle, or drained long enough
  if (read_timed_out_) return Close();
  server_->timeouts.fetch_add(1, std::memory_order_relaxed);
  read_timed_out_ = true;
  ArmReadTimer(kDrainTimeout);  // the cancellation may meet the parser between two reads
  ErrorCode ignored;
  socket_.cancel(ignored);  // the parser's read ends with an error and Refuse says why
}

void HttpConnection::ArmWriteTimer() {
  const uint64_t round = ++write_timer_round_;
  write_timer_.expires_after(server_->config.write_timeout);
  write_timer_.async_wait([self = shared_from_this(), round](ErrorCode error) {
    if (error || round != self->write_timer_round_) return;
    self->server_->timeouts.fetch_add(1, std::memory_order_relaxed);
    self->Close();
  });
}

}  // namespace kvrouter
