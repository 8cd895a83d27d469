#include "core/index/tier_walk.h"

#include <algorithm>

namespace kvrouter {

void TierWalk::Start(uint32_t device_slot, uint32_t blocks) {
  if (reached_blocks_.size() <= device_slot) reached_blocks_.resize(device_slot + 1);
  reached_blocks_[device_slot] = blocks;
  started_.push_back(device_slot);
  furthest_blocks_ = std::max(furthest_blocks_, blocks);
}

std::span<const TierWalk::Extension> TierWalk::Run(const RadixTree& tree,
                                                   const HolderTable& holders,
                                                   std::span<const LocalBlockHash> query) {
  if (reached_blocks_.size() < holders.slot_bound()) reached_blocks_.resize(holders.slot_bound());
  extension_number_.resize(reached_blocks_.size());
  extensions_.clear();
  path_length_ = 0;
  last_block_ = kNoId;
  edge_is_left_ = false;
  for (const StorageTier tier :
       {StorageTier::kHostPinned, StorageTier::kDisk, StorageTier::kExternal}) {
    WalkTier(tier, tree, holders, query);
  }
  for (const uint32_t slot : started_) reached_blocks_[slot] = 0;
  for (const Extension& extension : extensions_) {
    reached_blocks_[extension.device_slot] = 0;
    extension_number_[extension.device_slot] = 0;
  }
  started_.clear();
  furthest_blocks_ = 0;
  return extensions_;
}

void TierWalk::WalkTier(StorageTier tier, const RadixTree& tree, const HolderTable& holders,
                        std::span<const LocalBlockHash> query) {
  for (size_t step = 0; step < path_length_ || ExtendPath(tree, holders, query); ++step) {
    for (const TierRun& run : path_[step].runs[static_cast<size_t>(tier)]) {
      uint32_t& reached = reached_blocks_[run.device_slot];
      if (reached < run.from || reached >= run.to) continue;
      ExtensionOf(run.device_slot).blocks[static_cast<size_t>(tier)] += run.to - reached;
      reached = run.to;
      furthest_blocks_ = std::max(furthest_blocks_, reached);
    }
  }
}

bool TierWalk::ExtendPath(const RadixTree& tree, const HolderTable& holders,
                          std::span<const LocalBlockHash> query) {
  const uint32_t from = path_length_ == 0 ? 0 : path_[path_length_ - 1].to;
  if (edge_is_left_ || from == query.size() || from > furthest_blocks_) return false;
  const uint32_t id = tree.FindChild(last_block_, query[from]);
  if (id == kNoId) {
    edge_is_left_ = true;
    return false;
  }
  const RadixTree::Node& node = tree.node(id);
  const auto contents = node.edge.contents();
  const auto rest = query.subspan(from, std::min(contents.size(), query.size() - from));
  const auto end = std::mismatch(rest.begin(), rest.end(), contents.begin()).first;
  const auto matched = static_cast<uint32_t>(end - rest.begin());
  edge_is_left_ = matched < node.edge.size();
  last_block_ = node.edge.ids().back();

  if (path_.size() == path_length_) path_.emplace_back();
  PathStep& step = path_[path_length_++];
  step.from = from;
  step.to = from + matched;
  for (auto& runs : step.runs) runs.clear();
  const auto owners = holders.owners();
  for (const kvrouter::Run& run : node.holders.all()) {
    const SlotOwner& owner = owners[run.slot()];
    if (owner.tier == StorageTier::kDevice || !owner.live || run.from >= matched) continue;
    step.runs[static_cast<size_t>(owner.tier)].push_back(
        {owner.device_slot, from + run.from, from + std::min(run.to, matched)});
  }
  return true;
}

TierWalk::Extension& TierWalk::ExtensionOf(uint32_t device_slot) {
  uint32_t& number = extension_number_[device_slot];
  if (number == 0) {
    extensions_.push_back({.device_slot = device_slot});
    number = static_cast<uint32_t>(extensions_.size());
  }
  return extensions_[number - 1];
}

}  // namespace kvrouter
