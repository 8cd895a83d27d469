#ifndef KVROUTER_CORE_INDEX_LOOSE_BLOCKS_H_
#define KVROUTER_CORE_INDEX_LOOSE_BLOCKS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "core/index/block_table.h"
#include "kvrouter/events.h"
#include "kvrouter/types.h"

namespace kvrouter {

// Blocks that one target holds on lower tiers and whose place in the tree is not known, because the
// name that they follow means nothing there (yet): a copy in host memory may be announced before,
// or survive, what precedes it. They are kept as the engine said them: name, name of the
// predecessor, content. They score nothing. When the predecessor's name comes to mean something,
// they are taken out and get their place.
//
// Invariant: both tables tell the same. Thread-compatible.
class LooseBlocks {
 public:
  struct Id {
    StorageTier tier = StorageTier::kHostPinned;
    BlockName name{};

    friend bool operator==(const Id&, const Id&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Id& id) {
      return H::combine(std::move(h), id.tier, id.name);
    }
  };
  struct Block {
    BlockName parent{};
    LocalBlockHash content{};
    uint64_t stores = 1;
  };

  bool Contains(Id id) const { return blocks_.contains(id); }
  // The block of this name, whichever tier it is on; null if none has it.
  const Block* FindOnAnyTier(BlockName name) const;

  enum class Added : uint8_t {
    kNew,
    kRepeat,
    kConflict,  // it is here with another predecessor or content; nothing changed
  };
  Added Add(Id id, BlockName parent, LocalBlockHash content, StoreCounting counting);

  enum class Removed : uint8_t { kUnknown, kStillHeld, kGone };
  Removed Remove(Id id, StoreCounting counting);

  // visit(name, block) for those of a tier, in no order.
  template <typename Visit>
  void ForEach(StorageTier tier, Visit visit) const {
    for (const auto& [id, block] : blocks_) {
      if (id.tier == tier) visit(id.name, block);
    }
  }

  // Takes out what directly follows this name, on all tiers; appends it to `out`.
  void TakeFollowers(BlockName parent, std::vector<std::pair<Id, Block>>* out);

  void RemoveTier(StorageTier tier);

  bool empty() const { return blocks_.empty(); }
  uint64_t Count(StorageTier tier) const { return counts_[static_cast<size_t>(tier)]; }
  size_t bytes() const;

 private:
  absl::flat_hash_map<Id, Block> blocks_;
  absl::flat_hash_map<BlockName, absl::InlinedVector<Id, 1>> followers_;  // by predecessor
  std::array<uint64_t, kStorageTierCount> counts_ = {};                   // by tier
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_INDEX_LOOSE_BLOCKS_H_
