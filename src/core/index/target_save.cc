#include "core/index/target_save.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "core/index/block_index.h"

namespace kvrouter {
namespace {

constexpr uint32_t kNamesPerStep = 16'384;
constexpr size_t kEntriesPerStep = 64;

struct Place {
  uint32_t predecessor = kNoId;  // kNoId if the block starts a sequence
  LocalBlockHash content{};
};

Place PlaceOf(const RadixTree& tree, uint32_t block) {
  const Block& b = tree.blocks()[block];
  const RadixTree::Node& node = tree.node(b.node);
  const uint32_t offset = b.depth() - node.first_depth;
  return {offset == 0 ? node.parent_block : node.edge.ids()[offset - 1],
          node.edge.contents()[offset]};
}

}  // namespace

bool TargetSave::Step(const BlockHoldings& holdings, std::vector<Event>* out) {
  const uint32_t slot = holdings.holders().Find(target_, tier_);
  if (phase_ == Phase::kBegin) {
    slot_ = slot;
    phase_ = Phase::kOwnNames;
    if (slot == kNoId) return false;  // it holds nothing
  }
  intact_ = slot == slot_;
  if (!intact_) return false;
  const Holder& holder = holdings.holders()[slot];
  if (phase_ == Phase::kOwnNames) {
    CollectOwnNames(holder);
    return true;
  }
  if (phase_ == Phase::kStarts) {
    CollectStarts(holdings, holder);
    return true;
  }
  if (Walk(holdings, out)) return true;
  SaveLoose(holdings, out);
  intact_ = blocks_ == holder.held_blocks;
  return false;
}

void TargetSave::SaveLoose(const BlockHoldings& holdings, std::vector<Event>* out) const {
  const HolderTable& holders = holdings.holders();
  const auto& loose = holders[holders.owners()[slot_].device_slot].loose;
  if (!loose) return;
  loose->ForEach(tier_, [&](BlockName name, const LooseBlocks::Block& block) {
    const Stored stored{.parent = EngineHashOf(block.parent),
                        .blocks = {{EngineHashOf(name), block.content}}};
    out->insert(out->end(), std::min(block.stores, kMaxSavedStores), stored);
  });
}

void TargetSave::CollectOwnNames(const Holder& holder) {
  const auto next =
      holder.own_names.Scan(next_name_, kNamesPerStep, [&](uint64_t name, uint32_t id) {
        own_names_.push_back({.block = id, .name = BlockName{name}});
      });
  if (next) {
    next_name_ = *next;
  } else {
    phase_ = Phase::kStarts;
  }
}

void TargetSave::CollectStarts(const BlockHoldings& holdings, const Holder& holder) {
  starts_.reserve(holder.run_starts.size());
  for (const uint32_t block : holder.run_starts) {
    starts_.push_back({.depth = holdings.tree().blocks()[block].depth(), .block = block});
  }
  phase_ = Phase::kWalk;
}

void TargetSave::Settle() {
  if (phase_ == Phase::kStarts) std::sort(own_names_.begin(), own_names_.end());
  // Shallow ones first: what a block behind a hole follows was appended before it.
  if (phase_ == Phase::kWalk && blocks_ == 0)
    std::sort(starts_.begin(), starts_.end(), std::greater<>());
}

bool TargetSave::Walk(const BlockHoldings& holdings, std::vector<Event>* out) {
  const uint64_t blocks_before = blocks_;
  for (size_t n = 0; n < kEntriesPerStep && blocks_ - blocks_before < kDumpBlocksPerEvent; ++n) {
    if (!to_visit_.empty()) {
      const Entry entry = to_visit_.back();
      to_visit_.pop_back();
      blocks_ += SaveRun(holdings, entry, out);
    } else if (!starts_.empty()) {
      const uint32_t block = starts_.back().block;
      starts_.pop_back();
      BeginAt(holdings, block, out);
    } else if (!made_up_.empty()) {
      const size_t count = std::min(made_up_.size(), kDumpBlocksPerEvent);
      out->push_back(Removed{{made_up_.end() - static_cast<ptrdiff_t>(count), made_up_.end()}});
      made_up_.resize(made_up_.size() - count);
    } else {
      return false;
    }
  }
  return true;
}

void TargetSave::BeginAt(const BlockHoldings& holdings, uint32_t block, std::vector<Event>* out) {
  const RadixTree& tree = holdings.tree();
  const uint32_t predecessor = PlaceOf(tree, block).predecessor;
  if (predecessor == kNoId) {
    to_visit_.push_back({.block = block, .parent = std::nullopt});
  } else if (tree.NamingOf(slot_, predecessor) == Naming::kNone) {
    to_visit_.push_back({.block = block, .parent = BridgeTo(holdings, predecessor, out)});
  }  // else it is reached from its predecessor
}

// Stores the missing blocks up to `block` under made-up names; returns that of `block`.
std::optional<EngineHash> TargetSave::BridgeTo(const BlockHoldings& holdings, uint32_t block,
                                               std::vector<Event>* out) {
  const RadixTree& tree = holdings.tree();
  std::vector<std::pair<uint32_t, LocalBlockHash>> missing;  // deepest first
  std::optional<EngineHash> parent;
  for (uint32_t at = block; at != kNoId;) {
    if (const auto bridged = bridged_.find(at); bridged != bridged_.end()) {
      parent = bridged->second;
      break;
    }
    if (tree.NamingOf(slot_, at) != Naming::kNone) {
      parent = EngineHashOf(NamesOf(holdings, at).front());
      break;
    }
    const Place place = PlaceOf(tree, at);
    missing.emplace_back(at, place.content);
    at = place.predecessor;
  }
  Stored bridge{.parent = parent, .blocks = {}};
  for (auto next = missing.rbegin(); next != missing.rend(); ++next) {
    parent = MakeUpName(holdings);
    bridged_[next->first] = *parent;
    made_up_.push_back(*parent);
    bridge.blocks.push_back({*parent, next->second});
  }
  if (!bridge.blocks.empty()) out->push_back(std::move(bridge));
  return parent;
}

EngineHash TargetSave::MakeUpName(const BlockHoldings& holdings) {
  for (;;) {
    const EngineHash name{++made_up_count_ * 0x9e3779b97f4a7c15u};
    if (holdings.Resolve(slot_, NameOf(name)).block == kNoId) return name;
  }
}

size_t TargetSave::SaveRun(const BlockHoldings& holdings, const Entry& entry,
                           std::vector<Event>* out) {
  const RadixTree& tree = holdings.tree();
  const auto& extra_stores = holdings.holders()[slot_].extra_stores;
  const auto run = tree.RunFrom(slot_, entry.block);
  const Block& first = tree.blocks()[entry.block];
  const RadixTree::Node& node = tree.node(first.node);
  const auto contents = node.edge.contents().subspan(first.depth() - node.first_depth);

  Stored stored{.parent = entry.parent, .blocks = {}};
  std::vector<Stored> again;  // further names, and further stores of a name
  std::optional<EngineHash> parent = entry.parent;
  const size_t length = std::min(run.size(), kDumpBlocksPerEvent);
  for (size_t i = 0; i < length; ++i) {
    const auto names = NamesOf(holdings, run[i]);
    for (size_t n = 0; n < names.size(); ++n) {
      const StoredBlock block{EngineHashOf(names[n]), contents[i]};
      uint64_t repeats = n == 0 ? 0 : 1;
      if (const auto extra = extra_stores.find(names[n]); extra != extra_stores.end())
        repeats += std::min(extra->second, kMaxSavedStores - 1);
      again.insert(again.end(), repeats, {.parent = parent, .blocks = {block}});
    }
    parent = EngineHashOf(names.front());
    stored.blocks.push_back({*parent, contents[i]});
  }
  if (length == 0) return 0;
  out->push_back(std::move(stored));
  for (Stored& repeat : again) out->push_back(std::move(repeat));
  PushFollowers(holdings, run[length - 1], *parent);
  return length;
}

void TargetSave::PushFollowers(const BlockHoldings& holdings, uint32_t block, EngineHash name) {
  const RadixTree& tree = holdings.tree();
  const auto push_if_held = [&](uint32_t follower) {
    if (tree.NamingOf(slot_, follower) != Naming::kNone)
      to_visit_.push_back({.block = follower, .parent = name});
  };
  const Block& b = tree.blocks()[block];
  const RadixTree::Node& node = tree.node(b.node);
  const uint32_t next = b.depth() - node.first_depth + 1;
  if (next < node.edge.size()) return push_if_held(node.edge.ids()[next]);
  for (uint32_t child = node.first_child; child != kNoId; child = tree.node(child).next_sibling) {
    push_if_held(tree.node(child).edge.ids()[0]);
  }
}

std::span<const TargetSave::OwnName> TargetSave::OwnNamesOf(uint32_t block) const {
  const auto first = std::lower_bound(own_names_.begin(), own_names_.end(),
                                      OwnName{.block = block, .name = BlockName{0}});
  auto last = first;
  while (last != own_names_.end() && last->block == block) ++last;
  return {first, last};
}

// Of a held block, so there is one; the one that children name it by first.
std::vector<BlockName> TargetSave::NamesOf(const BlockHoldings& holdings, uint32_t block) const {
  std::vector<BlockName> names;
  if (holdings.tree().NamingOf(slot_, block) == Naming::kShared)
    names.push_back(holdings.tree().blocks()[block].name);
  for (const OwnName& own : OwnNamesOf(block)) names.push_back(own.name);
  return names;
}

}  // namespace kvrouter
