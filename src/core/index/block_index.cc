#include "core/index/block_index.h"

#include <algorithm>
#include <utility>

#include "base/mutex.h"
#include "core/index/block_holdings.h"
#include "core/index/overlap_walk.h"
#include "core/index/target_dump.h"
#include "core/index/target_save.h"
#include "core/index/tier_hits.h"
#include "core/index/tier_walk.h"

namespace kvrouter {
namespace {

struct LookupScratch {
  OverlapWalk walk;
  TierWalk tier_walk;
  std::vector<uint32_t> blocks_by_slot;  // all zero between lookups
};

LookupScratch& ThreadScratch() {
  thread_local LookupScratch scratch;
  return scratch;
}

template <typename Match>
bool ByTarget(const Match& a, const Match& b) {
  return a.target < b.target;
}

BlockHoldings::Holding HoldingOf(const KvEvent& event) {
  return {.target = event.target,
          .tier = event.tier,
          .counting = event.counting,
          .staged = event.staging == Staging::kStaged};
}

bool HasLowerTiers(const BlockHoldings& holdings) {
  return holdings.HeldBlocks(StorageTier::kHostPinned) > 0 ||
         holdings.HeldBlocks(StorageTier::kDisk) > 0 ||
         holdings.HeldBlocks(StorageTier::kExternal) > 0;
}

void FindExtensions(const BlockHoldings& holdings, std::span<const LocalBlockHash> query,
                    std::span<const OverlapWalk::Score> scores, TierWalk* walk,
                    std::vector<LowerTierMatch>* out) {
  const HolderTable& holders = holdings.holders();
  for (const auto& [slot, blocks] : scores) {
    const SlotOwner& owner = holders.owners()[slot];
    if (owner.live && owner.tier == StorageTier::kDevice) walk->Start(slot, blocks);
  }
  for (const TierWalk::Extension& extension : walk->Run(holdings.tree(), holders, query)) {
    const auto blocks_on = [&](StorageTier tier) {
      return extension.blocks[static_cast<size_t>(tier)];
    };
    out->push_back({.target = holders[extension.device_slot].target,
                    .host_blocks = blocks_on(StorageTier::kHostPinned),
                    .disk_blocks = blocks_on(StorageTier::kDisk),
                    .external_blocks = blocks_on(StorageTier::kExternal)});
  }
  std::sort(out->begin(), out->end(), ByTarget<LowerTierMatch>);
}

}  // namespace

BlockIndex::BlockIndex(const BlockIndexLimits& limits)
    : holdings_(std::make_unique<BlockHoldings>(
          BlockHoldings::Bounds{.device_blocks = limits.max_device_blocks,
                                .lower_tier_blocks = limits.max_lower_tier_blocks})) {}
BlockIndex::~BlockIndex() = default;

ApplyResult BlockIndex::Apply(const KvEvent& event) {
  if (std::holds_alternative<Cleared>(event.data)) return Clear(event.target, event.staging);
  if (const auto* stored = std::get_if<Stored>(&event.data)) return Store(event, *stored);
  const BlockHoldings::Holding of = HoldingOf(event);
  constexpr size_t kHashesPerStep = 256;
  ApplyResult sum;
  std::span<const EngineHash> hashes = std::get<Removed>(event.data).engine_hashes;
  while (!hashes.empty()) {
    const auto step = hashes.first(std::min(hashes.size(), kHashesPerStep));
    ApplyResult result;
    {
      WriterLock lock(mu_);
      result = holdings_->Remove(of, step);
    }
    if (sum.status == ApplyStatus::kOk) sum.status = result.status;
    sum.blocks_removed += result.blocks_removed;
    sum.blocks_not_found += result.blocks_not_found;
    hashes = hashes.subspan(step.size());
  }
  return sum;
}

ApplyResult BlockIndex::Store(const KvEvent& event, const Stored& stored) {
  SlotsByTier forgotten = kNoSlots;
  ApplyResult result;
  {
    WriterLock lock(mu_);
    result = holdings_->Store(HoldingOf(event), stored);
    const BlockHoldings::Detached detached = holdings_->ForgetOverfull(HoldingOf(event));
    forgotten = detached.slots;
    result.blocks_removed = static_cast<uint32_t>(detached.blocks);
  }
  Sweep(forgotten);
  return result;
}

void BlockIndex::RemoveTarget(Target target) { Clear(target, Staging::kNone); }

ApplyResult BlockIndex::Clear(Target target, Staging staging) {
  SlotsByTier held = kNoSlots;
  SlotsByTier staged = kNoSlots;
  ApplyResult result;
  {
    WriterLock lock(mu_);
    if (staging != Staging::kCommit) staged = holdings_->Detach(target, /*staged=*/true).slots;
    if (staging != Staging::kStaged) {
      const BlockHoldings::Detached detached = holdings_->Detach(target);
      held = detached.slots;
      result.blocks_removed = static_cast<uint32_t>(detached.blocks);
    }
    if (staging == Staging::kCommit) holdings_->Promote(target);
  }
  Sweep(staged);
  Sweep(held);
  return result;
}

uint64_t BlockIndex::Size() const {
  ReaderLock lock(mu_);
  return holdings_->size();
}

std::optional<Target> BlockIndex::LargestTarget() const {
  ReaderLock lock(mu_);
  return holdings_->LargestTarget();
}

uint64_t BlockIndex::Forget(Target target) {
  BlockHoldings::Detached held;
  BlockHoldings::Detached staged;
  {
    WriterLock lock(mu_);
    staged = holdings_->Forget(target, /*staged=*/true);
    held = holdings_->Forget(target, /*staged=*/false);
  }
  Sweep(staged.slots);
  Sweep(held.slots);
  return held.blocks + staged.blocks;
}

void BlockIndex::Sweep(const SlotsByTier& slots) {
  for (const uint32_t slot : slots) {
    for (bool more = slot != kNoId; more;) {
      WriterLock lock(mu_);
      more = holdings_->Sweep(slot);
    }
  }
}

void BlockIndex::FindOverlap(std::span<const LocalBlockHash> query,
                             std::vector<OverlapMatch>* out) const {
  FindOverlap(query, out, nullptr);
}

void BlockIndex::FindOverlap(std::span<const LocalBlockHash> query, std::vector<OverlapMatch>* out,
                             std::vector<LowerTierMatch>* lower) const {
  out->clear();
  if (lower != nullptr) lower->clear();
  LookupScratch& scratch = ThreadScratch();
  ReaderLock lock(mu_);
  const HolderTable& holders = holdings_->holders();
  const auto scores = scratch.walk.Run(holdings_->tree(), query);
  if (lower != nullptr && HasLowerTiers(*holdings_))
    FindExtensions(*holdings_, query, scores, &scratch.tier_walk, lower);
  const auto in_order = holders.in_target_order();
  if (scores.size() * 8 < in_order.size()) {
    for (const auto& [slot, blocks] : scores) {
      const Holder& holder = holders[slot];
      if (holder.live && holder.tier == StorageTier::kDevice)
        out->push_back({holder.target, blocks});
    }
    std::sort(out->begin(), out->end(), ByTarget<OverlapMatch>);
    return;
  }
  // Many matches: one pass over the targets in order is cheaper than sorting.
  auto& by_slot = scratch.blocks_by_slot;
  if (by_slot.size() < holders.slot_bound()) by_slot.resize(holders.slot_bound());
  for (const auto& [slot, blocks] : scores) by_slot[slot] = blocks;
  out->resize(in_order.size());
  size_t matches = 0;
  for (const uint32_t slot : in_order) {
    if (by_slot[slot] > 0) (*out)[matches++] = {holders[slot].target, by_slot[slot]};
  }
  out->resize(matches);
  for (const auto& score : scores) by_slot[score.slot] = 0;
}

void BlockIndex::FindTierHits(std::span<const LocalBlockHash> query, StorageTier tier,
                              std::vector<BlockRange>* hits) const {
  hits->clear();
  ReaderLock lock(mu_);
  if (holdings_->HeldBlocks(tier) == 0) return;
  kvrouter::FindTierHits(holdings_->tree(), holdings_->holders(), query, tier, hits);
}

TargetDumpCounts BlockIndex::DumpTarget(Target target, const EmitStored& emit,
                                        StorageTier tier) const {
  TargetDump dump(target, tier);
  std::vector<Stored> events;
  TargetDumpCounts counts;
  for (bool more = true; more;) {
    more = StepDump(&dump, &events);
    for (Stored& stored : events) {
      if (!emit(std::move(stored))) return {.blocks = dump.blocks(), .complete = false};
    }
    events.clear();
  }
  counts.blocks = dump.blocks();
  const uint64_t held_blocks = HolderBlocks(target, tier);
  counts.omitted_blocks = held_blocks - std::min(held_blocks, dump.blocks());
  return counts;
}

bool BlockIndex::StepDump(TargetDump* dump, std::vector<Stored>* out) const {
  bool more = false;
  {
    ReaderLock lock(mu_);
    more = dump->Step(*holdings_, out);
  }
  dump->Settle();
  return more;
}

bool BlockIndex::SaveTarget(Target target, const EmitSaved& emit, StorageTier tier) const {
  TargetSave save(target, tier);
  std::vector<TargetSave::Event> events;
  for (bool more = true; more;) {
    {
      ReaderLock lock(mu_);
      more = save.Step(*holdings_, &events);
    }
    save.Settle();
    for (TargetSave::Event& event : events) emit(std::move(event));
    events.clear();
  }
  return save.Intact();
}

uint64_t BlockIndex::HolderBlocks(Target target, StorageTier tier) const {
  ReaderLock lock(mu_);
  return holdings_->HeldBlocks(target, tier);
}

BlockIndexStats BlockIndex::Stats() const {
  ReaderLock lock(mu_);
  BlockIndexStats stats{.unique_blocks = holdings_->tree().blocks().size(),
                        .holder_blocks = holdings_->HeldBlocks(StorageTier::kDevice),
                        .nodes = holdings_->tree().node_count(),
                        .bytes = HeapBytes(sizeof(BlockHoldings)) + holdings_->bytes()};
  stats.lower_tier_forgotten_blocks = holdings_->lower_tier_forgotten_blocks();
  stats.device_forgotten_blocks = holdings_->device_forgotten_blocks();
  stats.whole_forgotten_blocks = holdings_->whole_forgotten_blocks();
  for (size_t tier = 0; tier < kStorageTierCount; ++tier)
    stats.tier_blocks[tier] = holdings_->HeldBlocks(static_cast<StorageTier>(tier));
  return stats;
}

void BlockIndex::CheckInvariants() const {
  ReaderLock lock(mu_);
  holdings_->tree().CheckInvariants();
}

}  // namespace kvrouter
