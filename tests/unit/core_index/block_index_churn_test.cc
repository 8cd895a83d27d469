#include <gtest/gtest.h>

#include "index_churn.h"

namespace kvrouter {
namespace {

TEST(BlockIndexChurnTest, B14_MemoryIsFlatWhenBlocksComeAndAreRemoved) {
  ExpectFlatOver(IndexChurn::Drop::kRemoved, 20'000);
}

TEST(BlockIndexChurnTest, B14_MemoryIsFlatWhenBlocksComeAndAreCleared) {
  ExpectFlatOver(IndexChurn::Drop::kCleared, 20'000);
}

TEST(BlockIndexChurnTest, B14_MemoryIsFlatWhenTargetsComeAndGo) {
  ExpectFlatOver(IndexChurn::Drop::kTargetGone, 20'000);
}

// A long sequence stays; short-lived workers branch off at interior blocks and are cleared.
TEST(BlockIndexChurnTest, BranchesOffALongSequenceLeaveNoTrace) {
  BlockIndex index;
  KvEvent event;
  Stored base;
  for (uint64_t i = 0; i < 1024; ++i) base.blocks.push_back({EngineHash{i}, LocalBlockHash{i}});
  event.target = IndexDriver::TargetOf(0);
  event.data = base;
  index.Apply(event);
  const BlockIndexStats before = index.Stats();
  uint64_t unique = 1'000'000;
  for (int cycle = 0; cycle < 20; ++cycle) {
    for (uint64_t worker = 1; worker <= 31; ++worker) {
      Stored branch;
      branch.blocks.assign(base.blocks.begin(),
                           base.blocks.begin() + static_cast<ptrdiff_t>(worker * 32));
      for (int i = 0; i < 16; ++i, ++unique)
        branch.blocks.push_back({EngineHash{unique}, LocalBlockHash{unique}});
      event.target = IndexDriver::TargetOf(worker);
      event.data = branch;
      ASSERT_EQ(index.Apply(event).blocks_stored, branch.blocks.size());
    }
    ASSERT_EQ(index.Stats().nodes, 1 + 2 * 31);
    for (uint64_t worker = 1; worker <= 31; ++worker) {
      event.target = IndexDriver::TargetOf(worker);
      event.data = Cleared{};
      index.Apply(event);
    }
    index.CheckInvariants();
    ASSERT_EQ(index.Stats().nodes, 1);
    ASSERT_EQ(index.Stats().unique_blocks, 1024);
    ASSERT_LT(index.Stats().bytes, before.bytes * 3 / 2 + 20'000);
  }
}

}  // namespace
}  // namespace kvrouter
