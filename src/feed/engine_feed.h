#ifndef KVROUTER_FEED_ENGINE_FEED_H_
#define KVROUTER_FEED_ENGINE_FEED_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "feed/engine_feed_config.h"
#include "feed/feed_batch.h"
#include "feed/feed_stats.h"
#include "feed/held_history.h"
#include "feed/live_buffer.h"
#include "feed/saved_feed.h"
#include "feed/wire_frames.h"
#include "kvrouter/events.h"
#include "kvrouter/types.h"

namespace kvrouter {

// One engine socket, or a stream that stands for one, as a state machine: messages and time in;
// ordered KV events and replay wishes out. It knows no sockets and no clock.
//
//   connecting ── connected, replay endpoint ──────────> recovering ── end marker, whole ────> live
//   connecting ── connected, no replay endpoint ───────> live
//   live, degraded ── gap, restart, reconnect, repair ─> recovering   (with a replay endpoint)
//   recovering ── time-out, history gone ──────────────> degraded
//   live ── orphans, or a gap without replay endpoint ─> degraded     (live; blocks may be missing)
//   any state ── disconnected ─────────────────────────> connecting
//
// Replays. *Rebuild* asks from 0: on the first connection, after a restart, and as repair of a
// degraded feed. *Continue* asks from the last applied batch inclusive, after a reconnect or a gap:
// if that batch comes back with the remembered timestamp the engine is the same one and the rest is
// applied; if it is missing or another one, the engine was restarted. While a replay runs live
// batches wait in a bounded buffer. A hole inside a replay is fetched once more, from the last
// batch before it; directly after that batch it is real. A batch that cannot be read is a lost one.
// An answer without its end marker, of an engine that proved to be the same: what came is kept, and
// the rest is asked for once more, then at the pace of repairs,
// until a marker or a live batch tells.
//
// Restart (FeedCursor): drop the blocks, then rebuild. Without a usable replay (no endpoint,
// time-out): drop the blocks, go on from this batch, degraded. Dropping is a Cleared event for
// every rank seen on the socket.
//
// Old answers. What has to be built anew for the same engine, as a repair or from a real hole on,
// is staged (events.h): queries are answered from what is held until the replay and the batches
// that waited are in, then the new state takes its place in one step. While a repair runs, live
// batches go on being applied to what is held, too, so that it is as true as before if the repair
// fails. Any other recovery ends within `recovery_limit` of its first request:
// then what is not proved goes.
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
  EngineFeed(const EngineFeed&) = delete;
  EngineFeed& operator=(const EngineFeed&) = delete;

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

  void OnApplyResult(const KvEvent& event, const ApplyResult& result);

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
  // proved yet is returned with its blocks as it was. Nothing staged is saved.
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

  // ---- Blocks that another router knows ----

  // Connected, no replay wanted or running, and the engine may hold blocks from before the first
  // batch we know of, which it cannot tell: it has no replay endpoint, or forgot its beginning.
  bool LacksBeginning() const;
  // `blocks` of them have been put into the index: until the engine tells better the feed is
  // degraded. REQUIRES: LacksBeginning().
  void OnPeerBlocks(uint32_t dp_rank, std::string_view peer, uint64_t blocks) {
    held_.OnPeerBlocks(dp_rank, peer, blocks);
  }

  FeedState State() const;
  std::string Detail() const;     // empty when all is well
  DegradedReason Reason() const;  // kNone unless degraded
  const FeedCounters& Counters() const { return counters_; }
  // Up to here batches are applied, or known to be given up. Nothing before the first.
  std::optional<uint64_t> LastSequence() const {
    return held_.LastApplied() ? std::optional(held_.LastApplied()->sequence) : std::nullopt;
  }

 private:
  struct Replay {
    uint64_t from_sequence = 0;
    bool verify_pending = false;  // continue: the batch we have has not come back yet
    bool tail_only = false;       // only to see whether anything follows; what is there stays
    bool repair_pending = false;  // repair: its first batch shows whether it reaches further back
    bool requested = false;
    bool progressed = false;  // a batch was applied
    bool marker_seen = false;
    // The batch after the last applied one came, and could not be read.
    bool unreadable = false;
    bool moved = false;  // since it was last looked at: applied or verified one
    MonotonicTime deadline{};
    // Last live batch that had come when the request went out: the answer must reach it.
    std::optional<uint64_t> live_at_request = std::nullopt;
  };
  // A history that is built unseen. There is one only while a replay runs.
  struct Staged {
    HeldHistory history;
    bool repair = false;  // what is held is as good as before if this one comes to nothing
  };

