#include "sim/model/block_lru.h"

namespace kvrouter::sim {

uint64_t BlockLru::PrefixBlocks(std::span<const EngineHash> chain) const {
  uint64_t blocks = 0;
  while (blocks < chain.size() && slots_.contains(chain[blocks])) ++blocks;
  return blocks;
}

void BlockLru::Touch(std::span<const EngineHash> chain, std::vector<EngineHash>* evicted) {
  for (auto hash = chain.rbegin(); hash != chain.rend(); ++hash) {
    const auto [entry, is_new] = slots_.try_emplace(*hash, AgeList::kNone);
    if (is_new) {
      entry->second = NewSlot(*hash);
    } else {
      ages_.Remove(entry->second);
    }
    ages_.PushYoungest(entry->second);
  }
  if (capacity_blocks_ == 0) return;
  while (slots_.size() > capacity_blocks_) {
    const uint32_t slot = ages_.Oldest();
    ages_.Remove(slot);
    slots_.erase(hash_of_slot_[slot]);
    free_slots_.push_back(slot);
    evicted->push_back(hash_of_slot_[slot]);
  }
}

void BlockLru::Clear() {
  slots_.clear();
  hash_of_slot_.clear();
  free_slots_.clear();
  ages_ = AgeList();
}

uint32_t BlockLru::NewSlot(EngineHash hash) {
  if (!free_slots_.empty()) {
    const uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    hash_of_slot_[slot] = hash;
    return slot;
  }
  hash_of_slot_.push_back(hash);
  return static_cast<uint32_t>(hash_of_slot_.size() - 1);
}

}  // namespace kvrouter::sim
