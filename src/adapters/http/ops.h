#ifndef KVROUTER_ADAPTERS_HTTP_OPS_H_
#define KVROUTER_ADAPTERS_HTTP_OPS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "adapters/http/http_server.h"

namespace kvrouter {

// The OpenAI door, where there is one.
struct OpenAiDoorState {
  std::string address;
  bool tls = false;
  uint64_t engines = 0;      // that requests can be sent to now
  std::string problem = {};  // why none can; empty: they can
};

struct Readiness {
  bool ready = false;
  uint64_t schedulable_workers = 0;
  std::string reason;  // why not ready; empty when ready
  // Does not make it unready: the other doors advise all the same.
  std::optional<OpenAiDoorState> openai_door = {};
};

// Adds GET /live (200 while the process runs) and /metrics (Prometheus text). /health and /ready
// come with the selection API, in upstream's form.
void AddOpsRoutes(HttpServer* server, std::function<std::string()> metrics_text);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_OPS_H_
