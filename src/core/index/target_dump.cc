#include "core/index/target_dump.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "core/index/block_index.h"

namespace kvrouter {
namespace {

constexpr uint32_t kNamesPerStep = 16'384;
constexpr size_t kEntriesPerStep = 64;

}  // namespace

bool TargetDump::Step(const BlockHoldings& holdings, std::vector<Stored>* out) {
  const uint32_t slot = holdings.holders().Find(target_, tier_);
  if (slot == kNoId) return false;
  if (phase_ == Phase::kOwnNames) {
    CollectOwnNames(holdings);
    return true;
  }
  if (phase_ == Phase::kStarts) {
    CollectStarts(holdings, slot);
    return true;
  }
  size_t emitted = 0;
  for (size_t n = 0; n < kEntriesPerStep && emitted < kDumpBlocksPerEvent && !to_visit_.empty();
       ++n) {
    const Entry entry = to_visit_.back();
    to_visit_.pop_back();
    if (IsStillTrue(holdings, slot, entry)) emitted += EmitRun(holdings, slot, entry, out);
  }
  blocks_ += emitted;
  return !to_visit_.empty();
}

// On a lower tier of all tiers, since a run may follow what another tier holds.
void TargetDump::CollectOwnNames(const BlockHoldings& holdings) {
  const auto tier = static_cast<StorageTier>(names_of_tier_);
  const uint32_t slot = holdings.holders().Find(target_, tier);
  std::optional<uint64_t> next;
  if (slot != kNoId) {
    next = holdings.holders()[slot].own_names.Scan(
        next_name_, kNamesPerStep, [&](uint64_t name, uint32_t id) {
          own_names_.push_back({.block = id, .name = BlockName{name}});
        });
  }
  next_name_ = next.value_or(0);
  if (next) return;
  ++names_of_tier_;
  if (tier_ == StorageTier::kDevice || names_of_tier_ == kStorageTierCount) phase_ = Phase::kStarts;
}

void TargetDump::CollectStarts(const BlockHoldings& holdings, uint32_t slot) {
  const auto& starts = holdings.holders()[slot].run_starts;
  to_visit_.reserve(starts.size());
  for (const uint32_t block : starts) {
    if (tier_ == StorageTier::kDevice || holdings.tree().Predecessor(block) == kNoId) {
      to_visit_.push_back({.block = block});
    } else if (const auto entry = StartBehindOtherTier(holdings, slot, block)) {
      to_visit_.push_back(*entry);
    }
  }
  phase_ = Phase::kWalk;
}

std::optional<TargetDump::Entry> TargetDump::StartBehindOtherTier(const BlockHoldings& holdings,
                                                                  uint32_t slot,
                                                                  uint32_t block) const {
  const RadixTree& tree = holdings.tree();
  const uint32_t previous = tree.Predecessor(block);
  if (tree.NamingOf(slot, previous) != Naming::kNone) return std::nullopt;  // reached from there
  const auto names = NamesOf(holdings, slot, block);
  const HolderTable& holders = holdings.holders();
  for (const uint32_t other : holders[holders.owners()[slot].device_slot].slots) {
    if (other == kNoId || names.empty()) continue;
    const auto previous_names = NamesOf(holdings, other, previous);
    if (previous_names.empty()) continue;
    return Entry{.parent = previous,
                 .parent_name = previous_names.front(),
                 .block = block,
                 .name = names.front()};
  }
  return std::nullopt;
}

void TargetDump::Settle() {
  if (phase_ == Phase::kStarts) std::sort(own_names_.begin(), own_names_.end());
}

bool TargetDump::IsStillTrue(const BlockHoldings& holdings, uint32_t slot,
                             const Entry& entry) const {
  const RadixTree& tree = holdings.tree();
  if (entry.parent == kNoId) {
    // Everything in run_starts is held, hence a block that exists. Those with a parent are behind a
    // hole, or are reached from their parent.
    return holdings.holders()[slot].run_starts.contains(entry.block) &&
           tree.blocks()[entry.block].depth() == 0;
  }
  const uint32_t parent = tier_ == StorageTier::kDevice
                              ? holdings.Resolve(slot, entry.parent_name).block
                              : holdings.ResolveOnAnyTier(slot, entry.parent_name);
  return holdings.Resolve(slot, entry.name).block == entry.block && parent == entry.parent &&
         tree.Predecessor(entry.block) == entry.parent;
}

std::vector<BlockName> TargetDump::NamesOf(const BlockHoldings& holdings, uint32_t slot,
                                           uint32_t block) const {
  std::vector<BlockName> names;
  if (holdings.tree().NamingOf(slot, block) == Naming::kShared) {
    names.push_back(holdings.tree().blocks()[block].name);
  }
  const auto first = std::lower_bound(own_names_.begin(), own_names_.end(),
                                      OwnName{.block = block, .name = BlockName{0}});
  for (auto own = first; own != own_names_.end() && own->block == block; ++own) {
    const auto named = holdings.Resolve(slot, own->name);
    if (named.block == block && named.naming == Naming::kOwn) names.push_back(own->name);
  }
  return names;
}

size_t TargetDump::EmitRun(const BlockHoldings& holdings, uint32_t slot, const Entry& entry,
                           std::vector<Stored>* out) {
  const RadixTree& tree = holdings.tree();
  const auto run = tree.RunFrom(slot, entry.block);
  const Block& first = tree.blocks()[entry.block];
  const RadixTree::Node& node = tree.node(first.node);
  const uint32_t first_offset = first.depth() - node.first_depth;
  const auto contents = node.edge.contents().subspan(first_offset);

  std::optional<EngineHash> parent;
  if (entry.parent != kNoId) parent = EngineHashOf(entry.parent_name);
  Stored stored{.parent = parent, .blocks = {}};
  std::vector<Stored> further_names;
  BlockName name{};
  for (size_t i = 0; i < std::min(run.size(), kDumpBlocksPerEvent); ++i) {
    const auto names = NamesOf(holdings, slot, run[i]);
    if (names.empty()) break;
    name = names.front();
    for (const BlockName further : std::span(names).subspan(1)) {
      further_names.push_back({.parent = parent, .blocks = {{EngineHashOf(further), contents[i]}}});
    }
    parent = EngineHashOf(name);
    stored.blocks.push_back({*parent, contents[i]});
  }
  const size_t emitted = stored.blocks.size();
  if (emitted == 0) return 0;
  out->push_back(std::move(stored));
  std::move(further_names.begin(), further_names.end(), std::back_inserter(*out));
  PushFollowers(holdings, slot, run[emitted - 1], name);
  return emitted;
}

void TargetDump::PushFollowers(const BlockHoldings& holdings, uint32_t slot, uint32_t block,
                               BlockName name) {
  const RadixTree& tree = holdings.tree();
  const auto push_if_held = [&](uint32_t follower) {
    if (tree.NamingOf(slot, follower) == Naming::kNone) return;
    const auto names = NamesOf(holdings, slot, follower);
    if (names.empty()) return;
    to_visit_.push_back(
        {.parent = block, .parent_name = name, .block = follower, .name = names.front()});
  };
  const Block& b = tree.blocks()[block];
  const RadixTree::Node& node = tree.node(b.node);
  const uint32_t next = b.depth() - node.first_depth + 1;
  if (next < node.edge.size()) {
    push_if_held(node.edge.ids()[next]);
    return;
  }
  for (uint32_t child = node.first_child; child != kNoId; child = tree.node(child).next_sibling) {
    push_if_held(tree.node(child).edge.ids()[0]);
  }
}

}  // namespace kvrouter
