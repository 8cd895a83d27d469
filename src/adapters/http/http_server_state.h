#ifndef KVROUTER_ADAPTERS_HTTP_HTTP_SERVER_STATE_H_
#define KVROUTER_ADAPTERS_HTTP_HTTP_SERVER_STATE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "adapters/http/http_connection_set.h"
#include "adapters/http/http_routes.h"
#include "adapters/http/http_server.h"
#include "adapters/tls/tls_server.h"

namespace kvrouter {

// Bytes that all connections together may hold. Thread-safe.
class ByteBudget {
 public:
  explicit ByteBudget(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  bool TryTake(uint64_t bytes) {
    uint64_t taken = taken_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit_bytes_ - taken) return false;
    } while (!taken_.compare_exchange_weak(taken, taken + bytes, std::memory_order_relaxed));
    return true;
  }
  void Return(uint64_t bytes) { taken_.fetch_sub(bytes, std::memory_order_relaxed); }
  uint64_t Taken() const { return taken_.load(std::memory_order_relaxed); }

 private:
  const uint64_t limit_bytes_;
  std::atomic<uint64_t> taken_{0};  // <= limit_bytes_
};

// What the connections share with the server. Outlives them: the threads are joined before it goes.
struct HttpServerState {
  explicit HttpServerState(HttpServerConfig c)
      : config(std::move(c)),
        connections(config.max_connections),
        buffers(config.max_buffered_bytes) {}

  const HttpServerConfig config;
  HttpRoutes routes;               // fixed before Start
  std::unique_ptr<TlsServer> tls;  // from Start on; null: plain text
  HttpConnectionSet connections;
  ByteBudget buffers;
  std::atomic<bool> stopping{false};

  // As HttpServerCounters.
  using Counter = std::atomic<uint64_t>;
  Counter requests{0}, unrouted{0};
  Counter connections_accepted{0}, connections_refused{0}, connections_evicted{0};
  Counter accept_failures{0};
  Counter idle_timeouts{0}, head_timeouts{0}, body_timeouts{0}, write_timeouts{0};
  Counter malformed{0}, heads_too_large{0}, bodies_too_large{0};
  Counter bodies_without_room{0}, answers_without_room{0};
  Counter streams_overflowed{0}, streams_paused{0};
  Counter tls_handshakes_failed{0};
};

inline void CountOne(HttpServerState::Counter* counter) {
  counter->fetch_add(1, std::memory_order_relaxed);
}

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_HTTP_SERVER_STATE_H_
