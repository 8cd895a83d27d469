#ifndef KVROUTER_ADAPTERS_ENGINE_HTTP_ENGINE_POOL_H_
#define KVROUTER_ADAPTERS_ENGINE_HTTP_ENGINE_POOL_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "adapters/engine_http/engine_connection.h"
#include "adapters/engine_http/engine_url.h"
#include "adapters/engine_http/http_engine_exchange.h"

namespace kvrouter {

class EngineLane;

// The connections to one address and the calls that wait for one. The connection used last is used
// first, so that the surplus of a burst ages and goes.
//
// Everything runs on the lane's thread. Calls wait only while max_connections are open.
class EnginePool {
 public:
  EnginePool(EngineLane* lane, EngineUrl url) : lane_(lane), url_(std::move(url)) {}
  ~EnginePool();
  EnginePool(const EnginePool&) = delete;
  EnginePool& operator=(const EnginePool&) = delete;

  const EngineUrl& url() const { return url_; }
  // Nothing refers to it.
  bool Empty() const { return connections_.empty() && waiting_.empty(); }
  bool HasIdle() const { return !idle_.empty(); }

  // On a kept connection, else a new one, else it waits or ends.
  void Acquire(std::shared_ptr<HttpEngineExchange> exchange);
  // Not on a kept one: one of them has just proved to be dead.
  void AcquireNew(std::shared_ptr<HttpEngineExchange> exchange);
  // It waits no longer.
  void Withdraw(const HttpEngineExchange* exchange);

  // Of its connections: a whole answer came on it and it may be kept.
  void OnFree(EngineConnection* connection);
  void OnClosed(EngineConnection* connection);

  void CloseIdleBefore(std::chrono::steady_clock::time_point time);
  // Closes what is kept and keeps none of what is in use now.
  void Forget();
  // Ends everything.
  void ShutDown();

 private:
  struct Idle {
    EngineConnection* connection = nullptr;
    std::chrono::steady_clock::time_point since;
  };

  void ServeWaiting();

  EngineLane* const lane_;
  const EngineUrl url_;
  uint64_t life_ = 0;  // counts Forget: connections of an older one are not kept
  std::unordered_set<std::shared_ptr<EngineConnection>> connections_;
  std::vector<Idle> idle_;  // the one used last at the end
  std::deque<std::shared_ptr<HttpEngineExchange>> waiting_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_ENGINE_HTTP_ENGINE_POOL_H_
