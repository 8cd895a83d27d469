#include "core/index/block_holdings.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

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

LooseBlocks* BlockHoldings::LooseOf(uint32_t slot) const {
  return holders_[holders_.owners()[slot].device_slot].loose.get();
}

ApplyResult BlockHoldings::Store(const Holding& of, const Stored& event) {
  ApplyResult result;
  if (event.blocks.empty()) return result;
  names_.clear();
  for (const StoredBlock& block : event.blocks) names_.push_back(NameOf(block.engine_hash));
  // Malformed whatever we hold: said before the parent is looked for, since nobody should try to
  // recover such an event.
  const bool on_device = of.tier == StorageTier::kDevice;
  const bool own_parent = event.parent && std::find(names_.begin(), names_.end(),
                                                    NameOf(*event.parent)) != names_.end();
  if (own_parent || (event.copies && on_device) || duplicates_.HasDuplicate(names_)) {
    result.status = ApplyStatus::kInvalidBlock;
    return result;
  }
  uint32_t slot = on_device ? holders_.Find(of.target, of.staged)
                            : holders_.FindOrAdd(of.target, of.tier, of.staged);
  if (event.copies) {
    StoreCopies(slot, of.counting, event, &result);
    return result;
  }
  uint32_t previous = kNoId;
  if (event.parent) {
    const BlockName parent = NameOf(*event.parent);
    if (!on_device) {
      previous = ResolveOnAnyTier(slot, parent);
    } else if (slot != kNoId) {
      previous = Resolve(slot, parent).block;
    }
    if (previous == kNoId && !on_device) {
      StoreLoose(slot, of.counting, event, &result);
      return result;
    }
    if (previous == kNoId) {
      result.status = ApplyStatus::kParentBlockNotFound;
      return result;
    }
  }
  // Holds nothing, so the store cannot be refused any more.
  if (slot == kNoId) slot = holders_.FindOrAdd(of.target, of.tier, of.staged);
  StoreBehind(slot, previous, of.counting, event.blocks, &result);
  return result;
}

void BlockHoldings::StoreBehind(uint32_t slot, uint32_t previous, StoreCounting counting,
                                std::span<const StoredBlock> blocks, ApplyResult* result) {
  while (!blocks.empty()) {
    names_.clear();
    for (const StoredBlock& block : blocks) names_.push_back(NameOf(block.engine_hash));
    path_.clear();
    tree_.Follow(previous, blocks, &path_);
    const size_t planned = PlanStore(slot);
    if (planned < blocks.size() && (planned == 0 || holders_[slot].tier == StorageTier::kDevice)) {
      result->status = ApplyStatus::kInvalidBlock;
      return;
    }
    names_.resize(planned);
    path_.resize(std::min(planned, path_.size()));
    CommitStore(slot, previous, counting, blocks, result);
    if (LooseOf(slot) != nullptr) PlaceFollowers(holders_.owners()[slot].device_slot, names_);
    // The rest began with a block that was kept aside and may have got its place now; or else it is
    // refused.
    previous = planned < blocks.size()
                   ? Resolve(slot, NameOf(blocks[planned - 1].engine_hash)).block
                   : kNoId;
    blocks = blocks.subspan(planned);
  }
}

void BlockHoldings::StoreCopies(uint32_t slot, StoreCounting counting, const Stored& event,
                                ApplyResult* result) {
  for (const StoredBlock& copy : event.blocks) {
    const BlockName name = NameOf(copy.engine_hash);
    const LooseBlocks* const loose = LooseOf(slot);
    const bool is_loose = loose != nullptr && loose->Contains({holders_[slot].tier, name});
    const uint32_t block = is_loose ? kNoId : ResolveOnAnyTier(slot, name);
    if (block != kNoId) {
      names_.assign(1, name);
      path_.assign(1, block);
      const size_t planned = PlanStore(slot);
      KVR_CHECK(planned == 1, "a name that means a block here, or nothing, is refused");
      CommitStore(slot, tree_.Predecessor(block), counting, {}, result);
    } else if (const auto* source = loose == nullptr ? nullptr : loose->FindOnAnyTier(name)) {
      AddLoose(slot, counting, name, LooseBlocks::Block(*source), result);
    } else {
      ++result->blocks_not_found;
      result->status = ApplyStatus::kBlockNotFound;
    }
  }
}

