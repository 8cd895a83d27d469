#include "feed/engine_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "support/feed_harness.h"

namespace kvrouter {
namespace {

using std::chrono::seconds;

// Connected, history of `batches` root blocks replayed, live. Block i holds tokens 4 * i and on.
void BringUp(FeedHarness* h, FakeEngine* engine, int batches) {
  for (int i = 0; i < batches; ++i) engine->PublishRoot(4 * (i + 1));
  h->Connect();
  ASSERT_EQ(h->ServeReplays(*engine), 1);
  ASSERT_EQ(h->feed().State(), FeedState::kLive);
  ASSERT_EQ(h->Blocks(), static_cast<uint64_t>(batches));
}

bool Holds(const FeedHarness& h, TokenId first) { return h.Overlap(TokenRun(first, 4)) == 1; }

// ---- First connection ----

TEST(EngineFeedTest, NothingIsKnownBeforeTheFirstConnection) {
  FeedHarness h;
  EXPECT_EQ(h.feed().State(), FeedState::kConnecting);
  EXPECT_FALSE(h.TakeRequest());
}

// Pitfall row 34.
TEST(EngineFeedTest, HistoryIsAskedForFromZeroOnTheFirstConnection) {
  FeedHarness h;
  h.Connect();
  EXPECT_EQ(h.feed().State(), FeedState::kRecovering);
  EXPECT_EQ(h.TakeRequest(), 0u);
  EXPECT_FALSE(h.TakeRequest());  // once
  h.ReplayEnd();
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
  EXPECT_EQ(h.counters().replays_completed, 1u);
}

TEST(EngineFeedTest, FirstMessageImpliesTheConnection) {
  FeedHarness h;
  FakeEngine engine;
  h.Live(engine.PublishRoot(4));
  EXPECT_EQ(h.feed().State(), FeedState::kRecovering);
  h.Connect();  // the notice comes later and is no reconnect
  EXPECT_EQ(h.counters().reconnects, 0u);
  EXPECT_EQ(h.ServeReplays(engine), 1);
  EXPECT_EQ(h.Blocks(), 1u);
}

TEST(EngineFeedTest, LiveBatchesWaitForTheReplayAndAreAppliedOnce) {
  FeedHarness h;
  FakeEngine engine;
  engine.PublishRoot(4);
  h.Connect();
  EXPECT_EQ(h.TakeRequest(), 0u);
  h.Live(engine.PublishChild(8, 4));
  h.Live(engine.PublishChild(12, 8));
  EXPECT_EQ(h.Blocks(), 0u);
  h.Replayed(engine.history()[0]);
  h.Replayed(engine.history()[1]);
  h.ReplayEnd();
  EXPECT_EQ(h.Overlap(TokenRun(4, 12)), 3u);
  EXPECT_EQ(h.Skipped(SkipReason::kDuplicateBatch), 1u);
  h.Live(engine.Publish({ArrayRemove({8})}));  // counted once, so one removal is enough
  EXPECT_EQ(h.Overlap(TokenRun(4, 12)), 1u);
}

TEST(EngineFeedTest, ReplyServedBeforeTheFirstBatchesIsFollowedByAnother) {
  FeedHarness h;
  FakeEngine engine;
  h.Connect();
  EXPECT_EQ(h.TakeRequest(), 0u);
  engine.PublishRoot(4);  // after the engine answered, before it saw our subscription
  h.Live(engine.PublishChild(8, 4));
  h.ReplayEnd();
  EXPECT_EQ(h.ServeReplays(engine), 1);
  EXPECT_EQ(h.Overlap(TokenRun(4, 8)), 2u);
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
}

// Pitfall row 37.
TEST(EngineFeedTest, HistoryThatBeginsLateIsAppliedAndShown) {
  FeedHarness h;
  FakeEngine engine;
  for (int i = 1; i <= 5; ++i) engine.PublishRoot(4 * i);
  engine.ForgetBefore(3);
  h.Connect();
  h.ServeReplays(engine);
  EXPECT_EQ(h.Blocks(), 2u);
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  EXPECT_EQ(h.feed().Reason(), DegradedReason::kHistoryUnknown);
  EXPECT_THAT(h.feed().Detail(), testing::HasSubstr("sequence 3"));
  h.Advance(seconds(10000));
  EXPECT_FALSE(h.TakeRequest());  // asking again would bring nothing
}

TEST(EngineFeedTest, WithoutReplayAFirstSequenceAboveZeroIsLiveButShown) {
  FeedHarness h(/*has_replay=*/false);
  FakeEngine engine;
  engine.SetNextSequence(812);
  h.Connect();
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
  h.Live(engine.PublishRoot(4));
  EXPECT_EQ(h.Blocks(), 1u);
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  EXPECT_EQ(h.feed().Reason(), DegradedReason::kHistoryUnknown);
  EXPECT_EQ(h.counters().gaps, 0u);
}

TEST(EngineFeedTest, WithoutReplayAFirstSequenceOfZeroIsTheWholeHistory) {
  FeedHarness h(/*has_replay=*/false);
  FakeEngine engine;
  h.Connect();
  h.Live(engine.PublishRoot(4));
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
}

// ---- Duplicates and restarts on the live socket ----

// Pitfall row 33.
TEST(EngineFeedTest, RepeatedMessageIsIgnored) {
  FeedHarness h;
  FakeEngine engine;
  BringUp(&h, &engine, 2);
  const EngineBatch batch = engine.PublishChild(100, 8);
  h.Live(batch);
  h.Live(batch);
  EXPECT_EQ(h.Blocks(), 3u);
  EXPECT_EQ(h.counters().restarts, 0u);
  EXPECT_EQ(h.Skipped(SkipReason::kDuplicateBatch), 1u);
  h.Live(engine.Publish({ArrayRemove({100})}));
  EXPECT_EQ(h.Blocks(), 2u);
}

TEST(EngineFeedTest, SameSequenceWithAnotherTimestampIsARestart) {
  FeedHarness h;
  FakeEngine engine;
  BringUp(&h, &engine, 2);
  h.Live(engine.PublishRoot(100));  // sequence 2
  FakeEngine reborn(5000.0);
  for (int i = 0; i < 3; ++i) reborn.PublishRoot(1000 + 4 * i);
  h.Live(reborn.history()[2]);
  EXPECT_EQ(h.counters().restarts, 1u);
  EXPECT_EQ(h.Blocks(), 0u);
  EXPECT_EQ(h.ServeReplays(reborn), 1);
  EXPECT_EQ(h.Blocks(), 3u);
  EXPECT_FALSE(Holds(h, 100));
}

// Pitfall row 32, with a clock that stepped back.
TEST(EngineFeedTest, LowerSequenceIsARestartEvenIfTheClockWentBack) {
  for (const double ts : {5000.0, 1.0}) {
    SCOPED_TRACE(ts);
    FeedHarness h;
    FakeEngine engine;
    BringUp(&h, &engine, 2);
    for (int i = 0; i < 50; ++i) h.Live(engine.PublishRoot(400 + 4 * i));
    FakeEngine reborn(ts);
    h.Live(reborn.PublishRoot(4000));
    EXPECT_EQ(h.counters().restarts, 1u);
    EXPECT_EQ(h.TakeRequest(), 0u);
    h.Replayed(reborn.history()[0]);
    h.ReplayEnd();
    EXPECT_EQ(h.Blocks(), 1u);
    EXPECT_EQ(h.feed().State(), FeedState::kLive);
    h.Live(reborn.PublishRoot(4004));
    EXPECT_EQ(h.Blocks(), 2u);
  }
}

// Pitfall row 43.
TEST(EngineFeedTest, RestartIsSeenWithoutAReplayEndpoint) {
  FeedHarness h(/*has_replay=*/false);
  FakeEngine engine;
  h.Connect();
  for (int i = 0; i < 5; ++i) h.Live(engine.PublishRoot(4 + 4 * i));
  FakeEngine reborn(5000.0);
  h.Live(reborn.PublishRoot(1000));
  EXPECT_EQ(h.counters().restarts, 1u);
  EXPECT_EQ(h.Blocks(), 1u);
  EXPECT_EQ(h.feed().State(), FeedState::kLive);  // it begins at 0: nothing is missing
  FakeEngine third(9000.0);
  third.SetNextSequence(0);
  third.PublishRoot(2000);
  h.Live(third.PublishRoot(2004));  // sequence 1 > 0: contiguous, cannot be told
  EXPECT_EQ(h.counters().restarts, 1u);
}

TEST(EngineFeedTest, LiveBatchThatAReplayRanAheadOfIsDroppedNotARestart) {
  FeedHarness h;
  FakeEngine engine;
  BringUp(&h, &engine, 2);
  h.Live(engine.PublishRoot(100));  // 2
  engine.PublishRoot(104);          // 3, lost
  const EngineBatch four = engine.PublishRoot(108);
  h.Live(four);
  const EngineBatch five = engine.PublishRoot(112), six = engine.PublishRoot(116);
  EXPECT_EQ(h.ServeReplays(engine), 1);  // brings 3 to 6
  EXPECT_EQ(h.Blocks(), 7u);
  h.Live(five);
  h.Live(six);
  EXPECT_EQ(h.Blocks(), 7u);
  EXPECT_EQ(h.counters().restarts, 0u);
  h.Live(engine.PublishRoot(120));
  EXPECT_EQ(h.Blocks(), 8u);
}

// ---- Gaps ----

TEST(EngineFeedTest, GapIsReplayedFromTheLastAppliedBatchInclusive) {
  FeedHarness h;
  FakeEngine engine;
  BringUp(&h, &engine, 3);
  engine.PublishChild(100, 12);
  h.Live(engine.PublishChild(104, 100));
  EXPECT_EQ(h.counters().gaps, 1u);
  EXPECT_EQ(h.feed().State(), FeedState::kRecovering);
  EXPECT_EQ(h.TakeRequest(), 2u);
  for (size_t i = 2; i < 5; ++i) h.Replayed(engine.history()[i]);
  h.ReplayEnd();
  EXPECT_EQ(h.Blocks(), 5u);
  EXPECT_EQ(h.Clears(), 0u);
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
}

TEST(EngineFeedTest, GapAfterWhichTheLastBatchHasAnotherTimestampIsARestart) {
  FeedHarness h;
  FakeEngine engine;
  BringUp(&h, &engine, 3);
  FakeEngine reborn(5000.0);
  for (int i = 0; i < 6; ++i) reborn.PublishRoot(1000 + 4 * i);
  h.Live(reborn.history()[5]);
  EXPECT_EQ(h.counters().gaps, 1u);
  EXPECT_EQ(h.ServeReplays(reborn), 2);  // continue, then rebuild
  EXPECT_EQ(h.counters().restarts, 1u);
  EXPECT_EQ(h.Blocks(), 6u);
  EXPECT_FALSE(Holds(h, 4));
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
}

TEST(EngineFeedTest, GapAfterWhichTheLastBatchIsGoneIsARestart) {
  FeedHarness h;
  FakeEngine engine;
  BringUp(&h, &engine, 3);
  for (int i = 0; i < 10; ++i) engine.PublishRoot(1000 + 4 * i);
  engine.ForgetBefore(8);
  h.Live(engine.history().back());
  EXPECT_EQ(h.ServeReplays(engine), 2);
  EXPECT_EQ(h.counters().restarts, 1u);
  EXPECT_EQ(h.Blocks(), 5u);
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);  // what preceded is unknown
}

TEST(EngineFeedTest, GapWithoutReplayDropsTheBlocksAndGoesOnFromThere) {
  FeedHarness h(/*has_replay=*/false);
  FakeEngine engine;
  h.Connect();
  h.Live(engine.PublishRoot(4));
  engine.PublishRoot(8);
  h.Live(engine.PublishRoot(12));
  EXPECT_EQ(h.counters().gaps, 1u);
  EXPECT_EQ(h.Blocks(), 1u);
  EXPECT_TRUE(Holds(h, 12));
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  EXPECT_EQ(h.feed().Reason(), DegradedReason::kEventsLost);
  h.Live(engine.PublishRoot(16));
  EXPECT_EQ(h.Blocks(), 2u);
}

TEST(EngineFeedTest, GapWhoseReplayTimesOutDropsTheBlocksAndGoesOnFromThere) {
  FeedHarness h;
  FakeEngine engine;
  BringUp(&h, &engine, 3);
  engine.PublishRoot(100);
  h.Live(engine.PublishRoot(104));
  EXPECT_EQ(h.TakeRequest(), 2u);
  h.Advance(seconds(4));
  EXPECT_EQ(h.feed().State(), FeedState::kRecovering);
  h.Advance(seconds(2));
  EXPECT_EQ(h.counters().replays_failed, 1u);
  EXPECT_EQ(h.Blocks(), 1u);
  EXPECT_TRUE(Holds(h, 104));
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
}

TEST(EngineFeedTest, BurntSequenceIsNoReasonToAskForEver) {
  FeedHarness h;
  FakeEngine engine;
  BringUp(&h, &engine, 3);
  engine.BurnSequence();
  h.Live(engine.PublishRoot(100));
  EXPECT_EQ(h.ServeReplays(engine), 1);
  EXPECT_EQ(h.Blocks(), 1u);  // what was lost may have been removals
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  EXPECT_EQ(h.feed().Reason(), DegradedReason::kEventsLost);
  h.Live(engine.PublishRoot(104));
  EXPECT_EQ(h.Blocks(), 2u);
  h.Advance(seconds(10000));
  EXPECT_FALSE(h.TakeRequest());
}

// ---- Inside a replay ----

TEST(EngineFeedTest, HoleInsideAReplayIsFetchedOnceMore) {
  FeedHarness h;
  FakeEngine engine;
  for (int i = 1; i <= 6; ++i) engine.PublishRoot(4 * i);
  h.Connect();
  EXPECT_EQ(h.TakeRequest(), 0u);
  h.Replayed(engine.history()[0]);
  h.Replayed(engine.history()[1]);
  h.Replayed(engine.history()[4]);  // the engine's socket dropped two for a slow reader
  EXPECT_EQ(h.TakeRequest(), 1u);
  for (size_t i = 1; i < 6; ++i) h.Replayed(engine.history()[i]);
  h.ReplayEnd();
  EXPECT_EQ(h.Blocks(), 6u);
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
}

TEST(EngineFeedTest, RealHoleInsideAReplayDropsWhatPrecedesIt) {
  FeedHarness h;
  FakeEngine engine;
  engine.PublishRoot(4);
  engine.PublishRoot(8);
  engine.BurnSequence();
  engine.PublishRoot(12);
  engine.PublishRoot(16);
  h.Connect();
  EXPECT_EQ(h.ServeReplays(engine), 2);
  EXPECT_EQ(h.Blocks(), 2u);
  EXPECT_TRUE(Holds(h, 12));
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
}

// Pitfall row 36.
TEST(EngineFeedTest, MissingEndMarkerTimesOutAndIsAskedForOnce) {
  FeedHarness h;
  FakeEngine engine;
  for (int i = 1; i <= 3; ++i) engine.PublishRoot(4 * i);
  h.Connect();
  EXPECT_EQ(h.TakeRequest(), 0u);
  h.Replayed(engine.history()[0]);
  h.Replayed(engine.history()[1]);
  h.Advance(seconds(6));
  EXPECT_EQ(h.TakeRequest(), 1u);
  h.Replayed(engine.history()[1]);
  h.Advance(seconds(6));
  EXPECT_FALSE(h.TakeRequest());
  EXPECT_EQ(h.Blocks(), 2u);  // what came is kept
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  EXPECT_EQ(h.feed().Reason(), DegradedReason::kReplayFailed);
  h.Live(engine.PublishRoot(16));  // a gap shows what is missing
  EXPECT_EQ(h.ServeReplays(engine), 1);
  EXPECT_EQ(h.Blocks(), 4u);
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
}

TEST(EngineFeedTest, ContiguousLiveBatchProvesThatOnlyTheEndMarkerWasLost) {
  FeedHarness h;
  FakeEngine engine;
  engine.PublishRoot(4);
  h.Connect();
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_EQ(h.TakeRequest(), 0u);
    h.Replayed(engine.history()[0]);
    h.Advance(seconds(6));
  }
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  h.Live(engine.PublishRoot(8));
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
  EXPECT_EQ(h.Blocks(), 2u);
}

