// Scenarios of public bug reports, from bytes to index. Block size 4; A = tokens 1-4, B = 5-8, …;
// a, b, … name them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/feed_harness.h"

namespace kvrouter {
namespace {

constexpr uint64_t kA = 0xa, kB = 0xb, kC = 0xc, kX = 0xe;

std::string Store(std::vector<uint64_t> hashes, std::optional<uint64_t> parent,
                  TokenId first_token) {
  const size_t tokens = 4 * hashes.size();
  return ArrayStore(
      {.hashes = std::move(hashes), .parent = parent, .tokens = TokenRun(first_token, tokens)});
}

// B11: one malformed store must not wipe the worker, nor hang a lookup; it counts as consumed.
TEST(FeedScenariosTest, B11SelfReferencingStoreIsDroppedAndConsumed) {
  FeedHarness h(/*has_replay=*/false);
  FakeEngine engine;
  h.Connect();
  h.Live(engine.Publish({Store({kA, kB}, {}, 1)}));
  h.Live(engine.Publish({Store({kC, kC}, kB, 9)}));
  EXPECT_EQ(h.results().back().status, ApplyStatus::kInvalidBlock);
  h.Live(engine.Publish({Store({kB}, kB, 9)}));
  EXPECT_EQ(h.results().back().status, ApplyStatus::kInvalidBlock);
  h.Live(engine.Publish({Store({kX, kX}, {}, 21)}));
  EXPECT_EQ(h.results().back().status, ApplyStatus::kInvalidBlock);
  EXPECT_EQ(h.Overlap(TokenRun(1, 8)), 2u);
  h.Live(engine.Publish({Store({kC}, kB, 9)}));
  EXPECT_EQ(h.Overlap(TokenRun(1, 12)), 3u);
  EXPECT_EQ(h.counters().gaps, 0u);
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
}

// B12: the chain's first event was missed.
TEST(FeedScenariosTest, B12MissedBeginningIsFetched) {
  FeedHarness h;
  FakeEngine engine;
  engine.Publish({Store({kA}, {}, 1)});
  for (int i = 0; i < 6; ++i) engine.Publish({Store({100u + i}, {}, 1000 + 8 * i)});
  h.Connect();
  h.Live(engine.Publish({Store({kB}, kA, 5)}));  // sequence 7
  EXPECT_EQ(h.Overlap(TokenRun(5, 4)), 0u);
  EXPECT_EQ(h.feed().State(), FeedState::kRecovering);
  h.ServeReplays(engine);
  EXPECT_EQ(h.Overlap(TokenRun(1, 8)), 2u);
  EXPECT_EQ(h.Overlap(TokenRun(5, 4)), 0u);  // never attached to the root
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
}

TEST(FeedScenariosTest, B12MissedBeginningWithoutReplayIsShown) {
  FeedHarness h(/*has_replay=*/false);
  FakeEngine engine;
  engine.Publish({Store({kA}, {}, 1)});
  engine.SetNextSequence(7);
  h.Connect();
  h.Live(engine.Publish({Store({kB}, kA, 5)}));
  EXPECT_EQ(h.results().back().status, ApplyStatus::kParentBlockNotFound);
  EXPECT_EQ(h.Overlap(TokenRun(5, 4)), 0u);
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  EXPECT_NE(h.feed().Detail(), "");
}

// B12 again, when the replay endpoint answers only later.
TEST(FeedScenariosTest, B12MissedBeginningIsFetchedWhenReplayComesBack) {
  FeedHarness h;
  FakeEngine engine;
  engine.Publish({Store({kA}, {}, 1)});
  h.Connect();
  EXPECT_EQ(h.TakeRequest(), 0u);
  h.Live(engine.Publish({Store({kB}, kA, 5)}));
  h.Advance(std::chrono::seconds(6));
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  EXPECT_EQ(h.counters().replays_failed, 1u);
  h.Live(engine.Publish({Store({kC}, kB, 9)}));
  EXPECT_EQ(h.Overlap(TokenRun(1, 12)), 0u);
  h.Advance(std::chrono::seconds(1));
  EXPECT_FALSE(h.TakeRequest());  // not at once
  h.Advance(std::chrono::seconds(40));
  EXPECT_EQ(h.ServeReplays(engine), 1);
  EXPECT_EQ(h.Overlap(TokenRun(1, 12)), 3u);
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
}

// B45: hashes are bit patterns.
TEST(FeedScenariosTest, B45SignedAndUnsignedNameOneBlock) {
  FeedHarness h(/*has_replay=*/false);
  FakeEngine engine;
  h.Connect();
  MsgpackWriter store;
  store.Array(5).Str("BlockStored").Array(1).Int(-1).Nil().UintArray(TokenRun(1, 4)).Uint(4);
  h.Live(engine.Publish({store.bytes()}));
  EXPECT_EQ(h.Overlap(TokenRun(1, 4)), 1u);
  h.Live(engine.Publish({ArrayRemove({18446744073709551615u})}));
  EXPECT_EQ(h.Overlap(TokenRun(1, 4)), 0u);
}

TEST(FeedScenariosTest, B45LargeOddAndZeroHashesStayExact) {
  const uint64_t odd = (uint64_t{1} << 53) + 1;
  for (const uint64_t hash : {uint64_t{1} << 63, odd, uint64_t{0}}) {
    SCOPED_TRACE(hash);
    FeedHarness h(/*has_replay=*/false);
    FakeEngine engine;
    h.Connect();
    h.Live(engine.Publish({Store({hash}, {}, 1), Store({42}, hash, 5)}));
    EXPECT_EQ(h.Overlap(TokenRun(1, 8)), 2u);
    EXPECT_EQ(h.Overlap(TokenRun(5, 4)), 0u);  // parent 0 is a real parent, not "none"
    h.Live(engine.Publish({ArrayRemove({hash + 1})}));
    EXPECT_EQ(h.Overlap(TokenRun(1, 8)), 2u);
    h.Live(engine.Publish({ArrayRemove({hash})}));
    EXPECT_EQ(h.Overlap(TokenRun(1, 8)), 0u);
  }
}

TEST(FeedScenariosTest, B45DigestIsCutTheSameWayByStoreAndRemoval) {
  FeedHarness h(/*has_replay=*/false);
  FakeEngine engine;
  h.Connect();
  const std::string digest = std::string(24, 'x') + "LAST8BYT";
  MsgpackWriter store, removal;
  store.Array(5).Str("BlockStored").Array(1).Bin(digest).Nil().UintArray(TokenRun(1, 4)).Uint(4);
  removal.Array(3).Str("BlockRemoved").Array(1).Bin(digest).Str("GPU");
  h.Live(engine.Publish({store.bytes()}));
  EXPECT_EQ(h.Overlap(TokenRun(1, 4)), 1u);
  h.Live(engine.Publish({removal.bytes()}));
  EXPECT_EQ(h.Blocks(), 0u);
}

// B46: shapes mixed in one batch.
TEST(FeedScenariosTest, B46ArraysMapsSurplusFieldsAndUnknownTagsInOneBatch) {
  FeedHarness h(/*has_replay=*/false);
  FakeEngine engine;
  h.Connect();
  MsgpackWriter b;  // shuffled keys, one unknown
  b.Map(6).Str("token_ids").UintArray(TokenRun(5, 4)).Str("novel").Map(0).Str("block_size").Uint(4);
  b.Str("parent_block_hash")
      .Uint(kA)
      .Str("type")
      .Str("BlockStored")
      .Str("block_hashes")
      .UintArray<uint64_t>({kB});
  MsgpackWriter c;  // two unknown elements after every known one
  c.Array(16)
      .Str("BlockStored")
      .UintArray<uint64_t>({kC})
      .Uint(kB)
      .UintArray(TokenRun(9, 4))
      .Uint(4)
      .Nil()
      .Str("GPU");
  c.Nil().Nil().Nil().Nil().Nil().Str("LOCAL").Nil().Str("future").Uint(1);
  h.Live(engine.Publish({Store({kA}, {}, 1), b.bytes(), c.bytes(),
                         MsgpackWriter().Array(2).Str("BlockTeleported").Uint(1).bytes(),
                         ArrayRemove({kC})}));
  EXPECT_EQ(h.Overlap(TokenRun(1, 12)), 2u);
  EXPECT_EQ(h.Blocks(), 2u);
  EXPECT_EQ(h.Skipped(SkipReason::kUnknownTag), 1u);
  EXPECT_EQ(h.counters().batches_applied, 1u);
  h.Live(engine.Publish({Store({kC}, kB, 9)}));  // the cursor moved once
  EXPECT_EQ(h.Overlap(TokenRun(1, 12)), 3u);
  EXPECT_EQ(h.counters().gaps, 0u);
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
}

TEST(FeedScenariosTest, B46TruncatedBatchIsRefusedAndTheNextIsFine) {
  FeedHarness h(/*has_replay=*/false);
  FakeEngine engine;
  h.Connect();
  h.Live(engine.Publish({Store({kA}, {}, 1)}));
  EngineBatch cut = engine.Publish({Store({kX}, {}, 21), Store({kB}, kA, 5)});
  cut.payload.resize(cut.payload.size() - 9);
  h.Live(cut);
  EXPECT_EQ(h.Skipped(SkipReason::kBadEnvelope), 1u);
  EXPECT_EQ(h.Overlap(TokenRun(21, 4)), 0u);  // nothing of it was applied
  EXPECT_EQ(h.Overlap(TokenRun(1, 4)), 0u);  // it may have removed them
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  h.Live(engine.Publish({Store({kC}, {}, 9)}));
  EXPECT_EQ(h.Overlap(TokenRun(9, 4)), 1u);
  EXPECT_EQ(h.counters().gaps, 0u);
}

}  // namespace
}  // namespace kvrouter