void BlockHoldings::StoreLoose(uint32_t slot, StoreCounting counting, const Stored& event,
                               ApplyResult* result) {
  BlockName parent = NameOf(*event.parent);
  for (size_t i = 0; i < event.blocks.size(); ++i) {
    const BlockName name = NameOf(event.blocks[i].engine_hash);
    if (const uint32_t placed = ResolveOnAnyTier(slot, name); placed != kNoId) {
      // Stored before, when what precedes it was known. The rest of the event follows it.
      return StoreBehind(slot, tree_.Predecessor(placed), counting,
                         std::span(event.blocks).subspan(i), result);
    }
    const LooseBlocks::Block block = {.parent = parent, .content = event.blocks[i].local_hash};
    if (!AddLoose(slot, counting, name, block, result)) return;
    parent = name;
  }
}

bool BlockHoldings::AddLoose(uint32_t slot, StoreCounting counting, BlockName name,
                             const LooseBlocks::Block& block, ApplyResult* result) {
  const StorageTier tier = holders_[slot].tier;
  std::unique_ptr<LooseBlocks>& loose = holders_[holders_.owners()[slot].device_slot].loose;
  if (!loose) loose = std::make_unique<LooseBlocks>();
  switch (loose->Add({tier, name}, block.parent, block.content, counting)) {
    case LooseBlocks::Added::kNew:
      ++result->blocks_stored;
      ++TotalFor(holders_[slot]);
      return true;
    case LooseBlocks::Added::kRepeat:
      ++result->blocks_duplicate;
      return true;
    case LooseBlocks::Added::kConflict:
      result->status = ApplyStatus::kInvalidBlock;
      return false;
  }
  return false;
}

void BlockHoldings::PlaceFollowers(uint32_t device_slot, std::vector<BlockName> names) {
  std::vector<std::pair<LooseBlocks::Id, LooseBlocks::Block>> followers;
  std::unique_ptr<LooseBlocks>& loose = holders_[device_slot].loose;
  while (!names.empty() && loose) {
    const BlockName parent = names.back();
    names.pop_back();
    followers.clear();
    loose->TakeFollowers(parent, &followers);
    if (loose->empty()) loose.reset();
    for (const auto& [id, block] : followers) {
      const auto tier = static_cast<size_t>(id.tier);
      const uint32_t slot = holders_[device_slot].slots[tier];
      const uint32_t previous = ResolveOnAnyTier(slot, parent);
      const std::array one = {StoredBlock{EngineHashOf(id.name), block.content}};
      names_.assign(1, id.name);
      path_.clear();
      tree_.Follow(previous, one, &path_);
      const size_t planned = PlanStore(slot);
      KVR_CHECK(planned == 1, "a loose block's name means another block, tier={}", tier);
      ApplyResult placed;
      CommitStore(slot, previous, StoreCounting::kSet, one, &placed);
      if (block.stores > 1) holders_[slot].extra_stores[id.name] = block.stores - 1;
      --TotalFor(holders_[slot]);
      names.push_back(id.name);
    }
  }
}

// Decides per block of the event, with the blocks that exist in path_, up to the first whose name
// already means another block.
size_t BlockHoldings::PlanStore(uint32_t slot) {
  const BlockTable& blocks = tree_.blocks();
  const LooseBlocks* const loose = LooseOf(slot);
  plan_.clear();
  uint32_t node = kNoId;
  std::span<const Run> runs;  // of this slot on `node`
  for (size_t i = 0; i < names_.size(); ++i) {
    if (loose != nullptr && loose->Contains({holders_[slot].tier, names_[i]})) return i;
    const uint32_t block = i < path_.size() ? path_[i] : kNoId;
    Plan plan;
    Naming before = Naming::kNone;
    bool is_shared_name = false;
    if (block != kNoId) {
      const Block& b = blocks[block];
      if (b.node != node) {
        node = b.node;
        runs = tree_.node(node).holders.Of(slot);
      }
      before = HolderRuns::At(runs, b.depth() - tree_.node(node).first_depth);
      is_shared_name = b.named() && b.name == names_[i];
    }
    const uint32_t own = holders_[slot].own_names.Find(static_cast<uint64_t>(names_[i]),
                                                       [](uint32_t) { return true; });
    if (own != kNoId) {
      if (own != block) return i;
    } else if (is_shared_name) {
      if (before != Naming::kShared) plan.step = Step::kTakeShared;
    } else {
      const uint32_t shared = blocks.FindByName(names_[i]);
      if (shared != kNoId && tree_.NamingOf(slot, shared) == Naming::kShared) return i;
      plan.step = block == kNoId && shared == kNoId ? Step::kTakeShared : Step::kTakeOwn;
    }
    plan.before = before;
    plan_.push_back(plan);
  }
  return names_.size();
}

