#ifndef KVROUTER_CORE_INDEX_OVERLAP_WALK_H_
#define KVROUTER_CORE_INDEX_OVERLAP_WALK_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/index/radix_tree.h"
#include "kvrouter/types.h"

namespace kvrouter {

// Finds for one query how much of it each slot holds contiguously from the start. Follows the edges
// from the root and keeps the slots that hold everything so far; a slot leaves with its score where
// its run ends.
//
// Keeps its buffers between queries: one per thread. Thread-compatible.
class OverlapWalk {
 public:
  struct Score {
    uint32_t slot = 0;
    uint32_t blocks = 0;
  };

  // Valid until the next call. Each slot once, in no order; only scores > 0.
  std::span<const Score> Run(const RadixTree& tree, std::span<const LocalBlockHash> query);

 private:
  void StartOn(const RadixTree::Node& node, uint32_t matched_blocks);
  void ContinueOn(const RadixTree::Node& node, uint32_t matched_blocks);
  void Settle(uint32_t slot, uint32_t blocks) { scores_.push_back({slot, blocks}); }

  std::vector<uint32_t> alive_;  // ascending slots that hold everything matched so far
  std::vector<Score> scores_;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_INDEX_OVERLAP_WALK_H_
