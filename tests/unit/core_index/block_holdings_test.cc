#include "core/index/block_holdings.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace kvrouter {
namespace {

constexpr Target kTarget{WorkerId{1}, 0};

// Blocks first..last-1 behind block first-1; hash and content are the number.
void StoreChain(BlockHoldings* holdings, uint64_t first, uint64_t last) {
  Stored stored;
  if (first > 1) stored.parent = EngineHash{first - 1};
  for (uint64_t i = first; i < last; ++i)
    stored.blocks.push_back({EngineHash{i}, LocalBlockHash{i}});
  ASSERT_EQ(holdings->Store({.target = kTarget}, stored).blocks_stored, last - first);
}

// The caller lets others in between two steps, so no step may take time in proportion to what was
// held: neither in blocks let go, nor in blocks freed.
TEST(BlockHoldingsTest, ALongRunIsReleasedInStepsOfAtMost256Blocks) {
  BlockHoldings holdings;
  StoreChain(&holdings, 1, 10'001);
  Stored branch{.parent = EngineHash{4000}, .blocks = {}};
  for (uint64_t i = 0; i < 1000; ++i)
    branch.blocks.push_back({EngineHash{50'000 + i}, LocalBlockHash{50'000 + i}});
  ASSERT_EQ(holdings.Store({.target = kTarget}, branch).blocks_stored, 1000u);

  const uint32_t slot = holdings.Detach(kTarget).slots[0];
  ASSERT_NE(slot, kNoId);
  bool more = true;
  while (more) {
    const uint64_t held = holdings.holders()[slot].held_blocks;
    const uint64_t existing = holdings.tree().blocks().size();
    more = holdings.Sweep(slot);
    const uint64_t held_after = more ? holdings.holders()[slot].held_blocks : 0;
    ASSERT_LE(held - held_after, 256u);
    // What the step lets go, and a piece before its branches that went before them.
    ASSERT_LE(existing - holdings.tree().blocks().size(), 2 * 256u);
    ASSERT_LT(held_after, held) << "a step without progress";
  }
  EXPECT_EQ(holdings.tree().blocks().size(), 0u);
}

}  // namespace
}  // namespace kvrouter
