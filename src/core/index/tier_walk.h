#ifndef KVROUTER_CORE_INDEX_TIER_WALK_H_
#define KVROUTER_CORE_INDEX_TIER_WALK_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/index/holder_table.h"
#include "core/index/radix_tree.h"
#include "kvrouter/types.h"

namespace kvrouter {

// Finds for one query how far lower tiers continue what the device holds. Each target goes on where
// its device run ended (at the start, if it holds nothing there), first on host memory, then on
// disk, then on external storage; it never goes back to a tier. What a tier holds before that point
// or behind a gap counts nothing.
//
//   query     a b c d e f g h
//   device    = = =
//   host      . . = = = . .        d e         (c is on the device already)
//   disk      . . . . . = . =      f           (h lies behind a gap)
//
// The runs of the lower tiers are picked from each edge of the query's path once, however many
// targets there are; then each tier is one pass over what was picked.
//
// Keeps its buffers between queries: one per thread. Thread-compatible.
class TierWalk {
 public:
  struct Extension {
    uint32_t device_slot = 0;
    std::array<uint32_t, kStorageTierCount> blocks = {};  // by tier; the device's is not set
  };

  // From now on the target has reached this far on the device. REQUIRES: blocks > 0.
  void Start(uint32_t device_slot, uint32_t blocks);

  // Valid until the next call. Each target once, in no order; only those that go on. Forgets what
  // was started.
  std::span<const Extension> Run(const RadixTree& tree, const HolderTable& holders,
                                 std::span<const LocalBlockHash> query);

 private:
  struct TierRun {
    uint32_t device_slot = 0;
    uint32_t from = 0;  // in blocks of the query
    uint32_t to = 0;
  };
  // One edge of the query's path, as far as the query follows it.
  struct PathStep {
    uint32_t from = 0;  // in blocks of the query
    uint32_t to = 0;
    std::array<std::vector<TierRun>, kStorageTierCount> runs;  // by tier; ascending (slot, from)
  };

  // Adds the edge that continues the path; false if there is none.
  bool ExtendPath(const RadixTree& tree, const HolderTable& holders,
                  std::span<const LocalBlockHash> query);
  void WalkTier(StorageTier tier, const RadixTree& tree, const HolderTable& holders,
                std::span<const LocalBlockHash> query);
  Extension& ExtensionOf(uint32_t device_slot);

  std::vector<PathStep> path_;  // the first path_length_ are of this query; their memory is kept
  size_t path_length_ = 0;
  uint32_t last_block_ = kNoId;   // of the path
  bool edge_is_left_ = false;     // the query leaves the path's last edge before its end
  uint32_t furthest_blocks_ = 0;  // that any target has reached

  // By device slot; all zero between queries.
  std::vector<uint32_t> reached_blocks_;
  std::vector<uint32_t> extension_number_;  // 1 + index in extensions_
  std::vector<uint32_t> started_;           // slots with reached_blocks_ > 0
  std::vector<Extension> extensions_;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_INDEX_TIER_WALK_H_
