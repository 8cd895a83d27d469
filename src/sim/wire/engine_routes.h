#ifndef KVROUTER_SIM_WIRE_ENGINE_ROUTES_H_
#define KVROUTER_SIM_WIRE_ENGINE_ROUTES_H_

#include <cstddef>

#include "adapters/http/http_server.h"
#include "sim/wire/event_publisher.h"
#include "sim/wire/faults.h"
#include "sim/wire/fleet_loop.h"
#include "sim/wire/token_routes.h"

namespace kvrouter::sim {

// What the HTTP routes of one engine need; all outlive the server.
struct EngineRouteParts {
  size_t engine = 0;  // in the loop and the publisher
  TokenRoutesConfig model;
  uint32_t dp_rank = 0;
  FleetLoop* loop = nullptr;
  const EventPublisher* publisher = nullptr;
  Faults* faults = nullptr;
  KvSideChannel* side_channel = nullptr;  // lends its thread to answers that come late
};

// The HTTP surface of one engine: vLLM's, and what only a simulation can tell (/cached_prefix).
void AddEngineRoutes(const EngineRouteParts& parts, HttpServer& server);

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_WIRE_ENGINE_ROUTES_H_
