// Stores: where the blocks of an event belong, by which names they are held from now on.
#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "base/check.h"
#include "core/index/block_holdings.h"

namespace kvrouter {

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
      result.status = forgotten_.contains({of.target, of.staged})
                          ? ApplyStatus::kParentForgotten
                          : ApplyStatus::kParentBlockNotFound;
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
      ++holder.surplus_names;
      ++surplus_names_;
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

}  // namespace kvrouter
