#include "adapters/engine_http/http_engine_exchange.h"

#include <fmt/format.h>

#include <utility>

#include "adapters/engine_http/engine_connection.h"
#include "adapters/engine_http/engine_lane.h"
#include "adapters/engine_http/engine_pool.h"
#include "adapters/engine_http/engine_request.h"

namespace kvrouter {

namespace asio = boost::asio;
using SteadyClock = std::chrono::steady_clock;

namespace {

std::string_view Message(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

}  // namespace

HttpEngineExchange::HttpEngineExchange(std::shared_ptr<EngineLane> lane, EngineCall call,
                                       std::shared_ptr<EngineReply> reply)
    : lane_(std::move(lane)),
      call_(std::move(call)),
      reply_(std::move(reply)),
      head_request_(call_.method == "HEAD"),
      timer_(lane_->io()) {
  const EngineLinkConfig& config = lane_->config();
  const std::chrono::nanoseconds head_timeout =
      call_.head_timeout.count() > 0 ? call_.head_timeout : config.head_timeout;
  idle_timeout_ = call_.idle_timeout.count() > 0 ? call_.idle_timeout : config.idle_timeout;
  deadline_ = SteadyClock::now() + head_timeout;
}

HttpEngineExchange::~HttpEngineExchange() = default;

// ---- From any thread ----

void HttpEngineExchange::Cancel() {
  if (cancelled_.exchange(true)) return;
  lane_->Post([self = shared_from_this()] { self->CancelOnLane(); });
}

void HttpEngineExchange::Resume() {
  if (!paused_.exchange(false)) return;
  lane_->Post([self = shared_from_this()] {
    if (self->connection_ == nullptr || self->Paused()) return;
    if (self->head_came_) self->Expect(SteadyClock::now() + self->idle_timeout_);
    self->connection_->ReadMore();
  });
}

// ---- On the lane's ----

void HttpEngineExchange::Start() {
  if (cancelled_.load()) return;  // CancelOnLane follows
  if (lane_->Stopping()) return End(EngineEnd::kShuttingDown, "the router stops");
  auto pool = lane_->PoolOf(call_.base_url);
  if (!pool.ok()) return End(EngineEnd::kBadAddress, Message(pool.status()));
  pool_ = *pool;
  auto head = FormatRequestHead(pool_->url(), call_);
  if (!head.ok()) return End(EngineEnd::kBadAddress, Message(head.status()));
  request_head_ = *std::move(head);
  call_.headers = HeaderList();
  ArmTimer();
  pool_->Acquire(shared_from_this());
}

void HttpEngineExchange::Drop() {
  stage_ = Stage::kOver;
  Uncount(&lane_->figures().exchanges);
  reply_.reset();
}

void HttpEngineExchange::SetWaiting() {
  LeaveStage();
  stage_ = Stage::kWaiting;
  Count(&lane_->figures().waiting);
}

void HttpEngineExchange::SetConnection(EngineConnection* connection) {
  LeaveStage();
  stage_ = Stage::kOnConnection;
  connection_ = connection;
}

void HttpEngineExchange::LeaveStage() {
  if (stage_ == Stage::kWaiting) Uncount(&lane_->figures().waiting);
  connection_ = nullptr;
}

std::array<asio::const_buffer, 2> HttpEngineExchange::Request() const {
  return {asio::buffer(request_head_),
          call_.body == nullptr ? asio::const_buffer() : asio::buffer(*call_.body)};
}

bool HttpEngineExchange::MayStartAgain() {
  if (std::exchange(started_again_, true)) return false;
  Count(&lane_->figures().retried);
  return true;
}

void HttpEngineExchange::DropRequest() {
  request_head_ = std::string();
  call_.body.reset();
}

void HttpEngineExchange::Progressed() {
  if (head_came_) Expect(SteadyClock::now() + idle_timeout_);
}

void HttpEngineExchange::OnHead(EngineReplyHead head) {
  head_came_ = true;
  if (!cancelled_.load()) reply_->OnHead(std::move(head));
}

void HttpEngineExchange::OnPiece(std::string_view piece) {
  if (!cancelled_.load()) reply_->OnBody(piece);
}

void HttpEngineExchange::End(EngineEnd end, std::string_view detail) {
  if (stage_ == Stage::kOver) return;
  LeaveStage();
  stage_ = Stage::kOver;
  timer_.cancel();
  DropRequest();
  EngineLinkFigures& figures = lane_->figures();
  Uncount(&figures.exchanges);
  const std::shared_ptr<EngineReply> reply = std::move(reply_);
  if (cancelled_.load()) return Count(&figures.cancelled);
  Count(&figures.ends[static_cast<size_t>(end)]);
  // Without a pool the detail quotes the address already.
  reply->OnEnd(end, detail.empty() || pool_ == nullptr
                        ? std::string(detail)
                        : fmt::format("{}: {}", call_.base_url, detail));
}

void HttpEngineExchange::CancelOnLane() {
  if (stage_ == Stage::kWaiting) pool_->Withdraw(this);
  if (connection_ != nullptr) connection_->Abandon();
  End(EngineEnd::kCut, {});  // tells nobody
}

// ---- Time ----

void HttpEngineExchange::Expect(TimePoint deadline) {
  deadline_ = deadline;
  if (!timer_armed_) {
    ArmTimer();
  } else if (deadline_ < timer_.expiry()) {
    timer_.cancel();  // armed anew when its handler runs
  }
}

void HttpEngineExchange::ArmTimer() {
  timer_armed_ = true;
  timer_.expires_at(deadline_);
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code&) {
    self->timer_armed_ = false;
    self->OnTimer();
  });
}

void HttpEngineExchange::OnTimer() {
  if (stage_ == Stage::kOver) return;
  if (head_came_ && Paused()) return;  // Resume grants new time
  if (SteadyClock::now() < deadline_) return ArmTimer();
  if (!head_came_) return OnHeadTimeout();
  connection_->Fail(
      EngineEnd::kIdleTimeout,
      fmt::format("nothing more for {} ms",
                  std::chrono::duration_cast<std::chrono::milliseconds>(idle_timeout_).count()));
}

void HttpEngineExchange::OnHeadTimeout() {
  if (stage_ == Stage::kWaiting) {
    pool_->Withdraw(this);
    return End(EngineEnd::kOverloaded, "no connection became free in time");
  }
  if (connection_->Connecting()) {
    return connection_->Fail(EngineEnd::kConnectFailed, "not connected in the call's time");
  }
  connection_->Fail(EngineEnd::kHeadTimeout, "no answer in time");
}

}  // namespace kvrouter
