// A feed that goes on from what another process saved.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>

#include "feed/saved_feed_codec.h"
#include "support/feed_harness.h"

namespace kvrouter {
namespace {

using Restoration = EngineFeed::Restoration;

// The blocks that the harness's index holds, as chains would be saved: here all are sequences of
// one or two blocks of 4 tokens, named by their first token.
SavedEvent AStore(std::optional<uint64_t> parent, uint64_t name, TokenId first) {
  std::vector<LocalBlockHash> content;
  AppendLocalBlockHashes(TokenRun(first, 4), 4, BlockSeed({}), &content);
  Stored stored{.parent = std::nullopt, .blocks = {{EngineHash{name}, content[0]}}};
  if (parent) stored.parent = EngineHash{*parent};
  return {.tier = StorageTier::kDevice, .data = std::move(stored)};
}

// An engine that stored two blocks in two batches, and what a feed saved behind them.
struct Saved {
  FakeEngine engine;
  SavedProgress progress;

  Saved() {
    FeedHarness before;
    before.Connect();
    before.ServeReplays(engine);
    before.Live(engine.PublishRoot(100));
    before.Live(engine.PublishChild(104, 100));
    progress = before.feed().Save().value();
    progress.ranks.at(0).blocks = {AStore({}, 100, 100), AStore(100, 104, 104)};
  }
};

TEST(FeedRestoreTest, NothingIsHeldBeforeTheEngineProvesIt) {
  Saved saved;
  FeedHarness after;
  after.feed().Restore(saved.progress);
  after.Connect();
  EXPECT_EQ(after.feed().State(), FeedState::kRecovering);
  EXPECT_EQ(after.TakeRequest(), 1u) << "the last applied batch, inclusive";
  EXPECT_EQ(after.Overlap(TokenRun(100, 8)), 0u);
  EXPECT_EQ(after.feed().RestorationState(), Restoration::kPending);
  after.Replayed(saved.engine.history()[1]);
  EXPECT_EQ(after.Overlap(TokenRun(100, 8)), 2u);
  EXPECT_EQ(after.feed().RestorationState(), Restoration::kProved);
  after.ReplayEnd();
  EXPECT_EQ(after.feed().State(), FeedState::kLive);
  EXPECT_EQ(after.counters().restarts, 0u);
}

TEST(FeedRestoreTest, WhatHappenedMeanwhileIsAppliedBehindIt) {
  Saved saved;
  saved.engine.PublishChild(108, 104);
  saved.engine.Publish({ArrayRemove({104})});
  FeedHarness after;
  after.feed().Restore(saved.progress);
  after.Connect();
  EXPECT_EQ(after.ServeReplays(saved.engine), 1);
  EXPECT_EQ(after.Overlap(TokenRun(100, 12)), 1u);
  EXPECT_EQ(after.Blocks(), 2u) << "108 is held behind the hole";
  after.Live(saved.engine.PublishChild(104, 100));
  EXPECT_EQ(after.Overlap(TokenRun(100, 12)), 3u);
  EXPECT_EQ(after.feed().State(), FeedState::kLive);
}

TEST(FeedRestoreTest, AnotherTimestampMeansAnotherEngine) {
  Saved saved;
  FakeEngine reborn(/*start_ts=*/5000.0);
  reborn.PublishRoot(500);
  reborn.PublishRoot(600);
  reborn.PublishRoot(700);
  FeedHarness after;
  after.feed().Restore(saved.progress);
  after.Connect();
  EXPECT_EQ(after.ServeReplays(reborn), 2) << "the question, then the rebuild";
  EXPECT_EQ(after.feed().RestorationState(), Restoration::kRestarted);
  EXPECT_EQ(after.Overlap(TokenRun(100, 8)), 0u);
  EXPECT_EQ(after.Blocks(), 3u);
  EXPECT_EQ(after.feed().State(), FeedState::kLive);
}

TEST(FeedRestoreTest, AnEngineWithoutThatBatchIsAnotherOne) {
  Saved saved;
  FakeEngine reborn(/*start_ts=*/5000.0);
  reborn.PublishRoot(500);  // its only batch is older than ours
  FeedHarness after;
  after.feed().Restore(saved.progress);
  after.Connect();
  EXPECT_EQ(after.ServeReplays(reborn), 2);
  EXPECT_EQ(after.feed().RestorationState(), Restoration::kRestarted);
  EXPECT_EQ(after.Blocks(), 1u);
}

TEST(FeedRestoreTest, ABatchThatTheEngineForgotProvesNothing) {
  Saved saved;
  saved.engine.PublishRoot(200);
  saved.engine.ForgetBefore(2);
  FeedHarness after;
  after.feed().Restore(saved.progress);
  after.Connect();
  after.ServeReplays(saved.engine);
  EXPECT_EQ(after.feed().RestorationState(), Restoration::kRestarted);
  EXPECT_EQ(after.Blocks(), 1u);
  EXPECT_EQ(after.feed().State(), FeedState::kDegraded);
}

TEST(FeedRestoreTest, AMuteEngineProvesNothing) {
  Saved saved;
  FeedHarness after;
  after.feed().Restore(saved.progress);
  after.Connect();
  after.TakeRequest();
  after.Advance(std::chrono::seconds(6));
  EXPECT_EQ(after.feed().RestorationState(), Restoration::kUnproved);
  EXPECT_EQ(after.Blocks(), 0u);
  EXPECT_EQ(after.feed().State(), FeedState::kDegraded);
}

TEST(FeedRestoreTest, ABrokenConnectionLeavesTheQuestionOpen) {
  Saved saved;
  FeedHarness after;
  after.feed().Restore(saved.progress);
  after.Connect();
  after.TakeRequest();
  after.Disconnect();
  EXPECT_EQ(after.feed().RestorationState(), Restoration::kPending);
  const auto again = after.feed().Save();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->applied, saved.progress.applied);
  ASSERT_EQ(again->ranks.size(), 1u);
  EXPECT_EQ(again->ranks[0].blocks.size(), 2u) << "kept for the next process, too";
  after.Connect();
  EXPECT_EQ(after.ServeReplays(saved.engine), 1);
  EXPECT_EQ(after.Blocks(), 2u);
}

TEST(FeedRestoreTest, LiveBatchesWaitForTheProof) {
  Saved saved;
  const EngineBatch next = saved.engine.PublishChild(108, 104);
  FeedHarness after;
  after.feed().Restore(saved.progress);
  after.Live(next);
  EXPECT_EQ(after.Blocks(), 0u);
  EXPECT_EQ(after.ServeReplays(saved.engine), 1);
  EXPECT_EQ(after.Overlap(TokenRun(100, 12)), 3u);
}

TEST(FeedRestoreTest, LaterEventsMeanWhatTheyWouldHaveMeant) {
  FakeEngine engine;
  FeedHarness before;
  before.Connect();
  before.ServeReplays(engine);
  // A salted block, whose child does not repeat the salt; and a placeholder that is removed later.
  MsgpackWriter salt;
  salt.Str("extra_keys").Array(1).Array(1).Str("pepper");
  before.Live(engine.Publish(
      {MapStore({.hashes = {1}, .parent = {}, .tokens = TokenRun(100, 4)}, 1, salt.bytes())}));
  before.Live(engine.Publish({ArrayStore({.hashes = {2}, .parent = {}, .tokens = {}})}));
  const auto progress = before.feed().Save();
  ASSERT_TRUE(progress.has_value());
  SavedFeed feed;
  feed.spec.block_size_tokens = 4;
  feed.progress = *progress;
  const auto decoded = DecodeFeed(EncodeFeed(feed));
  ASSERT_TRUE(decoded.ok()) << decoded.status();

  const EngineBatch child =
      engine.Publish({MapStore({.hashes = {3}, .parent = 1, .tokens = TokenRun(104, 4)})});
  const EngineBatch removal = engine.Publish({ArrayRemove({2})});
  before.Live(child);
  before.Live(removal);
  FeedHarness after;
  after.feed().Restore(decoded->progress);
  after.Connect();
  after.ServeReplays(engine);
  ASSERT_EQ(after.applied().size(), 1u) << "the placeholder's removal reaches nobody";
  EXPECT_EQ(std::get<Stored>(after.applied()[0].data).blocks[0].local_hash,
            std::get<Stored>(before.applied().back().data).blocks[0].local_hash);
}

TEST(FeedRestoreTest, WhatCouldNotBeContinuedIsNotSaved) {
  FeedHarness fresh;
  EXPECT_FALSE(fresh.feed().Save().has_value()) << "nothing applied";
  FakeEngine engine;
  FeedHarness without_replay(/*has_replay=*/false);
  without_replay.Connect();
  without_replay.Live(engine.PublishRoot(100));
  EXPECT_FALSE(without_replay.feed().Save().has_value()) << "nobody to prove it";
}

}  // namespace
}  // namespace kvrouter
