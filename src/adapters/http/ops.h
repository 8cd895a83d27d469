#ifndef KVROUTER_ADAPTERS_HTTP_OPS_H_
#define KVROUTER_ADAPTERS_HTTP_OPS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "adapters/http/http_server.h"

namespace kvrouter {

struct Readiness {
  bool ready = false;
  uint64_t schedulable_workers = 0;
  std::string reason;  // why not ready; empty when ready
};

// Adds GET /live (200 while the process runs) and /metrics (Prometheus text). /health and /ready
// come with the selection API, in upstream's form.
void AddOpsRoutes(HttpServer* server, std::function<std::string()> metrics_text);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_OPS_H_
