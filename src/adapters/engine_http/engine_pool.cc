#include "adapters/engine_http/engine_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "adapters/engine_http/engine_lane.h"

namespace kvrouter {

EnginePool::~EnginePool() = default;

void EnginePool::Acquire(std::shared_ptr<HttpEngineExchange> exchange) {
  while (!idle_.empty()) {
    EngineConnection* connection = idle_.back().connection;
    idle_.pop_back();
    Uncount(&lane_->figures().idle_connections);
    if (connection->StillOpen()) {
      Count(&lane_->figures().connections_reused);
      return connection->Take(std::move(exchange));
    }
    Count(&lane_->figures().idle_ended);
    connection->Abandon();
  }
  AcquireNew(std::move(exchange));
}

void EnginePool::AcquireNew(std::shared_ptr<HttpEngineExchange> exchange) {
  const EngineLinkConfig& config = lane_->config();
  if (connections_.size() < config.max_connections) {
    auto connection = std::make_shared<EngineConnection>(lane_, this, life_);
    connections_.insert(connection);
    Count(&lane_->figures().connections);
    return connection->Open(std::move(exchange));
  }
  if (waiting_.size() < config.max_waiting) {
    exchange->SetWaiting();
    waiting_.push_back(std::move(exchange));
    return;
  }
  exchange->End(EngineEnd::kOverloaded, fmt::format("{} connections are in use and {} calls wait",
                                                    config.max_connections, config.max_waiting));
}

void EnginePool::Withdraw(const HttpEngineExchange* exchange) {
  std::erase_if(waiting_, [exchange](const auto& entry) { return entry.get() == exchange; });
}

void EnginePool::OnFree(EngineConnection* connection) {
  const EngineLinkConfig& config = lane_->config();
  if (connection->life() != life_ || lane_->Stopping()) return connection->Abandon();
  if (!waiting_.empty()) {
    std::shared_ptr<HttpEngineExchange> next = std::move(waiting_.front());
    waiting_.pop_front();
    Count(&lane_->figures().connections_reused);
    return connection->Take(std::move(next));
  }
  if (config.max_idle_connections == 0) return connection->Abandon();
  if (idle_.size() >= config.max_idle_connections) {
    EngineConnection* oldest = idle_.front().connection;
    idle_.erase(idle_.begin());
    Uncount(&lane_->figures().idle_connections);
    Count(&lane_->figures().idle_surplus);
    oldest->Abandon();
  }
  idle_.push_back({connection, std::chrono::steady_clock::now()});
  Count(&lane_->figures().idle_connections);
  connection->AwaitReadable();  // to learn that the engine closes it
  lane_->SweepLater();
}

void EnginePool::OnClosed(EngineConnection* connection) {
  const auto kept = std::find_if(idle_.begin(), idle_.end(), [connection](const Idle& entry) {
    return entry.connection == connection;
  });
  if (kept != idle_.end()) {
    idle_.erase(kept);
    Uncount(&lane_->figures().idle_connections);
    Count(&lane_->figures().idle_ended);
  }
  if (connections_.erase(connection->shared_from_this()) > 0) {
    Uncount(&lane_->figures().connections);
  }
  ServeWaiting();
}

void EnginePool::ServeWaiting() {
  while (!waiting_.empty() && !lane_->Stopping() &&
         connections_.size() < lane_->config().max_connections) {
    std::shared_ptr<HttpEngineExchange> next = std::move(waiting_.front());
    waiting_.pop_front();
    AcquireNew(std::move(next));
  }
}

void EnginePool::CloseIdleBefore(std::chrono::steady_clock::time_point time) {
  while (!idle_.empty() && idle_.front().since <= time) {
    EngineConnection* connection = idle_.front().connection;
    idle_.erase(idle_.begin());
    Uncount(&lane_->figures().idle_connections);
    Count(&lane_->figures().idle_timeouts);
    connection->Abandon();
  }
}

void EnginePool::Forget() {
  ++life_;
  const std::vector<Idle> idle = std::exchange(idle_, {});
  for (const Idle& entry : idle) {
    Uncount(&lane_->figures().idle_connections);
    entry.connection->Abandon();
  }
}

void EnginePool::ShutDown() {
  const auto waiting = std::exchange(waiting_, {});
  for (const auto& exchange : waiting) exchange->End(EngineEnd::kShuttingDown, "the router stops");
  Forget();
  const auto connections = connections_;
  for (const auto& connection : connections) {
    connection->Fail(EngineEnd::kShuttingDown, "the router stops");
  }
}

}  // namespace kvrouter
