#include "service/plane_intake.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "service/published_feeds.h"
#include "service/worker_registry.h"
#include "support/plane_fixture.h"
#include "support/plane_payload.h"

namespace kvrouter {
namespace {

constexpr uint64_t kWorker = 7;

class PlaneIntakeTest : public PlaneFixture {
 protected:
  void Make(size_t max_messages, size_t max_bytes = 1 << 20) {
    PlaneIntakeConfig config;
    config.max_queued_messages = max_messages;
    config.max_queued_bytes = max_bytes;
    MakeIntake(config);
  }
  static std::string Store(uint64_t id, uint64_t publisher = 1) {
    return EventsEnvelope(publisher, id,
                          {{.event_id = id, .data = PlaneStored({}, {{100 + id, 100 + id}})}});
  }
  uint64_t IndexBlocks() { return PlaneFixture::IndexBlocks(kWorker); }
  bool InState(FeedState state) { return PlaneFixture::InState(kWorker, state); }
};

TEST_F(PlaneIntakeTest, FullQueueDropsTheNewestAndTheRanksDoubtAfterwards) {
  Make(2);
  Register(kWorker);
  for (uint64_t id = 0; id < 5; ++id) intake_->Push(0, Store(id));
  EXPECT_EQ(intake_->QueuedMessages(), 2u);
  ASSERT_TRUE(intake_->Start().ok());
  EXPECT_TRUE(Eventually([&] { return InState(FeedState::kDegraded); }));
  EXPECT_TRUE(Eventually([&] { return monitor_.Totals().live_dropped == 3; }));
  EXPECT_EQ(IndexBlocks(), 2u);
  intake_->Push(0, Store(5));
  EXPECT_TRUE(Eventually([&] { return IndexBlocks() == 1; }));
}

TEST_F(PlaneIntakeTest, QueueIsBoundedInBytesToo) {
  Make(100, 1000);
  for (int i = 0; i < 100; ++i) intake_->Push(0, std::string(150, 'x'));
  EXPECT_EQ(intake_->QueuedMessages(), 4u);
}

TEST_F(PlaneIntakeTest, ChangesOfWorkersWaitForTheMessagesBeforeThem) {
  Make(100);
  Register(kWorker);
  intake_->Push(0, Store(0, 1));
  Register(kWorker, 2);  // a new life, in which the message above counts no more
  intake_->Push(0, Store(0, 2));
  intake_->Push(0, Store(1, 2));
  ASSERT_TRUE(intake_->Start().ok());
  EXPECT_TRUE(Eventually([&] { return monitor_.Totals().messages == 2; }));
  EXPECT_TRUE(InState(FeedState::kLive));
  EXPECT_EQ(IndexBlocks(), 2u);
  EXPECT_EQ(monitor_.Totals().restarts, 0u);
}

TEST_F(PlaneIntakeTest, RemovedWorkerLeavesNoReportAndNoLoad) {
  Make(100);
  Register(kWorker);
  ASSERT_TRUE(intake_->Start().ok());
  intake_->Push(0, Store(0));
  intake_->Push(0, EnvelopeBytes(1, 1, "kv_metrics",
                                 MsgpackWriter().Map(1).Str("worker_id").Uint(7).bytes()));
  ASSERT_TRUE(Eventually([&] { return InState(FeedState::kLive) && !loads_.List().empty(); }));
  Remove(kWorker);
  EXPECT_TRUE(Eventually([&] { return monitor_.Reports().empty() && loads_.List().empty(); }));
  EXPECT_EQ(monitor_.Totals().messages, 1u);
}

TEST_F(PlaneIntakeTest, UnreadableMessagesAreInTheTotals) {
  Make(100);
  ASSERT_TRUE(intake_->Start().ok());
  intake_->Push(0, "nonsense");
  intake_->PushBadFraming();
  const auto skipped = [this](SkipReason reason) {
    return monitor_.Totals().skipped[static_cast<size_t>(reason)];
  };
  EXPECT_TRUE(Eventually([&] {
    return skipped(SkipReason::kBadEnvelope) == 1 && skipped(SkipReason::kBadFraming) == 1;
  }));
}

// ---- Repairs ----

// Somebody who tells what the test says, or nothing until the question is withdrawn.
class TestHistory final : public RankHistory {
 public:
  bool Knows(const WorkerSpec& spec, uint32_t) const override { return spec.id == knows; }
  absl::StatusOr<RankPicture> Fetch(const WorkerSpec& spec, uint32_t dp_rank,
                                    const std::function<bool()>& cancelled) const override {
    asked.fetch_add(1);
    if (mute) {
      while (!cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      withdrawn.store(true);
      return absl::CancelledError("withdrawn");
    }
    if (refuses) return absl::UnavailableError("no history here");
    RankPicture picture{.events = {}, .missing = missing};
    for (const uint64_t block : blocks) {
      picture.events.push_back(
          {.target = {spec.id, dp_rank},
           .data = Stored{.parent = std::nullopt,
                          .blocks = {{EngineHash{block}, LocalBlockHash{block}}}}});
    }
    return picture;
  }

  WorkerId knows{kWorker};
  bool mute = false;
  bool refuses = false;
  std::string missing;
  std::set<uint64_t> blocks;
  mutable std::atomic<int> asked{0};
  mutable std::atomic<bool> withdrawn{false};
};

class PlaneIntakeRepairTest : public PlaneIntakeTest {
 protected:
  void StartIntake(std::vector<const RankHistory*> histories) {
    PlaneIntakeConfig config;
    config.feed.rank.doubt_grace = std::chrono::milliseconds(20);
    config.repair_threads = 1;
    MakeIntake(config, std::move(histories));
    ASSERT_TRUE(intake_->Start().ok());
    intake_->PathUp(0);
  }
};

TEST_F(PlaneIntakeRepairTest, LostEventsAreRepairedByTheFirstWhoKnowsAll) {
  TestHistory other, refuses, partial, whole;
  other.knows = WorkerId{8};
  refuses.refuses = true;
  partial.blocks = {1};
  partial.missing = "only the end";
  whole.blocks = {1, 2, 3};
  StartIntake({&other, &refuses, &partial, &whole});
  Register(kWorker);
  // Already for what it held before it was ever heard.
  EXPECT_TRUE(Eventually([&] { return Held(kWorker, 9) == std::set<uint64_t>{1, 2, 3}; }));
  EXPECT_TRUE(Eventually([&] { return InState(FeedState::kLive); }));
  intake_->Push(0, Store(10));
  intake_->Push(0, Store(12));  // 11 is lost
  EXPECT_TRUE(Eventually([&] { return whole.asked == 2 && InState(FeedState::kLive); }));
  EXPECT_EQ(other.asked, 0);
  EXPECT_EQ(refuses.asked, 2);
  EXPECT_EQ(monitor_.Totals().replays_completed, 2u);
}

TEST_F(PlaneIntakeRepairTest, WhoKnowsAPartIsBetterThanNobody) {
  TestHistory partial, refuses;
  partial.blocks = {1, 2};
  partial.missing = "only the end";
  refuses.refuses = true;
  StartIntake({&partial, &refuses});
  Register(kWorker);
  EXPECT_TRUE(Eventually([&] { return InState(FeedState::kDegraded); }));
  EXPECT_EQ(Detail(kWorker), "only the end");
  EXPECT_EQ(Held(kWorker, 9), (std::set<uint64_t>{1, 2}));
}

TEST_F(PlaneIntakeRepairTest, WhyNobodyCouldTellIsShown) {
  TestHistory refuses;
  refuses.refuses = true;
  StartIntake({&refuses});
  Register(kWorker);
  EXPECT_TRUE(
      Eventually([&] { return Detail(kWorker).find("no history here") != std::string::npos; }));
}

TEST_F(PlaneIntakeRepairTest, QuestionAboutAWorkerThatLeavesIsWithdrawn) {
  TestHistory mute;
  mute.mute = true;
  StartIntake({&mute});
  Register(kWorker);
  ASSERT_TRUE(Eventually([&] { return mute.asked == 1 && InState(FeedState::kRecovering); }));
  Remove(kWorker);
  EXPECT_TRUE(Eventually([&] { return mute.withdrawn.load(); }));
  intake_->Stop();
}

TEST_F(PlaneIntakeRepairTest, MuteHistoryHoldsUpNeitherStopNorMessages) {
  TestHistory mute;
  mute.mute = true;
  StartIntake({&mute});
  Register(kWorker);
  ASSERT_TRUE(Eventually([&] { return mute.asked == 1; }));
  intake_->Push(0, Store(100));
  EXPECT_TRUE(Eventually([&] { return IndexBlocks() == 1; }));
  intake_->Stop();
  EXPECT_TRUE(mute.withdrawn.load());
}

TEST_F(PlaneIntakeRepairTest, DropsHereAreRepairedWithoutAnotherEvent) {
  TestHistory history;
  StartIntake({&history});
  Register(kWorker);
  intake_->Push(0, Store(0));
  ASSERT_TRUE(Eventually([&] { return InState(FeedState::kLive); }));
  const int asked = history.asked;
  history.blocks = {1, 2};
  intake_->Dropped(1);
  EXPECT_TRUE(Eventually([&] { return Held(kWorker, 9) == std::set<uint64_t>{1, 2}; }));
  EXPECT_EQ(history.asked, asked + 1);
}

TEST_F(PlaneIntakeRepairTest, InitialRecoveryWaitsForEveryWorkerThatSomebodyCanBeAskedAbout) {
  TestHistory mute;
  mute.mute = true;
  StartIntake({&mute});
  EXPECT_TRUE(intake_->InitialRecoveryDone()) << "nobody is registered";
  Register(8);  // nobody knows it
  EXPECT_TRUE(Eventually([&] { return intake_->InitialRecoveryDone(); }));
  Register(kWorker);
  EXPECT_FALSE(intake_->InitialRecoveryDone()) << "from the moment it is registered";
  ASSERT_TRUE(Eventually([&] { return mute.asked == 1 && InState(FeedState::kRecovering); }));
  EXPECT_FALSE(intake_->InitialRecoveryDone());
  Remove(kWorker);
  EXPECT_TRUE(Eventually([&] { return intake_->InitialRecoveryDone(); }));
  intake_->Stop();  // the withdrawn question may still be on its way out of `mute`
}

TEST_F(PlaneIntakeRepairTest, InitialRecoveryEndsWithTheAnswerOrARefusal) {
  TestHistory whole;
  TestHistory refuses;
  whole.blocks = {1, 2};
  refuses.refuses = true;
  refuses.knows = WorkerId{8};
  StartIntake({&whole, &refuses});
  Register(kWorker);
  Register(8);
  EXPECT_TRUE(Eventually([&] { return intake_->InitialRecoveryDone(); }));
  EXPECT_EQ(Held(kWorker, 9), (std::set<uint64_t>{1, 2}));
  EXPECT_GE(refuses.asked, 1);
}

// ---- One rank, one source ----

class PlaneIntakeSourcesTest : public PlaneIntakeTest {
 protected:
  PlaneIntakeSourcesTest() {
    MakeIntake();
    registry_.AddListener(&published_);
    registry_.AddListener(intake_.get());
    published_.SetListener(intake_.get());
    EXPECT_TRUE(intake_->Start().ok());
    EXPECT_TRUE(registry_.Register(Spec(kWorker)).ok());
  }
  bool PlaneFeeds(uint64_t id) {
    intake_->Push(0, Store(id));
    const uint64_t before = Skipped();
    return Eventually([&] { return IndexBlocks() == id + 1 || Skipped() > before; }) &&
           IndexBlocks() == id + 1;
  }
  uint64_t Skipped() {
    return monitor_.Totals().skipped[static_cast<size_t>(SkipReason::kOtherSource)];
  }
  absl::StatusOr<std::shared_ptr<PublishStream>> Publish() {
    return published_.Open({.target = {WorkerId{kWorker}, 0}}, [] {});
  }

