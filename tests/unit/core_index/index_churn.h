#ifndef KVROUTER_TESTS_UNIT_CORE_INDEX_INDEX_CHURN_H_
#define KVROUTER_TESTS_UNIT_CORE_INDEX_INDEX_CHURN_H_

#include <gtest/gtest.h>
#include <malloc.h>

#include "core/index/block_index.h"
#include "support/index_driver.h"
#include "support/sanitized.h"

namespace kvrouter {

// Field failure B14: W1 keeps one block; each round stores 8 unique blocks behind it and drops them
// again; in half of the rounds W2 stores a diverging tail in between, which splits edges.
class IndexChurn {
 public:
  enum class Drop { kRemoved, kCleared, kTargetGone };

  explicit IndexChurn(Drop drop) : drop_(drop) { driver_.Store(1, 0, "a"); }

  void Round() {
    const Target w1 = IndexDriver::TargetOf(1);
    const Target w2 = IndexDriver::TargetOf(2);
    Stored tail = UniqueTail(IndexDriver::HashOf(1, 'a'));
    ASSERT_EQ(driver_.Apply(w1, tail).blocks_stored, 8);
    if (++round_ % 2 == 0) {
      Stored other;
      other.blocks = {{IndexDriver::HashOf(1, 'a'), IndexDriver::ContentOf('a')}};
      other.blocks.insert(other.blocks.end(), tail.blocks.begin(), tail.blocks.begin() + 4);
      const Stored diverging = UniqueTail(other.blocks.back().engine_hash);
      other.blocks.insert(other.blocks.end(), diverging.blocks.begin(), diverging.blocks.end());
      ASSERT_EQ(driver_.Apply(w2, other).blocks_stored, 13);
      DropBlocks(w2, other);
    }
    DropBlocks(w1, tail);
    if (drop_ != Drop::kRemoved) driver_.Store(1, 0, "a");
  }

  BlockIndexStats Stats() const { return driver_.index.Stats(); }

 private:
  Stored UniqueTail(EngineHash parent) {
    Stored stored{parent, {}};
    for (int i = 0; i < 8; ++i, ++unique_)
      stored.blocks.push_back({EngineHash{unique_}, LocalBlockHash{unique_}});
    return stored;
  }

  void DropBlocks(Target target, const Stored& what) {
    Removed removed;
    for (const StoredBlock& block : what.blocks) removed.engine_hashes.push_back(block.engine_hash);
    if (drop_ == Drop::kRemoved) {
      ASSERT_EQ(driver_.Apply(target, removed).blocks_removed, what.blocks.size());
    } else if (drop_ == Drop::kCleared) {
      driver_.Apply(target, Cleared{});
    } else {
      driver_.index.RemoveTarget(target);
    }
  }

  IndexDriver driver_;
  Drop drop_;
  uint64_t round_ = 0;
  uint64_t unique_ = 1'000'000;
};

// What the process has allocated: from it nothing hides that the index does not count itself.
inline double HeapBytesInUse() {
  const auto info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}

// Runs `rounds`, and expects memory and counts to be the same at a tenth of them and at the end.
inline void ExpectFlatOver(IndexChurn::Drop drop, int rounds) {
  IndexChurn churn(drop);
  BlockIndexStats early;
  double early_heap_bytes = 0;
  for (int round = 1; round <= rounds; ++round) {
    ASSERT_NO_FATAL_FAILURE(churn.Round());
    if (round != rounds / 10) continue;
    early = churn.Stats();
    early_heap_bytes = HeapBytesInUse();
  }
  const BlockIndexStats late = churn.Stats();
  EXPECT_EQ(late.holder_blocks, 1);
  EXPECT_EQ(late.unique_blocks, 1);
  EXPECT_EQ(late.nodes, 1);
  EXPECT_LE(static_cast<double>(late.bytes), static_cast<double>(early.bytes) * 1.05);
  // Less than one word for each round in between.
  if (!kSanitized) {
    EXPECT_LT(HeapBytesInUse() - early_heap_bytes, 8 * 0.9 * rounds);
  }
}

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_UNIT_CORE_INDEX_INDEX_CHURN_H_
