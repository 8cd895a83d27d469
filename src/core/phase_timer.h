#ifndef KVROUTER_CORE_PHASE_TIMER_H_
#define KVROUTER_CORE_PHASE_TIMER_H_

#include "kvrouter/phase_observer.h"

namespace kvrouter {

// Times the steps of one decision for an observer; with none it costs a branch per step. Belongs to
// the deciding thread.
class PhaseTimer {
 public:
  explicit PhaseTimer(PhaseObserver* observer) : observer_(observer) {
    if (observer_ != nullptr) started_at_ = step_began_at_ = observer_->ReadClock();
  }

  // The step that began when the last one ended is over.
  void End(DecisionPhase phase) {
    if (observer_ == nullptr) return;
    const MonotonicTime now = observer_->ReadClock();
    times_.phases[static_cast<size_t>(phase)] = now - step_began_at_;
    step_began_at_ = now;
  }

  // The decision stands. Once.
  void Finish() {
    if (observer_ == nullptr) return;
    times_.total = observer_->ReadClock() - started_at_;
    observer_->OnPhases(times_);
  }

 private:
  PhaseObserver* const observer_;
  MonotonicTime started_at_{};
  MonotonicTime step_began_at_{};
  PhaseTimes times_;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_PHASE_TIMER_H_
