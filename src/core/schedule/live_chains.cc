#include "core/schedule/live_chains.h"

#include <algorithm>

#include "base/check.h"

namespace kvrouter {
namespace {

// How many leading elements are equal.
size_t CommonPrefix(std::span<const SequenceHash> a, std::span<const SequenceHash> b) {
  const size_t limit = std::min(a.size(), b.size());
  size_t i = 0;
  while (i < limit && a[i] == b[i]) ++i;
  return i;
}

template <typename Holders>
auto FindHolder(Holders& holders, TargetSlot target) {
  return std::lower_bound(holders.begin(), holders.end(), target,
                          [](const auto& holder, TargetSlot t) { return holder.target < t; });
}

// What `blocks` blocks weigh that `requests` requests of one target hold.
int64_t Weight(uint32_t requests, uint64_t weight_sum, size_t blocks) {
  const uint64_t per_block = requests == 0 ? 0 : requests == 1 ? weight_sum : kBlockUnits;
  return static_cast<int64_t>(per_block * blocks);
}

}  // namespace

LiveChains::LiveChains() { nodes_.emplace_back(); }

LiveChains::Added LiveChains::Add(TargetSlot target, std::span<const SequenceHash> chain,
                                  uint32_t weight) {
  Added added;
  size_t depth = 0;
  while (depth < chain.size()) {
    NodeId next = FindChild(added.leaf, chain[depth]);
    if (next == kRoot) {
      next = NewNode();
      At(next).edge.assign(chain.begin() + static_cast<ptrdiff_t>(depth), chain.end());
      Link(added.leaf, next);
    } else {
      const size_t common = CommonPrefix(At(next).edge, chain.subspan(depth));
      if (common < At(next).edge.size()) next = Split(next, common);
    }
    added.units += AddRequest(At(next), target, weight);
    added.leaf = next;
    depth += At(next).edge.size();
  }
  return added;
}

int64_t LiveChains::Remove(TargetSlot target, NodeId leaf, uint32_t weight) {
  int64_t units = 0;
  NodeId lowest_survivor = kRoot;
  for (NodeId id = leaf; id != kRoot;) {
    Node& node = At(id);
    const NodeId parent = node.parent;
    units += RemoveRequest(node, target, weight);
    if (node.requests == 0) {
      Unlink(id);
      FreeNode(id);
    } else if (lowest_survivor == kRoot) {
      lowest_survivor = id;
    }
    id = parent;
  }
  // Only there can a node have become its child's equal: further up both lost the same request.
  MergeIntoOnlyChild(lowest_survivor);
  return units;
}

int64_t LiveChains::Reweigh(TargetSlot target, NodeId leaf, uint32_t old_weight,
                            uint32_t new_weight) {
  int64_t units = 0;
  for (NodeId id = leaf; id != kRoot; id = At(id).parent) {
    Node& node = At(id);
    const auto holder = FindHolder(node.holders, target);
    units -= Weight(holder->requests, holder->weight_sum, node.edge.size());
    holder->weight_sum += uint64_t{new_weight} - old_weight;
    units += Weight(holder->requests, holder->weight_sum, node.edge.size());
  }
  return units;
}

void LiveChains::FindLivePrefixes(std::span<const SequenceHash> chain,
                                  std::span<uint32_t> live_blocks) const {
  NodeId id = kRoot;
  size_t depth = 0;
  while (depth < chain.size()) {
    id = FindChild(id, chain[depth]);
    if (id == kRoot) return;
    const Node& node = At(id);
    const size_t common = CommonPrefix(node.edge, chain.subspan(depth));
    depth += common;
    for (const Holder& holder : node.holders) {
      live_blocks[static_cast<uint32_t>(holder.target)] = static_cast<uint32_t>(depth);
    }
    if (common < node.edge.size()) return;
  }
}

LiveChains::NodeId LiveChains::NewNode() {
  if (!free_nodes_.empty()) {
    const NodeId id = free_nodes_.back();
    free_nodes_.pop_back();
    return id;
  }
  nodes_.emplace_back();
  return NodeId{static_cast<uint32_t>(nodes_.size() - 1)};
}

void LiveChains::FreeNode(NodeId id) {
  Node& node = At(id);
  std::vector<SequenceHash>().swap(node.edge);  // gives the memory back
  node.holders.clear();
  node.holders.shrink_to_fit();
  node.requests = 0;
  node.child_count = 0;
  node.children_xor = 0;
  free_nodes_.push_back(id);
}

void LiveChains::Link(NodeId parent, NodeId child) {
  At(child).parent = parent;
  At(parent).child_count += 1;
  At(parent).children_xor ^= static_cast<uint32_t>(child);
  children_[{parent, At(child).edge.front()}] = child;
}

void LiveChains::Unlink(NodeId child) {
  const NodeId parent = At(child).parent;
  At(parent).child_count -= 1;
  At(parent).children_xor ^= static_cast<uint32_t>(child);
  children_.erase({parent, At(child).edge.front()});
}

LiveChains::NodeId LiveChains::FindChild(NodeId parent, SequenceHash first) const {
  const auto it = children_.find({parent, first});
  return it == children_.end() ? kRoot : it->second;
}

LiveChains::NodeId LiveChains::Split(NodeId lower, size_t blocks) {
  const NodeId upper = NewNode();
  const NodeId parent = At(lower).parent;
  Unlink(lower);
  Node& low = At(lower);
  Node& up = At(upper);
  const auto cut = low.edge.begin() + static_cast<ptrdiff_t>(blocks);
  up.edge.assign(low.edge.begin(), cut);
  low.edge.erase(low.edge.begin(), cut);
  up.holders = low.holders;
  up.requests = low.requests;
  Link(parent, upper);
  Link(upper, lower);
  return upper;
}

void LiveChains::MergeIntoOnlyChild(NodeId upper) {
  if (upper == kRoot || At(upper).child_count != 1) return;
  const NodeId lower{At(upper).children_xor};
  Node& low = At(lower);
  if (low.requests != At(upper).requests) return;  // some request ends in `upper`
  // The lower node stays, because leaves are what bookings remember.
  const NodeId parent = At(upper).parent;
  Unlink(lower);
  Unlink(upper);
  std::vector<SequenceHash> edge = std::move(At(upper).edge);
  edge.insert(edge.end(), low.edge.begin(), low.edge.end());
  low.edge = std::move(edge);
  FreeNode(upper);
  Link(parent, lower);
}

int64_t LiveChains::AddRequest(Node& node, TargetSlot target, uint32_t weight) {
  auto holder = FindHolder(node.holders, target);
  if (holder == node.holders.end() || holder->target != target) {
    holder = node.holders.insert(holder, Holder{.target = target});
  }
  const int64_t before = Weight(holder->requests, holder->weight_sum, node.edge.size());
  holder->requests += 1;
  holder->weight_sum += weight;
  node.requests += 1;
  return Weight(holder->requests, holder->weight_sum, node.edge.size()) - before;
}

int64_t LiveChains::RemoveRequest(Node& node, TargetSlot target, uint32_t weight) {
  const auto holder = FindHolder(node.holders, target);
  KVR_CHECK(holder != node.holders.end() && holder->target == target && holder->requests > 0,
            "a live chain lost its target {}", static_cast<uint32_t>(target));
  const int64_t before = Weight(holder->requests, holder->weight_sum, node.edge.size());
  holder->requests -= 1;
  holder->weight_sum -= weight;
  node.requests -= 1;
  const int64_t after = Weight(holder->requests, holder->weight_sum, node.edge.size());
  if (holder->requests == 0) node.holders.erase(holder);
  return after - before;
}

}  // namespace kvrouter
