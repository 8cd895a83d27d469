#ifndef KVROUTER_PHASE_OBSERVER_H_
#define KVROUTER_PHASE_OBSERVER_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "kvrouter/types.h"

namespace kvrouter {

// The timed steps of a decision, in their order. The names are those of Dynamo's overhead metrics.
enum class DecisionPhase : uint8_t {
  kBlockHashing,     // tokens to local block hashes; skipped when the caller sent hashes
  kSequenceHashing,  // chaining them; skipped when the caller did
  kFindMatches,      // overlap look-up in the index
  kScheduling,       // waiting for the scheduler, costs, pick, booking
};
inline constexpr size_t kDecisionPhaseCount = 4;

// How long the steps of one decision took. The first one taken includes the check of the request.
struct PhaseTimes {
  std::array<std::optional<std::chrono::nanoseconds>, kDecisionPhaseCount>
      phases;                        // absent: skipped
  std::chrono::nanoseconds total{};  // from the call until the decision stands
};

// The core reads no clock; whoever wants to know where its time goes lends it one. Told of every
// decision that succeeds, advice included, just before the DecisionSink. Without an observer
// nothing is measured.
//
// Thread safety: called concurrently, on the thread that decides. ReadClock is called with no lock
// of the core held, up to six times a decision. Must not block.
class PhaseObserver {
 public:
  virtual ~PhaseObserver() = default;
  virtual MonotonicTime ReadClock() const = 0;  // never goes back
  virtual void OnPhases(const PhaseTimes& times) = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_PHASE_OBSERVER_H_
