#ifndef KVROUTER_CORE_INDEX_TARGET_SAVE_H_
#define KVROUTER_CORE_INDEX_TARGET_SAVE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/index/block_holdings.h"
#include "kvrouter/events.h"
#include "kvrouter/types.h"

namespace kvrouter {

// Stores of one name beyond this are not saved: it comes back as stored so often. What follows is
// removed early then, never late.
inline constexpr uint64_t kMaxSavedStores = 64;

// Reads exactly what one target holds on one tier, in steps, as counted events: applied in order to
// a target without blocks they leave it with the same blocks, under the same names, each stored as
// often. Unlike TargetDump it includes what lies behind holes:
//
//   held  a b . d e      [a b] [_ : x] [d e] ... removed [x]
//
// The missing blocks are stored under made-up names and removed again at the end. On a lower tier
// what other tiers hold is missing, too, so that each tier is whole by itself; blocks kept aside
// (LooseBlocks) follow last, as they were told.
//
// Other targets may change between two steps; this one must not. Who calls is the one who applies
// its events. That its blocks were dropped meanwhile (the worker left) is noticed: Intact() is
// false then.
//
// Thread-compatible. A step takes time in proportion to a few hundred blocks, or to the children of
// one of them, or to one hole, or (once) to the number of the target's sequences, or of its blocks
// kept aside.
class TargetSave {
 public:
  using Event = std::variant<Stored, Removed>;

  explicit TargetSave(Target target, StorageTier tier = StorageTier::kDevice)
      : target_(target), tier_(tier) {}

  // Appends some events; false when it was the last step. REQUIRES: `holdings` does not change
  // during the call.
  bool Step(const BlockHoldings& holdings, std::vector<Event>* out);

  // The part of a step's work that needs no lock. Call after each step.
  void Settle();

  // Once the last step is done: everything the target holds was appended.
  bool Intact() const { return intact_; }
  uint64_t blocks() const { return blocks_; }  // distinct, appended so far

 private:
  enum class Phase : uint8_t { kBegin, kOwnNames, kStarts, kWalk };
  struct OwnName {
    uint32_t block = kNoId;
    BlockName name{};
    friend auto operator<=>(const OwnName&, const OwnName&) = default;
  };
  struct Start {
    uint32_t depth = 0;
    uint32_t block = kNoId;
    friend auto operator<=>(const Start&, const Start&) = default;
  };
  struct Entry {
    uint32_t block = kNoId;
    std::optional<EngineHash> parent;
  };

  void CollectOwnNames(const Holder& holder);
  void CollectStarts(const BlockHoldings& holdings, const Holder& holder);
  bool Walk(const BlockHoldings& holdings, std::vector<Event>* out);
  // Goes on from a block whose predecessor is not held, if it is one.
  void BeginAt(const BlockHoldings& holdings, uint32_t block, std::vector<Event>* out);
  std::optional<EngineHash> BridgeTo(const BlockHoldings& holdings, uint32_t block,
                                     std::vector<Event>* out);
  size_t SaveRun(const BlockHoldings& holdings, const Entry& entry, std::vector<Event>* out);
  void PushFollowers(const BlockHoldings& holdings, uint32_t block, EngineHash name);
  void SaveLoose(const BlockHoldings& holdings, std::vector<Event>* out) const;
  std::span<const OwnName> OwnNamesOf(uint32_t block) const;
  std::vector<BlockName> NamesOf(const BlockHoldings& holdings, uint32_t block) const;
  EngineHash MakeUpName(const BlockHoldings& holdings);

  const Target target_;
  const StorageTier tier_;
  Phase phase_ = Phase::kBegin;
  uint32_t slot_ = kNoId;
  bool intact_ = true;
  uint64_t next_name_ = 0;          // where collecting goes on
  std::vector<OwnName> own_names_;  // sorted once collected
  std::vector<Start> starts_;       // deepest first, so that the next is at the end
  std::vector<Entry> to_visit_;
  // Blocks of holes that were given a name.
  absl::flat_hash_map<uint32_t, EngineHash> bridged_;
  std::vector<EngineHash> made_up_;
  uint64_t made_up_count_ = 0;
  uint64_t blocks_ = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_INDEX_TARGET_SAVE_H_
