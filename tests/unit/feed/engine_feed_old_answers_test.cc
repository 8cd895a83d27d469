// What queries are answered from while an engine's history is built anew: the old state until the
// new one is whole, and never a hole in between.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "feed/engine_feed.h"
#include "support/feed_harness.h"

namespace kvrouter {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

class OldAnswersTest : public testing::Test {
 protected:
  // Blocks 4, 8, …: each named by its first token, each a sequence of its own.
  void BringUp(int batches) {
    for (int i = 1; i <= batches; ++i) engine_.PublishRoot(static_cast<TokenId>(4 * i));
    h_.Connect();
    ASSERT_EQ(h_.ServeReplays(engine_), 1);
    ASSERT_EQ(h_.feed().State(), FeedState::kLive);
  }
  // A batch that stores block 100 reaches us as one that stores it behind a block nobody knows.
  void Damage() {
    FakeEngine distorted = engine_;
    h_.Live(distorted.PublishChild(100, 996));
    engine_.PublishRoot(100);
    ASSERT_EQ(h_.feed().State(), FeedState::kDegraded);
  }
  // Lets the wait of the repair pass, until its request is made.
  void BeginRepair() {
    h_.Advance(seconds(1));
    h_.Advance(seconds(60));
    ASSERT_EQ(h_.TakeRequest(), 0u);
  }
  bool Holds(TokenId first) const { return h_.Overlap(TokenRun(first, 4)) == 1; }
  size_t Staged() const { return h_.index().NamesOf({kFeedWorker, 0}, /*staged=*/true).size(); }
  // Cleared events that took away what queries saw.
  int Drops() const {
    int drops = 0;
    for (const KvEvent& event : h_.applied())
      drops += std::holds_alternative<Cleared>(event.data) && event.staging == Staging::kNone;
    return drops;
  }

