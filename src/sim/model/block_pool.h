#ifndef KVROUTER_SIM_MODEL_BLOCK_POOL_H_
#define KVROUTER_SIM_MODEL_BLOCK_POOL_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "kvrouter/types.h"
#include "sim/model/age_list.h"

namespace kvrouter::sim {

// The physical blocks of an engine that pins what running requests use. A block is
//
//   free ──Acquire──> pinned ──Cache──> pinned and cached ──Release──> cached, evictable
//    ▲                  │                     ▲                            │       │
//    └────Release───────┘                     └────────Acquire (a hit)─────┘       │
//                      pinned, of another request <──evicted by its Acquire────────┘
//
// Several requests may pin one cached block. Two physical blocks may be cached under one hash
// (computed at the same time); a hit takes the older. Thread-compatible.
class BlockPool {
 public:
  using BlockIndex = uint32_t;

  // 0 = unlimited.
  explicit BlockPool(uint64_t capacity_blocks) : capacity_blocks_(capacity_blocks) {}

  // Leading blocks of `chain` that are cached.
  uint64_t PrefixBlocks(std::span<const EngineHash> chain) const;

  // Pins the blocks cached under `hits` and `new_blocks` others, evicting the least recently
  // released ones when no block is free (appended to `evicted`). Nothing (and nothing changes) if
  // there are not enough unpinned blocks. REQUIRES: all `hits` are cached.
  std::optional<std::vector<BlockIndex>> Acquire(std::span<const EngineHash> hits,
                                                 uint64_t new_blocks,
                                                 std::vector<EngineHash>* evicted);

  // Caches a block that is pinned and has no hash yet.
  void Cache(BlockIndex block, EngineHash hash);

  // Takes back one pin of each; the last of `blocks` becomes evictable first.
  void Release(std::span<const BlockIndex> blocks);

  // Empties the cache. False (and nothing happens) while a block is pinned.
  bool Clear();

  uint64_t pinned_blocks() const { return pinned_blocks_; }
  uint64_t cached_blocks() const { return cached_blocks_; }

 private:
  struct Block {
    EngineHash hash{};
    bool cached = false;
    uint32_t pins = 0;
  };

  bool HasRoomFor(std::span<const EngineHash> hits, uint64_t new_blocks) const;
  BlockIndex TakeBlock(std::vector<EngineHash>* evicted);
  void Pin(BlockIndex block);

  const uint64_t capacity_blocks_;
  std::vector<Block> blocks_;     // those ever used
  std::vector<BlockIndex> free_;  // used before, now neither pinned nor cached
  AgeList evictable_;             // cached, not pinned
  absl::flat_hash_map<EngineHash, absl::InlinedVector<BlockIndex, 1>> cached_;  // oldest first
  uint64_t pinned_blocks_ = 0;
  uint64_t cached_blocks_ = 0;
};

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_MODEL_BLOCK_POOL_H_