TEST(EngineFeedTest, AnswerThatEndsBehindItsProofIsAskedForOnceMore) {
  FeedHarness h;
  FakeEngine engine;
  engine.PublishRoot(4);
  h.Connect();
  EXPECT_EQ(h.ServeReplays(engine), 1);
  h.Disconnect();
  engine.PublishRoot(8);
  h.Connect();
  EXPECT_EQ(h.TakeRequest(), 0u);
  h.Replayed(engine.history()[0]);  // the same engine, and no more of it
  h.Advance(seconds(6));
  EXPECT_EQ(h.ServeReplays(engine), 1);
  EXPECT_EQ(h.Blocks(), 2u);
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
}

// What an idle engine did before it fell silent, no live batch would ever tell.
TEST(EngineFeedTest, AnswersThatDoNotEndAreAskedForAgainAtThePaceOfRepairs) {
  FeedHarness h;
  FakeEngine engine;
  engine.PublishRoot(4);
  h.Connect();
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_EQ(h.TakeRequest(), 0u);
    h.Replayed(engine.history()[0]);
    h.Advance(seconds(6));
  }
  ASSERT_EQ(h.feed().State(), FeedState::kDegraded);
  engine.PublishRoot(8);
  h.Advance(seconds(40));  // repair_backoff_min is 30 s, and a quarter is added
  EXPECT_EQ(h.ServeReplays(engine), 1);
  EXPECT_EQ(h.Blocks(), 2u);
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
  EXPECT_EQ(h.feed().Detail(), "");
}

