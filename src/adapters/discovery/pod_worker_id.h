#ifndef KVROUTER_ADAPTERS_DISCOVERY_POD_WORKER_ID_H_
#define KVROUTER_ADAPTERS_DISCOVERY_POD_WORKER_ID_H_

#include <string_view>

#include "kvrouter/types.h"

namespace kvrouter {

// The worker id that a pod's name stands for. Parity: Dynamo's hash of a pod name: SipHash-1-3 with
// a zero key over the name and one byte 0xFF, lowest 53 bits, so that JSON readers which hold
// numbers as doubles keep it exactly.
WorkerId PodWorkerId(std::string_view pod_name);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_DISCOVERY_POD_WORKER_ID_H_
