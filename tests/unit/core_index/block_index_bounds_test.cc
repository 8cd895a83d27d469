#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "core/index/block_index.h"
#include "support/index_driver.h"

namespace kvrouter {
namespace {

KvEvent StoredAs(uint64_t engine_hash, Target target, StorageTier tier) {
  return {.target = target,
          .tier = tier,
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

}  // namespace
}  // namespace kvrouter