  WorkerRegistry registry_{&router_};
  PublishedFeeds published_{{}, &router_, &monitor_, &SteadyClock()};
};

TEST_F(PlaneIntakeSourcesTest, PublishedRankIsNotFedTwice) {
  ASSERT_TRUE(PlaneFeeds(0));
  ASSERT_TRUE(PlaneFeeds(1));
  const auto stream = Publish();
  ASSERT_TRUE(stream.ok());
  EXPECT_EQ(IndexBlocks(), 0u) << "what the plane said is gone before the stream says anything";
  intake_->Push(0, Store(2));
  intake_->Push(0, Store(3));
  EXPECT_TRUE(Eventually([&] { return Skipped() == 2; }));
  EXPECT_EQ(IndexBlocks(), 0u);
  EXPECT_EQ(Report(kWorker)->source, FeedSource::kPublished);
}

TEST_F(PlaneIntakeSourcesTest, StreamThatBreaksKeepsTheRank) {
  auto stream = Publish();
  ASSERT_TRUE(stream.ok());
  (*stream)->Close();
  intake_->Push(0, Store(0));
  EXPECT_TRUE(Eventually([&] { return Skipped() == 1; }));
  EXPECT_EQ(IndexBlocks(), 0u);
}

TEST_F(PlaneIntakeSourcesTest, PublishedFeedThatEndsGivesTheRankBack) {
  ASSERT_TRUE(Publish().ok());
  WorkerSpec spec = Spec(kWorker);
  spec.dp_size = 2;  // another basis: the published feed ends
  ASSERT_TRUE(registry_.Register(spec).ok());
  EXPECT_TRUE(Eventually([&] {
    intake_->Push(0, Store(0));
    return IndexBlocks() == 1;
  }));
}

TEST_F(PlaneIntakeSourcesTest, SocketTakesTheRankAtOnceAndGivesItBackOnlyWhenClosed) {
  ASSERT_TRUE(PlaneFeeds(0));
  WorkerSpec spec = Spec(kWorker);
  spec.events[0].live = "tcp://127.0.0.1:1";
  ASSERT_TRUE(registry_.Register(spec).ok());
  EXPECT_EQ(IndexBlocks(), 0u) << "before the socket's own feed can say anything";
  monitor_.Update(
      {.target = {spec.id, 0}, .state = FeedState::kLive, .detail = "", .counters = {}});
  intake_->Push(0, Store(1));
  EXPECT_TRUE(Eventually([&] { return Skipped() == 1; }));
  ASSERT_TRUE(registry_.Register(Spec(kWorker)).ok());
  intake_->Push(0, Store(2));
  EXPECT_TRUE(Eventually([&] { return Skipped() == 2; })) << "it is still being closed";
  monitor_.Remove({spec.id, 0});
  EXPECT_TRUE(Eventually([&] {
    intake_->Push(0, Store(0));
    return IndexBlocks() == 1;
  }));
}

TEST_F(PlaneIntakeSourcesTest, RankThatThePlaneNeverFedKeepsWhatItHas) {
  ASSERT_EQ(router_
                .Apply({.target = {WorkerId{kWorker}, 0},
                        .incarnation = Incarnation{1},
                        .data = Stored{.parent = std::nullopt,
                                       .blocks = {{EngineHash{1}, LocalBlockHash{1}}}}})
                .status,
            ApplyStatus::kOk);
  ASSERT_TRUE(Publish().ok());
  EXPECT_EQ(IndexBlocks(), 1u);
}

}  // namespace
}  // namespace kvrouter