// Of an engine that had forgotten its beginning there was nothing to repair; of its successor there
// is, even though nothing told of the change.
TEST(EngineFeedTest, AfterAnEngineThatForgotItsBeginningTheNextOneIsRepaired) {
  FeedHarness h;
  FakeEngine engine;
  for (int i = 1; i <= 5; ++i) engine.PublishRoot(static_cast<TokenId>(4 * i));
  engine.ForgetBefore(3);
  h.Connect();
  h.ServeReplays(engine);
  ASSERT_EQ(h.Blocks(), 2u);
  h.Disconnect();
  FakeEngine next(2000.0);
  h.Connect();
  EXPECT_EQ(h.TakeRequest(), 4u);
  h.Live(next.PublishRoot(4));
  h.Advance(seconds(6));  // mute: the same engine or not, nobody knows
  h.Live(next.PublishRoot(8));
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  h.Advance(seconds(1));
  h.Advance(seconds(40));
  EXPECT_EQ(h.ServeReplays(next), 1);
  EXPECT_EQ(h.Blocks(), 2u);
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
}

TEST(EngineFeedTest, BatchCutToNothingDoesNotEndTheAnswerItIsPartOf) {
  FeedHarness h;
  FakeEngine engine;
  engine.PublishRoot(4);
  h.Connect();
  EXPECT_EQ(h.ServeReplays(engine), 1);
  engine.PublishRoot(8);
  engine.PublishRoot(12);
  h.Live(engine.PublishRoot(16));
  EXPECT_EQ(h.TakeRequest(), 0u);
  h.Replayed(engine.history()[0]);
  h.Replayed({1, ""});
  h.Replayed(engine.history()[2]);
  h.Replayed(engine.history()[3]);
  h.ReplayEnd();
  h.Advance(seconds(1));
  h.Advance(seconds(40));  // the repair
  h.ServeReplays(engine);
  EXPECT_EQ(h.Blocks(), 4u);
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
}

