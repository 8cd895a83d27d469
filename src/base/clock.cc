#include "base/clock.h"

#include <chrono>

namespace kvrouter {
namespace {

class SteadyClockImpl final : public Clock {
 public:
  MonotonicTime Now() const override {
    return std::chrono::duration_cast<MonotonicTime>(
        std::chrono::steady_clock::now().time_since_epoch());
  }
};

}  // namespace

const Clock& SteadyClock() {
  static const SteadyClockImpl kClock;
  return kClock;
}

}  // namespace kvrouter
