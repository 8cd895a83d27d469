#ifndef KVROUTER_CORE_INDEX_BLOCK_INDEX_H_
#define KVROUTER_CORE_INDEX_BLOCK_INDEX_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "kvrouter/events.h"
#include "kvrouter/shared_cache.h"
#include "kvrouter/types.h"

namespace kvrouter {

class BlockHoldings;
class TargetDump;
class TargetSave;

struct OverlapMatch {
  Target target;
  // > 0: longest prefix of the query that the target holds contiguously from the start.
  uint32_t blocks = 0;

  friend bool operator==(const OverlapMatch&, const OverlapMatch&) = default;
};

// How lower tiers continue a target's device prefix, in blocks beyond what comes before them. At
// least one is > 0.
struct LowerTierMatch {
  Target target;
  uint32_t host_blocks = 0;
  uint32_t disk_blocks = 0;      // behind device and host
  uint32_t external_blocks = 0;  // behind device, host and disk

  friend bool operator==(const LowerTierMatch&, const LowerTierMatch&) = default;
};

struct BlockIndexStats {
  // Positions in the tree: held by somebody, or a predecessor of such a block.
  uint64_t unique_blocks = 0;
  uint64_t holder_blocks = 0;  // (target, block held on the device) pairs; nothing staged
  std::array<uint64_t, kStorageTierCount> tier_blocks = {};  // the same of each tier
  uint64_t device_forgotten_blocks = 0;                      // for BlockIndexLimits, ever
  uint64_t lower_tier_forgotten_blocks = 0;                  // the same
  uint64_t whole_forgotten_blocks = 0;                       // by Forget, ever
  uint64_t nodes = 0;                                        // edges of the tree
  uint64_t bytes = 0;  // heap memory: all containers by capacity, with the allocator's rounding
};

struct TargetDumpCounts {
  uint64_t blocks = 0;          // distinct blocks in the emitted events
  uint64_t omitted_blocks = 0;  // held, but behind a hole, or what precedes them was never told
  bool complete = true;         // false: `emit` stopped it; `blocks` is what was read until then
};

struct BlockIndexLimits {
  uint64_t max_device_blocks = 16'777'216;      // of a target on its device
  uint64_t max_lower_tier_blocks = 16'777'216;  // of a target on one tier below the device
};

inline constexpr size_t kDumpBlocksPerEvent = 256;

// Which target holds which blocks, fed by KV events, asked by every routing decision.
//
// The model: a *position* is a path of content hashes from the start of a sequence. Each target
// holds an exact set of positions and knows each by at least one engine hash. A query is a path; a
// target's score is how many of its blocks, from the first without a gap, the target holds. Other
// targets' events never change what a target holds.
//
// The structure is a radix tree over content hashes with compressed edges. Who holds an edge is a
// short list of runs per edge, not a bit per block, so that removals and holes never cut edges:
//
//   contents        system prompt        conversations
//                 [ a b c d e f ] -+- [ g h i j ]      W1 ======, W2 ======    W2 ====
//   W1 = = = = = =                 +- [ x y z ]                                W1 ===, W3 = . =
//   W2 = = = = = =                                     (W3 lost y: it scores 0 there until y
//   W3 = = . . . .                                      and c d e f come back)
//
// - stored: the blocks follow a block that this target holds under the parent's engine hash, or
//   start a sequence;
// - stored again: counted (kCounted, as many removals needed) or ignored (kSet);
// - removed: in any order, also from the middle; what lies behind stays held and counts again when
//   the gap is closed;
// - cleared, or RemoveTarget: that target only, all tiers;
// - staged (events.h): the same, of a state of the target that lookups do not see until it is
//   committed. It shares tree and blocks with everything else, and costs what a further target
//   would.
//
// Tiers: a target's blocks on lower tiers are further holdings in the same tree, each tier with
// names and counts of its own. They continue a prefix that the device began (TierWalk). A block may
// be stored on a lower tier before what precedes it is known: it is kept aside until then. Not
// every connector announces what it drops: a tier that grows beyond its bound is forgotten as a
// whole, with the device all tiers are, and fills again.
// Refused events change nothing: see ApplyStatus. Blocks that nobody needs are freed at once;
// memory follows what is held. Parity: Dynamo v1.4.1 forgets the rest of a compressed edge when a
// middle block goes; see docs/parity.md.
//
// How it is divided: BlockHoldings (what events mean) on RadixTree (shape, runs, blocks),
// OverlapWalk and TierWalk (lookups), LooseBlocks (without a place yet), HolderTable (per target),
// ProbeTable and Slab (storage).
//
// Thread safety: thread-safe. A stored event takes the lock exclusively, a removed event does so in
// steps of some hundred hashes (lookups may see it half applied), lookups share it.
// Dropping a target, or replacing its state by the staged one, is seen in one step; freeing the
// blocks is done by the same call in short steps that let lookups in between.
class BlockIndex {
 public:
  BlockIndex() : BlockIndex(BlockIndexLimits{}) {}
  explicit BlockIndex(const BlockIndexLimits& limits);
  ~BlockIndex();
  BlockIndex(const BlockIndex&) = delete;
  BlockIndex& operator=(const BlockIndex&) = delete;

