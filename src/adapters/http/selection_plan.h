#ifndef KVROUTER_ADAPTERS_HTTP_SELECTION_PLAN_H_
#define KVROUTER_ADAPTERS_HTTP_SELECTION_PLAN_H_

#include <nlohmann/json.hpp>

#include "kvrouter/decision.h"

namespace kvrouter {

// What a decision says of session, gate, migration and legs, in the names of the gRPC contract.
// Pure functions.

// The legs in order; an empty list if there is nothing but the target.
nlohmann::ordered_json LegsJson(const RouteDecision& decision);

// 0 without legs.
nlohmann::ordered_json LeaseJson(const RouteDecision& decision);

// {"plan":…,"phase":…,"legs":…,"lease_ms":…}, added to `answer` if the caller has more to do than
// to send all to the target.
void AddPlan(const RouteDecision& decision, nlohmann::ordered_json* answer);

// null if there was nothing to decide.
nlohmann::ordered_json SessionJson(const RouteDecision& decision);
nlohmann::ordered_json GateJson(const RouteDecision& decision);
nlohmann::ordered_json MigrationJson(const RouteDecision& decision);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_SELECTION_PLAN_H_
