#ifndef KVROUTER_FEED_SAVED_FEED_H_
#define KVROUTER_FEED_SAVED_FEED_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "feed/feed_cursor.h"
#include "feed/feed_stats.h"
#include "kvrouter/events.h"
#include "kvrouter/types.h"
#include "kvrouter/worker.h"

namespace kvrouter {

// What outlives the process of one engine feed, so that the next one can go on from there: where it
// was in the engine's sequence, what it remembers of the engine's hashes, and the blocks
// themselves. It is a claim, not a truth, until the engine has shown by replay that it is still the
// same one.

// Part of what a rank holds, in one tier; applied in order (Router::SaveTarget).
struct SavedEvent {
  StorageTier tier = StorageTier::kDevice;
  std::variant<Stored, Removed> data;
};

// A note of HashMemory with how often it was added.
template <typename Note>
struct SavedNote {
  uint64_t hash = 0;
  Note note{};
  uint32_t count = 1;                       // > 0
  StorageTier tier = StorageTier::kDevice;  // on which the block lies

  friend bool operator==(const SavedNote&, const SavedNote&) = default;
};

// What RankFilter remembers.
struct SavedFilter {
  std::optional<uint64_t> main_group;
  std::vector<std::pair<uint64_t, bool>> group_is_full_attention;
  std::vector<SavedNote<SkipReason>> skipped_blocks;
  std::vector<SavedNote<uint64_t>> salts;

  friend bool operator==(const SavedFilter&, const SavedFilter&) = default;
};

struct SavedRank {
  uint32_t dp_rank = 0;
  uint64_t held_blocks = 0;  // all tiers, as counted by who saved it; a figure, nothing more
  SavedFilter filter;
  std::vector<SavedEvent> blocks;
};

// What EngineFeed knows, for its own kind to go on with.
struct SavedProgress {
  FeedCursor::Mark applied;  // the timestamp is there: without it nothing could be proved
  std::optional<uint64_t> base_sequence;
  uint64_t orphan_stores = 0;
  bool history_truncated = false;
  std::string damage;
  DegradedReason damage_reason = DegradedReason::kNone;
  std::vector<SavedRank> ranks;
};

// `spec` is the worker as it was registered, of which what SameFeedBasis compares and the endpoints
// of `rank` are kept.
struct SavedFeed {
  WorkerSpec spec;
  uint32_t rank = 0;  // whose socket it is
  SavedProgress progress;
};

}  // namespace kvrouter

#endif  // KVROUTER_FEED_SAVED_FEED_H_
