#include "core/index/block_holdings.h"

#include <algorithm>
#include <utility>

namespace kvrouter {

BlockHoldings::NamedBlock BlockHoldings::Resolve(uint32_t slot, BlockName name) const {
  const Holder& holder = holders_[slot];
  const uint32_t own =
      holder.own_names.Find(static_cast<uint64_t>(name), [](uint32_t) { return true; });
  if (own != kNoId) return {own, Naming::kOwn};
  const uint32_t shared = tree_.blocks().FindByName(name);
  if (shared != kNoId && tree_.NamingOf(slot, shared) == Naming::kShared)
    return {shared, Naming::kShared};
  return {};
}

uint32_t BlockHoldings::ResolveOnAnyTier(uint32_t slot, BlockName name) const {
  if (const uint32_t block = Resolve(slot, name).block; block != kNoId) return block;
  for (const uint32_t other : holders_[holders_.owners()[slot].device_slot].slots) {
    if (other == kNoId || other == slot) continue;
    if (const uint32_t block = Resolve(other, name).block; block != kNoId) return block;
  }
  return kNoId;
}

uint64_t BlockHoldings::HeldBlocks(Target target, StorageTier tier) const {
  const uint32_t device_slot = holders_.Find(target);
  return device_slot == kNoId ? 0 : BlocksOf(device_slot, tier);
}

uint64_t BlockHoldings::BlocksOf(uint32_t device_slot, StorageTier tier) const {
  const Holder& device = holders_[device_slot];
  const uint32_t slot = device.slots[static_cast<size_t>(tier)];
  return (slot == kNoId ? 0 : holders_[slot].held_blocks) +
         (device.loose ? device.loose->Count(tier) : 0);
}

uint64_t BlockHoldings::BlocksAndNamesOf(uint32_t device_slot, StorageTier tier) const {
  const uint32_t slot = holders_[device_slot].slots[static_cast<size_t>(tier)];
  return BlocksOf(device_slot, tier) + (slot == kNoId ? 0 : holders_[slot].surplus_names);
}

uint64_t BlockHoldings::size() const {
  uint64_t pairs = surplus_names_;
  for (size_t tier = 0; tier < kStorageTierCount; ++tier)
    pairs += held_blocks_[tier] + staged_blocks_[tier];
  return detached_slots_ > 0 ? pairs : std::max<uint64_t>(pairs, tree_.blocks().size());
}

std::optional<Target> BlockHoldings::LargestTarget() const {
  const auto all_of = [&](uint32_t device_slot) {
    uint64_t sum = 0;
    for (size_t tier = 0; device_slot != kNoId && tier < kStorageTierCount; ++tier)
      sum += BlocksAndNamesOf(device_slot, static_cast<StorageTier>(tier));
    return sum;
  };
  std::optional<Target> largest;
  uint64_t most = 0;
  const auto look = [&](Target target, uint64_t size) {
    if (size <= most) return;
    most = size;
    largest = target;
  };
  for (const uint32_t slot : holders_.in_target_order()) {
    const Target target = holders_[slot].target;
    look(target, all_of(slot) + all_of(holders_.Find(target, /*staged=*/true)));
  }
  for (const auto& [target, slot] : holders_.staged()) {
    if (holders_.Find(target) == kNoId) look(target, all_of(slot));
  }
  return largest;
}

LooseBlocks* BlockHoldings::LooseOf(uint32_t slot) const {
  return holders_[holders_.owners()[slot].device_slot].loose.get();
}

ApplyResult BlockHoldings::Remove(const Holding& of, std::span<const EngineHash> hashes) {
  ApplyResult result;
  const uint32_t slot = holders_.Find(of.target, of.tier, of.staged);
  // The tree learns of all removals at once, since each by itself may move long lists. Only where a
  // hash is repeated must the second know of the first.
  names_.clear();
  for (const EngineHash hash : hashes) names_.push_back(NameOf(hash));
  const bool one_by_one = duplicates_.HasDuplicate(names_);
  // Engines evict tail first: the block before the last one, known without a table look-up.
  uint32_t likely = kNoId;
  for (const BlockName name : names_) {
    NamedBlock named;
    if (likely != kNoId && tree_.blocks()[likely].name == name) {
      named = {likely, Naming::kShared};
    } else if (slot != kNoId) {
      named = Resolve(slot, name);
    }
    likely = kNoId;
    if (named.block == kNoId) {
      RemoveLoose(slot, of.counting, name, &result);
      continue;
    }
    auto& extra_stores = holders_[slot].extra_stores;
    if (!extra_stores.empty()) {
      if (const auto extra = extra_stores.find(name); extra != extra_stores.end()) {
        const bool keeps = of.counting == StoreCounting::kCounted;  // in a set, one removal ends it
        if (!keeps || --extra->second == 0) extra_stores.erase(extra);
        ShrinkIfSparse(extra_stores);
        if (keeps) continue;
      }
    }
    if (named.naming == Naming::kShared) likely = tree_.SharedPredecessor(slot, named.block);
    RemoveName(slot, name, named, &result);
    if (one_by_one) ReleaseUnnamed(slot);
  }
  ReleaseUnnamed(slot);
  return result;
}

// What has no place may still be held aside.
void BlockHoldings::RemoveLoose(uint32_t slot, StoreCounting counting, BlockName name,
                                ApplyResult* result) {
  LooseBlocks* const loose = slot == kNoId ? nullptr : LooseOf(slot);
  const auto removed = loose == nullptr ? LooseBlocks::Removed::kUnknown
                                        : loose->Remove({holders_[slot].tier, name}, counting);
  if (removed == LooseBlocks::Removed::kUnknown) {
    ++result->blocks_not_found;
    result->status = ApplyStatus::kBlockNotFound;
  } else if (removed == LooseBlocks::Removed::kGone) {
    ++result->blocks_removed;
    --TotalFor(holders_[slot]);
    if (loose->empty()) holders_[holders_.owners()[slot].device_slot].loose.reset();
  }
}

void BlockHoldings::RemoveName(uint32_t slot, BlockName name, const NamedBlock& named,
                               ApplyResult* result) {
  Holder& holder = holders_[slot];
  if (named.naming == Naming::kOwn)
    holder.own_names.Erase(static_cast<uint64_t>(name), named.block);
  if (!holder.extra_names.empty()) {
    if (const auto extra = holder.extra_names.find(named.block);
        extra != holder.extra_names.end()) {
      if (--extra->second == 0) holder.extra_names.erase(extra);
      --holder.surplus_names;
      --surplus_names_;
      ShrinkIfSparse(holder.extra_names);
      if (named.naming == Naming::kShared) tree_.Hold(slot, {&named.block, 1}, Naming::kOwn);
      return;
    }
  }
  unnamed_.push_back(named.block);
  --holder.held_blocks;
  --TotalFor(holder);
  ++result->blocks_removed;
}

// Edge by edge: edges may be joined on the way, but the blocks of one stay together in their order.
void BlockHoldings::ReleaseUnnamed(uint32_t slot) {
  if (unnamed_.empty()) return;
  const BlockTable& blocks = tree_.blocks();
  const auto place = [&](uint32_t id) { return std::pair(blocks[id].node, blocks[id].depth()); };
  std::sort(unnamed_.begin(), unnamed_.end(),
            [&](uint32_t a, uint32_t b) { return place(a) < place(b); });
  auto& run_starts = holders_[slot].run_starts;
  path_.clear();
  std::span<const uint32_t> rest(unnamed_);
  // The ends of the edges' shares are found before the first release may join edges.
  for (size_t i = 1; i <= rest.size(); ++i) {
    if (i == rest.size() || blocks[rest[i]].node != blocks[rest[i - 1]].node)
      path_.push_back(static_cast<uint32_t>(i));
  }
  size_t from = 0;
  for (const uint32_t to : path_) {
    const auto share = rest.subspan(from, to - from);
    orphaned_.clear();
    for (const uint32_t id : share) run_starts.erase(id);
    tree_.Release(slot, share, &orphaned_);
    run_starts.insert(orphaned_.begin(), orphaned_.end());
    from = to;
  }
  ShrinkIfSparse(run_starts);
  unnamed_.clear();
}

BlockHoldings::Detached BlockHoldings::Detach(Target target, bool staged) {
  Detached detached;
  forgotten_.erase({target, staged});
  const uint32_t device_slot = holders_.Find(target, staged);
  if (device_slot == kNoId) return detached;
  for (size_t tier = 0; tier < kStorageTierCount; ++tier) {
    const uint64_t blocks = BlocksOf(device_slot, static_cast<StorageTier>(tier));
    (staged ? staged_blocks_ : held_blocks_)[tier] -= blocks;
    detached.blocks += blocks;
  }
  detached.slots = holders_[device_slot].slots;
  holders_.Detach(device_slot);
  for (const uint32_t slot : detached.slots) {
    if (slot != kNoId) BeginRelease(slot);
  }
  return detached;
}

void BlockHoldings::BeginRelease(uint32_t slot) {
  ++detached_slots_;
  Holder& holder = holders_[slot];
  holder.own_names.Clear();
  holder.extra_stores = {};
  holder.extra_names = {};
  surplus_names_ -= std::exchange(holder.surplus_names, 0);
  holder.to_release.assign(holder.run_starts.begin(), holder.run_starts.end());
}

BlockHoldings::Detached BlockHoldings::ForgetOverfull(const Holding& of) {
  Detached detached;
  const uint32_t device_slot = holders_.Find(of.target, of.staged);
  if (device_slot == kNoId) return detached;
  const uint64_t size = BlocksAndNamesOf(device_slot, of.tier);
  if (of.tier == StorageTier::kDevice) {
    if (size <= bounds_.device_blocks) return detached;
    detached = Detach(of.target, of.staged);
    forgotten_.emplace(of.target, of.staged);
    device_forgotten_blocks_ += detached.blocks;
    return detached;
  }
  if (size <= bounds_.lower_tier_blocks) return detached;
  const uint64_t blocks = BlocksOf(device_slot, of.tier);
  const auto tier = static_cast<size_t>(of.tier);
  const uint32_t slot = holders_[device_slot].slots[tier];
  TotalFor(holders_[slot]) -= blocks;
  lower_tier_forgotten_blocks_ += blocks;
  detached.blocks = blocks;
  detached.slots[tier] = slot;
  if (auto& loose = holders_[device_slot].loose) {
    loose->RemoveTier(of.tier);
    if (loose->empty()) loose.reset();
  }
  holders_.DetachTier(device_slot, of.tier);
  BeginRelease(slot);
  return detached;
}

BlockHoldings::Detached BlockHoldings::Forget(Target target, bool staged) {
  if (holders_.Find(target, staged) == kNoId) return {};
  const Detached detached = Detach(target, staged);
  forgotten_.emplace(target, staged);
  whole_forgotten_blocks_ += detached.blocks;
  return detached;
}

void BlockHoldings::Promote(Target target) {
  if (forgotten_.erase({target, /*staged=*/true}) > 0) forgotten_.emplace(target, false);
  const uint32_t device_slot = holders_.Find(target, /*staged=*/true);
  if (device_slot == kNoId) return;
  for (size_t tier = 0; tier < kStorageTierCount; ++tier) {
    const uint64_t blocks = BlocksOf(device_slot, static_cast<StorageTier>(tier));
    staged_blocks_[tier] -= blocks;
    held_blocks_[tier] += blocks;
  }
  holders_.Promote(target);
}

bool BlockHoldings::Sweep(uint32_t slot) {
  Holder& holder = holders_[slot];
  constexpr size_t kBlocksPerStep = 256;
  size_t released = 0;
  while (!holder.to_release.empty() && released < kBlocksPerStep) {
    const uint32_t start = holder.to_release.back();
    holder.to_release.pop_back();
    if (!holder.run_starts.contains(start)) continue;  // went with a run from further up
    // A long run goes from its end, since blocks are freed when nothing behind them is held. What
    // is left of it waits below the runs that continue it: they keep it from being freed.
    const auto run = tree_.RunFrom(slot, start);
    const auto step = run.last(std::min(run.size(), kBlocksPerStep - released));
    if (step.size() < run.size()) holder.to_release.push_back(start);
    path_.assign(step.begin(), step.end());
    for (const uint32_t block : path_) holder.run_starts.erase(block);
    orphaned_.clear();
    tree_.Release(slot, path_, &orphaned_);
    holder.run_starts.insert(orphaned_.begin(), orphaned_.end());
    holder.to_release.insert(holder.to_release.end(), orphaned_.begin(), orphaned_.end());
    released += path_.size();
  }
  holder.held_blocks -= released;
  if (!holder.to_release.empty()) return true;
  holders_.Release(slot);
  --detached_slots_;
  return false;
}

}  // namespace kvrouter
