#include "base/check.h"

#include <gtest/gtest.h>

#include "base/clock.h"

namespace kvrouter {
namespace {

TEST(CheckDeathTest, NamesConditionAndValues) {
  const int count = -1;
  EXPECT_DEATH(KVR_CHECK(count >= 0, "count={}", count), "count >= 0.*count=-1");
}

TEST(CheckTest, DoesNothingWhenTrue) { KVR_CHECK(true, "unused"); }

TEST(ClockTest, SteadyClockNeverGoesBack) {
  const MonotonicTime first = SteadyClock().Now();
  EXPECT_GE(SteadyClock().Now(), first);
}

TEST(ClockTest, ManualClockMovesOnlyWhenTold) {
  ManualClock clock;
  const MonotonicTime before = clock.Now();
  clock.Advance(std::chrono::seconds(3));
  EXPECT_EQ(clock.Now() - before, std::chrono::seconds(3));
}

}  // namespace
}  // namespace kvrouter