void BlockHoldings::CommitStore(uint32_t slot, uint32_t previous, StoreCounting counting,
                                std::span<const StoredBlock> blocks, ApplyResult* result) {
  const size_t existing = path_.size();
  if (existing < names_.size()) {
    new_blocks_.clear();
    for (size_t i = existing; i < names_.size(); ++i) {
      new_blocks_.push_back({blocks[i].local_hash, names_[i], plan_[i].step == Step::kTakeShared});
    }
    tree_.Extend(existing == 0 ? previous : path_.back(), new_blocks_, &path_);
  }
  HoldPlanned(slot);
  Holder& holder = holders_[slot];
  uint32_t stored = 0;
  for (size_t i = 0; i < names_.size(); ++i) {
    if (plan_[i].step == Step::kTakeOwn)
      holder.own_names.Insert(static_cast<uint64_t>(names_[i]), path_[i]);
    if (plan_[i].step == Step::kRepeat) {
      if (counting == StoreCounting::kCounted) ++holder.extra_stores[names_[i]];
    } else if (plan_[i].before != Naming::kNone) {
      ++holder.extra_names[path_[i]];
    } else {
      ++stored;
      continue;
    }
    ++result->blocks_duplicate;
  }
  // On the device the predecessor is held, too; else it may lie on another tier.
  if (previous == kNoId ||
      (holder.tier != StorageTier::kDevice && tree_.NamingOf(slot, previous) == Naming::kNone))
    holder.run_starts.insert(path_[0]);
  holder.held_blocks += stored;
  TotalFor(holder) += stored;
  result->blocks_stored += stored;
}

// Marks the runs of path_ in the tree, in stretches of equal naming. A stretch goes on over blocks
// that stay as they are: closing many holes in a long run is one change of the run.
void BlockHoldings::HoldPlanned(uint32_t slot) {
  const auto naming_of = [&](const Plan& plan) {
    if (plan.step == Step::kTakeShared) return Naming::kShared;
    return plan.before == Naming::kNone ? Naming::kOwn : plan.before;
  };
  for (size_t from = 0, to = 0; from < plan_.size(); from = to) {
    const Naming naming = naming_of(plan_[from]);
    bool changes = false;
    for (; to < plan_.size() && naming_of(plan_[to]) == naming; ++to)
      changes |= plan_[to].before != naming;
    if (changes) tree_.Hold(slot, std::span(path_).subspan(from, to - from), naming);
  }
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
  Holder& holder = holders_[slot];
  holder.own_names.Clear();
  holder.extra_stores = {};
  holder.extra_names = {};
  holder.to_release.assign(holder.run_starts.begin(), holder.run_starts.end());
}

BlockHoldings::Detached BlockHoldings::ForgetOverfull(const Holding& of) {
  Detached detached;
  const uint32_t device_slot = holders_.Find(of.target, of.staged);
  if (device_slot == kNoId) return detached;
  const uint64_t blocks = BlocksOf(device_slot, of.tier);
  if (blocks <= max_lower_tier_blocks_) return detached;
  const auto tier = static_cast<size_t>(of.tier);
  const uint32_t slot = holders_[device_slot].slots[tier];
  TotalFor(holders_[slot]) -= blocks;
  forgotten_blocks_ += blocks;
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

void BlockHoldings::Promote(Target target) {
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
    // A long run goes from its end, since blocks are freed when nothing behind them is held. What is
    // left of it waits below the runs that continue it: they keep it from being freed.
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
  return false;
}

}  // namespace kvrouter
