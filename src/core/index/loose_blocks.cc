#include "core/index/loose_blocks.h"

#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "core/index/slab.h"

namespace kvrouter {

const LooseBlocks::Block* LooseBlocks::FindOnAnyTier(BlockName name) const {
  for (int tier = 0; tier < kStorageTierCount; ++tier) {
    const auto it = blocks_.find(Id{static_cast<StorageTier>(tier), name});
    if (it != blocks_.end()) return &it->second;
  }
  return nullptr;
}

LooseBlocks::Added LooseBlocks::Add(Id id, BlockName parent, LocalBlockHash content,
                                    StoreCounting counting) {
  const auto [it, is_new] = blocks_.try_emplace(id, Block{parent, content, 1});
  if (!is_new) {
    Block& known = it->second;
    if (known.parent != parent || known.content != content) return Added::kConflict;
    if (counting == StoreCounting::kCounted) ++known.stores;
    return Added::kRepeat;
  }
  followers_[parent].push_back(id);
  ++counts_[static_cast<size_t>(id.tier)];
  return Added::kNew;
}

LooseBlocks::Removed LooseBlocks::Remove(Id id, StoreCounting counting) {
  const auto it = blocks_.find(id);
  if (it == blocks_.end()) return Removed::kUnknown;
  if (counting == StoreCounting::kCounted && --it->second.stores > 0) return Removed::kStillHeld;
  const auto siblings = followers_.find(it->second.parent);
  auto& ids = siblings->second;
  const auto at = std::find(ids.begin(), ids.end(), id);
  KVR_CHECK(at != ids.end(), "a loose block is no follower of its predecessor");
  *at = ids.back();
  ids.pop_back();
  if (ids.empty()) followers_.erase(siblings);
  blocks_.erase(it);
  --counts_[static_cast<size_t>(id.tier)];
  return Removed::kGone;
}

void LooseBlocks::TakeFollowers(BlockName parent, std::vector<std::pair<Id, Block>>* out) {
  const auto taken = followers_.find(parent);
  if (taken == followers_.end()) return;
  for (const Id& id : taken->second) {
    const auto it = blocks_.find(id);
    out->emplace_back(id, it->second);
    blocks_.erase(it);
    --counts_[static_cast<size_t>(id.tier)];
  }
  followers_.erase(taken);
}

void LooseBlocks::RemoveTier(StorageTier tier) {
  absl::erase_if(blocks_, [&](const auto& entry) { return entry.first.tier == tier; });
  for (auto it = followers_.begin(); it != followers_.end();) {
    auto& ids = it->second;
    const auto gone = [&](const Id& id) { return id.tier == tier; };
    ids.erase(std::remove_if(ids.begin(), ids.end(), gone), ids.end());
    if (ids.empty()) {
      followers_.erase(it++);
    } else {
      ++it;
    }
  }
  counts_[static_cast<size_t>(tier)] = 0;
}

size_t LooseBlocks::bytes() const {
  const auto table_bytes = [](const auto& table) {
    using Table = std::decay_t<decltype(table)>;
    return HeapBytes(table.capacity() * (sizeof(typename Table::value_type) + 1));
  };
  // Lists of more than one follower lie on the heap, with room for up to twice what is in them.
  const size_t in_lists = blocks_.size() - followers_.size();
  return table_bytes(blocks_) + table_bytes(followers_) + in_lists * 2 * sizeof(Id);
}

}  // namespace kvrouter
