#include "core/index/block_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "support/index_driver.h"

namespace kvrouter {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr char kNone = 0;

TEST(BlockIndexTest, EmptyIndexMatchesNothing) {
  IndexDriver d;
  EXPECT_THAT(d.Scores("abc"), IsEmpty());
  EXPECT_THAT(d.Scores(""), IsEmpty());
  EXPECT_EQ(d.index.Stats().holder_blocks, 0);
  EXPECT_EQ(d.Held(1), 0);
}

TEST(BlockIndexTest, ScoreIsTheLongestPrefixHeldFromTheStart) {
  IndexDriver d;
  EXPECT_EQ(d.Store(1, kNone, "abcd").blocks_stored, 4);
  EXPECT_EQ(d.Store(2, kNone, "abx").blocks_stored, 3);
  EXPECT_THAT(d.Scores("abcd"), ElementsAre(Pair(1, 4), Pair(2, 2)));
  EXPECT_THAT(d.Scores("abcdef"), ElementsAre(Pair(1, 4), Pair(2, 2)));
  EXPECT_THAT(d.Scores("abxcd"), ElementsAre(Pair(1, 2), Pair(2, 3)));
  EXPECT_THAT(d.Scores("ab"), ElementsAre(Pair(1, 2), Pair(2, 2)));
  EXPECT_THAT(d.Scores("bcd"), IsEmpty());
}

TEST(BlockIndexTest, MatchesAreInAscendingOrderOfTargetWhateverCameFirst) {
  IndexDriver d;
  Stored stored;
  stored.blocks.push_back({EngineHash{1}, IndexDriver::ContentOf('a')});
  for (const uint64_t worker : {7, 3, 9, 1}) {
    for (const uint32_t rank : {1u, 0u}) d.Apply(IndexDriver::TargetOf(worker, rank), stored);
  }
  const auto matches = d.Matches("ab");
  ASSERT_EQ(matches.size(), 8);
  EXPECT_TRUE(std::is_sorted(matches.begin(), matches.end(),
                             [](const auto& x, const auto& y) { return x.target < y.target; }));
  // Few matches among many targets take another path.
  d.Apply(IndexDriver::TargetOf(9, 1),
          Stored{EngineHash{1}, {{EngineHash{2}, IndexDriver::ContentOf('b')}}});
  for (uint64_t worker = 100; worker < 200; ++worker) d.Store(worker, kNone, "z");
  const auto few = d.Matches("ab");
  ASSERT_EQ(few.size(), 8);
  EXPECT_EQ(few.back(), (OverlapMatch{IndexDriver::TargetOf(9, 1), 2}));
  EXPECT_TRUE(std::is_sorted(few.begin(), few.end(),
                             [](const auto& x, const auto& y) { return x.target < y.target; }));
}

TEST(BlockIndexTest, RanksOfOneWorkerAreApart) {
  IndexDriver d;
  const Stored stored{{}, {{EngineHash{1}, IndexDriver::ContentOf('a')}}};
  d.Apply(IndexDriver::TargetOf(1, 0), stored);
  d.Apply(IndexDriver::TargetOf(1, 1), stored);
  d.Apply(IndexDriver::TargetOf(1, 0), Cleared{});
  EXPECT_THAT(d.Matches("a"), ElementsAre(OverlapMatch{IndexDriver::TargetOf(1, 1), 1}));
}

TEST(BlockIndexTest, EngineHashesOfDifferentTargetsMeanDifferentThings) {
  IndexDriver d;
  const EngineHash same{5};
  d.Apply(IndexDriver::TargetOf(1), Stored{{}, {{same, IndexDriver::ContentOf('a')}}});
  d.Apply(IndexDriver::TargetOf(2), Stored{{}, {{same, IndexDriver::ContentOf('b')}}});
  EXPECT_THAT(d.Scores("a"), ElementsAre(Pair(1, 1)));
  EXPECT_THAT(d.Scores("b"), ElementsAre(Pair(2, 1)));
  EXPECT_EQ(d.Apply(IndexDriver::TargetOf(2), Removed{{same}}).blocks_removed, 1);
  EXPECT_THAT(d.Scores("a"), ElementsAre(Pair(1, 1)));
  EXPECT_THAT(d.Scores("b"), IsEmpty());
}

TEST(BlockIndexTest, EngineHashZeroIsAHash) {
  IndexDriver d;
  const Target t = IndexDriver::TargetOf(1);
  d.Apply(t, Stored{{}, {{EngineHash{0}, IndexDriver::ContentOf('a')}}});
  EXPECT_EQ(
      d.Apply(t, Stored{EngineHash{0}, {{EngineHash{1}, IndexDriver::ContentOf('b')}}}).status,
      ApplyStatus::kOk);
  EXPECT_THAT(d.Scores("ab"), ElementsAre(Pair(1, 2)));
}

TEST(BlockIndexTest, ContentHashesMayRepeatAlongASequence) {
  IndexDriver d;
  Stored stored;
  for (uint64_t i = 0; i < 5; ++i)
    stored.blocks.push_back({EngineHash{i}, IndexDriver::ContentOf('a')});
  d.Apply(IndexDriver::TargetOf(1), stored);
  EXPECT_THAT(d.Scores("aaaaaaa"), ElementsAre(Pair(1, 5)));
}

TEST(BlockIndexTest, UnknownParentIsRefusedAndNeverAttachedToTheRoot) {
  IndexDriver d;
  EXPECT_EQ(d.Store(1, 'a', "b"), ApplyResult{.status = ApplyStatus::kParentBlockNotFound});
  EXPECT_THAT(d.Scores("b"), IsEmpty());
  d.Store(2, kNone, "a");
  EXPECT_EQ(d.Store(1, 'a', "b").status, ApplyStatus::kParentBlockNotFound)
      << "held by another target only";
  EXPECT_EQ(d.index.Stats().holder_blocks, 1);
}

TEST(BlockIndexTest, ParentThatOnlyAnotherTargetHoldsUnderTheSameHashIsUnknown) {
  IndexDriver d;
  const EngineHash a{1};
  const EngineHash b{2};
  d.Apply(IndexDriver::TargetOf(1), Stored{{}, {{a, IndexDriver::ContentOf('a')}}});
  d.Apply(IndexDriver::TargetOf(2), Stored{{}, {{b, IndexDriver::ContentOf('z')}}});
  EXPECT_EQ(
      d.Apply(IndexDriver::TargetOf(2), Stored{a, {{EngineHash{3}, IndexDriver::ContentOf('b')}}})
          .status,
      ApplyStatus::kParentBlockNotFound);
}

TEST(BlockIndexTest, EmptyStoredChangesNothing) {
  IndexDriver d;
  EXPECT_EQ(d.Store(1, kNone, ""), ApplyResult{});
  EXPECT_EQ(d.Store(1, 'x', ""), ApplyResult{});
  EXPECT_EQ(d.Remove(1, ""), ApplyResult{});
  EXPECT_EQ(d.index.Stats().holder_blocks, 0);
}

TEST(BlockIndexTest, HashThatAlreadyNamesAnotherPositionRefusesTheEventWhole) {
  IndexDriver d;
  d.Store(1, kNone, "abc");
  EXPECT_EQ(d.Store(1, kNone, "xyb").status, ApplyStatus::kInvalidBlock);
  EXPECT_EQ(d.Store(1, 'c', "a").status, ApplyStatus::kInvalidBlock);
  EXPECT_THAT(d.Scores("xy"), IsEmpty());
  EXPECT_EQ(d.Held(1), 3);
  EXPECT_EQ(d.index.Stats().unique_blocks, 3);
}

TEST(BlockIndexTest, RemovalReportsUnknownHashesAndGoesOn) {
  IndexDriver d;
  d.Store(1, kNone, "abc");
  EXPECT_EQ(d.Remove(1, "xcy"), (ApplyResult{.status = ApplyStatus::kBlockNotFound,
                                             .blocks_removed = 1,
                                             .blocks_not_found = 2}));
  EXPECT_THAT(d.Scores("abc"), ElementsAre(Pair(1, 2)));
  EXPECT_EQ(d.Remove(9, "a").blocks_not_found, 1) << "unknown target";
}

TEST(BlockIndexTest, RemovedMiddleBlockIsAHoleAndItsTailCountsAgainOnceItIsBack) {
  IndexDriver d;
  d.Store(1, kNone, "abcde");
  d.Remove(1, "c");
  EXPECT_THAT(d.Scores("abcde"), ElementsAre(Pair(1, 2)));
  EXPECT_EQ(d.Held(1), 4);
  EXPECT_EQ(d.Store(1, 'b', "c").blocks_stored, 1);
  EXPECT_THAT(d.Scores("abcde"), ElementsAre(Pair(1, 5)));
}

TEST(BlockIndexTest, TailBehindAHoleCanBeContinued) {
  IndexDriver d;
  d.Store(1, kNone, "abcd");
  d.Remove(1, "ab");
  EXPECT_EQ(d.Store(1, 'd', "e").status, ApplyStatus::kOk);
  EXPECT_EQ(d.Store(1, 'b', "x").status, ApplyStatus::kParentBlockNotFound);
  EXPECT_THAT(d.Scores("abcde"), IsEmpty());
  d.Store(1, kNone, "ab");
  EXPECT_THAT(d.Scores("abcde"), ElementsAre(Pair(1, 5)));
}

TEST(BlockIndexTest, CountedStoresNeedAsManyRemovals) {
  IndexDriver d(StoreCounting::kCounted);
  d.Store(1, kNone, "ab");
  EXPECT_EQ(d.Store(1, kNone, "ab"), (ApplyResult{.blocks_duplicate = 2}));
  EXPECT_EQ(d.Store(1, 'a', "b"), (ApplyResult{.blocks_duplicate = 1}));
  EXPECT_EQ(d.Held(1), 2);
  EXPECT_EQ(d.Remove(1, "b"), ApplyResult{});
  EXPECT_EQ(d.Remove(1, "b"), ApplyResult{});
  EXPECT_THAT(d.Scores("ab"), ElementsAre(Pair(1, 2)));
  EXPECT_EQ(d.Remove(1, "b").blocks_removed, 1);
  EXPECT_EQ(d.Remove(1, "b").blocks_not_found, 1);
  EXPECT_THAT(d.Scores("ab"), ElementsAre(Pair(1, 1)));
}

TEST(BlockIndexTest, StoresOfASetAreNotCounted) {
  IndexDriver d(StoreCounting::kSet);
  d.Store(1, kNone, "ab");
  EXPECT_EQ(d.Store(1, kNone, "ab"), (ApplyResult{.blocks_duplicate = 2}));
  EXPECT_EQ(d.Remove(1, "b").blocks_removed, 1);
  EXPECT_THAT(d.Scores("ab"), ElementsAre(Pair(1, 1)));
}

TEST(BlockIndexTest, ClearedForgetsTheCounts) {
  IndexDriver d;
  d.Store(1, kNone, "a");
  d.Store(1, kNone, "a");
  d.Clear(1);
  d.Store(1, kNone, "a");
  EXPECT_EQ(d.Remove(1, "a").blocks_removed, 1);
}

// The first holder's name of a block is stored with the block; others have their own. All
// combinations must count.
TEST(BlockIndexTest, BlockWithTwoNamesIsHeldUntilBothAreGone) {
  for (const bool first_name_goes_first : {true, false}) {
    for (const bool somebody_was_here_before : {true, false}) {
      IndexDriver d;
      const Target t = IndexDriver::TargetOf(1);
      const LocalBlockHash a = IndexDriver::ContentOf('a');
      if (somebody_was_here_before) d.Store(2, kNone, "a");
      const EngineHash first{71};
      const EngineHash second{72};
      EXPECT_EQ(d.Apply(t, Stored{{}, {{first, a}}}).blocks_stored, 1);
      EXPECT_EQ(d.Apply(t, Stored{{}, {{second, a}}}), (ApplyResult{.blocks_duplicate = 1}));
      EXPECT_EQ(d.Held(1), 1);
      EXPECT_EQ(d.Apply(t, Removed{{first_name_goes_first ? first : second}}), ApplyResult{});
      EXPECT_EQ(d.Scores("a")[1], 1);
      EXPECT_EQ(d.Apply(t, Removed{{first_name_goes_first ? second : first}}).blocks_removed, 1);
      EXPECT_EQ(d.Scores("a").count(1), 0);
      EXPECT_EQ(d.Held(1), 0);
      d.index.CheckInvariants();
    }
  }
}

TEST(BlockIndexTest, OwnNameAndTheNameOfOthersMayBothBeHeld) {
  IndexDriver d;
  const Target t = IndexDriver::TargetOf(1);
  const LocalBlockHash a = IndexDriver::ContentOf('a');
  d.Store(2, kNone, "a");
  const EngineHash others = IndexDriver::HashOf(2, 'a');
  d.Apply(t, Stored{{}, {{EngineHash{71}, a}}});
  EXPECT_EQ(d.Apply(t, Stored{{}, {{others, a}}}).blocks_duplicate, 1);
  EXPECT_EQ(d.Apply(t, Removed{{others}}), ApplyResult{});
  EXPECT_EQ(d.Scores("a")[1], 1);
  EXPECT_EQ(d.Apply(t, Removed{{others}}).blocks_not_found, 1);
  EXPECT_EQ(d.Apply(t, Removed{{EngineHash{71}}}).blocks_removed, 1);
  EXPECT_EQ(d.Scores("a").count(1), 0);
}

TEST(BlockIndexTest, DivergingStoresSplitAndRemovalsJoinAgain) {
  IndexDriver d;
  d.Store(1, kNone, "abcdef");
  EXPECT_EQ(d.index.Stats().nodes, 1);
  d.Store(2, kNone, "abcxy");
  EXPECT_EQ(d.index.Stats().nodes, 3);
  EXPECT_EQ(d.index.Stats().unique_blocks, 8);
  d.Remove(2, "y");
  EXPECT_EQ(d.index.Stats().nodes, 3);
  d.Remove(2, "x");
  EXPECT_EQ(d.index.Stats().nodes, 1);
  EXPECT_EQ(d.index.Stats().unique_blocks, 6);
  EXPECT_THAT(d.Scores("abcdef"), ElementsAre(Pair(1, 6), Pair(2, 3)));
  d.index.CheckInvariants();
}

TEST(BlockIndexTest, RemovalsAndInterleavedStoresDoNotSplit) {
  IndexDriver d;
  const std::string contents = "abcdefghijklmnop";
  for (size_t i = 0; i < contents.size(); ++i) {
    for (const uint64_t worker : {1, 2, 3})
      d.Store(worker, i == 0 ? kNone : contents[i - 1], contents.substr(i, 1));
  }
  d.Remove(1, "ponm");
  d.Remove(2, "dh");
  d.Remove(3, "a");
  EXPECT_EQ(d.index.Stats().nodes, 1);
  EXPECT_THAT(d.Scores(contents), ElementsAre(Pair(1, 12), Pair(2, 3)));
}

TEST(BlockIndexTest, BlocksNobodyNeedsAreFreedWhateverTheOrderOfRemoval) {
  for (const std::string order : {"abcdef", "fedcba", "cafbed"}) {
    IndexDriver d;
    d.Store(1, kNone, "abcdef");
    d.Store(2, kNone, "abc");
    d.Remove(2, "abc");
    d.Remove(1, order);
    const BlockIndexStats stats = d.index.Stats();
    EXPECT_EQ(stats.unique_blocks, 0) << order;
    EXPECT_EQ(stats.holder_blocks, 0) << order;
    EXPECT_EQ(stats.nodes, 0) << order;
  }
}

TEST(BlockIndexTest, PredecessorsOfHeldBlocksStayUntilTheLastOfThemGoes) {
  IndexDriver d;
  d.Store(1, kNone, "abcd");
  d.Remove(1, "abc");
  EXPECT_EQ(d.index.Stats().unique_blocks, 4);
  EXPECT_EQ(d.index.Stats().holder_blocks, 1);
  d.Remove(1, "d");
  EXPECT_EQ(d.index.Stats().unique_blocks, 0);
}

TEST(BlockIndexTest, RemovedTargetIsGoneWithAllItsPieces) {
  IndexDriver d;
  d.Store(1, kNone, "abcdefgh");
  d.Store(1, 'c', "xyz");
  d.Store(1, kNone, "klm");
  d.Store(2, kNone, "abc");
  d.Remove(1, "bfx");  // three holes
  d.index.RemoveTarget(IndexDriver::TargetOf(1));
  EXPECT_THAT(d.Scores("abc"), ElementsAre(Pair(2, 3)));
  EXPECT_EQ(d.Held(1), 0);
  EXPECT_EQ(d.index.Stats().holder_blocks, 3);
  EXPECT_EQ(d.index.Stats().unique_blocks, 3);
  d.index.RemoveTarget(IndexDriver::TargetOf(1));  // unknown by now
  d.index.CheckInvariants();
}

TEST(BlockIndexTest, ThousandTargetsShareAPrefixWithoutCostPerBlock) {
  IndexDriver d;
  Stored stored;
  for (uint64_t i = 0; i < 500; ++i) stored.blocks.push_back({EngineHash{i}, LocalBlockHash{i}});
  d.Apply(IndexDriver::TargetOf(0), stored);
  const uint64_t one_holder_bytes = d.index.Stats().bytes;
  for (uint64_t worker = 1; worker < 1000; ++worker) d.Apply(IndexDriver::TargetOf(worker), stored);
  const BlockIndexStats stats = d.index.Stats();
  EXPECT_EQ(stats.holder_blocks, 500'000);
  EXPECT_EQ(stats.unique_blocks, 500);
  EXPECT_LT(stats.bytes - one_holder_bytes, 1000 * 500) << "less than a byte per (target, block)";
}

// Named scenarios from failures in the field.

TEST(BlockIndexFieldTest, B02_EvictionOfOneWorkerLeavesTheOthersAlone) {
  IndexDriver d;
  d.Store(1, kNone, "abc");
  d.Store(2, kNone, "abc");
  d.Remove(1, "b");
  EXPECT_THAT(d.Scores("abc"), ElementsAre(Pair(1, 1), Pair(2, 3)));
  EXPECT_EQ(d.Remove(1, "b"),
            (ApplyResult{.status = ApplyStatus::kBlockNotFound, .blocks_not_found = 1}));
  EXPECT_THAT(d.Scores("abc"), ElementsAre(Pair(1, 1), Pair(2, 3)));
  EXPECT_EQ(d.Held(1), 2);
  d.index.RemoveTarget(IndexDriver::TargetOf(1));
  EXPECT_EQ(d.Remove(1, "b").blocks_not_found, 1);
  EXPECT_THAT(d.Scores("abc"), ElementsAre(Pair(2, 3)));
  EXPECT_EQ(d.Held(1), 0);
  EXPECT_EQ(d.Held(2), 3);
  EXPECT_EQ(d.index.Stats().holder_blocks, 3);
}

TEST(BlockIndexFieldTest, B03_ClearedDropsTheBlocksOfThatWorkerOnly) {
  IndexDriver d;
  d.Store(1, kNone, "ab");
  d.Store(2, kNone, "ab");
  EXPECT_EQ(d.Clear(1).blocks_removed, 2);
  EXPECT_THAT(d.Scores("ab"), ElementsAre(Pair(2, 2)));
  EXPECT_EQ(d.Store(1, 'a', "b").status, ApplyStatus::kParentBlockNotFound);
  d.Store(1, kNone, "ab");
  EXPECT_THAT(d.Scores("ab"), ElementsAre(Pair(1, 2), Pair(2, 2)));
  d.index.RemoveTarget(IndexDriver::TargetOf(2));  // purge by re-registration
  EXPECT_THAT(d.Scores("ab"), ElementsAre(Pair(1, 2)));
}

TEST(BlockIndexFieldTest, B11_SelfReferencingStoresAreDroppedAndHarmNothing) {
  IndexDriver d;
  d.Store(1, kNone, "ab");
  EXPECT_EQ(d.Store(1, 'b', "cc"), ApplyResult{.status = ApplyStatus::kInvalidBlock});
  EXPECT_EQ(d.Store(1, 'b', "b"), ApplyResult{.status = ApplyStatus::kInvalidBlock});
  EXPECT_EQ(d.Store(1, kNone, "xx"), ApplyResult{.status = ApplyStatus::kInvalidBlock});
  EXPECT_EQ(d.Store(1, 'q', "q"), ApplyResult{.status = ApplyStatus::kInvalidBlock})
      << "not an orphan: no recovery";
  EXPECT_THAT(d.Scores("abccc"), ElementsAre(Pair(1, 2)));
  EXPECT_THAT(d.Scores("abb"), ElementsAre(Pair(1, 2)));
  EXPECT_THAT(d.Scores("xx"), IsEmpty());
  EXPECT_EQ(d.Store(1, 'b', "c").blocks_stored, 1);
  EXPECT_THAT(d.Scores("abc"), ElementsAre(Pair(1, 3)));
}

TEST(BlockIndexFieldTest, B16_DepartedWorkerLeavesNothingAndStartsAgainFromZero) {
  IndexDriver d;
  const uint64_t empty_bytes = d.index.Stats().bytes;
  Stored stored;
  for (uint64_t i = 0; i < 100; ++i) stored.blocks.push_back({EngineHash{i}, LocalBlockHash{i}});
  d.Apply(IndexDriver::TargetOf(1), stored);
  d.index.RemoveTarget(IndexDriver::TargetOf(1));
  const BlockIndexStats stats = d.index.Stats();
  EXPECT_EQ(stats.holder_blocks, 0);
  EXPECT_EQ(stats.unique_blocks, 0);
  EXPECT_EQ(stats.nodes, 0);
  EXPECT_LT(stats.bytes, empty_bytes + 2000);
  EXPECT_EQ(d.Held(1), 0);
  EXPECT_EQ(d.Apply(IndexDriver::TargetOf(1), stored).blocks_stored, 100)
      << "as if it had never been there";
}

// ---- A state that is being built ----

KvEvent Event(uint64_t worker, Staging staging, decltype(KvEvent::data) data) {
  KvEvent event;
  event.target = IndexDriver::TargetOf(worker);
  event.staging = staging;
  event.data = std::move(data);
  return event;
}

Stored StoredOf(uint64_t worker, std::string_view contents) {
  Stored stored;
  for (const char c : contents)
    stored.blocks.push_back({IndexDriver::HashOf(worker, c), IndexDriver::ContentOf(c)});
  return stored;
}

TEST(BlockIndexTest, WhatIsStagedIsUnseenUntilItTakesThePlaceOfWhatWasHeld) {
  IndexDriver d;
  d.Store(1, 0, "abcd");
  d.Store(2, 0, "ab");
  d.index.Apply(Event(1, Staging::kStaged, StoredOf(1, "abxyz")));
  EXPECT_EQ(d.Scores("abcd"), (std::map<uint64_t, uint32_t>{{1, 4}, {2, 2}}));
  EXPECT_EQ(d.Scores("abxyz"), (std::map<uint64_t, uint32_t>{{1, 2}, {2, 2}}));
  EXPECT_EQ(d.index.Stats().holder_blocks, 6u);
  EXPECT_EQ(d.Held(1), 4u);
  const ApplyResult result = d.index.Apply(Event(1, Staging::kCommit, Cleared{}));
  EXPECT_EQ(result.blocks_removed, 4u);
  EXPECT_EQ(d.Scores("abcd"), (std::map<uint64_t, uint32_t>{{1, 2}, {2, 2}}));
  EXPECT_EQ(d.Scores("abxyz"), (std::map<uint64_t, uint32_t>{{1, 5}, {2, 2}}));
  EXPECT_EQ(d.index.Stats().holder_blocks, 7u);
  d.Remove(1, "z");  // its names are those of the new state
  EXPECT_EQ(d.Scores("abxyz"), (std::map<uint64_t, uint32_t>{{1, 4}, {2, 2}}));
  d.index.CheckInvariants();
}

TEST(BlockIndexTest, WhatIsStagedAndGivenUpLeavesNothing) {
  for (const Staging scope : {Staging::kStaged, Staging::kNone}) {
    IndexDriver d;
    d.Store(1, 0, "ab");
    d.index.Apply(Event(1, Staging::kStaged, StoredOf(1, "xyz")));
    d.index.Apply(Event(1, scope, Cleared{}));
    EXPECT_EQ(d.Held(1), scope == Staging::kStaged ? 2u : 0u);
    d.index.RemoveTarget(IndexDriver::TargetOf(1));
    EXPECT_EQ(d.index.Stats().nodes, 0u);
    EXPECT_EQ(d.index.Stats().unique_blocks, 0u);
    d.index.CheckInvariants();
  }
}

TEST(BlockIndexTest, CommittingNothingEmptiesTheTarget) {
  IndexDriver d;
  d.Store(1, 0, "ab");
  d.index.Apply(Event(1, Staging::kCommit, Cleared{}));
  EXPECT_EQ(d.Held(1), 0u);
  EXPECT_EQ(d.index.Stats().nodes, 0u);
}

}  // namespace
}  // namespace kvrouter
