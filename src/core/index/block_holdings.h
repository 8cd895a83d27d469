#ifndef KVROUTER_CORE_INDEX_BLOCK_HOLDINGS_H_
#define KVROUTER_CORE_INDEX_BLOCK_HOLDINGS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <utility>
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
// A target has a slot of its own for each tier on which it holds something: all tiers share the
// tree, so a copy on another tier costs a run. A name means what it means within its slot; only the
// predecessor of a block on a lower tier may lie on any tier of the target, and if none has it, the
// block is kept aside (LooseBlocks) until one has.
//
// Thread-compatible: BlockIndex has the lock.
class BlockHoldings {
 public:
  // What a target may hold on its device, and on each tier below it. Names of a block beyond its
  // first count as blocks: they cost as much.
  struct Bounds {
    uint64_t device_blocks = ~uint64_t{0};
    uint64_t lower_tier_blocks = ~uint64_t{0};
  };
  BlockHoldings() = default;
  explicit BlockHoldings(Bounds bounds) : bounds_(bounds) {}

  // Of which tier, in which of a target's two states.
  struct Holding {
    Target target;
    StorageTier tier = StorageTier::kDevice;
    StoreCounting counting = StoreCounting::kCounted;
    bool staged = false;
  };
  ApplyResult Store(const Holding& of, const Stored& event);
  // Takes time at most in proportion to hashes.size() times the holes of the edges concerned.
  ApplyResult Remove(const Holding& of, std::span<const EngineHash> hashes);

  struct Detached {
    SlotsByTier slots = kNoSlots;
    uint64_t blocks = 0;  // held until now, on all tiers
  };
  // From now on the target holds nothing on any tier, or has nothing staged. The blocks of the
  // slots are to be released by Sweep. Two steps, since releasing takes time in proportion to what
  // was held and the caller may let others in between.
  Detached Detach(Target target, bool staged = false);
  // If the tier holds more than its bound, it holds nothing from now on, and if it is the device,
  // no tier of the target does; as Detach.
  Detached ForgetOverfull(const Holding& of);
  // Whatever the bounds: the target holds nothing from now on, or has nothing staged; as Detach.
  Detached Forget(Target target, bool staged);
  // The one that takes most memory, staged state included; absent: nobody holds anything.
  std::optional<Target> LargestTarget() const;
  // What memory follows: (target, block) pairs and their surplus names, held or staged, or the
  // positions of the tree, if these are more and will stay: not while detached slots wait for
  // Sweep.
  uint64_t size() const;
  // What is staged becomes what is held. REQUIRES: Detach(target).
  void Promote(Target target);
  // Releases some of the blocks of a detached slot; false when it was the last step.
  bool Sweep(uint32_t slot);

  const RadixTree& tree() const { return tree_; }
  const HolderTable& holders() const { return holders_; }
  // (target, block) pairs on a tier, as seen by lookups.
  uint64_t HeldBlocks(StorageTier tier) const { return held_blocks_[static_cast<size_t>(tier)]; }
  uint64_t HeldBlocks(Target target, StorageTier tier) const;
  // By ForgetOverfull, ever: because of the device, and because of a tier below it.
  uint64_t device_forgotten_blocks() const { return device_forgotten_blocks_; }
  uint64_t lower_tier_forgotten_blocks() const { return lower_tier_forgotten_blocks_; }
  // By Forget, ever.
  uint64_t whole_forgotten_blocks() const { return whole_forgotten_blocks_; }
  size_t bytes() const { return tree_.bytes() + holders_.bytes(); }

  struct NamedBlock {
    uint32_t block = kNoId;  // kNoId: the name means nothing
    Naming naming = Naming::kNone;
  };
  NamedBlock Resolve(uint32_t slot, BlockName name) const;
  // The block that the name means on `slot`, or else on another tier of its target; or kNoId.
  uint32_t ResolveOnAnyTier(uint32_t slot, BlockName name) const;

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

  // Returns how many blocks can be stored, from the first on. On the device all or nothing is.
  size_t PlanStore(uint32_t slot);
  // The parts of Store: behind a block that exists (kNoId: as the start of a sequence), by name,
  // and without a place. All use the scratch below.
  void StoreBehind(uint32_t slot, uint32_t previous, StoreCounting counting,
                   std::span<const StoredBlock> blocks, ApplyResult* result);
  void StoreCopies(uint32_t slot, StoreCounting counting, const Stored& event, ApplyResult* result);
  void StoreLoose(uint32_t slot, StoreCounting counting, const Stored& event, ApplyResult* result);
  // False if the name is held aside as another block.
  bool AddLoose(uint32_t slot, StoreCounting counting, BlockName name,
                const LooseBlocks::Block& block, ApplyResult* result);
  void CommitStore(uint32_t slot, uint32_t previous, StoreCounting counting,
                   std::span<const StoredBlock> blocks, ApplyResult* result);
  void HoldPlanned(uint32_t slot);
  // Gives a place to the loose blocks that follow blocks of these names, to those that follow them,
  // and so on.
  void PlaceFollowers(uint32_t device_slot, std::vector<BlockName> names);
  // Forgets the slot's names, for Sweep to release its blocks.
  void BeginRelease(uint32_t slot);
  LooseBlocks* LooseOf(uint32_t slot) const;
  uint64_t BlocksOf(uint32_t device_slot, StorageTier tier) const;
  uint64_t BlocksAndNamesOf(uint32_t device_slot, StorageTier tier) const;
  uint64_t& TotalFor(const Holder& holder) {
    return (holder.live ? held_blocks_ : staged_blocks_)[static_cast<size_t>(holder.tier)];
  }
  void RemoveLoose(uint32_t slot, StoreCounting counting, BlockName name, ApplyResult* result);
  void RemoveName(uint32_t slot, BlockName name, const NamedBlock& named, ApplyResult* result);
  void ReleaseUnnamed(uint32_t slot);

  RadixTree tree_;
  HolderTable holders_;
  // By tier; loose ones, too.
  std::array<uint64_t, kStorageTierCount> held_blocks_ = {};
  std::array<uint64_t, kStorageTierCount> staged_blocks_ = {};
  uint64_t surplus_names_ = 0;   // of all targets, held or staged
  uint32_t detached_slots_ = 0;  // and not released yet

  const Bounds bounds_ = {};
  // Targets, with whether staged, that were forgotten since they were last detached: a
  // parent that they name need not have been missed.
  std::set<std::pair<Target, bool>> forgotten_;
  uint64_t device_forgotten_blocks_ = 0;
  uint64_t lower_tier_forgotten_blocks_ = 0;
  uint64_t whole_forgotten_blocks_ = 0;

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
