#include "sim/model/block_pool.h"

#include <algorithm>

#include "base/check.h"

namespace kvrouter::sim {

uint64_t BlockPool::PrefixBlocks(std::span<const EngineHash> chain) const {
  uint64_t blocks = 0;
  while (blocks < chain.size() && cached_.contains(chain[blocks])) ++blocks;
  return blocks;
}

bool BlockPool::HasRoomFor(std::span<const EngineHash> hits, uint64_t new_blocks) const {
  if (capacity_blocks_ == 0) return true;
  // A hit on an evictable block takes it out of the reach of eviction.
  uint64_t newly_pinned = new_blocks;
  for (const EngineHash hash : hits) {
    if (blocks_[cached_.at(hash).front()].pins == 0) ++newly_pinned;
  }
  return pinned_blocks_ + newly_pinned <= capacity_blocks_;
}

std::optional<std::vector<BlockPool::BlockIndex>> BlockPool::Acquire(
    std::span<const EngineHash> hits, uint64_t new_blocks, std::vector<EngineHash>* evicted) {
  if (!HasRoomFor(hits, new_blocks)) return std::nullopt;
  std::vector<BlockIndex> acquired;
  acquired.reserve(hits.size() + new_blocks);
  // Hits first: they must not be evicted for the rest.
  for (const EngineHash hash : hits) {
    const BlockIndex block = cached_.at(hash).front();
    Pin(block);
    acquired.push_back(block);
  }
  for (uint64_t i = 0; i < new_blocks; ++i) {
    const BlockIndex block = TakeBlock(evicted);
    Pin(block);
    acquired.push_back(block);
  }
  return acquired;
}

BlockPool::BlockIndex BlockPool::TakeBlock(std::vector<EngineHash>* evicted) {
  if (!free_.empty()) {
    const BlockIndex block = free_.back();
    free_.pop_back();
    return block;
  }
  if (capacity_blocks_ == 0 || blocks_.size() < capacity_blocks_) {
    blocks_.emplace_back();
    return static_cast<BlockIndex>(blocks_.size() - 1);
  }
  const BlockIndex victim = evictable_.Oldest();
  KVR_CHECK(victim != AgeList::kNone, "pinned={} capacity={}", pinned_blocks_, capacity_blocks_);
  evictable_.Remove(victim);
  Block& block = blocks_[victim];
  const auto entry = cached_.find(block.hash);
  entry->second.erase(std::find(entry->second.begin(), entry->second.end(), victim));
  if (entry->second.empty()) cached_.erase(entry);
  evicted->push_back(block.hash);
  block.cached = false;
  --cached_blocks_;
  return victim;
}

void BlockPool::Pin(BlockIndex index) {
  Block& block = blocks_[index];
  if (block.pins++ > 0) return;
  ++pinned_blocks_;
  if (block.cached) evictable_.Remove(index);
}

void BlockPool::Cache(BlockIndex index, EngineHash hash) {
  Block& block = blocks_[index];
  KVR_CHECK(block.pins > 0 && !block.cached, "pins={} cached={}", block.pins, block.cached);
  block.hash = hash;
  block.cached = true;
  cached_[hash].push_back(index);
  ++cached_blocks_;
}

void BlockPool::Release(std::span<const BlockIndex> blocks) {
  for (auto index = blocks.rbegin(); index != blocks.rend(); ++index) {
    Block& block = blocks_[*index];
    KVR_CHECK(block.pins > 0, "block {} is not pinned", *index);
    if (--block.pins > 0) continue;
    --pinned_blocks_;
    if (block.cached) {
      evictable_.PushYoungest(*index);
    } else {
      free_.push_back(*index);
    }
  }
}

bool BlockPool::Clear() {
  if (pinned_blocks_ > 0) return false;
  blocks_.clear();
  free_.clear();
  evictable_ = AgeList();
  cached_.clear();
  cached_blocks_ = 0;
  return true;
}

}  // namespace kvrouter::sim
