#ifndef KVROUTER_ADAPTERS_GRPC_EVENT_CONVERT_H_
#define KVROUTER_ADAPTERS_GRPC_EVENT_CONVERT_H_

#include "kvrouter/events.h"
#include "kvrouter/router.h"
#include "kvrouter/v1/router.pb.h"

namespace kvrouter {

// Between cache events and messages of kvrouter.v1. Pure. `message` is empty before.

// REQUIRES: `event` is a stored one.
void ToProto(const KvEvent& event, uint32_t block_size_tokens, v1::DumpedEvent* message);
void ToProto(const DumpCounts& counts, v1::DumpCounts* message);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_GRPC_EVENT_CONVERT_H_
