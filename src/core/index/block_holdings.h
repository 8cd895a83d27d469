#ifndef KVROUTER_CORE_INDEX_BLOCK_HOLDINGS_H_
#define KVROUTER_CORE_INDEX_BLOCK_HOLDINGS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/index/duplicate_finder.h"
#include "core/index/holder_table.h"
#include "core/index/radix_tree.h"
#include "kvrouter/events.h"
#include "kvrouter/types.h"

namespace kvrouter {

// Who holds which block under which name: the meaning of events, on top of the shape that RadixTree
// keeps.
//
// A target names its blocks by engine hashes. A name means one block; a block may have several
// names and is held until the last one is removed, each as often as it was stored (kCounted). A
// name is either the block's shared name (then the run in the tree says so and no other memory is
// used) or one of the holder's own names.
//
// Thread-compatible: BlockIndex has the lock.
class BlockHoldings {
 public:
  // Of which of a target's two states.
  struct Holding {
    Target target;
    StoreCounting counting = StoreCounting::kCounted;
    bool staged = false;
  };
  ApplyResult Store(const Holding& of, const Stored& event);
  // Takes time at most in proportion to hashes.size() times the holes of the edges concerned.
  ApplyResult Remove(const Holding& of, std::span<const EngineHash> hashes);

  // From now on the target holds nothing, or has nothing staged. Returns the slot whose blocks are
  // to be released by Sweep, or kNoId. Two steps, since releasing takes time in proportion to what
  // was held and the caller may let others in between.
  uint32_t Detach(Target target, bool staged = false);
  // What is staged becomes what is held. REQUIRES: Detach(target).
  void Promote(Target target);
  // Releases some of the blocks of a detached slot; false when it was the last step.
  bool Sweep(uint32_t slot);

  const RadixTree& tree() const { return tree_; }
  const HolderTable& holders() const { return holders_; }
  uint64_t held_blocks() const { return held_blocks_; }  // seen by lookups
  size_t bytes() const { return tree_.bytes() + holders_.bytes(); }

  struct NamedBlock {
    uint32_t block = kNoId;  // kNoId: the name means nothing
    Naming naming = Naming::kNone;
  };
  NamedBlock Resolve(uint32_t slot, BlockName name) const;

 private:
  enum class Step : uint8_t {
    kRepeat,      // the target already holds the block by this name
    kTakeShared,  // it will hold the block by its shared name
    kTakeOwn,     // it will hold the block by a name of its own
  };
  struct Plan {
    Step step = Step::kRepeat;
    Naming before = Naming::kNone;  // how it is held now
  };

  bool PlanStore(uint32_t slot);
  void CommitStore(uint32_t slot, uint32_t previous, StoreCounting counting, const Stored& event,
                   ApplyResult* result);
  void HoldPlanned(uint32_t slot);
  void RemoveName(uint32_t slot, BlockName name, const NamedBlock& named, ApplyResult* result);
  void ReleaseUnnamed(uint32_t slot);

  RadixTree tree_;
  HolderTable holders_;
  uint64_t& SeenBlocks(const Holder& holder) { return holder.live ? held_blocks_ : staged_blocks_; }

  uint64_t held_blocks_ = 0;
  uint64_t staged_blocks_ = 0;

  // Scratch of one event: per block of the event its name, its position's block and what to do.
  DuplicateFinder duplicates_;
  std::vector<BlockName> names_;
  std::vector<uint32_t> path_;
  std::vector<Plan> plan_;
  std::vector<RadixTree::NewBlock> new_blocks_;
  std::vector<uint32_t> orphaned_;
  std::vector<uint32_t> unnamed_;  // lost their last name; the tree does not know yet
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_INDEX_BLOCK_HOLDINGS_H_
