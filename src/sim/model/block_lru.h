#ifndef KVROUTER_SIM_MODEL_BLOCK_LRU_H_
#define KVROUTER_SIM_MODEL_BLOCK_LRU_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "kvrouter/types.h"
#include "sim/model/age_list.h"

namespace kvrouter::sim {

// The prefix cache of the FIFO service model: a set of blocks with least-recently-used eviction. A
// prompt touches its chain tail first, so a block is never older than the blocks behind it:
// eviction takes leaves first and what is cached always is a set of whole prefixes.
//
// O(1) per block. Thread-compatible.
class BlockLru {
 public:
  // 0 = unlimited.
  explicit BlockLru(uint64_t capacity_blocks) : capacity_blocks_(capacity_blocks) {}

  // Leading blocks of `chain` that are cached.
  uint64_t PrefixBlocks(std::span<const EngineHash> chain) const;

  // Makes the blocks of `chain` the youngest, its head the very youngest, adding those that are
  // missing; then evicts the oldest blocks over capacity, appended to `evicted` in that order.
  void Touch(std::span<const EngineHash> chain, std::vector<EngineHash>* evicted);

  void Clear();
  uint64_t size_blocks() const { return slots_.size(); }

 private:
  uint32_t NewSlot(EngineHash hash);

  const uint64_t capacity_blocks_;
  absl::flat_hash_map<EngineHash, uint32_t> slots_;
  std::vector<EngineHash> hash_of_slot_;
  std::vector<uint32_t> free_slots_;
  AgeList ages_;
};

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_MODEL_BLOCK_LRU_H_
