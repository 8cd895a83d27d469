#ifndef KVROUTER_ADAPTERS_HTTP_HTTP_SERVER_STATE_H_
#define KVROUTER_ADAPTERS_HTTP_HTTP_SERVER_STATE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>

#include "adapters/http/http_routes.h"
#include "adapters/http/http_server.h"
#include "base/mutex.h"

namespace kvrouter {

class HttpConnection;

// What the connections of a server share with it. Outlives them: the threads are joined before it
// goes.
struct HttpServerState {
  const HttpServerConfig config;
  HttpRoutes routes;  // fixed before Start

  std::atomic<uint64_t> requests{0};
  std::atomic<uint64_t> connections_refused{0};
  std::atomic<uint64_t> timeouts{0};
  std::atomic<uint64_t> bad_requests{0};
  std::atomic<uint64_t> streams_overflowed{0};
  std::atomic<bool> stopping{false};

  Mutex mu;
  CondVar none_left;
  std::set<std::shared_ptr<HttpConnection>> connections ABSL_GUARDED_BY(mu);
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_HTTP_SERVER_STATE_H_
