#ifndef KVROUTER_EVENTS_H_
#define KVROUTER_EVENTS_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "kvrouter/types.h"

namespace kvrouter {

// KV-cache events as the index understands them: already decoded, filtered to full blocks of
// full-attention groups, with content hashes computed. Producers: src/feed (raw engine events,
// Dynamo's event plane), a snapshot or a peer's dump.

// Dynamo's names: device, host_pinned, disk, external.
std::string_view TierName(StorageTier tier);
// Of such a name; nothing for any other text.
std::optional<StorageTier> TierOfName(std::string_view name);

struct StoredBlock {
  EngineHash engine_hash{};     // the engine's handle, used by later removals and as parent
  LocalBlockHash local_hash{};  // content, used by lookups
};

// Blocks that now continue `parent` in this order; without a parent they start a sequence. On the
// device the parent must be held there. On a lower tier it may lie on any tier of the target;
// blocks whose parent is on none are kept, and count from the moment it is on one.
struct Stored {
  std::optional<EngineHash> parent;  // parent hash 0 is a real parent, not "none"
  std::vector<StoredBlock> blocks;
  // Lower tiers only: the blocks are copies of what the target holds on other tiers under these
  // engine hashes, each for itself. Parent and local hashes are not set. Engines that offload say
  // no more than this.
  bool copies = false;
};

struct Removed {
  std::vector<EngineHash> engine_hashes;
};

// Drops every block of the emitting (worker, dp_rank), all tiers, whatever the event's tier. Other
// ranks are untouched.
struct Cleared {};

// A target can have a second state, being built unseen while the first one goes on answering; then
// it takes the first one's place in one step: a look-up sees the one or the other, never a hole.
// What is never committed costs memory until a Cleared of the target.
enum class Staging : uint8_t {
  kNone,    // of the state that look-ups see. Cleared drops both
  kStaged,  // of the state being built. Cleared drops that one only
  kCommit,  // Cleared only: the state being built, empty if there is none, becomes what is seen
};

// How repeated stores of one block by one (worker, rank, tier) are treated.
enum class StoreCounting : uint8_t {
  kCounted,  // raw engine feed: two stores need two removals (engines keep physical duplicates)
  kSet,      // Dynamo's event plane: already normalised, a second store changes nothing
};

struct KvEvent {
  Target target;
  Incarnation
      incarnation{};  // of the worker that said it; the partition drops events of another life
  StorageTier tier = StorageTier::kDevice;  // where the blocks lie; each tier has names of its own
  StoreCounting counting = StoreCounting::kCounted;
  Staging staging = Staging::kNone;
  uint64_t event_id = 0;  // sequence number or event id of the source; diagnostics only here
  std::variant<Stored, Removed, Cleared> data;
};

// First problem of an event. Names on the wire are Dynamo's (`status` label of
// kv_cache_events_applied); the last three are ours.
enum class ApplyStatus : uint8_t {
  kOk,
  // stored on the device: the parent is not held there by this (worker, rank); nothing was stored
  kParentBlockNotFound,
  // removed, or stored as copies: at least one hash unknown; the others took effect
  kBlockNotFound,
  // stored: a hash twice, equal to its parent, or already naming another position; nothing stored,
  // or on a lower tier what precedes such a name
  kInvalidBlock,
  kStaleIncarnation,  // the worker has a newer life
  kUnknownWorker,     // no such worker, or dp_rank outside its range
  // as kParentBlockNotFound, but what this (worker, rank) held was forgotten for
  // RouterConfig::max_device_blocks or max_index_blocks and not cleared or replaced since: nothing
  // need be missing
  kParentForgotten,
};
inline constexpr int kApplyStatusCount = 7;

struct ApplyResult {
  ApplyStatus status = ApplyStatus::kOk;
  uint32_t blocks_stored = 0;     // newly held by the target
  uint32_t blocks_duplicate = 0;  // stored again: count raised (kCounted) or ignored (kSet)
  uint32_t blocks_removed = 0;    // no longer held by the target
  uint32_t blocks_not_found = 0;  // removals and copies that named nothing held

  friend bool operator==(const ApplyResult&, const ApplyResult&) = default;
};

}  // namespace kvrouter

#endif  // KVROUTER_EVENTS_H_
