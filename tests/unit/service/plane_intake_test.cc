#include "service/plane_intake.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "support/plane_payload.h"

namespace kvrouter {
namespace {

class PlaneIntakeTest : public testing::Test {
 protected:
  PlaneIntakeTest() : router_(RouterConfig{}, nullptr) {}

  PlaneIntake Make(size_t max_messages, size_t max_bytes = 1 << 20) {
    PlaneIntakeConfig config;
    config.max_queued_messages = max_messages;
    config.max_queued_bytes = max_bytes;
    return PlaneIntake(config, &router_, &monitor_, &loads_, &SteadyClock());
  }
  WorkerSpec Spec(uint64_t incarnation = 1) {
    WorkerSpec spec;
    spec.id = WorkerId{7};
    spec.incarnation = Incarnation{incarnation};
    spec.address = "a";
    spec.block_size_tokens = 4;
    return spec;
  }
  void Register(PlaneIntake* intake, uint64_t incarnation = 1) {
    ASSERT_TRUE(router_.UpsertWorker(Spec(incarnation)).ok());
    intake->OnWorkerChanged(Spec(incarnation));
  }
  static std::string Store(uint64_t id, uint64_t publisher = 1) {
    return EventsEnvelope(publisher, id,
                          {{.event_id = id, .data = PlaneStored({}, {{100 + id, 100 + id}})}});
  }
  uint64_t IndexBlocks() {
    const auto partitions = router_.Snapshot();
    return partitions.empty() || partitions[0].loads.empty() ? 0
                                                             : partitions[0].loads[0].index_blocks;
  }
  bool InState(FeedState state) {
    const auto reports = monitor_.Reports();
    return !reports.empty() && reports[0].state == state;
  }
  static bool Eventually(const std::function<bool()>& condition) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  Router router_;
  FeedMonitor monitor_;
  ReportedLoads loads_;
};

TEST_F(PlaneIntakeTest, FullQueueDropsTheNewestAndTheRanksDoubtAfterwards) {
  PlaneIntake intake = Make(2);
  Register(&intake);
  for (uint64_t id = 0; id < 5; ++id) intake.Push(0, Store(id));
  EXPECT_EQ(intake.QueuedMessages(), 2u);
  ASSERT_TRUE(intake.Start().ok());
  EXPECT_TRUE(Eventually([&] { return InState(FeedState::kDegraded); }));
  EXPECT_TRUE(Eventually([&] { return monitor_.Totals().live_dropped == 3; }));
  EXPECT_EQ(IndexBlocks(), 2u);
  intake.Push(0, Store(5));
  EXPECT_TRUE(Eventually([&] { return IndexBlocks() == 1; }));
}

TEST_F(PlaneIntakeTest, QueueIsBoundedInBytesToo) {
  PlaneIntake intake = Make(100, 1000);
  for (int i = 0; i < 100; ++i) intake.Push(0, std::string(150, 'x'));
  EXPECT_EQ(intake.QueuedMessages(), 4u);
}

TEST_F(PlaneIntakeTest, ChangesOfWorkersWaitForTheMessagesBeforeThem) {
  PlaneIntake intake = Make(100);
  Register(&intake);
  intake.Push(0, Store(0, 1));
  Register(&intake, 2);  // a new life, in which the message above counts no more
  intake.Push(0, Store(0, 2));
  intake.Push(0, Store(1, 2));
  ASSERT_TRUE(intake.Start().ok());
  EXPECT_TRUE(Eventually([&] { return monitor_.Totals().messages == 2; }));
  EXPECT_TRUE(InState(FeedState::kLive));
  EXPECT_EQ(IndexBlocks(), 2u);
  EXPECT_EQ(monitor_.Totals().restarts, 0u);
}

TEST_F(PlaneIntakeTest, RemovedWorkerLeavesNoReportAndNoLoad) {
  PlaneIntake intake = Make(100);
  Register(&intake);
  ASSERT_TRUE(intake.Start().ok());
  intake.Push(0, Store(0));
  intake.Push(0, EnvelopeBytes(1, 1, "kv_metrics",
                               MsgpackWriter().Map(1).Str("worker_id").Uint(7).bytes()));
  ASSERT_TRUE(Eventually([&] { return InState(FeedState::kLive) && !loads_.List().empty(); }));
  ASSERT_TRUE(router_.RemoveWorker(WorkerId{7}));
  intake.OnWorkerRemoved(WorkerId{7}, Incarnation{1});
  EXPECT_TRUE(Eventually([&] { return monitor_.Reports().empty() && loads_.List().empty(); }));
  EXPECT_EQ(monitor_.Totals().messages, 1u);
}

TEST_F(PlaneIntakeTest, UnreadableMessagesAreInTheTotals) {
  PlaneIntake intake = Make(100);
  ASSERT_TRUE(intake.Start().ok());
  intake.Push(0, "nonsense");
  intake.PushBadFraming();
  const auto skipped = [this](SkipReason reason) {
    return monitor_.Totals().skipped[static_cast<size_t>(reason)];
  };
  EXPECT_TRUE(Eventually([&] {
    return skipped(SkipReason::kBadEnvelope) == 1 && skipped(SkipReason::kBadFraming) == 1;
  }));
}

}  // namespace
}  // namespace kvrouter
