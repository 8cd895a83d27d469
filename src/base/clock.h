#ifndef KVROUTER_BASE_CLOCK_H_
#define KVROUTER_BASE_CLOCK_H_

#include "kvrouter/types.h"

namespace kvrouter {

// Time for everything outside the core. Two implementations: SteadyClock (daemon/clock in
// src/base/clock.cc) and a settable one in tests and in the virtual-time simulator.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonotonicTime Now() const = 0;  // thread-safe, never goes back
};

// std::chrono::steady_clock. Not used by core or feed: they are handed times.
const Clock& SteadyClock();

// A clock that stands still until told. Thread-compatible.
class ManualClock : public Clock {
 public:
  MonotonicTime Now() const override { return now_; }
  void Set(MonotonicTime now) { now_ = now; }
  void Advance(MonotonicTime by) { now_ += by; }

 private:
  MonotonicTime now_{};
};

}  // namespace kvrouter

#endif  // KVROUTER_BASE_CLOCK_H_
