#include "core/index/holder_table.h"

#include <algorithm>

#include "base/check.h"
#include "core/index/slab.h"

namespace kvrouter {
namespace {

template <typename Table>
size_t TableBytes(const Table& table) {
  return HeapBytes(table.capacity() * (sizeof(typename Table::value_type) + 1));
}

}  // namespace

uint32_t HolderTable::Find(Target target, bool staged) const {
  const auto& slots = staged ? staged_slots_ : slots_;
  const auto it = slots.find(target);
  return it == slots.end() ? kNoId : it->second;
}

uint32_t HolderTable::FindOrAdd(Target target, bool staged) {
  if (const uint32_t slot = Find(target, staged); slot != kNoId) return slot;
  uint32_t slot = 0;
  if (free_slots_.empty()) {
    slot = static_cast<uint32_t>(holders_.size());
    KVR_CHECK(slot < kNoId / 2, "slots exhausted: {}", slot);  // a run keeps a slot in 31 bits
    holders_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  holders_[slot] = std::make_unique<Holder>();
  holders_[slot]->target = target;
  if (staged) {
    holders_[slot]->live = false;
    staged_slots_[target] = slot;
  } else {
    Show(slot);
  }
  return slot;
}

void HolderTable::Show(uint32_t slot) {
  Holder& holder = *holders_[slot];
  holder.live = true;
  slots_[holder.target] = slot;
  const auto at =
      std::partition_point(in_target_order_.begin(), in_target_order_.end(),
                           [&](uint32_t other) { return holders_[other]->target < holder.target; });
  in_target_order_.insert(at, slot);
}

void HolderTable::Promote(Target target) {
  const auto staged = staged_slots_.find(target);
  KVR_CHECK(staged != staged_slots_.end() && !slots_.contains(target), "worker={} rank={}",
            static_cast<uint64_t>(target.worker), target.dp_rank);
  const uint32_t slot = staged->second;
  staged_slots_.erase(staged);
  Show(slot);
}

void HolderTable::Detach(uint32_t slot) {
  Holder& holder = *holders_[slot];
  if (!holder.live) {
    staged_slots_.erase(holder.target);
    return;
  }
  holder.live = false;
  slots_.erase(holder.target);
  in_target_order_.erase(std::find(in_target_order_.begin(), in_target_order_.end(), slot));
}

void HolderTable::Release(uint32_t slot) {
  KVR_CHECK(!holders_[slot]->live && holders_[slot]->held_blocks == 0, "slot={} held={}", slot,
            holders_[slot]->held_blocks);
  holders_[slot].reset();
  free_slots_.push_back(slot);
}

size_t HolderTable::bytes() const {
  size_t total = TableBytes(slots_) + TableBytes(staged_slots_) +
                 HeapBytes(holders_.capacity() * sizeof(holders_[0])) +
                 HeapBytes(free_slots_.capacity() * sizeof(uint32_t)) +
                 HeapBytes(in_target_order_.capacity() * sizeof(uint32_t));
  for (const auto& holder : holders_) {
    if (holder == nullptr) continue;
    total += HeapBytes(sizeof(Holder)) + holder->own_names.bytes() +
             TableBytes(holder->extra_stores) + TableBytes(holder->extra_names) +
             TableBytes(holder->run_starts);
  }
  return total;
}

}  // namespace kvrouter
