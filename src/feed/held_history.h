#ifndef KVROUTER_FEED_HELD_HISTORY_H_
#define KVROUTER_FEED_HELD_HISTORY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "feed/engine_feed_config.h"
#include "feed/event_codec.h"
#include "feed/feed_batch.h"
#include "feed/feed_cursor.h"
#include "feed/feed_stats.h"
#include "feed/rank_filter.h"
#include "feed/saved_feed.h"
#include "kvrouter/events.h"

namespace kvrouter {

// What was applied of one engine's history, and what may be missing of it: a stretch of batches
// without a gap, from a base to the last applied one, turned into events of the ranks they are of.
//
// Damage is whatever makes it incomplete in a way that we know of: it began late, a batch could not
// be read, stores continued blocks that nobody told us of. An engine that says its cache is empty
// heals it.
//
// Held or staged (events.h): the same thing, only that its events are of the state that look-ups do
// not see yet. A staged one takes the held one's place by Replace.
//
// Thread-compatible. `config` and `counters` outlive it.
class HeldHistory {
 public:
  HeldHistory(const EngineFeedConfig* config, FeedCounters* counters, Staging staging)
      : config_(config), counters_(counters), staging_(staging) {}

  // Where it ends. The live marks of a staged history's cursor mean nothing.
  FeedCursor& cursor() { return cursor_; }
  const FeedCursor& cursor() const { return cursor_; }
  const std::optional<FeedCursor::Mark>& LastApplied() const { return cursor_.LastApplied(); }

  // False: it cannot be read, and nothing changed. REQUIRES: it is the next one.
  bool Apply(const FeedBatch& batch, std::vector<KvEvent>* out);
  void OnOrphan();

  // Its blocks go; where it ends is still known.
  void DropBlocks(std::vector<KvEvent>* out);
  // Gives up what lies before the next batch, which is taken as the new beginning.
  void GoOnWithout(std::string why, std::vector<KvEvent>* out,
                   DegradedReason reason = DegradedReason::kEventsLost);
  // As before the first batch. REQUIRES: nothing is held.
  void BeginAnew();
  // The engine lives anew: its blocks, its groups and its damage are gone.
  void Restart(bool any_base, std::vector<KvEvent>* out);

  // An empty one in the making, for the same engine.
  HeldHistory Successor() const;
  // `next` was staged: it becomes this one in one step.
  void Replace(HeldHistory next, std::vector<KvEvent>* out);

  // From one process to the next, without the blocks. REQUIRES: something was applied.
  SavedProgress Save() const;
  // Of ranks that are not the worker's nothing is taken. REQUIRES: as made.
  void Restore(const SavedProgress& saved);
  bool IsOwnRank(uint64_t dp_rank) const {
    return dp_rank >= config_->dp_start_rank && dp_rank - config_->dp_start_rank < config_->dp_size;
  }

  // Blocks that another router says this rank holds go into the index beside what is known. They
  // are damage, since nobody proves them, and go when it turns out that the engine has begun since
  // then.
  void OnPeerBlocks(uint32_t dp_rank, std::string_view peer, uint64_t blocks);
  // Whether the engine may hold blocks from before the first batch that we know.
  bool BeganLate() const { return base_ != 0u; }

  bool Holds() const { return base_.has_value(); }  // anything applied since blocks were dropped
  // Whether a history that begins at `sequence` tells more than this one. What began at 0 is only
  // worth giving up for one that is still whole.
  bool IsOutreachedBy(uint64_t sequence) const;
  // The engine itself no longer has what precedes the base: asking again would bring nothing.
  bool Truncated() const { return truncated_; }
  void SetTruncated() { truncated_ = true; }

  // Why blocks may be missing; empty: they are not, as far as can be known.
  const std::string& Damage() const { return damage_; }
  // kNone exactly if there is none.
  DegradedReason DamageReason() const {
    return damage_.empty() ? DegradedReason::kNone : damage_reason_;
  }
  void SetDamage(DegradedReason reason, std::string why) {
    damage_reason_ = reason;
    damage_ = std::move(why);
  }
  // The engine names its blocks in a way that is not the partition's. Empty: it does not.
  std::string ForeignNaming() const;

 private:
  void ForgetDamage();
  RankFilter& FilterOf(uint32_t dp_rank);
  void ApplyEvent(uint32_t dp_rank, uint64_t sequence, const RawBatch& batch, const RawEvent& event,
                  std::vector<KvEvent>* out);
  void Emit(uint32_t dp_rank, uint64_t sequence, Staging staging,
            std::variant<Stored, Removed, Cleared> data, std::vector<KvEvent>* out,
            StorageTier tier = StorageTier::kDevice);
  uint64_t LastSequence() const { return LastApplied() ? LastApplied()->sequence : 0; }

  const EngineFeedConfig* config_;
  FeedCounters* counters_;
  Staging staging_;
  FeedCursor cursor_;
  // Ranks seen on the socket; at most dp_size.
  std::map<uint32_t, RankFilter> ranks_;
  RawBatch decoded_;              // reused from batch to batch
  std::optional<uint64_t> base_;  // first batch applied since blocks were last dropped
  std::string damage_;
  DegradedReason damage_reason_ = DegradedReason::kNone;
  uint64_t orphan_stores_ = 0;  // since then
  bool truncated_ = false;
  bool has_peer_blocks_ = false;
};

}  // namespace kvrouter

#endif  // KVROUTER_FEED_HELD_HISTORY_H_
