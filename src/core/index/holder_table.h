#ifndef KVROUTER_CORE_INDEX_HOLDER_TABLE_H_
#define KVROUTER_CORE_INDEX_HOLDER_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/index/block_table.h"
#include "core/index/probe_table.h"
#include "kvrouter/types.h"

namespace kvrouter {

// What the index remembers of one target besides its runs in the tree. Every entry belongs to a
// block that the target holds, so nothing here can outgrow what is held.
struct Holder {
  Target target;
  // Lookups see it. If not, its state is staged, or it is gone and its runs are being released.
  bool live = true;
  uint64_t held_blocks = 0;
  // Names other than the block's shared name -> block.
  ProbeTable<uint64_t> own_names;
  // Stores of a name beyond the first; only names stored twice have an entry.
  absl::flat_hash_map<BlockName, uint64_t> extra_stores;
  // Names of a block beyond the first; only blocks with two names have an entry.
  absl::flat_hash_map<uint32_t, uint32_t> extra_names;
  // Held blocks whose predecessor is not held, and the first blocks of sequences; possibly some
  // more held blocks. From these, everything held is reached by following runs: how a target is
  // dropped without a list of its blocks.
  absl::flat_hash_set<uint32_t> run_starts;
  // Once detached: those of run_starts that are still to be visited, and some that are gone.
  std::vector<uint32_t> to_release;
};

// Targets by slot: small dense numbers, used again after release. A target has one slot for what
// lookups see and one for its staged state. Thread-compatible.
class HolderTable {
 public:
  // kNoId if the target has none.
  uint32_t Find(Target target, bool staged = false) const;
  uint32_t FindOrAdd(Target target, bool staged = false);
  // The target has no such slot any more; the slot lives on, not live, until Release.
  void Detach(uint32_t slot);
  // What is staged is seen from now on. REQUIRES: the target has a staged slot and no other.
  void Promote(Target target);
  // REQUIRES: detached, holds nothing.
  void Release(uint32_t slot);

  Holder& operator[](uint32_t slot) { return *holders_[slot]; }
  const Holder& operator[](uint32_t slot) const { return *holders_[slot]; }
  // Slots that lookups see in ascending order of target.
  std::span<const uint32_t> in_target_order() const { return in_target_order_; }
  // Slots are smaller than this.
  size_t slot_bound() const { return holders_.size(); }
  size_t bytes() const;

 private:
  void Show(uint32_t slot);

  absl::flat_hash_map<Target, uint32_t> slots_;
  absl::flat_hash_map<Target, uint32_t> staged_slots_;
  std::vector<std::unique_ptr<Holder>> holders_;  // null: free
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
