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

ApplyResult BlockHoldings::Store(const Holding& of, const Stored& event) {
  ApplyResult result;
  if (event.blocks.empty()) return result;
  names_.clear();
  for (const StoredBlock& block : event.blocks) names_.push_back(NameOf(block.engine_hash));
  // Malformed whatever we hold: said before the parent is looked for, since nobody should try to
  // recover such an event.
  const bool own_parent = event.parent && std::find(names_.begin(), names_.end(),
                                                    NameOf(*event.parent)) != names_.end();
  if (own_parent || duplicates_.HasDuplicate(names_)) {
    result.status = ApplyStatus::kInvalidBlock;
    return result;
  }
  uint32_t slot = holders_.Find(of.target, of.staged);
  uint32_t previous = kNoId;
  if (event.parent) {
    if (slot != kNoId) previous = Resolve(slot, NameOf(*event.parent)).block;
    if (previous == kNoId) {
      result.status = ApplyStatus::kParentBlockNotFound;
      return result;
    }
  }
  // Holds nothing, so the store cannot be refused any more.
  if (slot == kNoId) slot = holders_.FindOrAdd(of.target, of.staged);
  path_.clear();
  tree_.Follow(previous, event.blocks, &path_);
  if (!PlanStore(slot)) {
    result.status = ApplyStatus::kInvalidBlock;
    return result;
  }
  CommitStore(slot, previous, of.counting, event, &result);
  return result;
}

// Decides per block of the event, with the blocks that exist in path_; false if a name already
// means another block.
bool BlockHoldings::PlanStore(uint32_t slot) {
  const BlockTable& blocks = tree_.blocks();
  plan_.clear();
  uint32_t node = kNoId;
  std::span<const Run> runs;  // of this slot on `node`
  for (size_t i = 0; i < names_.size(); ++i) {
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
      if (own != block) return false;
    } else if (is_shared_name) {
      if (before != Naming::kShared) plan.step = Step::kTakeShared;
    } else {
      const uint32_t shared = blocks.FindByName(names_[i]);
      if (shared != kNoId && tree_.NamingOf(slot, shared) == Naming::kShared) return false;
      plan.step = block == kNoId && shared == kNoId ? Step::kTakeShared : Step::kTakeOwn;
    }
    plan.before = before;
    plan_.push_back(plan);
  }
  return true;
}

void BlockHoldings::CommitStore(uint32_t slot, uint32_t previous, StoreCounting counting,
                                const Stored& event, ApplyResult* result) {
  const size_t existing = path_.size();
  if (existing < names_.size()) {
    new_blocks_.clear();
    for (size_t i = existing; i < names_.size(); ++i) {
      new_blocks_.push_back(
          {event.blocks[i].local_hash, names_[i], plan_[i].step == Step::kTakeShared});
    }
    tree_.Extend(existing == 0 ? previous : path_.back(), new_blocks_, &path_);
  }
  HoldPlanned(slot);
  Holder& holder = holders_[slot];
  for (size_t i = 0; i < names_.size(); ++i) {
    if (plan_[i].step == Step::kTakeOwn)
      holder.own_names.Insert(static_cast<uint64_t>(names_[i]), path_[i]);
    if (plan_[i].step == Step::kRepeat) {
      if (counting == StoreCounting::kCounted) ++holder.extra_stores[names_[i]];
    } else if (plan_[i].before != Naming::kNone) {
      ++holder.extra_names[path_[i]];
    } else {
      ++result->blocks_stored;
      continue;
    }
    ++result->blocks_duplicate;
  }
  if (previous == kNoId) holder.run_starts.insert(path_[0]);
  holder.held_blocks += result->blocks_stored;
  SeenBlocks(holder) += result->blocks_stored;
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
  const uint32_t slot = holders_.Find(of.target, of.staged);
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
      ++result.blocks_not_found;
      result.status = ApplyStatus::kBlockNotFound;
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
  --SeenBlocks(holder);
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

uint32_t BlockHoldings::Detach(Target target, bool staged) {
  const uint32_t slot = holders_.Find(target, staged);
  if (slot == kNoId) return kNoId;
  Holder& holder = holders_[slot];
  SeenBlocks(holder) -= holder.held_blocks;
  holders_.Detach(slot);
  holder.own_names.Clear();
  holder.extra_stores = {};
  holder.extra_names = {};
  holder.to_release.assign(holder.run_starts.begin(), holder.run_starts.end());
  return slot;
}

void BlockHoldings::Promote(Target target) {
  const uint32_t slot = holders_.Find(target, /*staged=*/true);
  if (slot == kNoId) return;
  staged_blocks_ -= holders_[slot].held_blocks;
  holders_.Promote(target);
  held_blocks_ += holders_[slot].held_blocks;
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
