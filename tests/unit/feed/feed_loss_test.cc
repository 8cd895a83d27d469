// What is lost on the way, and whether it is asked for again. Found by tests/property/truth.
#include <gtest/gtest.h>

#include <chrono>

#include "support/feed_harness.h"

namespace kvrouter {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

TEST(FeedLossTest, AReplayThatWasCutShortDoesNotMeanThatTheEngineForgot) {
  FeedHarness h;
  FakeEngine engine;
  h.Connect();
  h.ServeReplays(engine);
  h.Live(engine.PublishRoot(1));
  h.Live(engine.PublishChild(5, 1));
  engine.PublishChild(9, 5);  // lost
  h.Live(engine.PublishChild(13, 9));
  ASSERT_EQ(h.TakeRequest(), 1u);
  h.Replayed(engine.history()[1]);  // it is the same engine, but the rest of the answer is lost
  h.Advance(seconds(6));
  ASSERT_EQ(h.TakeRequest(), 1u) << "asked for once more";
  h.Replayed(engine.history()[1]);  // and lost again
  h.Advance(seconds(6));
  ASSERT_EQ(h.feed().State(), FeedState::kDegraded) << h.feed().Detail();
  h.Advance(minutes(1));
  h.Advance(minutes(1));
  EXPECT_EQ(h.ServeReplays(engine), 1);
  EXPECT_EQ(h.feed().State(), FeedState::kLive) << h.feed().Detail();
  EXPECT_EQ(h.Overlap(TokenRun(1, 16)), 4u);
}

EngineBatch Cut(EngineBatch batch) {
  batch.payload.resize(batch.payload.size() - 3);
  return batch;
}

TEST(FeedLossTest, ABatchThatCannotBeReadIsFetchedFromTheEngineAtOnce) {
  FeedHarness h;
  FakeEngine engine;
  h.Connect();
  h.ServeReplays(engine);
  h.Live(engine.PublishRoot(1));
  h.Live(Cut(engine.Publish({ArrayRemove({1})})));
  ASSERT_TRUE(h.feed().ReplayWanted());
  EXPECT_EQ(h.ServeReplays(engine), 1);
  EXPECT_EQ(h.feed().State(), FeedState::kLive) << h.feed().Detail();
  EXPECT_EQ(h.Overlap(TokenRun(1, 4)), 0u);
  h.Live(engine.PublishRoot(5));
  EXPECT_EQ(h.Overlap(TokenRun(5, 4)), 1u);
  EXPECT_EQ(h.counters().gaps, 0u);
}

// It may have been a removal: what is held is not known any more.
TEST(FeedLossTest, WithoutReplayABatchThatCannotBeReadDropsTheBlocks) {
  FeedHarness h(/*has_replay=*/false);
  FakeEngine engine;
  h.Connect();
  h.Live(engine.PublishRoot(1));
  h.Live(Cut(engine.Publish({ArrayRemove({1})})));
  EXPECT_EQ(h.Blocks(), 0u);
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  EXPECT_EQ(h.feed().LastSequence(), 1u);  // given up
  h.Live(engine.PublishRoot(5));
  EXPECT_EQ(h.Overlap(TokenRun(5, 4)), 1u);
}

// Else an engine of a language that we do not know would be asked for its history with each batch.
TEST(FeedLossTest, AnEngineWhoseOwnCopiesCannotBeReadIsAskedOnce) {
  FeedHarness h;
  FakeEngine readable;
  h.Connect();
  h.ServeReplays(readable);
  h.Live(readable.PublishRoot(1));
  int replays = 0;
  for (TokenId i = 0; i < 5; ++i) {
    h.Live(Cut(readable.PublishRoot(10 + 4 * i)));
    while (const auto from = h.TakeRequest()) {
      ++replays;
      for (const EngineBatch& batch : readable.history()) {
        if (batch.sequence >= *from) h.Replayed(batch.sequence == 0 ? batch : Cut(batch));
      }
      h.ReplayEnd();
    }
  }
  EXPECT_EQ(replays, 1);
  EXPECT_EQ(h.Blocks(), 0u);
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  h.Live(readable.PublishRoot(101));
  EXPECT_EQ(h.Overlap(TokenRun(101, 4)), 1u);
}

// A sender that damages one message need not have kept it: no answer brings it, so nothing is kept.
TEST(FeedLossTest, ABatchThatCannotBeReadAndIsInNoHistoryDropsTheBlocksAfterOneReplay) {
  FeedHarness h;
  FakeEngine engine;
  h.Connect();
  h.ServeReplays(engine);
  h.Live(engine.PublishRoot(1));
  h.Live(Cut({1, engine.history().back().payload}));
  engine.BurnSequence();
  EXPECT_EQ(h.ServeReplays(engine), 1);
  EXPECT_EQ(h.Blocks(), 0u);
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  EXPECT_EQ(h.Skipped(SkipReason::kBadEnvelope), 1u);
  h.Live(engine.PublishRoot(5));
  EXPECT_EQ(h.Overlap(TokenRun(5, 4)), 1u);
  EXPECT_FALSE(h.feed().ReplayWanted());
}

// However many of its batches are unreadable, and wherever: each history is asked for a bounded
// number of times.
TEST(FeedLossTest, AHistoryFullOfUnreadableBatchesEndsDegradedAndIsNotAskedForEachOfThem) {
  FeedHarness h;
  FakeEngine engine;
  for (TokenId i = 0; i < 100; ++i)
    i % 2 == 0 ? engine.PublishRoot(4 * i) : engine.Publish({"\xc1"});
  h.Connect();
  EXPECT_LE(h.ServeReplays(engine), 3);
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  EXPECT_LE(h.Blocks(), 1u);
  h.Live(engine.PublishRoot(1001));
  EXPECT_EQ(h.Overlap(TokenRun(1001, 4)), 1u);
}

// One event that makes no sense, or is of a kind that we do not know, costs only itself.
TEST(FeedLossTest, AnUnknownOrBadEventInAReadableBatchIsNoLoss) {
  FeedHarness h;
  FakeEngine engine;
  h.Connect();
  h.ServeReplays(engine);
  const auto store = [](TokenId first) {
    return ArrayStore({.hashes = {first}, .parent = {}, .tokens = TokenRun(first, 4)});
  };
  h.Live(engine.PublishRoot(1));
  h.Live(engine.Publish({store(5), MsgpackWriter().Array(1).Str("BlockPinned").bytes(),
                         MsgpackWriter().Array(2).Str("BlockStored").Nil().bytes(), store(9)}));
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
  EXPECT_EQ(h.Blocks(), 3u);
  EXPECT_EQ(h.Skipped(SkipReason::kUnknownTag), 1u);
  EXPECT_EQ(h.Skipped(SkipReason::kBadEvent), 1u);
}

// But a removal that makes no sense may leave blocks in the index that are there no more, and the
// engine's other copy of it makes no more sense: until it says that its cache is empty.
TEST(FeedLossTest, ABadRemovalInAReadableBatchIsDamage) {
  FeedHarness h;
  FakeEngine engine;
  h.Connect();
  h.ServeReplays(engine);
  h.Live(engine.PublishRoot(1));
  h.Live(engine.Publish({MsgpackWriter().Array(2).Str("BlockRemoved").Str("1").bytes()}));
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  EXPECT_EQ(h.feed().Reason(), DegradedReason::kUnreadable);
  EXPECT_EQ(h.Blocks(), 1u);
  h.Live(engine.PublishRoot(5));
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  h.Live(engine.Publish({MsgpackWriter().Array(1).Str("AllBlocksCleared").bytes()}));
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
  EXPECT_EQ(h.Blocks(), 0u);
}

}  // namespace
}  // namespace kvrouter
