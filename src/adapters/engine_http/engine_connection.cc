#include "adapters/engine_http/engine_connection.h"

#include <fmt/format.h>

#include <array>
#include <boost/asio/post.hpp>
#include <utility>

#include "adapters/engine_http/engine_lane.h"
#include "adapters/engine_http/engine_pool.h"

// Request, answer and end; connecting is in engine_connection_open.cc.

namespace kvrouter {
namespace {

namespace asio = boost::asio;

// How much of one answer is read before others have their turn, in full buffers.
constexpr int kReadsPerTurn = 4;

}  // namespace

EngineConnection::EngineConnection(EngineLane* lane, EnginePool* pool, uint64_t life)
    : lane_(lane), pool_(pool), life_(life), stream_(&lane->io()) {}

EngineConnection::~EngineConnection() = default;

void EngineConnection::Take(std::shared_ptr<HttpEngineExchange> exchange) {
  used_before_ = true;
  exchange->SetConnection(this);
  exchange_ = std::move(exchange);
  BeginRequest();
}

bool EngineConnection::StillOpen() {
  size_t bytes = 0;
  return stage_ == Stage::kIdle &&
         stream_.Read(lane_->read_buffer(), &bytes) == EngineStream::Result::kWantRead;
}

// ---- Request ----

void EngineConnection::BeginRequest() {
  stage_ = Stage::kBusy;
  answer_began_ = false;
  sent_bytes_ = 0;
  request_bytes_ = asio::buffer_size(exchange_->Request());
  parser_ = std::make_unique<AnswerParser>(
      AnswerLimits{.max_head_bytes = lane_->config().max_head_bytes,
                   .max_interim_answers = lane_->config().max_interim_answers},
      exchange_->IsHeadRequest());
  AwaitReadable();
  SendMore();
}

bool EngineConnection::SentAll() const { return sent_bytes_ == request_bytes_; }

void EngineConnection::SendMore() {
  while (!SentAll()) {
    std::array<asio::const_buffer, 2> parts = exchange_->Request();
    const size_t of_first = std::min(sent_bytes_, parts[0].size());
    parts[0] += of_first;
    parts[1] += sent_bytes_ - of_first;
    size_t bytes = 0;
    switch (stream_.Write(parts, &bytes)) {
      case EngineStream::Result::kDone:
        sent_bytes_ += bytes;
        Count(&lane_->figures().sent_bytes, bytes);
        break;
      case EngineStream::Result::kWantWrite:
        return AwaitWritable();
      case EngineStream::Result::kWantRead:  // TLS has something to learn first
        write_wants_readable_ = true;
        return AwaitReadable();
      default:
        return OnWriteFailed();
    }
  }
  if (answer_began_) exchange_->DropRequest();
}

void EngineConnection::AwaitWritable() {
  if (awaits_writable_) return;
  awaits_writable_ = true;
  stream_.socket().async_wait(Tcp::socket::wait_write, [self = shared_from_this()](ErrorCode) {
    self->awaits_writable_ = false;
    self->OnWritable();
  });
}

void EngineConnection::OnWritable() {
  if (stage_ == Stage::kConnecting && attempts_->handshaking) return ShakeHands();
  if (stage_ != Stage::kBusy) return;
  if (std::exchange(read_wants_writable_, false)) ReadMore();
  if (stage_ == Stage::kBusy && !write_failed_) SendMore();
}

// The engine does not take the rest. It may have said why before it closed, so the answer decides.
void EngineConnection::OnWriteFailed() {
  write_failed_ = true;
  asio::post(lane_->io(), [self = shared_from_this()] { self->ReadMore(); });
}

// ---- Answer ----

void EngineConnection::AwaitReadable() {
  if (awaits_readable_) return;
  awaits_readable_ = true;
  stream_.socket().async_wait(Tcp::socket::wait_read, [self = shared_from_this()](ErrorCode) {
    self->awaits_readable_ = false;
    self->OnReadable();
  });
}

void EngineConnection::OnReadable() {
  if (stage_ == Stage::kConnecting && attempts_->handshaking) return ShakeHands();
  if (stage_ == Stage::kBusy) {
    if (std::exchange(write_wants_readable_, false) && !write_failed_) SendMore();
    return ReadMore();
  }
  if (stage_ == Stage::kIdle) OnIdleReadable();
}

// Mostly the engine closes it; with TLS it may be something that concerns the stream alone.
void EngineConnection::OnIdleReadable() {
  if (StillOpen()) return AwaitReadable();
  Abandon();
}

void EngineConnection::ReadMore() {
  for (int turn = 0; turn < kReadsPerTurn; ++turn) {
    if (stage_ != Stage::kBusy || exchange_->Paused()) return;
    const std::span<char> room = lane_->read_buffer();
    size_t bytes = 0;
    const EngineStream::Result result = stream_.Read(room, &bytes);
    switch (result) {
      case EngineStream::Result::kDone:
        Count(&lane_->figures().received_bytes, bytes);
        OnBytes({room.data(), bytes});
        break;
      case EngineStream::Result::kWantRead:
        if (write_failed_ && !answer_began_) return OnPeerDone(EngineStream::Result::kFailed);
        return AwaitReadable();
      case EngineStream::Result::kWantWrite:  // TLS has something to say first
        read_wants_writable_ = true;
        return AwaitWritable();
      default:
        return OnPeerDone(result);
    }
    if (bytes < room.size() && !stream_.HoldsMore()) break;
  }
  if (stage_ != Stage::kBusy || exchange_->Paused()) return;
  if (!stream_.HoldsMore()) return AwaitReadable();
  asio::post(lane_->io(), [self = shared_from_this()] { self->ReadMore(); });
}

void EngineConnection::OnBytes(std::string_view bytes) {
  if (!std::exchange(answer_began_, true) && SentAll()) exchange_->DropRequest();
  switch (parser_->Feed(bytes, exchange_.get())) {
    case AnswerParser::State::kNeedsMore:
      return exchange_->Progressed();
    case AnswerParser::State::kDone:
      return OnAnswered();
    case AnswerParser::State::kBroken:
      return Fail(EngineEnd::kCut, fmt::format("not an HTTP answer: {}", parser_->Problem()));
  }
}

void EngineConnection::OnPeerDone(EngineStream::Result result) {
  const std::string problem =
      result == EngineStream::Result::kEnd ? "closed" : std::string(stream_.Problem());
  if (!answer_began_) {
    const bool sent_all = SentAll();
    const bool used_before = used_before_;
    EnginePool* const pool = pool_;
    std::shared_ptr<HttpEngineExchange> exchange = Close();
    if (used_before && exchange->MayStartAgain()) return pool->AcquireNew(std::move(exchange));
    return exchange->End(sent_all ? EngineEnd::kCut : EngineEnd::kNotSent,
                         fmt::format("no answer: {}", problem));
  }
  if (result == EngineStream::Result::kEnd && parser_->FeedEnd() == AnswerParser::State::kDone) {
    return OnAnswered();
  }
  Fail(EngineEnd::kCut, result == EngineStream::Result::kEnd ? parser_->Problem() : problem);
}

void EngineConnection::OnAnswered() {
  const bool keeps = parser_->KeepsConnection() && SentAll();
  if (!keeps) {
    return Close()->End(EngineEnd::kComplete, {});
  }
  const std::shared_ptr<HttpEngineExchange> exchange = std::move(exchange_);
  parser_.reset();
  stage_ = Stage::kIdle;
  pool_->OnFree(this);
  exchange->End(EngineEnd::kComplete, {});
}

// ---- The end ----

void EngineConnection::Fail(EngineEnd end, std::string_view detail) {
  const std::string said(detail);  // may be ours
  if (const std::shared_ptr<HttpEngineExchange> exchange = Close()) exchange->End(end, said);
}

void EngineConnection::Abandon() { Close(); }

std::shared_ptr<HttpEngineExchange> EngineConnection::Close() {
  if (stage_ == Stage::kClosed) return nullptr;
  const std::shared_ptr<EngineConnection> self = shared_from_this();
  stage_ = Stage::kClosed;
  stream_.Close();
  if (attempts_ != nullptr) attempts_->timer.cancel();
  std::shared_ptr<HttpEngineExchange> exchange = std::move(exchange_);
  pool_->OnClosed(this);
  return exchange;
}

}  // namespace kvrouter
