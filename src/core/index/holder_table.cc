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

uint32_t HolderTable::Find(Target target, StorageTier tier, bool staged) const {
  const uint32_t device_slot = Find(target, staged);
  if (device_slot == kNoId || tier == StorageTier::kDevice) return device_slot;
  return holders_[device_slot]->slots[static_cast<size_t>(tier)];
}

uint32_t HolderTable::FindOrAdd(Target target, StorageTier tier, bool staged) {
  uint32_t device_slot = Find(target, staged);
  if (device_slot == kNoId) {
    device_slot = AddSlot(target, StorageTier::kDevice);
    holders_[device_slot]->slots[0] = device_slot;
    owners_[device_slot].device_slot = device_slot;
    if (staged) {
      staged_slots_[target] = device_slot;
    } else {
      Show(device_slot);
    }
  }
  const auto index = static_cast<size_t>(tier);
  if (holders_[device_slot]->slots[index] == kNoId) {
    const uint32_t slot = AddSlot(target, tier);
    holders_[slot]->live = !staged;
    owners_[slot] = {.device_slot = device_slot, .tier = tier, .live = !staged};
    holders_[device_slot]->slots[index] = slot;
  }
  return holders_[device_slot]->slots[index];
}

uint32_t HolderTable::AddSlot(Target target, StorageTier tier) {
  uint32_t slot = 0;
  if (free_slots_.empty()) {
    slot = static_cast<uint32_t>(holders_.size());
    KVR_CHECK(slot < kNoId / 2, "slots exhausted: {}", slot);  // a run keeps a slot in 31 bits
    holders_.emplace_back();
    owners_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  holders_[slot] = std::make_unique<Holder>();
  holders_[slot]->target = target;
  holders_[slot]->tier = tier;
  holders_[slot]->live = false;
  owners_[slot] = {};
  return slot;
}

void HolderTable::SetLive(uint32_t device_slot, bool live) {
  for (const uint32_t slot : holders_[device_slot]->slots) {
    if (slot == kNoId) continue;
    holders_[slot]->live = live;
    owners_[slot].live = live;
  }
}

void HolderTable::Show(uint32_t device_slot) {
  SetLive(device_slot, true);
  const Target target = holders_[device_slot]->target;
  slots_[target] = device_slot;
  const auto at =
      std::partition_point(in_target_order_.begin(), in_target_order_.end(),
                           [&](uint32_t other) { return holders_[other]->target < target; });
  in_target_order_.insert(at, device_slot);
}

void HolderTable::Promote(Target target) {
  const auto staged = staged_slots_.find(target);
  KVR_CHECK(staged != staged_slots_.end() && !slots_.contains(target), "worker={} rank={}",
            static_cast<uint64_t>(target.worker), target.dp_rank);
  const uint32_t device_slot = staged->second;
  staged_slots_.erase(staged);
  Show(device_slot);
}

void HolderTable::Detach(uint32_t device_slot) {
  Holder& device = *holders_[device_slot];
  device.loose.reset();
  if (!device.live) {
    staged_slots_.erase(device.target);
    return;
  }
  SetLive(device_slot, false);
  slots_.erase(device.target);
  in_target_order_.erase(std::find(in_target_order_.begin(), in_target_order_.end(), device_slot));
}

void HolderTable::DetachTier(uint32_t device_slot, StorageTier tier) {
  uint32_t& slot = holders_[device_slot]->slots[static_cast<size_t>(tier)];
  holders_[slot]->live = false;
  owners_[slot].live = false;
  slot = kNoId;
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
                 HeapBytes(owners_.capacity() * sizeof(owners_[0])) +
                 HeapBytes(free_slots_.capacity() * sizeof(uint32_t)) +
                 HeapBytes(in_target_order_.capacity() * sizeof(uint32_t));
  for (const auto& holder : holders_) {
    if (holder == nullptr) continue;
    total += HeapBytes(sizeof(Holder)) + holder->own_names.bytes() +
             TableBytes(holder->extra_stores) + TableBytes(holder->extra_names) +
             TableBytes(holder->run_starts);
    if (holder->loose) total += HeapBytes(sizeof(LooseBlocks)) + holder->loose->bytes();
  }
  return total;
}

}  // namespace kvrouter