  // The incarnation is the caller's affair. A stored event is checked in this order: a hash
  // twice or equal to the parent (kInvalidBlock), parent not held (kParentBlockNotFound,
  // kParentForgotten), a hash that already names another position of this target on this tier
  // (kInvalidBlock). An event without blocks is kOk.
  ApplyResult Apply(const KvEvent& event);

  // With what it has staged. Unknown targets are fine.
  void RemoveTarget(Target target);

  // What memory follows: pairs of target and name of a block, held or staged, on all tiers, or the
  // positions in the tree, if these are more. Cheap.
  uint64_t Size() const;
  // The target with the largest part of it; absent: nobody holds anything.
  std::optional<Target> LargestTarget() const;
  // Like RemoveTarget, for room: stores behind what is gone are kParentForgotten until the target
  // is cleared. Returns how many blocks went.
  uint64_t Forget(Target target);

  // Replaces `out`: the targets that hold the first block of `query` on the device, in ascending
  // order.
  void FindOverlap(std::span<const LocalBlockHash> query, std::vector<OverlapMatch>* out) const;
  // And `lower`: the targets whose prefix lower tiers continue, in ascending order. Costs nothing
  // more while no lower tier has any block.
  void FindOverlap(std::span<const LocalBlockHash> query, std::vector<OverlapMatch>* out,
                   std::vector<LowerTierMatch>* lower) const;

  // Replaces `hits`: the blocks of `query` that any target holds on `tier`.
  void FindTierHits(std::span<const LocalBlockHash> query, StorageTier tier,
                    std::vector<BlockRange>* hits) const;

  // What a target holds on one tier, as stored events that rebuild it: parents before children (but
  // a parent may be one of another tier), at most
  // kDumpBlocksPerEvent blocks per event, every name of every block. `emit` is called without a
  // lock and stops the dump by returning false; between two short steps lookups and events go on.
  // If nothing changes meanwhile, a target without blocks that applies them scores as this one on
  // every query. If something does, each event is still true of the moment it was read.
  //
  // Blocks behind a hole score nothing and have no parent to name, so they are left out and
  // counted; how often a name was stored is left out, too. Both make later credit too low, never
  // too high.
  using EmitStored = std::function<bool(Stored&& stored)>;
  TargetDumpCounts DumpTarget(Target target, const EmitStored& emit,
                              StorageTier tier = StorageTier::kDevice) const;
  // One step of such a dump: appends to `out`; false when it was the last one.
  bool StepDump(TargetDump* dump, std::vector<Stored>* out) const;

  // Exactly what a target holds on one tier, for another process to hold it again: TargetSave.
  // `emit` is called without a lock. False: the target's blocks were dropped meanwhile, and what
  // was emitted is void. REQUIRES: no event of this target during the call.
  using EmitSaved = std::function<void(std::variant<Stored, Removed>&& event)>;
  bool SaveTarget(Target target, const EmitSaved& emit,
                  StorageTier tier = StorageTier::kDevice) const;

  uint64_t HolderBlocks(Target target, StorageTier tier = StorageTier::kDevice) const;
  BlockIndexStats Stats() const;

  // Crashes if the structure contradicts itself. For tests: takes time proportional to the index.
  void CheckInvariants() const;

 private:
  ApplyResult Store(const KvEvent& event, const Stored& stored);
  ApplyResult Clear(Target target, Staging staging);
  // Frees the blocks of what was detached. By tier; kNoId: nothing.
  void Sweep(const std::array<uint32_t, kStorageTierCount>& slots);

  mutable SharedMutex mu_;
  const std::unique_ptr<BlockHoldings> holdings_ ABSL_PT_GUARDED_BY(mu_);
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_INDEX_BLOCK_INDEX_H_