  // engine_feed.cc: the connection, live messages.
  // Counts a live message and takes it for a sign of the connection; false: it is void.
  bool AcceptLive(std::vector<KvEvent>* out);
  void TakeLive(const FeedBatch& batch, std::vector<KvEvent>* out);
  void TakeLiveDuringReplay(const FeedBatch& batch, FeedCursor::Verdict verdict,
                            std::vector<KvEvent>* out);
  void OnGap(const FeedBatch& batch, std::vector<KvEvent>* out);
  void ApplyLive(const FeedBatch& batch, std::vector<KvEvent>* out);
  void GiveUpUnreadable(const FeedCursor::Mark& mark, std::vector<KvEvent>* out);
  void BeginRestart(std::vector<KvEvent>* out);
  void Buffer(const FeedBatch& batch) { counters_.live_dropped += buffer_.Add(batch); }
  bool RepairUseful() const;

  // engine_feed_replay.cc: replays, and what is built by them.
  void StartRebuild();
  void StartRepair();
  void StartContinue(bool tail_only = false);
  void AbandonReplay();
  void TakeReplayed(const FeedBatch& batch, std::vector<KvEvent>* out);
  void ApplyReplayed(const FeedBatch& batch, std::vector<KvEvent>* out);
  void OnHole(const FeedBatch& batch, std::vector<KvEvent>* out);
  void OnUnreadableEnd(const Replay& ended, std::vector<KvEvent>* out);
  void EndReplay(bool marker_seen, std::string_view failure, std::vector<KvEvent>* out);
  void OnMarkerMissing(const Replay& ended, std::string_view failure, std::vector<KvEvent>* out);
  void OnRecoveryLimit(std::vector<KvEvent>* out);
  // The buffer goes in, and the recovery is over; or a new replay begins if the buffer does not
  // follow on what is there. Without `may_ask` what is missing is given up.
  void DrainBuffer(const Replay& ended, bool may_ask, std::vector<KvEvent>* out);

  // engine_feed_restore.cc
  void ReleaseRestored(std::vector<KvEvent>* out);
  void DropRestored();

  // Held blocks go, and those that were to be restored; the next batch is the new beginning.
  void GoOnWithout(std::string why, std::vector<KvEvent>* out,
                   DegradedReason reason = DegradedReason::kEventsLost) {
    DropRestored();
    held_.GoOnWithout(std::move(why), out, reason);
  }
  // What replays and the buffer are applied to.
  HeldHistory& Building() { return staged_ ? staged_->history : held_; }
  bool RepairRuns() const { return replay_ && (replay_->repair_pending || IsRepairStaged()); }
  bool IsRepairStaged() const { return staged_ && staged_->repair; }
  // Nothing if there is one already, or nothing is held that could go on answering.
  void Stage(bool repair, std::vector<KvEvent>* out);
  void GiveUpStaged();
  void GiveUpRepair();
  void ClearLeftovers(std::vector<KvEvent>* out);

  const EngineFeedConfig config_;
  FeedCounters counters_;
  HeldHistory held_;
  std::optional<Staged> staged_;
  std::optional<HeldHistory> leftovers_;  // a staged history given up, its blocks still staged
  bool connected_ = false;
  bool ever_connected_ = false;
  std::optional<Replay> replay_;
  // Of the recovery that runs: from its first request to where no further replay is wanted.
  std::optional<MonotonicTime> recovery_deadline_;
  LiveBuffer buffer_;
  std::optional<uint64_t> live_next_;  // after the last live batch of this connection and life

  // The engine's own copy of a batch could not be read either, and no live one could since.
  bool copies_unreadable_ = false;
  // The last live batch that could not be read, and was counted.
  std::optional<uint64_t> unreadable_live_;
  // Replays ended without their marker, and nothing live followed yet.
  bool tail_unconfirmed_ = false;
  std::optional<MonotonicTime> repair_at_;
  uint32_t repairs_ = 0;  // attempts since the last restart

  Restoration restoration_ = Restoration::kNone;
  std::vector<SavedRank> restored_;  // blocks still to be proved
};

}  // namespace kvrouter

#endif  // KVROUTER_FEED_ENGINE_FEED_H_
