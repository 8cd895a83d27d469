#include "daemon/readiness.h"

#include <gtest/gtest.h>

namespace kvrouter {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(ReadinessRuleTest, WithoutAWorkerItIsNotReady) {
  ReadinessRule rule(seconds(10));
  const Readiness readiness =
      rule.Evaluate({.schedulable_workers = 0, .recovery_done = true}, seconds(100));
  EXPECT_FALSE(readiness.ready);
  EXPECT_EQ(readiness.reason, "no schedulable worker");
}

TEST(ReadinessRuleTest, FirstRecoveryIsWaitedForUpToItsBound) {
  ReadinessRule rule(seconds(10));
  EXPECT_FALSE(
      rule.Evaluate({.schedulable_workers = 1, .recovery_done = false}, seconds(100)).ready);
  EXPECT_FALSE(rule.Evaluate({.schedulable_workers = 1, .recovery_done = false},
                             seconds(110) - milliseconds(1))
                   .ready);
  EXPECT_TRUE(
      rule.Evaluate({.schedulable_workers = 1, .recovery_done = false}, seconds(110)).ready);
}

// With no worker there is nothing to recover, which must not pass for a finished recovery.
TEST(ReadinessRuleTest, BoundAndRecoveryCountFromTheFirstWorker) {
  ReadinessRule rule(seconds(10));
  rule.Evaluate({.schedulable_workers = 0, .recovery_done = true}, seconds(0));
  EXPECT_FALSE(
      rule.Evaluate({.schedulable_workers = 1, .recovery_done = false}, seconds(1000)).ready);
  EXPECT_TRUE(
      rule.Evaluate({.schedulable_workers = 1, .recovery_done = true}, seconds(1001)).ready);
}

// The first worker of the file may have no feed at all; the others' feeds are yet to be known.
TEST(ReadinessRuleTest, NothingCountsBeforeTheWorkersOfTheFileAreIn) {
  ReadinessRule rule(seconds(10));
  const Readiness readiness = rule.Evaluate(
      {.starting = true, .schedulable_workers = 1, .recovery_done = true}, seconds(0));
  EXPECT_FALSE(readiness.ready);
  EXPECT_EQ(readiness.reason, "starting");
  EXPECT_FALSE(rule.Evaluate({.schedulable_workers = 2, .recovery_done = false}, seconds(1)).ready);
}

TEST(ReadinessRuleTest, LaterRecoveryDoesNotTakeItOutOfService) {
  ReadinessRule rule(seconds(10));
  EXPECT_TRUE(rule.Evaluate({.schedulable_workers = 1, .recovery_done = true}, seconds(1)).ready);
  EXPECT_TRUE(rule.Evaluate({.schedulable_workers = 2, .recovery_done = false}, seconds(2)).ready);
  EXPECT_FALSE(rule.Evaluate({.schedulable_workers = 0, .recovery_done = false}, seconds(3)).ready);
  EXPECT_TRUE(rule.Evaluate({.schedulable_workers = 1, .recovery_done = false}, seconds(4)).ready);
}

TEST(ReadinessRuleTest, InitialWorkersAreWaitedForOnce) {
  ReadinessRule rule(milliseconds(10'000), /*min_initial_workers=*/3);
  const auto evaluate = [&](uint64_t workers) {
    return rule.Evaluate({.schedulable_workers = workers, .recovery_done = true}, seconds(1));
  };
  EXPECT_EQ(evaluate(2).reason, "2 of 3 initial workers are schedulable");
  EXPECT_TRUE(evaluate(3).ready);
  EXPECT_TRUE(evaluate(1).ready) << "later on one is enough";
  EXPECT_EQ(evaluate(0).reason, "no schedulable worker");
}

TEST(ReadinessRuleTest, StoppingBeatsEverything) {
  ReadinessRule rule(seconds(10));
  const Readiness readiness = rule.Evaluate(
      {.schedulable_workers = 1, .recovery_done = true, .stopping = true}, seconds(1));
  EXPECT_FALSE(readiness.ready);
  EXPECT_EQ(readiness.reason, "shutting down");
}

}  // namespace
}  // namespace kvrouter
