#ifndef KVROUTER_ADAPTERS_GRPC_ANSWER_CONVERT_H_
#define KVROUTER_ADAPTERS_GRPC_ANSWER_CONVERT_H_

#include <string_view>

#include "kvrouter/router.h"
#include "kvrouter/v1/router.pb.h"

namespace kvrouter {

// From what the core answers to messages of kvrouter.v1.Router. Pure. `message` is empty before.

void ToProto(const Target& target, v1::Target* message);
void ToProto(std::string_view request_id, const RouteDecision& decision,
             v1::RouteResponse* message);
void ToProto(const TargetOverlap& overlap, v1::TargetOverlap* message);
void ToProto(const TargetPotentialLoad& load, v1::TargetPotentialLoad* message);
void ToProto(const PartitionSnapshot& partition, MonotonicTime now, v1::PartitionLoads* message);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_GRPC_ANSWER_CONVERT_H_