TEST(EngineFeedTest, ProgressKeepsAReplayAlive) {
  FeedHarness h;
  FakeEngine engine;
  for (int i = 1; i <= 10; ++i) engine.PublishRoot(4 * i);
  h.Connect();
  EXPECT_EQ(h.TakeRequest(), 0u);
  for (const EngineBatch& batch : engine.history()) {
    h.Advance(seconds(4));
    h.Replayed(batch);
  }
  h.ReplayEnd();
  EXPECT_EQ(h.Blocks(), 10u);
  EXPECT_EQ(h.counters().replays_failed, 0u);
}

TEST(EngineFeedTest, RepetitionsAreNoProgressOfAReplay) {
  FakeEngine engine;
  FeedHarness harness;
  harness.Connect();
  const EngineBatch first = engine.PublishRoot(1);
  ASSERT_EQ(harness.TakeRequest(), 0u);
  harness.Replayed(first);
  for (int i = 0; i < 10; ++i) {
    harness.Advance(std::chrono::seconds(1));
    harness.Replayed(first);
  }
  EXPECT_FALSE(harness.feed().ReplayRunning() && !harness.feed().ReplayWanted());
  EXPECT_EQ(harness.feed().Counters().replays_failed, 1u);
}

TEST(EngineFeedTest, TimeOutBeginsWhenTheReplayIsTakenUp) {
  FeedHarness h;
  h.Connect();
  h.Advance(seconds(100));  // it waited for its turn
  EXPECT_EQ(h.feed().State(), FeedState::kRecovering);
  EXPECT_EQ(h.TakeRequest(), 0u);
  h.Advance(seconds(6));
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
}

TEST(EngineFeedTest, ImpossibleReplayIsAFailedOne) {
  FeedHarness h;
  FakeEngine engine;
  h.Connect();
  h.TakeRequest();
  std::vector<KvEvent> out;
  h.feed().OnReplayImpossible("no such endpoint", &out);
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  EXPECT_THAT(h.feed().Detail(), testing::HasSubstr("no such endpoint"));
  h.Live(engine.PublishRoot(4));  // sequence 0: nothing was missed after all
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
}

// Pitfall row 35 end to end: both framings in one reply.
TEST(EngineFeedTest, RepliesOfBothFramingsAreUnderstood) {
  FeedHarness h;
  FakeEngine engine;
  engine.PublishRoot(4);
  engine.PublishRoot(8);
  h.Connect();
  EXPECT_EQ(h.TakeRequest(), 0u);
  h.ReplayFrames({"", SequenceFrame(0), engine.history()[0].payload});
  h.ReplayFrames({"", "kv@pod@model", SequenceFrame(1), engine.history()[1].payload});
  h.ReplayFrames({"", "", SequenceFrame(UINT64_MAX), ""});
  EXPECT_EQ(h.Blocks(), 2u);
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
}

TEST(EngineFeedTest, SequencesOnTheReplaySocketNeverSignalARestart) {
  FeedHarness h;
  FakeEngine engine;
  BringUp(&h, &engine, 5);
  h.Live(engine.PublishRoot(100));
  engine.PublishRoot(104);
  h.Live(engine.PublishRoot(108));
  EXPECT_EQ(h.TakeRequest(), 5u);
  for (const EngineBatch& batch : engine.history()) h.Replayed(batch);  // more than was asked for
  h.ReplayEnd();
  EXPECT_EQ(h.counters().restarts, 0u);
  EXPECT_EQ(h.Blocks(), 8u);
}

