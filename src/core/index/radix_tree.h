#ifndef KVROUTER_CORE_INDEX_RADIX_TREE_H_
#define KVROUTER_CORE_INDEX_RADIX_TREE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/index/block_table.h"
#include "core/index/edge.h"
#include "core/index/holder_runs.h"
#include "core/index/probe_table.h"
#include "core/index/slab.h"
#include "kvrouter/events.h"
#include "kvrouter/types.h"

namespace kvrouter {

// The shape of the index: which blocks follow which, and who holds them. Content only; what engines
// call their blocks is decided by BlockHoldings.
//
// A node is an edge: a chain of blocks that nobody diverges from. Holders are runs of offsets on it
// (HolderRuns).
//
//                  root (no blocks)
//                    |
//            node 1: a b c d            holders: 3=[0,4) 5=[0,4) 9=[0,2)
//              / \                                                                        .
//   node 2: e f g h i     node 3: x y   node 2: 3=[0,5)     node 3: 5=[0,2)
//
// - Children are found through one table {last block of the parent, first content of the child} ->
//   child. Blocks never change their id, so splitting or joining edges touches one entry, not those
//   of the children.
// - A node names its parent by that last block, too, so children need no update when a split moves
//   the parent.
// - Edges are split only where contents diverge, never by removals; the shorter part gets the new
//   node.
//
// Invariants:
// - an inner node other than the root has at least two children (else it is joined with its only
//   child);
// - the last block of a leaf is held by somebody (else it is cut back). So every block has a holder
//   itself or further down, and memory follows what is held;
// - a block's node and depth say where it lies on its node's edge.
//
// Thread-compatible. No recursion: depth is bounded by callers' data only.
class RadixTree {
 public:
  static constexpr uint32_t kRoot = 0;

  struct Node {
    Edge edge;
    uint32_t first_depth = 0;       // depth of the block at offset 0
    uint32_t parent_block = kNoId;  // last block of the parent; kNoId under the root
    uint32_t first_child = kNoId;
    uint32_t next_sibling = kNoId;
    uint32_t prev_sibling = kNoId;
    HolderRuns holders;
  };

  struct NewBlock {
    LocalBlockHash content{};
    BlockName name{};
    bool named = false;  // whether `name` becomes the shared name
  };

  RadixTree();
  ~RadixTree();

  const Node& node(uint32_t id) const { return nodes_[id]; }
  const BlockTable& blocks() const { return blocks_; }
  // Child of `parent_block` (kNoId: of the root) that starts with this content, or kNoId.
  uint32_t FindChild(uint32_t parent_block, LocalBlockHash content) const;
  Naming NamingOf(uint32_t slot, uint32_t block) const;

  // The block before `block`; kNoId if it starts a sequence.
  uint32_t Predecessor(uint32_t block) const;
  // The block before `block` on its edge if `slot` holds it by its shared name, else kNoId.
  uint32_t SharedPredecessor(uint32_t slot, uint32_t block) const;

  // Follows `contents` from behind `previous` (kNoId: from the start) as far as it is there;
  // appends the blocks to `ids`.
  void Follow(uint32_t previous, std::span<const StoredBlock> contents,
              std::vector<uint32_t>* ids) const;

  // Adds blocks behind `previous` (kNoId: at the root) and appends their ids to `ids`.
  // REQUIRES: blocks.front() is not there yet; afterwards the caller makes the last of them held.
  void Extend(uint32_t previous, std::span<const NewBlock> blocks, std::vector<uint32_t>* ids);

  // `path` are blocks each of which follows the one before. REQUIRES: naming != kNone.
  void Hold(uint32_t slot, std::span<const uint32_t> path, Naming naming);

  // `block` and what `slot` holds behind it without a gap on the same edge; empty if it does not
  // hold `block`. Valid until the next change.
  std::span<const uint32_t> RunFrom(uint32_t slot, uint32_t block) const;

  // `slot` no longer holds these blocks: on one edge, in its order, perhaps with gaps. Appends to
  // `orphaned` the blocks directly behind them that the slot still holds. What nobody needs any
  // more is freed.
  void Release(uint32_t slot, std::span<const uint32_t> released, std::vector<uint32_t>* orphaned);

  size_t node_count() const { return nodes_.size() - 1; }  // the root does not count
  size_t bytes() const;

  // Crashes if an invariant is broken. For tests: takes time proportional to the tree.
  void CheckInvariants() const;

 private:
  struct Place {
    uint32_t node = kRoot;
    uint32_t offset = 0;
  };

  Place PlaceOf(uint32_t block) const;
  uint64_t ChildKey(uint32_t parent_block, LocalBlockHash content) const;
  uint64_t ChildKey(const Node& child) const {
    return ChildKey(child.parent_block, child.edge.contents()[0]);
  }
  uint32_t ParentOf(const Node& node) const;
  void LinkChild(uint32_t parent, uint32_t child);
  void UnlinkChild(uint32_t parent, uint32_t child);
  void ReplaceChild(uint32_t old_child, uint32_t new_child);

  void SplitNode(uint32_t id, uint32_t at);
  void JoinWithOnlyChild(uint32_t id);
  void CutBackLeaf(uint32_t id);
  void MoveBlocks(std::span<const uint32_t> ids, uint32_t node);
  // Heap bytes of one node's parts: subtracted before and added after each change of them.
  static size_t PartBytes(const Node& node) { return node.edge.bytes() + node.holders.bytes(); }

  Slab<Node, 256> nodes_;
  BlockTable blocks_;
  HashToId children_;
  size_t part_bytes_ = 0;
  std::vector<uint32_t> offsets_;  // scratch of Release
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_INDEX_RADIX_TREE_H_
