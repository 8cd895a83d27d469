// Splitting and joining edges, and the links between nodes.
#include <utility>

#include "base/check.h"
#include "core/index/radix_tree.h"

namespace kvrouter {

uint32_t RadixTree::ParentOf(const Node& node) const {
  return node.parent_block == kNoId ? kRoot : blocks_[node.parent_block].node;
}

void RadixTree::LinkChild(uint32_t parent, uint32_t child) {
  Node& c = nodes_[child];
  c.prev_sibling = kNoId;
  c.next_sibling = nodes_[parent].first_child;
  if (c.next_sibling != kNoId) nodes_[c.next_sibling].prev_sibling = child;
  nodes_[parent].first_child = child;
  children_.Insert(ChildKey(c), child);
}

void RadixTree::UnlinkChild(uint32_t parent, uint32_t child) {
  Node& c = nodes_[child];
  children_.Erase(ChildKey(c), child);
  if (c.prev_sibling != kNoId) {
    nodes_[c.prev_sibling].next_sibling = c.next_sibling;
  } else {
    nodes_[parent].first_child = c.next_sibling;
  }
  if (c.next_sibling != kNoId) nodes_[c.next_sibling].prev_sibling = c.prev_sibling;
}

// `new_child` takes the place of `old_child` among its siblings. REQUIRES: both start with the same
// block.
void RadixTree::ReplaceChild(uint32_t old_child, uint32_t new_child) {
  const Node& o = nodes_[old_child];
  Node& n = nodes_[new_child];
  n.parent_block = o.parent_block;
  n.prev_sibling = o.prev_sibling;
  n.next_sibling = o.next_sibling;
  if (n.prev_sibling != kNoId) {
    nodes_[n.prev_sibling].next_sibling = new_child;
  } else {
    nodes_[ParentOf(n)].first_child = new_child;
  }
  if (n.next_sibling != kNoId) nodes_[n.next_sibling].prev_sibling = new_child;
  children_.Replace(ChildKey(n), old_child, new_child);
}

void RadixTree::MoveBlocks(std::span<const uint32_t> ids, uint32_t node) {
  for (const uint32_t id : ids) blocks_.SetNode(id, node);
}

void RadixTree::SplitNode(uint32_t id, uint32_t at) {
  Node& old = nodes_[id];
  const uint32_t fresh_id = nodes_.Allocate();
  Node& fresh = nodes_[fresh_id];
  part_bytes_ -= PartBytes(old);
  Edge lower_edge = old.edge.SplitOff(at);
  HolderRuns lower_holders = old.holders.SplitOff(at);
  const uint32_t joint = old.edge.ids()[at - 1];
  uint32_t lower_id = fresh_id;
  if (lower_edge.size() <= at) {  // the old node keeps the upper part
    fresh.edge = std::move(lower_edge);
    fresh.holders = std::move(lower_holders);
    fresh.first_depth = old.first_depth + at;
    fresh.first_child = std::exchange(old.first_child, kNoId);
  } else {  // the old node becomes the lower part and keeps its children
    lower_id = id;
    fresh.edge = std::exchange(old.edge, std::move(lower_edge));
    fresh.holders = std::exchange(old.holders, std::move(lower_holders));
    fresh.first_depth = old.first_depth;
    ReplaceChild(id, fresh_id);
    old.first_depth += at;
  }
  MoveBlocks(fresh.edge.ids(), fresh_id);
  nodes_[lower_id].parent_block = joint;
  LinkChild(blocks_[joint].node, lower_id);
  part_bytes_ += PartBytes(old) + PartBytes(fresh);
}

void RadixTree::JoinWithOnlyChild(uint32_t id) {
  Node& upper = nodes_[id];
  const uint32_t child_id = upper.first_child;
  Node& lower = nodes_[child_id];
  part_bytes_ -= PartBytes(upper) + PartBytes(lower);
  UnlinkChild(id, child_id);
  const uint32_t upper_size = upper.edge.size();
  upper.holders.Append(lower.holders, upper_size);
  uint32_t kept = id;
  if (upper_size >= lower.edge.size()) {
    MoveBlocks(lower.edge.ids(), id);
    upper.edge.Append(lower.edge);
    upper.first_child = lower.first_child;
    nodes_.Free(child_id);
  } else {
    kept = child_id;
    MoveBlocks(upper.edge.ids(), child_id);
    lower.edge.Prepend(upper.edge);
    lower.holders = std::move(upper.holders);
    lower.first_depth = upper.first_depth;
    ReplaceChild(id, child_id);
    nodes_.Free(id);
  }
  part_bytes_ += PartBytes(nodes_[kept]);
}

void RadixTree::CheckInvariants() const {
  size_t nodes = 0;
  size_t blocks = 0;
  size_t part_bytes = PartBytes(nodes_[kRoot]);
  std::vector<uint32_t> pending{kRoot};
  while (!pending.empty()) {
    const uint32_t id = pending.back();
    pending.pop_back();
    const Node& parent = nodes_[id];
    uint32_t children = 0;
    for (uint32_t c = parent.first_child; c != kNoId; c = nodes_[c].next_sibling, ++children) {
      const Node& child = nodes_[c];
      const uint32_t size = child.edge.size();
      KVR_CHECK(size > 0 && ParentOf(child) == id, "node={} size={}", c, size);
      KVR_CHECK(FindChild(child.parent_block, child.edge.contents()[0]) == c, "node={}", c);
      KVR_CHECK(id == kRoot || child.first_depth == parent.first_depth + parent.edge.size(),
                "node={}", c);
      for (uint32_t offset = 0; offset < size; ++offset) {
        const Block& b = blocks_[child.edge.ids()[offset]];
        KVR_CHECK(b.node == c && b.depth() == child.first_depth + offset, "node={} offset={}", c,
                  offset);
        KVR_CHECK(!b.named() || blocks_.FindByName(b.name) == child.edge.ids()[offset], "node={}",
                  c);
      }
      KVR_CHECK(child.first_child != kNoId || child.holders.HeldEnd(size) == size,
                "unheld end of leaf {}", c);
      const auto runs = child.holders.all();
      for (size_t i = 0; i < runs.size(); ++i) {
        KVR_CHECK(runs[i].from < runs[i].to && runs[i].to <= size, "node={} run={}", c, i);
        if (i == 0) continue;
        const Run& before = runs[i - 1];
        KVR_CHECK(before.slot() < runs[i].slot() ||
                      (before.slot() == runs[i].slot() &&
                       (before.to < runs[i].from ||
                        (before.to == runs[i].from && before.naming() != runs[i].naming()))),
                  "node={} run={}", c, i);
      }
      ++nodes;
      blocks += size;
      part_bytes += PartBytes(child);
      pending.push_back(c);
    }
    KVR_CHECK(id == kRoot || children != 1, "inner node {} with one child", id);
  }
  KVR_CHECK(nodes == node_count() && nodes == children_.size(), "nodes={} counted={}", nodes,
            node_count());
  KVR_CHECK(blocks == blocks_.size(), "blocks={} counted={}", blocks, blocks_.size());
  KVR_CHECK(part_bytes == part_bytes_, "bytes={} counted={}", part_bytes, part_bytes_);
}

}  // namespace kvrouter
