#include "core/index/overlap_walk.h"

#include <algorithm>

namespace kvrouter {
namespace {

// Takes the runs of one slot from `run` on; returns how far they reach without a gap from offset 0.
uint32_t TakeCovered(const Run*& run, const Run* end) {
  const uint32_t slot = run->slot();
  uint32_t covered = 0;
  for (; run != end && run->slot() == slot; ++run) {
    if (run->from == covered) covered = run->to;
  }
  return covered;
}

uint32_t CommonPrefix(std::span<const LocalBlockHash> a, std::span<const LocalBlockHash> b) {
  const size_t limit = std::min(a.size(), b.size());
  size_t i = 0;
  while (i < limit && a[i] == b[i]) ++i;
  return static_cast<uint32_t>(i);
}

}  // namespace

std::span<const OverlapWalk::Score> OverlapWalk::Run(const RadixTree& tree,
                                                     std::span<const LocalBlockHash> query) {
  alive_.clear();
  scores_.clear();
  uint32_t parent_block = kNoId;
  uint32_t depth = 0;
  while (depth < query.size()) {
    const uint32_t id = tree.FindChild(parent_block, query[depth]);
    if (id == kNoId) break;
    const RadixTree::Node& node = tree.node(id);
    const uint32_t matched = CommonPrefix(node.edge.contents(), query.subspan(depth));
    if (depth == 0) {
      StartOn(node, matched);
    } else {
      ContinueOn(node, matched);
    }
    depth += matched;
    if (alive_.empty() || matched < node.edge.size()) break;
    parent_block = node.edge.ids().back();
  }
  for (const uint32_t slot : alive_) Settle(slot, depth);
  return scores_;
}

void OverlapWalk::StartOn(const RadixTree::Node& node, uint32_t matched_blocks) {
  const auto runs = node.holders.all();
  for (const auto *run = runs.data(), *end = run + runs.size(); run != end;) {
    const uint32_t slot = run->slot();
    const uint32_t covered = TakeCovered(run, end);
    if (covered >= matched_blocks) {
      alive_.push_back(slot);
    } else if (covered > 0) {
      Settle(slot, covered);
    }
  }
}

void OverlapWalk::ContinueOn(const RadixTree::Node& node, uint32_t matched_blocks) {
  const auto runs = node.holders.all();
  const auto* run = runs.data();
  const auto* const end = run + runs.size();
  // Few slots against many runs: search; else both lists are merged.
  const bool search = alive_.size() * 16 < runs.size();
  size_t kept = 0;
  for (const uint32_t slot : alive_) {
    if (search) {
      run = std::partition_point(run, end, [&](const kvrouter::Run& r) { return r.slot() < slot; });
    } else {
      while (run != end && run->slot() < slot) ++run;
    }
    const uint32_t covered = run != end && run->slot() == slot ? TakeCovered(run, end) : 0;
    if (covered >= matched_blocks) {
      alive_[kept++] = slot;
    } else {
      Settle(slot, node.first_depth + covered);
    }
  }
  alive_.resize(kept);
}

}  // namespace kvrouter
