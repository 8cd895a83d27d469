// Removed events of many hashes: all of them are processed, in steps and edge by edge.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "core/index/block_index.h"
#include "support/index_driver.h"

namespace kvrouter {
namespace {

constexpr uint64_t kChainBlocks = 40'000;

Stored Chain(uint64_t blocks) {
  Stored stored;
  for (uint64_t i = 0; i < blocks; ++i) stored.blocks.push_back({EngineHash{i}, LocalBlockHash{i}});
  return stored;
}

uint32_t ScoreOf(const BlockIndex& index, Target target, uint64_t blocks) {
  std::vector<LocalBlockHash> query;
  for (uint64_t i = 0; i < blocks; ++i) query.push_back(LocalBlockHash{i});
  std::vector<OverlapMatch> matches;
  index.FindOverlap(query, &matches);
  for (const OverlapMatch& match : matches) {
    if (match.target == target) return match.blocks;
  }
  return 0;
}

enum class Order { kHeadFirst, kTailFirst, kShuffled };

class ManyHolesTest : public testing::TestWithParam<Order> {};

// Another target holds all of the chain, so nothing is freed: 20,000 holes on one edge.
TEST_P(ManyHolesTest, EverySecondBlockOfALongChainGoesAndComesBack) {
  IndexDriver d;
  const Target holed = IndexDriver::TargetOf(1);
  const Target whole = IndexDriver::TargetOf(2);
  const Stored chain = Chain(kChainBlocks);
  d.Apply(holed, chain);
  d.Apply(whole, chain);
  Removed removed;
  for (uint64_t i = 1; i < kChainBlocks; i += 2) removed.engine_hashes.push_back(EngineHash{i});
  if (GetParam() == Order::kTailFirst) std::ranges::reverse(removed.engine_hashes);
  if (GetParam() == Order::kShuffled)
    std::shuffle(removed.engine_hashes.begin(), removed.engine_hashes.end(), std::mt19937_64(7));

  EXPECT_EQ(d.Apply(holed, removed), ApplyResult{.blocks_removed = kChainBlocks / 2});
  EXPECT_EQ(d.Held(1), kChainBlocks / 2);
  EXPECT_EQ(d.Held(2), kChainBlocks);
  EXPECT_EQ(ScoreOf(d.index, holed, kChainBlocks), 1);
  EXPECT_EQ(ScoreOf(d.index, whole, kChainBlocks), kChainBlocks);
  d.index.CheckInvariants();

  EXPECT_EQ(d.Apply(holed, chain).blocks_stored, kChainBlocks / 2) << "the others stayed held";
  EXPECT_EQ(ScoreOf(d.index, holed, kChainBlocks), kChainBlocks);
  d.Apply(holed, removed);
  d.Clear(1);
  d.Clear(2);
  EXPECT_EQ(d.index.Stats().unique_blocks, 0) << "each run behind a hole was found again";
  d.index.CheckInvariants();
}

INSTANTIATE_TEST_SUITE_P(Orders, ManyHolesTest,
                         testing::Values(Order::kHeadFirst, Order::kTailFirst, Order::kShuffled));

TEST(BlockIndexRemovalTest, ResultsOfStepsAreSummedAndTheFirstErrorIsKept) {
  IndexDriver d;
  const Target target = IndexDriver::TargetOf(1);
  d.Apply(target, Chain(1000));
  Removed removed;
  removed.engine_hashes.push_back(EngineHash{5000});  // unknown, in the first step
  for (uint64_t i = 0; i < 1000; ++i) removed.engine_hashes.push_back(EngineHash{i});
  removed.engine_hashes.push_back(EngineHash{6000});
  EXPECT_EQ(d.Apply(target, removed), (ApplyResult{.status = ApplyStatus::kBlockNotFound,
                                                   .blocks_removed = 1000,
                                                   .blocks_not_found = 2}));
  EXPECT_EQ(d.index.Stats().unique_blocks, 0);
}

TEST(BlockIndexRemovalTest, HashTwiceInAnEventIsFoundOnce) {
  IndexDriver d;
  d.Store(1, 0, "abcd");
  EXPECT_EQ(d.Remove(1, "bdb"), (ApplyResult{.status = ApplyStatus::kBlockNotFound,
                                             .blocks_removed = 2,
                                             .blocks_not_found = 1}));
  EXPECT_EQ(d.Held(1), 2);
  d.index.CheckInvariants();
}

// The removal empties branches, so edges are joined while the rest of the event is applied.
TEST(BlockIndexRemovalTest, EventOverJoiningEdgesRemovesExactlyItsBlocks) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    std::mt19937_64 random(seed);
    BlockIndex batch;
    BlockIndex single;
    const auto both = [&](const KvEvent& event) {
      batch.Apply(event);
      single.Apply(event);
    };
    KvEvent event;
    std::vector<std::vector<LocalBlockHash>> queries;
    for (uint64_t prompt = 0; prompt < 6; ++prompt) {  // prompts share a beginning of 0..15 blocks
      const uint64_t shared = random() % 16;
      Stored stored;
      auto& query = queries.emplace_back();
      for (uint64_t i = 0; i < 16; ++i) {
        const uint64_t id = i < shared ? i : 100 * (prompt + 1) + i;
        stored.blocks.push_back({EngineHash{id}, LocalBlockHash{id}});
        query.push_back(LocalBlockHash{id});
      }
      event.data = stored;
      for (uint64_t worker = 1; worker <= 2; ++worker) {
        event.target = IndexDriver::TargetOf(worker);
        if (worker == 1 || prompt % 2 == 0) both(event);
      }
    }
    Removed removed;
    for (const auto& query : queries) {
      for (const LocalBlockHash content : query) {
        const EngineHash hash{static_cast<uint64_t>(content)};
        auto& hashes = removed.engine_hashes;
        if (random() % 2 == 0 && std::ranges::find(hashes, hash) == hashes.end())
          hashes.push_back(hash);
      }
    }
    std::shuffle(removed.engine_hashes.begin(), removed.engine_hashes.end(), random);
    for (uint64_t worker = 1; worker <= 2; ++worker) {
      event.target = IndexDriver::TargetOf(worker);
      event.data = removed;
      batch.Apply(event);
      for (const EngineHash hash : removed.engine_hashes) {
        event.data = Removed{.engine_hashes = {hash}};
        single.Apply(event);
      }
    }
    batch.CheckInvariants();
    EXPECT_EQ(batch.Stats().unique_blocks, single.Stats().unique_blocks);
    EXPECT_EQ(batch.Stats().holder_blocks, single.Stats().holder_blocks);
    EXPECT_EQ(batch.Stats().nodes, single.Stats().nodes);
    for (const auto& query : queries) {
      std::vector<OverlapMatch> from_batch;
      std::vector<OverlapMatch> from_single;
      batch.FindOverlap(query, &from_batch);
      single.FindOverlap(query, &from_single);
      EXPECT_EQ(from_batch, from_single);
    }
    batch.RemoveTarget(IndexDriver::TargetOf(1));
    batch.RemoveTarget(IndexDriver::TargetOf(2));
    EXPECT_EQ(batch.Stats().unique_blocks, 0);
  }
}

}  // namespace
}  // namespace kvrouter
