#include "property/truth/host_tier.h"

#include <algorithm>

namespace kvrouter::truth {

void HostTier::Advance(MonotonicTime now, std::vector<CacheOp>* ops) {
  device_ops_.clear();
  device_->Advance(now, &device_ops_);
  for (CacheOp& op : device_ops_) Take(std::move(op), ops);
}

void HostTier::Take(CacheOp op, std::vector<CacheOp>* ops) {
  std::vector<NodeId> left;
  for (const NodeId node : op.nodes) {
    uint32_t& copies = device_copies_[node];
    if (op.kind == CacheOp::Kind::kStored) {
      ++copies;
      if (HoldsOnHost(node) && dice_.Chance(0.3)) left.push_back(node);
    } else if (--copies == 0 && !HoldsOnHost(node) && dice_.Chance(0.8)) {
      host_.push_back(node);
      ops->push_back(
          {.kind = CacheOp::Kind::kStored, .nodes = {node}, .tier = StorageTier::kHostPinned});
    }
  }
  ops->push_back(std::move(op));
  Drop(std::move(left), ops);
  MakeRoom(ops);
}

void HostTier::Drop(std::vector<NodeId> nodes, std::vector<CacheOp>* ops) {
  if (nodes.empty()) return;
  std::erase_if(host_, [&nodes](NodeId node) {
    return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
  });
  ops->push_back({.kind = CacheOp::Kind::kRemoved,
                  .nodes = std::move(nodes),
                  .tier = StorageTier::kHostPinned});
}

void HostTier::MakeRoom(std::vector<CacheOp>* ops) {
  if (host_.size() <= capacity_blocks_) return;
  std::vector<NodeId> victims;
  for (size_t excess = host_.size() - capacity_blocks_; excess > 0; --excess) {
    const auto victim = host_.begin() + dice_.Below(static_cast<uint32_t>(host_.size()));
    victims.push_back(*victim);
    host_.erase(victim);
  }
  Drop(std::move(victims), ops);
}

bool HostTier::Reset() {
  if (!device_->Reset()) return false;
  device_copies_.clear();
  host_.clear();
  return true;
}

bool HostTier::HoldsOnHost(NodeId node) const {
  return std::find(host_.begin(), host_.end(), node) != host_.end();
}

}  // namespace kvrouter::truth