TEST(EngineFeedTest, GapWhileAReplayRunsIsCountedOnce) {
  FeedHarness h;
  FakeEngine engine;
  engine.PublishRoot(4);
  h.Connect();
  EXPECT_EQ(h.TakeRequest(), 0u);
  h.Live(engine.PublishRoot(8));
  engine.PublishRoot(12);  // lost
  h.Live(engine.PublishRoot(16));
  EXPECT_EQ(h.counters().gaps, 1u);
  h.Replayed(engine.history()[0]);
  h.ReplayEnd();
  EXPECT_EQ(h.ServeReplays(engine), 1);
  EXPECT_EQ(h.Blocks(), 4u);
  EXPECT_EQ(h.counters().gaps, 1u);
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
}

// ---- The buffer ----

TEST(EngineFeedTest, OverflowDropsTheOldestIsCountedAndRepaired) {
  EngineFeedConfig config = FeedHarness::Config(/*has_replay=*/true);
  config.max_buffered_batches = 3;
  FeedHarness h(config);
  FakeEngine engine;
  engine.PublishRoot(4);
  h.Connect();
  EXPECT_EQ(h.TakeRequest(), 0u);
  for (int i = 2; i <= 9; ++i) h.Live(engine.PublishRoot(4 * i));
  EXPECT_EQ(h.counters().live_dropped, 5u);
  h.Replayed(engine.history()[0]);  // served before the others were published
  h.ReplayEnd();
  EXPECT_EQ(h.ServeReplays(engine), 1);
  EXPECT_EQ(h.Blocks(), 9u);
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
}

TEST(EngineFeedTest, BufferIsBoundedInBytesToo) {
  EngineFeedConfig config = FeedHarness::Config(/*has_replay=*/true);
  config.max_buffered_bytes = 100;
  FeedHarness h(config);
  FakeEngine engine;
  h.Connect();
  EXPECT_EQ(h.TakeRequest(), 0u);
  for (int i = 1; i <= 20; ++i) h.Live(engine.PublishRoot(4 * i));
  EXPECT_GT(h.counters().live_dropped, 15u);
}

TEST(EngineFeedTest, RestartDuringAReplayBeginsAnother) {
  FeedHarness h;
  FakeEngine engine;
  for (int i = 1; i <= 5; ++i) engine.PublishRoot(4 * i);
  h.Connect();
  EXPECT_EQ(h.TakeRequest(), 0u);
  h.Replayed(engine.history()[0]);
  h.Live(engine.PublishRoot(100));  // 5
  FakeEngine reborn(5000.0);
  h.Live(reborn.PublishRoot(1000));  // 0
  EXPECT_EQ(h.counters().restarts, 1u);
  EXPECT_EQ(h.counters().replays_failed, 1u);
  EXPECT_EQ(h.ServeReplays(reborn), 1);
  EXPECT_EQ(h.Blocks(), 1u);
  EXPECT_TRUE(Holds(h, 1000));
}

// ---- Reconnects ----

TEST(EngineFeedTest, ReconnectToTheSameEngineKeepsItsBlocks) {
  FeedHarness h;
  FakeEngine engine;
  BringUp(&h, &engine, 3);
  h.Disconnect();
  EXPECT_EQ(h.feed().State(), FeedState::kConnecting);
  engine.PublishRoot(100);
  h.Connect();
  EXPECT_EQ(h.counters().reconnects, 1u);
  EXPECT_EQ(h.TakeRequest(), 2u);
  h.Replayed(engine.history()[2]);
  h.Replayed(engine.history()[3]);
  h.ReplayEnd();
  EXPECT_EQ(h.Blocks(), 4u);
  EXPECT_EQ(h.Clears(), 0u);
  EXPECT_EQ(h.counters().restarts, 0u);
}

TEST(EngineFeedTest, ReconnectToAnEngineThatPassedTheOldSequenceIsARestart) {
  FeedHarness h;
  FakeEngine engine;
  BringUp(&h, &engine, 3);
  h.Disconnect();
  FakeEngine reborn(5000.0);
  for (int i = 0; i < 8; ++i) reborn.PublishRoot(1000 + 4 * i);
  h.Connect();
  h.Live(reborn.PublishRoot(1032));  // sequence 8, above all we knew
  EXPECT_EQ(h.ServeReplays(reborn), 2);
  EXPECT_EQ(h.counters().restarts, 1u);
  EXPECT_EQ(h.Blocks(), 9u);
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
}

TEST(EngineFeedTest, ReconnectToAFreshEngineThatSaidNothingYetIsARestart) {
  FeedHarness h;
  FakeEngine engine;
  BringUp(&h, &engine, 3);
  h.Disconnect();
  h.Connect();
  EXPECT_EQ(h.TakeRequest(), 2u);
  h.ReplayEnd();  // its history is empty
  EXPECT_EQ(h.counters().restarts, 1u);
  EXPECT_EQ(h.Blocks(), 0u);
}

TEST(EngineFeedTest, ReconnectWithoutReplayDropsTheBlocks) {
  FeedHarness h(/*has_replay=*/false);
  FakeEngine engine;
  h.Connect();
  h.Live(engine.PublishRoot(4));
  h.Disconnect();
  h.Connect();
  EXPECT_EQ(h.Blocks(), 0u);
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  EXPECT_EQ(h.feed().Reason(), DegradedReason::kReconnected);
  h.Live(engine.PublishRoot(8));
  EXPECT_EQ(h.Blocks(), 1u);
  EXPECT_EQ(h.counters().restarts, 0u);
  EXPECT_EQ(h.counters().gaps, 0u);
}

TEST(EngineFeedTest, ReconnectWhoseReplayTimesOutDropsTheBlocks) {
  FeedHarness h;
  FakeEngine engine;
  BringUp(&h, &engine, 3);
  h.Disconnect();
  h.Connect();
  h.TakeRequest();
  h.Advance(seconds(6));
  EXPECT_EQ(h.Blocks(), 0u);
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  EXPECT_EQ(h.feed().Reason(), DegradedReason::kReplayFailed);
}

