#include "core/index/tier_hits.h"

#include <algorithm>
#include <cstdint>

namespace kvrouter {
namespace {

// Sorts, and joins what overlaps or touches.
void Join(std::vector<BlockRange>* ranges) {
  std::sort(ranges->begin(), ranges->end(),
            [](const BlockRange& a, const BlockRange& b) { return a.from < b.from; });
  size_t kept = 0;
  for (const BlockRange& range : *ranges) {
    if (kept > 0 && range.from <= (*ranges)[kept - 1].to) {
      (*ranges)[kept - 1].to = std::max((*ranges)[kept - 1].to, range.to);
    } else {
      (*ranges)[kept++] = range;
    }
  }
  ranges->resize(kept);
}

}  // namespace

void FindTierHits(const RadixTree& tree, const HolderTable& holders,
                  std::span<const LocalBlockHash> query, StorageTier tier,
                  std::vector<BlockRange>* hits) {
  hits->clear();
  const auto owners = holders.owners();
  uint32_t last_block = kNoId;
  for (size_t depth = 0; depth < query.size();) {
    const uint32_t id = tree.FindChild(last_block, query[depth]);
    if (id == kNoId) break;
    const RadixTree::Node& node = tree.node(id);
    const auto contents = node.edge.contents();
    const auto rest = query.subspan(depth, std::min(contents.size(), query.size() - depth));
    const auto end = std::mismatch(rest.begin(), rest.end(), contents.begin()).first;
    const auto matched = static_cast<uint32_t>(end - rest.begin());
    const auto from = static_cast<uint32_t>(depth);
    for (const Run& run : node.holders.all()) {
      const SlotOwner& owner = owners[run.slot()];
      if (owner.tier != tier || !owner.live || run.from >= matched) continue;
      hits->push_back({from + run.from, from + std::min(run.to, matched)});
    }
    if (matched < node.edge.size()) break;
    depth += matched;
    last_block = node.edge.ids().back();
  }
  Join(hits);
}

}  // namespace kvrouter
