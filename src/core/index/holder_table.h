#ifndef KVROUTER_CORE_INDEX_HOLDER_TABLE_H_
#define KVROUTER_CORE_INDEX_HOLDER_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/index/block_table.h"
#include "core/index/loose_blocks.h"
#include "core/index/probe_table.h"
#include "kvrouter/types.h"

namespace kvrouter {

// kNoId: nothing was ever there.
using SlotsByTier = std::array<uint32_t, kStorageTierCount>;
inline constexpr SlotsByTier kNoSlots = {kNoId, kNoId, kNoId, kNoId};

// What the index remembers of one target on one tier besides its runs in the tree. Every entry
// belongs to a name of a block that is held, so nothing here can outgrow blocks and surplus names.
struct Holder {
  Target target;
  StorageTier tier = StorageTier::kDevice;
  // Lookups see it. If not, its state is staged, or it is gone and its runs are being released.
  bool live = true;
  uint64_t held_blocks = 0;
  // Names other than the block's shared name -> block.
  ProbeTable<uint64_t> own_names;
  // Stores of a name beyond the first; only names stored twice have an entry.
  absl::flat_hash_map<BlockName, uint64_t> extra_stores;
  // Names of a block beyond the first; only blocks with two names have an entry.
  absl::flat_hash_map<uint32_t, uint32_t> extra_names;
  uint64_t surplus_names = 0;  // their sum
  // Held blocks whose predecessor is not held, and the first blocks of sequences; possibly some
  // more held blocks. From these, everything held is reached by following runs: how a target is
  // dropped without a list of its blocks.
  absl::flat_hash_set<uint32_t> run_starts;
  // Once detached: those of run_starts that are still to be visited, and some that are gone.
  std::vector<uint32_t> to_release;

  // Of the target as a whole, kept by its holder on the device.
  SlotsByTier slots = kNoSlots;
  std::unique_ptr<LooseBlocks> loose;  // null: none
};

// Whose a slot is, in what a look-up needs of it.
struct SlotOwner {
  uint32_t device_slot = kNoId;  // stands for the target
  StorageTier tier = StorageTier::kDevice;
  bool live = false;  // as Holder::live
};

// Targets by slot: small dense numbers, used again after release. A target has one slot per tier
// for what lookups see, and as many for its staged state. If it has one for any tier, it has one
// for the device, which stands for them all. Thread-compatible.
class HolderTable {
 public:
  // kNoId if the target has none.
  uint32_t Find(Target target, bool staged = false) const;
  uint32_t Find(Target target, StorageTier tier, bool staged = false) const;
  uint32_t FindOrAdd(Target target, StorageTier tier, bool staged = false);
  // The target has no such slots any more, on any tier; they live on, not live, until Release.
  void Detach(uint32_t device_slot);
  // The same for one tier below the device. REQUIRES: the target has that slot.
  void DetachTier(uint32_t device_slot, StorageTier tier);
  // What is staged is seen from now on. REQUIRES: the target has staged slots and no others.
  void Promote(Target target);
  // REQUIRES: detached, holds nothing.
  void Release(uint32_t slot);

  Holder& operator[](uint32_t slot) { return *holders_[slot]; }
  const Holder& operator[](uint32_t slot) const { return *holders_[slot]; }
  // By slot.
  std::span<const SlotOwner> owners() const { return owners_; }
  // Device slots that lookups see in ascending order of target.
  std::span<const uint32_t> in_target_order() const { return in_target_order_; }
  // Device slots of staged states, by target.
  const absl::flat_hash_map<Target, uint32_t>& staged() const { return staged_slots_; }
  // Slots are smaller than this.
  size_t slot_bound() const { return holders_.size(); }
  size_t bytes() const;

 private:
  uint32_t AddSlot(Target target, StorageTier tier);
  void SetLive(uint32_t device_slot, bool live);
  void Show(uint32_t device_slot);

  absl::flat_hash_map<Target, uint32_t> slots_;         // of the device
  absl::flat_hash_map<Target, uint32_t> staged_slots_;  // of the device
  std::vector<std::unique_ptr<Holder>> holders_;        // null: free
  std::vector<SlotOwner> owners_;                       // as many
  std::vector<uint32_t> free_slots_;
  std::vector<uint32_t> in_target_order_;
};

// abseil's tables never shrink by themselves. Call after erasing.
template <typename Table>
void ShrinkIfSparse(Table& table) {
  if (table.capacity() > 64 && table.size() * 8 < table.capacity()) table.rehash(0);
}

}  // namespace kvrouter

#endif  // KVROUTER_CORE_INDEX_HOLDER_TABLE_H_
