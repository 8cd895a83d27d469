#ifndef KVROUTER_ADAPTERS_GRPC_PLAN_CONVERT_H_
#define KVROUTER_ADAPTERS_GRPC_PLAN_CONVERT_H_

#include "kvrouter/decision.h"
#include "kvrouter/v1/router.pb.h"

namespace kvrouter {

// What a decision says of session, gate, migration and legs. Pure functions.
void PlanToProto(const RouteDecision& decision, v1::RouteResponse* message);

v1::Phase ToProto(RequestPhase phase);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_GRPC_PLAN_CONVERT_H_