TEST(EngineFeedTest, DisconnectDuringAReplayContinuesItAfterwards) {
  FeedHarness h;
  FakeEngine engine;
  for (int i = 1; i <= 5; ++i) engine.PublishRoot(4 * i);
  h.Connect();
  EXPECT_EQ(h.TakeRequest(), 0u);
  h.Replayed(engine.history()[0]);
  h.Replayed(engine.history()[1]);
  h.Disconnect();
  EXPECT_FALSE(h.feed().ReplayRunning());
  h.Connect();
  EXPECT_EQ(h.ServeReplays(engine), 1);
  EXPECT_EQ(h.Blocks(), 5u);
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
}

TEST(EngineFeedTest, MessagesOfTheOldLifeDoNotReachTheNewOne) {
  FeedHarness h;
  FakeEngine engine;
  BringUp(&h, &engine, 3);
  engine.PublishRoot(100);  // lost
  const EngineBatch old = engine.PublishRoot(104);
  h.Live(old);  // waits for a replay
  h.Disconnect();
  FakeEngine reborn(5000.0);
  reborn.PublishRoot(1000);
  h.Connect();
  EXPECT_EQ(h.ServeReplays(reborn), 2);
  EXPECT_EQ(h.Blocks(), 1u);
  EXPECT_TRUE(Holds(h, 1000));
  EXPECT_FALSE(Holds(h, 104));
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
}

TEST(EngineFeedTest, MessageLeftOverFromABrokenConnectionIsNoReconnect) {
  FeedHarness h;
  FakeEngine engine;
  BringUp(&h, &engine, 3);
  h.Disconnect();
  h.Live(engine.PublishRoot(100));
  EXPECT_EQ(h.feed().State(), FeedState::kConnecting);
  EXPECT_FALSE(h.TakeRequest());
  EXPECT_EQ(h.counters().reconnects, 0u);
  EXPECT_EQ(h.Skipped(SkipReason::kDisconnected), 1u);
  h.Connect();
  EXPECT_EQ(h.counters().reconnects, 1u);
  EXPECT_EQ(h.ServeReplays(engine), 1);
  EXPECT_EQ(h.Blocks(), 4u);  // the replay brought it
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
}

TEST(EngineFeedTest, WithoutReplayALeftOverMessageDoesNotHideTheReconnect) {
  FeedHarness h(/*has_replay=*/false);
  FakeEngine engine;
  h.Connect();
  h.Live(engine.PublishRoot(4));
  h.Disconnect();
  h.Live(engine.PublishRoot(8));
  h.Connect();
  EXPECT_EQ(h.Blocks(), 0u);  // it may be another life by now
  EXPECT_EQ(h.counters().reconnects, 1u);
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
}

// ---- Repair ----

TEST(EngineFeedTest, RepairBacksOff) {
  FeedHarness h;
  FakeEngine engine;
  engine.PublishRoot(4);
  h.Connect();
  MonotonicTime waited{};
  std::vector<int64_t> seconds_between;
  for (int attempt = 0; attempt < 4; ++attempt) {
    while (!h.TakeRequest()) {
      h.Advance(seconds(1));
      waited += seconds(1);
      ASSERT_LT(waited, seconds(10000));
    }
    seconds_between.push_back(std::chrono::duration_cast<seconds>(waited).count());
    waited = {};
    h.Advance(seconds(6));
  }
  EXPECT_EQ(seconds_between[0], 0);
  EXPECT_GE(seconds_between[1], 24);
  EXPECT_GE(seconds_between[2], 54);
  EXPECT_GE(seconds_between[3], 114);
  EXPECT_LE(seconds_between[3], 151);
}

TEST(EngineFeedTest, RepairThatReachesNoFurtherBackKeepsWhatIsHeld) {
  FeedHarness h;
  FakeEngine engine;
  engine.SetNextSequence(20);
  h.Connect();
  h.TakeRequest();
  h.Live(engine.PublishChild(8, 4));  // its parent is unknown
  h.Live(engine.PublishRoot(100));
  h.Advance(seconds(6));  // the replay fails
  EXPECT_EQ(h.Blocks(), 1u);
  h.Advance(seconds(1));
  h.Advance(seconds(60));
  EXPECT_EQ(h.TakeRequest(), 0u);
  h.Replayed(engine.history()[0]);  // history begins where we began
  EXPECT_FALSE(h.feed().ReplayRunning());
  EXPECT_EQ(h.Blocks(), 1u);
  EXPECT_EQ(h.Clears(), 0u);
  h.Live(engine.PublishRoot(104));
  EXPECT_EQ(h.Blocks(), 2u);
}

// Lets the wait of a repair pass and serves it; false if none was asked for.
bool Repair(FeedHarness* h, const FakeEngine& engine, seconds wait) {
  h->Advance(seconds(1));  // notes the damage
  h->Advance(wait);
  return h->ServeReplays(engine) > 0;
}

TEST(EngineFeedTest, UndecodableBatchIsFetchedAgainAtOnce) {
  FeedHarness h;
  FakeEngine engine;
  BringUp(&h, &engine, 2);
  const EngineBatch whole = engine.PublishRoot(100);
  h.Live({whole.sequence, whole.payload.substr(0, whole.payload.size() / 2)});
  EXPECT_EQ(h.feed().State(), FeedState::kRecovering);
  h.Live(engine.PublishChild(104, 100));  // waits for it
  EXPECT_EQ(h.Blocks(), 2u);
  ASSERT_EQ(h.ServeReplays(engine), 1);
  EXPECT_EQ(h.Blocks(), 4u);
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
  EXPECT_FALSE(Repair(&h, engine, seconds(10000)));
}

