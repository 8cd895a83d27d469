#ifndef KVROUTER_TESTS_PROPERTY_TRUTH_FAULT_PLAN_H_
#define KVROUTER_TESTS_PROPERTY_TRUTH_FAULT_PLAN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kvrouter/types.h"

namespace kvrouter::truth {

enum class FaultKind : uint8_t {
  kLoseLive,          // amount: messages
  kMangleLive,        // amount: messages
  kRepeatLive,        // amount: messages
  kStall,             // amount: milliseconds during which nothing arrives
  kBreakConnection,   // amount: milliseconds until it is back
  kSpoilReplay,       // amount: which ReplaySpoil
  kHoldReplays,       // amount: milliseconds in which no request can be made
  kRestartEngine,     // amount: milliseconds until it is back, empty
  kRestartPublisher,  // amount: milliseconds until we are connected again
  kResetCache,
  kStepClock,          // amount: seconds, back or forth
  kFlapWorker,         // amount: milliseconds without the worker
  kMoveWorker,         // same id, another pod: a new incarnation, empty
  kSaveRouter,         // takes a snapshot
  kRestartRouter,      // amount: milliseconds until it is back, without a snapshot
  kRestartRouterWarm,  // the same, from its last snapshot
};
inline constexpr uint32_t kFaultKinds = 16;

struct Fault {
  MonotonicTime at{};
  FaultKind kind = FaultKind::kLoseLive;
  uint32_t rank = 0;  // of the fleet; for faults of workers any of the worker's
  int64_t amount = 0;
};

// Faults in order of time; the fleet has `ranks`. Some plans are mild and some are hell.
using FaultPlan = std::vector<Fault>;
FaultPlan RandomPlan(uint64_t seed, uint32_t ranks, MonotonicTime length);

std::string Describe(const FaultPlan& plan);

// The shortest plan found for which `fails` still holds, by leaving faults out; it is tried
// at most `trials` times. REQUIRES: fails(plan).
FaultPlan Shorten(FaultPlan plan, const std::function<bool(const FaultPlan&)>& fails,
                  uint32_t trials);

}  // namespace kvrouter::truth

#endif  // KVROUTER_TESTS_PROPERTY_TRUTH_FAULT_PLAN_H_