  FeedHarness h_;
  FakeEngine engine_;
};

TEST_F(OldAnswersTest, ARepairIsSeenOnlyWhenItIsWhole) {
  BringUp(3);
  Damage();
  BeginRepair();
  for (const EngineBatch& batch : std::vector<EngineBatch>(engine_.history())) {
    h_.Replayed(batch);
    EXPECT_EQ(h_.Blocks(), 3u);
    EXPECT_FALSE(Holds(100));
  }
  EXPECT_EQ(Staged(), 4u);
  h_.ReplayEnd();
  EXPECT_EQ(h_.Blocks(), 4u);
  EXPECT_TRUE(Holds(100));
  EXPECT_EQ(Staged(), 0u);
  EXPECT_EQ(Drops(), 0);
  EXPECT_EQ(h_.feed().State(), FeedState::kLive);
  h_.Live(engine_.Publish({ArrayRemove({8})}));
  EXPECT_FALSE(Holds(8));
}

TEST_F(OldAnswersTest, LiveBatchesAreSeenDuringARepairAndAfterIt) {
  BringUp(3);
  Damage();
  BeginRepair();
  h_.Replayed(engine_.history()[0]);
  h_.Live(engine_.Publish({ArrayRemove({8})}));
  EXPECT_FALSE(Holds(8));
  h_.Live(engine_.PublishRoot(200));
  EXPECT_TRUE(Holds(200));
  for (size_t i = 1; i < 5; ++i) h_.Replayed(engine_.history()[i]);  // the last one not
  h_.ReplayEnd();
  EXPECT_EQ(h_.feed().State(), FeedState::kLive);
  EXPECT_FALSE(Holds(8));
  EXPECT_TRUE(Holds(100));
  EXPECT_TRUE(Holds(200));
  EXPECT_EQ(h_.Blocks(), 4u);
  h_.Live(engine_.Publish({ArrayRemove({200})}));  // stored once, so one removal ends it
  EXPECT_EQ(h_.Blocks(), 3u);
}

TEST_F(OldAnswersTest, ARepairThatStopsHalfWayChangesNothing) {
  BringUp(3);
  Damage();
  BeginRepair();
  h_.Replayed(engine_.history()[0]);
  h_.Replayed(engine_.history()[1]);
  h_.Advance(seconds(6));
  EXPECT_EQ(h_.TakeRequest(), 1u);  // the rest may only have been lost on the way
  h_.Live(engine_.PublishRoot(200));
  h_.Advance(seconds(6));
  EXPECT_FALSE(h_.feed().ReplayRunning());
  EXPECT_EQ(h_.feed().State(), FeedState::kDegraded);
  EXPECT_EQ(h_.Blocks(), 4u);
  h_.Advance(seconds(1));
  EXPECT_EQ(Staged(), 0u);  // its memory is given back
  EXPECT_EQ(Drops(), 0);
  h_.Live(engine_.PublishRoot(204));
  EXPECT_EQ(h_.Blocks(), 5u);
  EXPECT_EQ(h_.counters().gaps, 0u);
  h_.Advance(seconds(200));  // and it is tried again
  EXPECT_EQ(h_.ServeReplays(engine_), 1);
  EXPECT_EQ(h_.Blocks(), 6u);
  EXPECT_EQ(h_.feed().State(), FeedState::kLive);
}

TEST_F(OldAnswersTest, ARepairWhoseEndMarkerIsLostCountsIfItReachesWhatIsHeld) {
  BringUp(3);
  Damage();
  BeginRepair();
  for (const EngineBatch& batch : std::vector<EngineBatch>(engine_.history())) h_.Replayed(batch);
  h_.Advance(seconds(6));
  EXPECT_EQ(h_.TakeRequest(), 3u);
  h_.Replayed(engine_.history()[3]);
  h_.Advance(seconds(6));
  EXPECT_TRUE(Holds(100));
  EXPECT_EQ(h_.Blocks(), 4u);
}

TEST_F(OldAnswersTest, AGapDuringARepairIsFilledByIt) {
  BringUp(3);
  Damage();
  BeginRepair();
  engine_.PublishRoot(200);  // lost on the way
  h_.Live(engine_.PublishRoot(204));
  EXPECT_FALSE(Holds(204));  // what precedes it may have been its removal
  EXPECT_EQ(h_.counters().gaps, 1u);
  for (const EngineBatch& batch : std::vector<EngineBatch>(engine_.history())) h_.Replayed(batch);
  h_.ReplayEnd();
  EXPECT_EQ(h_.Blocks(), 6u);
  EXPECT_FALSE(h_.TakeRequest());
  EXPECT_EQ(h_.feed().State(), FeedState::kLive);
}

TEST_F(OldAnswersTest, AGapDuringARepairThatFailsIsFilledForWhatIsHeld) {
  BringUp(3);
  Damage();
  BeginRepair();
  engine_.PublishRoot(200);
  h_.Live(engine_.PublishRoot(204));
  h_.Advance(seconds(6));  // nothing of the repair came
  EXPECT_EQ(h_.TakeRequest(), 3u);
  for (size_t i = 3; i < 6; ++i) h_.Replayed(engine_.history()[i]);
  h_.ReplayEnd();
  EXPECT_EQ(h_.Blocks(), 5u);
  EXPECT_EQ(Drops(), 0);
}

TEST_F(OldAnswersTest, ARepairThatWaitsForItsTurnHoldsNothingUp) {
  BringUp(3);
  Damage();
  h_.Advance(seconds(1));
  h_.Advance(seconds(60));
  ASSERT_TRUE(h_.feed().ReplayWanted());
  h_.Live(engine_.PublishRoot(200));
  EXPECT_TRUE(Holds(200));
  engine_.PublishRoot(204);
  h_.Live(engine_.PublishRoot(208));  // a gap is more urgent
  EXPECT_EQ(h_.TakeRequest(), 4u);
  for (size_t i = 4; i < 7; ++i) h_.Replayed(engine_.history()[i]);
  h_.ReplayEnd();
  EXPECT_EQ(h_.Blocks(), 6u);
  h_.Advance(seconds(1));
  h_.Advance(seconds(200));
  EXPECT_EQ(h_.ServeReplays(engine_), 1);
  EXPECT_TRUE(Holds(100));
}

TEST_F(OldAnswersTest, ARepairWithARealHoleIsNotTakenForAWholeHistory) {
  BringUp(3);
  Damage();
  BeginRepair();
  h_.Replayed(engine_.history()[0]);
  h_.Replayed(engine_.history()[2]);
  EXPECT_EQ(h_.TakeRequest(), 0u);
  h_.Replayed(engine_.history()[0]);
  h_.Replayed(engine_.history()[2]);  // again: the engine has forgotten sequence 1
  EXPECT_FALSE(h_.feed().ReplayRunning());
  EXPECT_EQ(h_.Blocks(), 3u);
  EXPECT_EQ(h_.feed().State(), FeedState::kDegraded);
  EXPECT_EQ(Drops(), 0);
}

TEST_F(OldAnswersTest, WhatFollowsARealHoleIsSeenOnlyWhenTheReplayIsWhole) {
  BringUp(3);
  engine_.BurnSequence();
  engine_.PublishRoot(100);
  h_.Live(engine_.PublishRoot(104));
  ASSERT_EQ(h_.TakeRequest(), 2u);
  h_.Replayed(engine_.history()[2]);
  h_.Replayed(engine_.history()[3]);  // sequence 3 never existed
  EXPECT_EQ(h_.Blocks(), 3u);
  EXPECT_TRUE(Holds(4));
  h_.Replayed(engine_.history()[4]);
  EXPECT_EQ(h_.Blocks(), 3u);
  h_.ReplayEnd();
  EXPECT_EQ(h_.Blocks(), 2u);  // removals may have been lost
  EXPECT_TRUE(Holds(100));
  EXPECT_TRUE(Holds(104));
  EXPECT_EQ(h_.feed().State(), FeedState::kDegraded);
  EXPECT_THAT(h_.feed().Detail(), HasSubstr("sequences 3 to 3"));
  EXPECT_EQ(Drops(), 0);
}

TEST_F(OldAnswersTest, AProvedRestartDropsAtOnceWhateverIsBeingBuilt) {
  BringUp(3);
  Damage();
  BeginRepair();
  h_.Replayed(engine_.history()[0]);
  FakeEngine reborn(2000.0);
  h_.Live(reborn.PublishRoot(300));
  EXPECT_EQ(h_.counters().restarts, 1u);
  EXPECT_EQ(h_.Blocks(), 0u);
  EXPECT_EQ(Staged(), 0u);
  h_.ServeReplays(reborn);
  h_.Advance(seconds(1));
  EXPECT_EQ(h_.Blocks(), 1u);
  EXPECT_TRUE(Holds(300));
  EXPECT_EQ(h_.feed().State(), FeedState::kLive);
}

TEST_F(OldAnswersTest, ARepairThatADisconnectEndsLeavesNothingBehind) {
  BringUp(3);
  Damage();
  BeginRepair();
  h_.Replayed(engine_.history()[0]);
  h_.Live(engine_.PublishRoot(200));
  h_.Disconnect();
  h_.Advance(seconds(1));
  EXPECT_EQ(Staged(), 0u);
  EXPECT_EQ(h_.Blocks(), 4u);
  h_.Connect();
  EXPECT_EQ(h_.TakeRequest(), 4u);  // from the last one that was seen live
}

TEST_F(OldAnswersTest, EveryRankOfTheSocketIsReplaced) {
  FeedHarness h(/*has_replay=*/true, /*dp_size=*/3);
  FakeEngine engine;
  const auto publish = [&](TokenId first, int64_t rank) -> const EngineBatch& {
    return engine.Publish(
        {ArrayStore({.hashes = {first}, .parent = {}, .tokens = TokenRun(first, 4)})}, rank);
  };
  publish(4, 0);
  h.Connect();
  ASSERT_EQ(h.ServeReplays(engine), 1);
  FakeEngine distorted = engine;
  const StoreSpec orphan{.hashes = {8}, .parent = 996, .tokens = TokenRun(8, 4)};
  h.Live(distorted.Publish({ArrayStore(orphan)}, 1));
  publish(8, 1);
  h.Live(publish(12, 2));
  h.Advance(seconds(1));
  h.Advance(seconds(60));
  EXPECT_EQ(h.ServeReplays(engine), 1);
  for (const uint32_t rank : {0u, 1u, 2u}) EXPECT_EQ(h.Blocks(rank), 1u) << rank;
  EXPECT_EQ(h.Overlap(TokenRun(8, 4), 1), 1u);
}

// ---- Bounds in time ----

// One batch every 4 s is progress, but not for ever.
TEST_F(OldAnswersTest, ARecoveryThatTricklesEndsAtItsLimit) {
  BringUp(3);
  for (int i = 0; i < 100; ++i) engine_.PublishRoot(static_cast<TokenId>(400 + 4 * i));
  h_.Live(engine_.PublishRoot(2000));
  ASSERT_EQ(h_.TakeRequest(), 2u);
  int trickled = 0;
  while (h_.feed().ReplayRunning() && trickled < 100) {
    h_.Replayed(engine_.history()[static_cast<size_t>(2 + trickled++)]);
    h_.Advance(seconds(4));
  }
  EXPECT_EQ(trickled, 30);
  EXPECT_EQ(h_.feed().State(), FeedState::kDegraded);
  EXPECT_THAT(h_.feed().Detail(), HasSubstr("longer than 120 s"));
  EXPECT_EQ(h_.Blocks(), 1u);  // on from the batch that waited
  EXPECT_TRUE(Holds(2000));
}

TEST_F(OldAnswersTest, ARepairThatTricklesEndsAtItsLimitAndKeepsWhatIsHeld) {
  BringUp(100);
  Damage();
  BeginRepair();
  int trickled = 0;
  while (h_.feed().ReplayRunning() && trickled < 100) {
    h_.Replayed(engine_.history()[static_cast<size_t>(trickled++)]);
    h_.Advance(seconds(4));
  }
  EXPECT_EQ(trickled, 30);
  EXPECT_EQ(h_.Blocks(), 100u);
  h_.Advance(seconds(1));
  EXPECT_EQ(Staged(), 0u);
}

TEST_F(OldAnswersTest, RoutersDoNotRepairInStep) {
  std::vector<int64_t> waits;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    EngineFeedConfig config = FeedHarness::Config(/*has_replay=*/true);
    config.jitter_seed = 0x9e3779b97f4a7c15u * (seed + 1);
    FeedHarness h(config);
    FakeEngine engine;
    h.Connect();
    h.ServeReplays(engine);
    h.Live(engine.PublishChild(8, 4));
    h.Advance(seconds(1));
    int64_t waited_ms = 0;
    for (; !h.feed().ReplayWanted(); waited_ms += 10) h.Advance(std::chrono::milliseconds(10));
    EXPECT_GE(waited_ms, 29'000);
    EXPECT_LE(waited_ms, 38'000);
    waits.push_back(waited_ms);
  }
  std::sort(waits.begin(), waits.end());
  EXPECT_GT(waits.back() - waits.front(), 1000) << "four routers within a second";
}

// However many batches are lost in however many places while a replay runs:
// the engine is asked once.
TEST_F(OldAnswersTest, OneReplayFillsEveryGapThatItReaches) {
  BringUp(3);
  engine_.PublishRoot(400);
  h_.Live(engine_.PublishRoot(404));
  for (int i = 2; i < 12; i += 2) {
    engine_.PublishRoot(static_cast<TokenId>(400 + 4 * i));
    h_.Live(engine_.PublishRoot(static_cast<TokenId>(404 + 4 * i)));
  }
  EXPECT_EQ(h_.ServeReplays(engine_), 1);
  EXPECT_EQ(h_.Blocks(), 15u);
  EXPECT_EQ(h_.counters().gaps, 6u);
  EXPECT_EQ(h_.counters().replays_started, 2u);  // the first connection's, and this one
  EXPECT_EQ(h_.feed().State(), FeedState::kLive);
}

}  // namespace
}  // namespace kvrouter
