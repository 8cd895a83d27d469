#ifndef KVROUTER_CORE_SCHEDULE_TARGET_POOL_H_
#define KVROUTER_CORE_SCHEDULE_TARGET_POOL_H_

#include <cstdint>

#include "kvrouter/worker.h"

namespace kvrouter {

// Which workers of a partition a pick is about. Requests are decoded in one pool only, so that none
// is given to a prefill worker for decoding.
enum class TargetPool : uint8_t {
  kDecode,   // aggregated and decode workers
  kPrefill,  // prefill workers
};

inline TargetPool PoolOf(WorkerRole role) {
  return role == WorkerRole::kPrefill ? TargetPool::kPrefill : TargetPool::kDecode;
}

inline bool IsInPool(WorkerRole role, TargetPool pool) { return PoolOf(role) == pool; }

}  // namespace kvrouter

#endif  // KVROUTER_CORE_SCHEDULE_TARGET_POOL_H_
