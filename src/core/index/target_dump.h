#ifndef KVROUTER_CORE_INDEX_TARGET_DUMP_H_
#define KVROUTER_CORE_INDEX_TARGET_DUMP_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/index/block_holdings.h"
#include "kvrouter/events.h"
#include "kvrouter/types.h"

namespace kvrouter {

// Reads what one target holds on one tier, in steps between which the index may change.
//
// The walk goes from the target's first blocks along the edges it holds, depth first. What is left
// to do is a list of blocks whose parent has been emitted. Ids of blocks are used again, so each
// entry also has the names of the block and of its parent: it counts only if both names still mean
// these blocks and they still follow each other; else it is dropped, which under-credits.
//
// The tree cannot say which own names a block has, so they are collected first (12 bytes each) and
// each is looked up again when it is used.
//
// On a lower tier the walk also begins where what precedes a run is on another tier of the target,
// by its name there. Blocks kept aside (LooseBlocks) are left out.
//
// Thread-compatible. A step takes time in proportion to a few hundred blocks, or to the children
// of one of them, or (once) to the number of the target's sequences.
class TargetDump {
 public:
  TargetDump(Target target, StorageTier tier) : target_(target), tier_(tier) {}

  // Appends some events; false when it was the last step. REQUIRES: `holdings` does not change
  // during the call.
  bool Step(const BlockHoldings& holdings, std::vector<Stored>* out);

  // The part of a step's work that needs no lock. Call after each step.
  void Settle();

  Target target() const { return target_; }
  StorageTier tier() const { return tier_; }
  // Distinct blocks appended so far.
  uint64_t blocks() const { return blocks_; }

 private:
  enum class Phase { kOwnNames, kStarts, kWalk };
  struct OwnName {
    uint32_t block = kNoId;
    BlockName name{};
    friend auto operator<=>(const OwnName&, const OwnName&) = default;
  };
  // A block to go on with. Without a parent it starts a sequence, and has no names here.
  struct Entry {
    uint32_t parent = kNoId;
    BlockName parent_name{};
    uint32_t block = kNoId;
    BlockName name{};
  };

  void CollectOwnNames(const BlockHoldings& holdings);
  void CollectStarts(const BlockHoldings& holdings, uint32_t slot);
  // A start behind a block that only other tiers of the target hold; nothing if none does.
  std::optional<Entry> StartBehindOtherTier(const BlockHoldings& holdings, uint32_t slot,
                                            uint32_t block) const;
  bool IsStillTrue(const BlockHoldings& holdings, uint32_t slot, const Entry& entry) const;
  // The names of a block that the target holds, the one that children name it by first. Empty if
  // one was added since the own names were collected.
  std::vector<BlockName> NamesOf(const BlockHoldings& holdings, uint32_t slot,
                                 uint32_t block) const;
  // Returns the number of blocks emitted.
  size_t EmitRun(const BlockHoldings& holdings, uint32_t slot, const Entry& entry,
                 std::vector<Stored>* out);
  void PushFollowers(const BlockHoldings& holdings, uint32_t slot, uint32_t block, BlockName name);

  const Target target_;
  const StorageTier tier_;
  size_t names_of_tier_ = 0;  // whose own names are being collected
  Phase phase_ = Phase::kOwnNames;
  uint64_t next_name_ = 0;          // where collecting goes on
  std::vector<OwnName> own_names_;  // sorted once collected
  std::vector<Entry> to_visit_;
  uint64_t blocks_ = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_INDEX_TARGET_DUMP_H_
