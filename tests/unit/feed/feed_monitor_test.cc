#include "service/feed_monitor.h"

#include <gtest/gtest.h>

namespace kvrouter {
namespace {

FeedReport Report(uint64_t worker, uint32_t rank, uint64_t messages) {
  FeedReport report{
      .target = {WorkerId{worker}, rank}, .state = FeedState::kLive, .detail = "", .counters = {}};
  report.counters.messages = messages;
  report.counters.skipped[static_cast<size_t>(SkipReason::kPlaceholder)] = messages / 2;
  return report;
}

TEST(FeedMonitorTest, TotalsAddDifferencesOnce) {
  FeedMonitor monitor;
  monitor.Update(Report(1, 0, 10));
  monitor.Update(Report(1, 0, 14));
  monitor.Update(Report(2, 0, 100));
  EXPECT_EQ(monitor.Totals().messages, 114u);
  EXPECT_EQ(monitor.Totals().skipped[static_cast<size_t>(SkipReason::kPlaceholder)], 57u);
}

TEST(FeedMonitorTest, ReportsComeInTargetOrderAndLeaveWithTheirWorker) {
  FeedMonitor monitor;
  monitor.Update(Report(2, 0, 1));
  monitor.Update(Report(1, 1, 1));
  monitor.Update(Report(1, 0, 1));
  ASSERT_EQ(monitor.Reports().size(), 3u);
  EXPECT_EQ(monitor.Reports()[0].target, (Target{WorkerId{1}, 0}));
  EXPECT_EQ(monitor.Reports()[1].target, (Target{WorkerId{1}, 1}));
  monitor.Remove({WorkerId{1}, 0});
  EXPECT_EQ(monitor.Reports().size(), 2u);
}

TEST(FeedMonitorTest, TotalsKeepCountingOverLives) {
  FeedMonitor monitor;
  monitor.Update(Report(1, 0, 10));
  monitor.Remove({WorkerId{1}, 0});
  monitor.Update(Report(1, 0, 3));  // a new life counts from zero
  EXPECT_EQ(monitor.Totals().messages, 13u);
}

TEST(FeedMonitorTest, AppliedEventsAreCountedByKindAndStatus) {
  FeedMonitor monitor;
  KvEvent store;
  store.data = Stored{.parent = EngineHash{9}, .blocks = {{}, {}, {}}};
  monitor.CountApplied(store, {.status = ApplyStatus::kOk, .blocks_duplicate = 2});
  monitor.CountApplied(store, {.status = ApplyStatus::kParentBlockNotFound});
  monitor.CountApplied(store, {.status = ApplyStatus::kParentForgotten});
  KvEvent cleared;
  cleared.data = Cleared{};
  monitor.CountApplied(cleared, {});
  const FeedMonitor::AppliedCounts counts = monitor.Applied();
  EXPECT_EQ(counts.events[0][static_cast<size_t>(ApplyStatus::kOk)], 1u);
  EXPECT_EQ(counts.events[0][static_cast<size_t>(ApplyStatus::kParentBlockNotFound)], 1u);
  EXPECT_EQ(counts.events[0][static_cast<size_t>(ApplyStatus::kParentForgotten)], 1u);
  EXPECT_EQ(counts.events[2][static_cast<size_t>(ApplyStatus::kOk)], 1u);
  EXPECT_EQ(counts.duplicate_store_events, 1u);
  EXPECT_EQ(counts.orphan_blocks, 3u) << "nothing of what was forgotten";
}

}  // namespace
}  // namespace kvrouter
