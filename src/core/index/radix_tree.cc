#include "core/index/radix_tree.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "base/check.h"

namespace kvrouter {

RadixTree::RadixTree() {
  const uint32_t root = nodes_.Allocate();
  KVR_CHECK(root == kRoot, "root={}", root);
}

RadixTree::~RadixTree() {
  // The slab does not know which of its items are alive; walk the tree without recursion.
  uint32_t id = kRoot;
  while (nodes_.size() > 0) {
    Node& node = nodes_[id];
    if (node.first_child != kNoId) {
      id = node.first_child;
      continue;
    }
    const uint32_t parent = id == kRoot ? kRoot : ParentOf(node);
    if (id != kRoot) nodes_[parent].first_child = node.next_sibling;
    nodes_.Free(id);
    id = parent;
  }
}

uint64_t RadixTree::ChildKey(uint32_t parent_block, LocalBlockHash content) const {
  return absl::HashOf(parent_block, static_cast<uint64_t>(content));
}

uint32_t RadixTree::FindChild(uint32_t parent_block, LocalBlockHash content) const {
  return children_.Find(ChildKey(parent_block, content), [&](uint32_t id) {
    const Node& child = nodes_[id];
    return child.parent_block == parent_block && child.edge.contents()[0] == content;
  });
}

RadixTree::Place RadixTree::PlaceOf(uint32_t block) const {
  const Block& b = blocks_[block];
  return {b.node, b.depth() - nodes_[b.node].first_depth};
}

Naming RadixTree::NamingOf(uint32_t slot, uint32_t block) const {
  const Place place = PlaceOf(block);
  return nodes_[place.node].holders.At(slot, place.offset);
}

uint32_t RadixTree::Predecessor(uint32_t block) const {
  const Place place = PlaceOf(block);
  const Node& node = nodes_[place.node];
  return place.offset == 0 ? node.parent_block : node.edge.ids()[place.offset - 1];
}

uint32_t RadixTree::SharedPredecessor(uint32_t slot, uint32_t block) const {
  const Place place = PlaceOf(block);
  const Node& node = nodes_[place.node];
  if (place.offset == 0 || node.holders.At(slot, place.offset - 1) != Naming::kShared) return kNoId;
  return node.edge.ids()[place.offset - 1];
}

void RadixTree::Follow(uint32_t previous, std::span<const StoredBlock> contents,
                       std::vector<uint32_t>* ids) const {
  const Node* node = &nodes_[kRoot];
  uint32_t offset = 0;
  if (previous != kNoId) {
    const Place place = PlaceOf(previous);
    node = &nodes_[place.node];
    offset = place.offset + 1;
  }
  for (const StoredBlock& block : contents) {
    if (offset == node->edge.size()) {
      if (node->first_child == kNoId) return;  // the usual end: saves a table look-up
      const uint32_t child = FindChild(previous, block.local_hash);
      if (child == kNoId) return;
      node = &nodes_[child];
      offset = 0;
    }
    if (node->edge.contents()[offset] != block.local_hash) return;
    previous = node->edge.ids()[offset++];
    ids->push_back(previous);
  }
}

void RadixTree::Extend(uint32_t previous, std::span<const NewBlock> blocks,
                       std::vector<uint32_t>* ids) {
  Place end{kRoot, 0};
  if (previous != kNoId) {
    end = PlaceOf(previous);
    if (end.offset + 1 < nodes_[end.node].edge.size()) {
      SplitNode(end.node, end.offset + 1);
      end = PlaceOf(previous);  // the upper part may be another node now
    }
  }
  uint32_t leaf = end.node;
  const bool new_leaf = leaf == kRoot || nodes_[leaf].first_child != kNoId;
  if (new_leaf) {
    leaf = nodes_.Allocate();
    nodes_[leaf].parent_block = previous;
    nodes_[leaf].first_depth = previous == kNoId ? 0 : blocks_[previous].depth() + 1;
  }
  Node& node = nodes_[leaf];
  part_bytes_ -= PartBytes(node);
  node.edge.Reserve(node.edge.size() + static_cast<uint32_t>(blocks.size()));
  for (const NewBlock& b : blocks) {
    const uint32_t id = blocks_.Create(b.name, b.named, leaf, node.first_depth + node.edge.size());
    node.edge.PushBack(b.content, id);
    ids->push_back(id);
  }
  part_bytes_ += PartBytes(node);
  if (new_leaf) LinkChild(end.node, leaf);
}

void RadixTree::Hold(uint32_t slot, std::span<const uint32_t> path, Naming naming) {
  while (!path.empty()) {
    const Place place = PlaceOf(path.front());
    Node& node = nodes_[place.node];
    const uint32_t length =
        std::min(static_cast<uint32_t>(path.size()), node.edge.size() - place.offset);
    part_bytes_ -= PartBytes(node);
    node.holders.Assign(slot, place.offset, place.offset + length, naming);
    part_bytes_ += PartBytes(node);
    path = path.subspan(length);
  }
}

std::span<const uint32_t> RadixTree::RunFrom(uint32_t slot, uint32_t block) const {
  const Place place = PlaceOf(block);
  const Node& node = nodes_[place.node];
  uint32_t end = place.offset;
  const auto runs = node.holders.Of(slot);
  auto run = std::partition_point(runs.begin(), runs.end(),
                                  [&](const Run& r) { return r.to <= place.offset; });
  for (; run != runs.end() && run->from <= end; ++run) end = run->to;
  return node.edge.ids().subspan(place.offset, end - place.offset);
}

void RadixTree::Release(uint32_t slot, std::span<const uint32_t> released,
                        std::vector<uint32_t>* orphaned) {
  const Place place = PlaceOf(released.front());
  const uint32_t end = PlaceOf(released.back()).offset + 1;
  Node& node = nodes_[place.node];
  offsets_.clear();
  part_bytes_ -= PartBytes(node);
  if (end - place.offset == released.size()) {
    node.holders.Assign(slot, place.offset, end, Naming::kNone);
  } else {
    for (const uint32_t block : released) offsets_.push_back(PlaceOf(block).offset);
    node.holders.Remove(slot, offsets_);
  }
  part_bytes_ += PartBytes(node);
  if (offsets_.empty()) offsets_.push_back(end - 1);
  const auto runs = node.holders.Of(slot);
  for (const uint32_t offset : offsets_) {
    if (offset + 1 < node.edge.size() && HolderRuns::At(runs, offset + 1) != Naming::kNone)
      orphaned->push_back(node.edge.ids()[offset + 1]);
  }
  if (end < node.edge.size()) return;  // a leaf is still held at its end
  for (uint32_t c = node.first_child; c != kNoId; c = nodes_[c].next_sibling) {
    if (nodes_[c].holders.At(slot, 0) != Naming::kNone)
      orphaned->push_back(nodes_[c].edge.ids()[0]);
  }
  if (node.first_child == kNoId) CutBackLeaf(place.node);
}

void RadixTree::CutBackLeaf(uint32_t id) {
  Node& leaf = nodes_[id];
  const uint32_t size = leaf.edge.size();
  const uint32_t held = leaf.holders.HeldEnd(size);
  if (held == size) return;
  if (held == 0) UnlinkChild(ParentOf(leaf), id);  // while its first block can still be read
  for (uint32_t offset = held; offset < size; ++offset) blocks_.Free(leaf.edge.ids()[offset]);
  part_bytes_ -= PartBytes(leaf);
  if (held > 0) {
    leaf.edge.Truncate(held);
    part_bytes_ += PartBytes(leaf);
    return;
  }
  const uint32_t parent = ParentOf(leaf);
  nodes_.Free(id);
  if (parent == kRoot) return;
  const uint32_t child = nodes_[parent].first_child;
  if (nodes_[child].next_sibling == kNoId) JoinWithOnlyChild(parent);
}

size_t RadixTree::bytes() const {
  return nodes_.bytes() + blocks_.bytes() + children_.bytes() + part_bytes_;
}

}  // namespace kvrouter
