#ifndef KVROUTER_FEED_ENGINE_FEED_H_
#define KVROUTER_FEED_ENGINE_FEED_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "feed/event_codec.h"
#include "feed/feed_batch.h"
#include "feed/feed_cursor.h"
#include "feed/feed_stats.h"
#include "feed/rank_filter.h"
#include "feed/saved_feed.h"
#include "feed/wire_frames.h"
#include "kvrouter/events.h"
#include "kvrouter/types.h"

namespace kvrouter {

struct EngineFeedConfig {
  Target target;  // worker, and the rank of this socket
  Incarnation incarnation{};
  uint32_t dp_start_rank = 0;
  uint32_t dp_size = 1;            // > 0
  uint32_t block_size_tokens = 0;  // > 0
  bool is_eagle = false;           // how blocks are named besides: BlockNaming
  std::optional<TokenId> image_token_id = std::nullopt;
  // kSet for engines that announce a block again without holding another copy of it.
  StoreCounting counting = StoreCounting::kCounted;
  bool has_replay = false;
  // Without any message of a running replay.
  MonotonicTime replay_timeout = std::chrono::seconds(5);
  // Live batches kept while a replay runs; the oldest go first, since the replay is likeliest to
  // bring those.
  size_t max_buffered_batches = 4096;
  size_t max_buffered_bytes = 64u << 20;
  // How soon a degraded feed asks for its whole history again: doubles with each attempt, up to the
  // maximum.
  MonotonicTime repair_backoff_min = std::chrono::seconds(30);
  MonotonicTime repair_backoff_max = std::chrono::hours(1);
};

// One engine socket, or a stream that stands for one, as a state machine: messages and time in;
// ordered KV events and replay wishes out. It knows no sockets and no clock.
//
//   connecting ── connected, replay endpoint ──────────> recovering ── end marker, whole ─────> live
//   connecting ── connected, no replay endpoint ───────> live
//   live, degraded ── gap, restart, reconnect, repair ─> recovering   (with a replay endpoint)
//   recovering ── time-out, history gone ──────────────> degraded
//   live ── orphans, or a gap without replay endpoint ─> degraded     (live, but blocks may be missing)
//   any state ── disconnected ─────────────────────────> connecting
//
// Replays. *Rebuild* asks from 0: on the first connection, after a restart, and as repair of a
// degraded feed (then what is held is dropped when the first replayed batch arrives, not before,
// and only if the replay reaches further back). *Continue* asks from the last applied batch
// inclusive, after a reconnect or a gap: if that batch comes back with the remembered timestamp the
// engine is the same one and the rest is applied; if it is missing or another one, the engine was
// restarted. While a replay runs live batches wait in a bounded buffer. A hole inside a replay is
// fetched once more, from the last batch before it; directly after that batch it is real.
//
// Restart (FeedCursor): drop the blocks, then rebuild. Without a usable replay (no endpoint,
// time-out, a real hole): drop the blocks, go on from this batch, degraded. Dropping is a Cleared
// event for every rank seen on the socket.
//
// Thread-compatible. Outputs of a call are appended to `out` in the order in which they must be
// applied; the caller hands each result back with OnApplyResult before the next input.
class EngineFeed {
 public:
  // Ask the engine for every batch from `from_sequence` on, on a fresh socket.
  struct ReplayRequest {
    uint64_t from_sequence = 0;
  };

  explicit EngineFeed(const EngineFeedConfig& config);

  // The live socket's handshake succeeded, or its connection broke. Repetitions are ignored. The
  // first message implies the first connection; after a break only OnConnected ends it, and
  // messages that come before are skipped: a replay brings them, or nothing is kept anyway.
  void OnConnected(std::vector<KvEvent>* out);
  void OnDisconnected();

  // Messages as frames. Those of an abandoned replay socket must not be passed.
  void OnLiveMessage(std::span<const std::string_view> frames, std::vector<KvEvent>* out);
  void OnReplayMessage(std::span<const std::string_view> frames, MonotonicTime now,
                       std::vector<KvEvent>* out);
  // The same for batches and end markers that came in no frames.
  void OnLiveBatch(const FeedBatch& batch, std::vector<KvEvent>* out);
  void OnReplayedBatch(const FeedBatch& batch, MonotonicTime now, std::vector<KvEvent>* out);
  void OnReplayEnd(std::vector<KvEvent>* out);
  // A message that was neither.
  void OnBadMessage() { CountSkip(SkipReason::kBadFraming, &counters_.skipped); }
  // The request could not be made at all; `why` is shown.
  void OnReplayImpossible(std::string_view why, std::vector<KvEvent>* out);

  // Time-outs and repairs; call a few times per second.
  void OnTick(MonotonicTime now, std::vector<KvEvent>* out);

  void OnApplyResult(const ApplyResult& result);

  // The replay to be started now, once per replay; its time-out begins here. A caller may let a
  // replay wait by not asking. While ReplayRunning() is false no replay socket is needed.
  bool ReplayWanted() const { return replay_ && !replay_->requested; }
  std::optional<ReplayRequest> TakeReplayRequest(MonotonicTime now);
  bool ReplayRunning() const { return replay_.has_value(); }

  // The socket is given up while the worker lives on: its blocks must go.
  void DropBlocks(std::vector<KvEvent>* out);

