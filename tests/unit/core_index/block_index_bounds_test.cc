#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "core/index/block_index.h"
#include "support/index_driver.h"

namespace kvrouter {
namespace {

KvEvent StoredAs(uint64_t engine_hash, Target target, StorageTier tier = StorageTier::kDevice,
                 Staging staging = Staging::kNone) {
  return {.target = target,
          .tier = tier,
          .staging = staging,
          .data = Stored{.parent = std::nullopt,
                         .blocks = {{EngineHash{engine_hash}, LocalBlockHash{7}}}}};
}

// Whoever announces one content under ever new names, and never that a name is gone, must not grow
// without bound for holding but one block.
TEST(BlockIndexBoundsTest, NamesOfABlockBeyondTheFirstCountAsBlocks) {
  for (const StorageTier tier : {StorageTier::kDevice, StorageTier::kHostPinned}) {
    BlockIndex index({.max_device_blocks = 4, .max_lower_tier_blocks = 4});
    const Target target = IndexDriver::TargetOf(1);
    for (uint64_t name = 1; name <= 4; ++name) index.Apply(StoredAs(name, target, tier));
    EXPECT_EQ(index.HolderBlocks(target, tier), 1u);
    index.Apply(StoredAs(5, target, tier));
    EXPECT_EQ(index.HolderBlocks(target, tier), 0u);
    EXPECT_EQ(index.Stats().unique_blocks, 0u);
    const BlockIndexStats stats = index.Stats();
    EXPECT_EQ(stats.device_forgotten_blocks + stats.lower_tier_forgotten_blocks, 1u);
    // Names that go make room again.
    for (uint64_t name = 1; name <= 100; ++name) {
      index.Apply(StoredAs(name, target, tier));
      if (name < 4) continue;
      index.Apply({.target = target,
                   .tier = tier,
                   .data = Removed{.engine_hashes = {EngineHash{name - 3}}}});
    }
    EXPECT_EQ(index.HolderBlocks(target, tier), 1u) << "three names, never more than four";
  }
}

TEST(BlockIndexBoundsTest, SizeCountsEveryHolderTierNameAndStagedState) {
  IndexDriver d;
  const Target first = IndexDriver::TargetOf(1);
  EXPECT_EQ(d.index.Size(), 0u);
  EXPECT_EQ(d.index.LargestTarget(), std::nullopt);
  d.Store(1, 0, "abc");
  d.Store(2, 0, "abcd");
  EXPECT_EQ(d.index.Size(), 7u) << "shared positions, two holders";
  EXPECT_EQ(d.index.LargestTarget(), IndexDriver::TargetOf(2));
  d.index.Apply(StoredAs(1, first, StorageTier::kDevice, Staging::kStaged));
  d.index.Apply(StoredAs(1, first, StorageTier::kHostPinned));
  d.index.Apply(StoredAs(2, first, StorageTier::kHostPinned));
  EXPECT_EQ(d.index.Size(), 10u) << "a second name, too";
  EXPECT_EQ(d.index.LargestTarget(), first);
  d.Remove(2, "abc");
  EXPECT_EQ(d.index.Size(), 7u);
  EXPECT_EQ(d.index.Forget(first), 5u) << "held and staged";
  EXPECT_EQ(d.index.Size(), 4u) << "one block, and the positions before it";
  EXPECT_EQ(d.index.Stats().whole_forgotten_blocks, 5u);
  EXPECT_EQ(d.index.Forget(first), 0u) << "nothing is there any more";
  d.index.CheckInvariants();
}

TEST(BlockIndexBoundsTest, WhoHasOnlyStagedStateCanBeTheLargestAndIsForgotten) {
  BlockIndex index;
  const Target target = IndexDriver::TargetOf(3);
  index.Apply(StoredAs(1, target, StorageTier::kDevice, Staging::kStaged));
  EXPECT_EQ(index.LargestTarget(), target);
  EXPECT_EQ(index.Forget(target), 1u);
  EXPECT_EQ(index.LargestTarget(), std::nullopt);
  KvEvent next = StoredAs(2, target, StorageTier::kDevice, Staging::kStaged);
  std::get<Stored>(next.data).parent = EngineHash{1};
  EXPECT_EQ(index.Apply(next).status, ApplyStatus::kParentForgotten);
}

}  // namespace
}  // namespace kvrouter