// It may have removed any of the blocks before.
TEST(EngineFeedTest, UndecodableBatchInTheHistoryDropsTheBlocksBeforeAndIsAskedForOnceMore) {
  FeedHarness h;
  FakeEngine engine;
  BringUp(&h, &engine, 2);
  h.Live(engine.Publish({"\xc1"}));  // no msgpack
  h.Live(engine.PublishRoot(100));
  ASSERT_EQ(h.ServeReplays(engine), 1);
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  EXPECT_EQ(h.Blocks(), 1u);
  ASSERT_TRUE(Repair(&h, engine, seconds(60)));
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  EXPECT_EQ(h.Blocks(), 1u);
  EXPECT_FALSE(Repair(&h, engine, seconds(10000)));
}

TEST(EngineFeedTest, WholeHistoryIsNotGivenUpForOneThatTheEngineCutSince) {
  FeedHarness h;
  FakeEngine engine;
  BringUp(&h, &engine, 3);
  h.Live(engine.PublishChild(100, 999));
  engine.ForgetBefore(2);
  ASSERT_TRUE(Repair(&h, engine, seconds(60)));
  EXPECT_EQ(h.Blocks(), 3u);
  EXPECT_EQ(h.Clears(), 0u);
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  EXPECT_FALSE(Repair(&h, engine, seconds(10000)));  // it will never be whole again
}

TEST(EngineFeedTest, OrphanInACompleteHistoryIsShownUntilTheCacheIsEmpty) {
  FeedHarness h;
  FakeEngine engine;
  BringUp(&h, &engine, 1);
  h.Live(engine.PublishChild(100, 999));
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  EXPECT_EQ(h.feed().Reason(), DegradedReason::kUnknownParent);
  ASSERT_TRUE(Repair(&h, engine, seconds(60)));
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  h.Live(engine.Publish({ArrayCleared()}));  // an empty cache misses nothing
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
  EXPECT_EQ(h.feed().Reason(), DegradedReason::kNone);
}

// ---- Ranks ----

// Pitfall rows 6 and 41.
TEST(EngineFeedTest, BatchRankWinsAndClearedIsOfThatRankOnly) {
  FeedHarness h(/*has_replay=*/false, /*dp_size=*/2);
  FakeEngine engine;
  h.Connect();
  const std::string store = ArrayStore({.hashes = {1}, .parent = {}, .tokens = TokenRun(4, 4)});
  h.Live(engine.Publish({store}, 1));
  h.Live(engine.Publish({store}, std::nullopt));  // absent: the socket's
  EXPECT_EQ(h.Blocks(0), 1u);
  EXPECT_EQ(h.Blocks(1), 1u);
  h.Live(engine.Publish({ArrayCleared()}, 1));
  EXPECT_EQ(h.Blocks(0), 1u);
  EXPECT_EQ(h.Blocks(1), 0u);
}

TEST(EngineFeedTest, RankOutOfRangeIsSkippedAndTheCursorMoves) {
  FeedHarness h(/*has_replay=*/false, /*dp_size=*/2);
  FakeEngine engine;
  h.Connect();
  const std::string store = ArrayStore({.hashes = {1}, .parent = {}, .tokens = TokenRun(4, 4)});
  h.Live(engine.Publish({store}, 2));
  h.Live(engine.Publish({store}, -1));
  EXPECT_EQ(h.Skipped(SkipReason::kRankOutOfRange), 2u);
  h.Live(engine.Publish({store}, 0));
  EXPECT_EQ(h.Blocks(0), 1u);
  EXPECT_EQ(h.counters().gaps, 0u);
}

TEST(EngineFeedTest, RestartDropsEveryRankSeenOnTheSocket) {
  FeedHarness h(/*has_replay=*/false, /*dp_size=*/3);
  FakeEngine engine;
  h.Connect();
  const std::string store = ArrayStore({.hashes = {1}, .parent = {}, .tokens = TokenRun(4, 4)});
  h.Live(engine.Publish({store}, 0));
  h.Live(engine.Publish({store}, 2));
  FakeEngine reborn(5000.0);
  h.Live(reborn.Publish({ArrayStore({.hashes = {5}, .parent = {}, .tokens = TokenRun(40, 4)})}, 0));
  EXPECT_EQ(h.Clears(), 2u);
  EXPECT_EQ(h.Blocks(0), 1u);
  EXPECT_EQ(h.Blocks(2), 0u);
}

TEST(EngineFeedTest, RestartForgetsWhichGroupIsTheMainOne) {
  FeedHarness h(/*has_replay=*/false);
  const auto store = [](uint64_t hash, uint64_t group) {
    const std::string extra = MsgpackWriter()
                                  .Str("group_idx")
                                  .Uint(group)
                                  .Str("kv_cache_spec_kind")
                                  .Str("full_attention")
                                  .bytes();
    const auto tokens = TokenRun(static_cast<TokenId>(hash), 4);
    return MapStore({.hashes = {hash}, .parent = {}, .tokens = tokens}, 2, extra);
  };
  FakeEngine engine;
  h.Connect();
  h.Live(engine.Publish({store(4, 1)}));
  h.Live(engine.Publish({store(8, 0)}));
  EXPECT_EQ(h.Blocks(), 1u);  // group 1 is the main one
  FakeEngine reborn(5000.0);
  h.Live(reborn.Publish({store(8, 0)}));
  EXPECT_EQ(h.counters().restarts, 1u);
  EXPECT_TRUE(Holds(h, 8));
}

// ---- Batches that are partly or wholly useless ----