  // ---- From one process to the next ----

  // Where this feed is and what it remembers, for a feed of another process to go on from; the
  // blocks are in the index, and the caller adds them. Nothing if it could not be continued: no
  // replay endpoint, no batch applied whose timestamp would prove it. What was restored and is not
  // proved yet is returned with its blocks as it was.
  std::optional<SavedProgress> Save() const;

  // REQUIRES: no input yet, has_replay, and an engine that names its blocks as the saved one did.
  // The first replay asks for the last applied batch. If that comes back with its timestamp, the
  // saved blocks come out as events and the feed goes on behind them; else they are dropped, as
  // after any reconnect.
  void Restore(SavedProgress saved);

  enum class Restoration : uint8_t {
    kNone,
    kPending,
    kProved,
    kRestarted,  // dropped: the engine no longer has that batch, or another one in its place
    kUnproved,   // dropped: it did not say in time
  };
  Restoration RestorationState() const { return restoration_; }

  FeedState State() const;
  std::string Detail() const;  // empty when all is well
  const FeedCounters& Counters() const { return counters_; }
  // Up to here batches are applied, or known to be given up. Nothing before the first.
  std::optional<uint64_t> LastSequence() const {
    return cursor_.LastApplied() ? std::optional(cursor_.LastApplied()->sequence) : std::nullopt;
  }

 private:
  struct BufferedBatch {
    FeedCursor::Mark mark;
    std::string payload;
    std::shared_ptr<const DecodedBatch> decoded;

    FeedBatch AsBatch() const { return {mark, payload, decoded}; }
    size_t bytes() const { return decoded ? decoded->bytes : payload.size(); }
  };

  struct Replay {
    uint64_t from_sequence = 0;
    bool verify_pending = false;  // continue: the batch we have has not come back yet
    bool tail_only = false;  // only to see whether anything follows; what is held is right as it is
    bool drop_pending = false;  // repair: what is held goes when the first batch arrives
    bool requested = false;
    bool progressed = false;  // a batch was applied
    MonotonicTime deadline{};
    // Last live batch that had come when the request went out: the answer must reach it.
    std::optional<uint64_t> live_at_request = std::nullopt;
  };

  void BeginRestart(std::vector<KvEvent>* out);
  void StartRebuild(bool repair);
  void StartContinue(bool tail_only = false);
  void AbandonReplay();
  // Counts a live message and takes it for a sign of the connection; false: it is void.
  bool AcceptLive(std::vector<KvEvent>* out);
  void TakeLive(const FeedBatch& batch, std::vector<KvEvent>* out);
  void OnGap(const FeedBatch& batch, std::vector<KvEvent>* out);
  void TakeReplayed(const FeedBatch& batch, std::vector<KvEvent>* out);
  void OnHole(const FeedBatch& batch, std::vector<KvEvent>* out);
  void EndReplay(bool marker_seen, std::string_view failure, std::vector<KvEvent>* out);
  void Buffer(const FeedBatch& batch);
  void ClearBuffer();
  void DrainBuffer(const Replay& ended, std::vector<KvEvent>* out);
  void ReleaseRestored(std::vector<KvEvent>* out);
  // Gives up what lies before `message`: drops blocks, takes it as the new beginning.
  void GoOnWithout(std::string why, std::vector<KvEvent>* out);

  void ApplyBatch(const FeedBatch& batch, std::vector<KvEvent>* out);
  RankFilter& FilterOf(uint32_t dp_rank);
  void ApplyEvent(uint32_t dp_rank, uint64_t sequence, const RawBatch& batch, const RawEvent& event,
                  std::vector<KvEvent>* out);
  void Emit(uint32_t dp_rank, uint64_t sequence, std::variant<Stored, Removed, Cleared> data,
            std::vector<KvEvent>* out);
  bool RepairUseful() const;
  void ForgetDamage();
  // The engine names its blocks in a way that is not the partition's. Empty: it does not.
  std::string ForeignNaming() const;

  const EngineFeedConfig config_;
  FeedCursor cursor_;
  FeedCounters counters_;
  bool connected_ = false;
  bool ever_connected_ = false;
  std::optional<Replay> replay_;
  std::deque<BufferedBatch> buffer_;
  size_t buffered_bytes_ = 0;
  // Ranks seen on this socket; at most dp_size.
  std::map<uint32_t, RankFilter> ranks_;
  RawBatch decoded_;                   // reused from batch to batch
  std::optional<uint64_t> live_next_;  // after the last live batch of this connection and life

  // Why blocks may be missing; empty = they are not, as far as can be known.
  std::string damage_;
  // A replay ended without its marker, and nothing live followed yet.
  bool tail_unconfirmed_ = false;
  std::optional<uint64_t> base_sequence_;  // first batch applied since blocks were last dropped
  uint64_t orphan_stores_ = 0;             // since then
  bool history_truncated_ = false;         // the engine itself no longer has the beginning
  std::optional<MonotonicTime> repair_at_;
  uint32_t repairs_ = 0;  // attempts since the last restart

  Restoration restoration_ = Restoration::kNone;
  std::vector<SavedRank> restored_;  // blocks still to be proved
};

}  // namespace kvrouter

#endif  // KVROUTER_FEED_ENGINE_FEED_H_
