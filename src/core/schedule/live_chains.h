#ifndef KVROUTER_CORE_SCHEDULE_LIVE_CHAINS_H_
#define KVROUTER_CORE_SCHEDULE_LIVE_CHAINS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "kvrouter/types.h"

namespace kvrouter {

// A target's place in the ledger's tables; dense, reused.
enum class TargetSlot : uint32_t {};

// Weights of blocks are integers, in units of 2^-20 block: what was added can be taken off again
// exactly.
inline constexpr uint32_t kBlockUnits = uint32_t{1} << 20;

// The prompt blocks of live requests, per target, shared prefixes counted once.
//
// A radix tree over sequence hashes with compressed edges. A request's chain is a path from the
// root; it ends at the end of a node (its leaf). Each node lists the targets whose live requests
// run through it, and how many do:
//
//   root ──[s0 s1 s2 s3]────┬──[s4 s5]          one chain of 6 and two of 7 blocks;
//          target 1: 2      │   target 1: 1     all have the first 4 in common
//          target 2: 1      └──[t4 t5 t6]
//                               target 1: 1, target 2: 1
//
// So the live prefix of a new prompt is found for all targets in one walk, whose cost grows with
// the number of branches on the way and not with targets × blocks.
//
// A block weighs one block while several requests of the target share it, and its only owner's
// weight while it has one (that is how a request near its end counts less). Every call that changes
// weights returns the change for the target.
//
// Invariants: a node's targets are a superset of its children's; no node is without targets; a node
// with one child has requests that end in it (else both are merged). So there are at most two nodes
// per live request. Thread safety: thread-compatible.
class LiveChains {
 public:
  // Stable while the request lives, whatever is split or merged around it. kRoot for an empty
  // chain.
  enum class NodeId : uint32_t {};
  static constexpr NodeId kRoot{0};

  struct Added {
    NodeId leaf = kRoot;
    int64_t units = 0;
  };

  LiveChains();

  // Requests of `target` now hold `chain`. The weight is in units, at most kBlockUnits.
  Added Add(TargetSlot target, std::span<const SequenceHash> chain, uint32_t weight);

  // Takes back one Add that returned `leaf`, with the weight it has now.
  int64_t Remove(TargetSlot target, NodeId leaf, uint32_t weight);

  // Changes the weight of one chain.
  int64_t Reweigh(TargetSlot target, NodeId leaf, uint32_t old_weight, uint32_t new_weight);

  // Writes, at each target's slot, how many leading blocks of `chain` are live on it. Targets
  // without any are not written. REQUIRES: live_blocks covers every slot in use.
  void FindLivePrefixes(std::span<const SequenceHash> chain, std::span<uint32_t> live_blocks) const;

  size_t NodeCount() const { return nodes_.size() - free_nodes_.size() - 1; }

 private:
  struct Holder {
    TargetSlot target{};
    uint32_t requests = 0;    // of this target that run through the node; > 0
    uint64_t weight_sum = 0;  // of those requests; the only one's weight when requests == 1
  };

  struct Node {
    std::vector<SequenceHash> edge;  // empty in the root and in free nodes only
    NodeId parent = kRoot;
    uint32_t child_count = 0;
    uint32_t children_xor = 0;  // of the children's ids: names the only child when child_count == 1
    uint64_t requests = 0;      // over all holders
    absl::InlinedVector<Holder, 2> holders;  // ascending target
  };

  Node& At(NodeId id) { return nodes_[static_cast<uint32_t>(id)]; }
  const Node& At(NodeId id) const { return nodes_[static_cast<uint32_t>(id)]; }
  NodeId NewNode();
  void FreeNode(NodeId id);
  void Link(NodeId parent, NodeId child);
  void Unlink(NodeId child);
  // The child of `parent` whose edge starts with `first`; kRoot if there is none.
  NodeId FindChild(NodeId parent, SequenceHash first) const;
  // Puts a new node above `lower` that takes the first `blocks` of its edge; returns the new node.
  NodeId Split(NodeId lower, size_t blocks);
  // Restores the invariant that a node with one child has requests that end in it.
  void MergeIntoOnlyChild(NodeId upper);
  int64_t AddRequest(Node& node, TargetSlot target, uint32_t weight);
  int64_t RemoveRequest(Node& node, TargetSlot target, uint32_t weight);

  std::deque<Node> nodes_;  // [0] is the root. A deque: growing moves nothing
  std::vector<NodeId> free_nodes_;
  absl::flat_hash_map<std::pair<NodeId, SequenceHash>, NodeId> children_;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_SCHEDULE_LIVE_CHAINS_H_
