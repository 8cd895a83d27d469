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

uint32_t HolderTable::Find(Target target) const {
  const auto it = slots_.find(target);
  return it == slots_.end() ? kNoId : it->second;
}

uint32_t HolderTable::FindOrAdd(Target target) {
  if (const uint32_t slot = Find(target); slot != kNoId) return slot;
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
  slots_[target] = slot;
  const auto at =
      std::partition_point(in_target_order_.begin(), in_target_order_.end(),
                           [&](uint32_t other) { return holders_[other]->target < target; });
  in_target_order_.insert(at, slot);
  return slot;
}

void HolderTable::Detach(uint32_t slot) {
  Holder& holder = *holders_[slot];
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
  size_t total = TableBytes(slots_) + HeapBytes(holders_.capacity() * sizeof(holders_[0])) +
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