// Pitfall row 4, the cursor's part, and row 26: order within a batch is kept.
TEST(EngineFeedTest, MalformedEventDoesNotStopItsBatch) {
  FeedHarness h(/*has_replay=*/false);
  FakeEngine engine;
  h.Connect();
  h.Live(engine.Publish({ArrayStore({.hashes = {1}, .parent = {}, .tokens = TokenRun(4, 4)}),
                         MsgpackWriter().Uint(3).bytes(), ArrayRemove({1}),
                         ArrayStore({.hashes = {1}, .parent = {}, .tokens = TokenRun(8, 4)})}));
  EXPECT_EQ(h.Skipped(SkipReason::kBadEvent), 1u);
  EXPECT_TRUE(Holds(h, 8));
  EXPECT_FALSE(Holds(h, 4));
  h.Live(engine.PublishRoot(100));
  EXPECT_EQ(h.counters().gaps, 0u);
}

// Pitfall row 14.
TEST(EngineFeedTest, TwoStoresNeedTwoRemovals) {
  FeedHarness h(/*has_replay=*/false);
  FakeEngine engine;
  h.Connect();
  const std::string store = ArrayStore({.hashes = {1}, .parent = {}, .tokens = TokenRun(4, 4)});
  h.Live(engine.Publish({store, store, ArrayRemove({1})}));
  EXPECT_EQ(h.Blocks(), 1u);
  h.Live(engine.Publish({ArrayRemove({1})}));
  EXPECT_EQ(h.Blocks(), 0u);
}

TEST(EngineFeedTest, WithStoresAsASetOneRemovalEndsABlockAnnouncedTwice) {
  EngineFeedConfig config = FeedHarness::Config(/*has_replay=*/false);
  config.counting = StoreCounting::kSet;
  FeedHarness h(config);
  FakeEngine engine;
  h.Connect();
  const std::string store = ArrayStore({.hashes = {1}, .parent = {}, .tokens = TokenRun(4, 4)});
  h.Live(engine.Publish({store, store}));
  EXPECT_EQ(h.Blocks(), 1u);
  h.Live(engine.Publish({ArrayRemove({1})}));
  EXPECT_EQ(h.Blocks(), 0u);
}

// Pitfall row 16.
TEST(EngineFeedTest, RemovalOfAnUnknownHashIsNoDamage) {
  FeedHarness h(/*has_replay=*/false);
  FakeEngine engine;
  h.Connect();
  h.Live(engine.Publish({ArrayRemove({77})}));
  EXPECT_EQ(h.results().back().status, ApplyStatus::kBlockNotFound);
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
}

// Pitfall row 30.
TEST(EngineFeedTest, StoreWithUnknownParentIsNeverARoot) {
  FeedHarness h(/*has_replay=*/false);
  FakeEngine engine;
  h.Connect();
  h.Live(engine.PublishRoot(4));
  h.Live(engine.PublishChild(8, 999));
  EXPECT_EQ(h.Overlap(TokenRun(8, 4)), 0u);
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
}

TEST(EngineFeedTest, ForeignBlockSizeIsShown) {
  FeedHarness h(/*has_replay=*/false);
  FakeEngine engine;
  h.Connect();
  h.Live(engine.Publish(
      {ArrayStore({.hashes = {1, 2}, .parent = {}, .tokens = TokenRun(0, 32), .block_size = 16})}));
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  EXPECT_EQ(h.feed().Reason(), DegradedReason::kBlockNaming);
  EXPECT_THAT(h.feed().Detail(), testing::HasSubstr("16"));
}

TEST(EngineFeedTest, ABlockSizeOfNoneIsShown) {
  FeedHarness h(/*has_replay=*/false);
  FakeEngine engine;
  h.Connect();
  h.Live(engine.Publish(
      {ArrayStore({.hashes = {1, 2}, .parent = {}, .tokens = TokenRun(0, 32), .block_size = 0})}));
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  EXPECT_THAT(h.feed().Detail(), testing::HasSubstr("block size is 0"));
}

TEST(EngineFeedTest, SingleTokensOfAWorkerRegisteredAsEagleAreShown) {
  EngineFeedConfig config = FeedHarness::Config(/*has_replay=*/false);
  config.is_eagle = true;
  FeedHarness h(config);
  FakeEngine engine;
  h.Connect();
  h.Live(engine.PublishRoot(1));
  EXPECT_EQ(h.Blocks(), 0u);
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  EXPECT_NE(h.feed().Detail().find("is_eagle"), std::string::npos);
}

TEST(EngineFeedTest, BadFramingIsCountedAndMovesNothing) {
  FeedHarness h(/*has_replay=*/false);
  FakeEngine engine;
  h.Connect();
  h.Live(engine.PublishRoot(4));
  h.LiveFrames({"topic", "short", "payload"});
  h.LiveFrames({SequenceFrame(1), "payload"});
  EXPECT_EQ(h.Skipped(SkipReason::kBadFraming), 2u);
  h.Live(engine.PublishRoot(8));
  EXPECT_EQ(h.Blocks(), 2u);
  EXPECT_EQ(h.counters().gaps, 0u);
}

// Pitfall row 45.
TEST(EngineFeedTest, SilenceIsNoSignOfAnything) {
  FeedHarness h;
  FakeEngine engine;
  BringUp(&h, &engine, 3);
  for (int i = 0; i < 100; ++i) h.Advance(seconds(60));
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
  EXPECT_EQ(h.Blocks(), 3u);
  EXPECT_FALSE(h.TakeRequest());
}

TEST(EngineFeedTest, EventsCarryWhoSaidThem) {
  FeedHarness h(/*has_replay=*/false);
  FakeEngine engine;
  h.Connect();
  h.Live(engine.PublishRoot(4));
  h.Live(engine.PublishRoot(8));
  const KvEvent& event = h.applied().back();
  EXPECT_EQ(event.target, (Target{kFeedWorker, 0}));
  EXPECT_EQ(event.incarnation, Incarnation{3});
  EXPECT_EQ(event.tier, StorageTier::kDevice);
  EXPECT_EQ(event.counting, StoreCounting::kCounted);
  EXPECT_EQ(event.event_id, 1u);
}

}  // namespace
}  // namespace kvrouter
