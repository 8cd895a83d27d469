#include "feed/engine_feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvrouter {
namespace {

using Verdict = FeedCursor::Verdict;

// 0..period, another part of it for each feed, attempt and seed.
MonotonicTime Jitter(const EngineFeedConfig& config, uint32_t attempt, MonotonicTime period) {
  uint64_t x = static_cast<uint64_t>(config.target.worker) + config.jitter_seed +
               0x9e3779b97f4a7c15u * (config.target.dp_rank + 1) + attempt;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return MonotonicTime(static_cast<int64_t>(x % static_cast<uint64_t>(period.count() + 1)));
}

FeedBatch BatchOf(const WireMessage& message) {
  return {{message.sequence, PeekTimestamp(message.payload)}, message.payload};
}

}  // namespace

EngineFeed::EngineFeed(const EngineFeedConfig& config)
    : config_(config),
      held_(&config_, &counters_, Staging::kNone),
      buffer_(config.max_buffered_batches, config.max_buffered_bytes) {
  KVR_CHECK(config.dp_size > 0, "dp_size={}", config.dp_size);
  KVR_CHECK(config.block_size_tokens > 0, "block_size_tokens={}", config.block_size_tokens);
}

// ---- Connection ----

void EngineFeed::OnConnected(std::vector<KvEvent>* out) {
  if (connected_) return;
  connected_ = true;
  const bool again = std::exchange(ever_connected_, true);
  if (again) ++counters_.reconnects;
  if (config_.has_replay) {
    // Also when the first connection broke during its rebuild: what was applied of it is a prefix
    // to continue.
    if (held_.LastApplied()) {
      StartContinue();
    } else {
      StartRebuild();
    }
    return;
  }
  if (held_.LastApplied()) {
    GoOnWithout("reconnected without a replay endpoint", out, DegradedReason::kReconnected);
  } else {
    held_.cursor().ForgetApplied(/*any_base=*/true);
  }
}

void EngineFeed::OnDisconnected() {
  connected_ = false;
  tail_unconfirmed_ = false;
  live_next_.reset();  // what was missed in between is a reconnect's matter, no gap
  AbandonReplay();
}

void EngineFeed::DropBlocks(std::vector<KvEvent>* out) {
  AbandonReplay();
  ClearLeftovers(out);
  DropRestored();
  held_.DropBlocks(out);
}

// ---- Live messages ----

bool EngineFeed::AcceptLive(std::vector<KvEvent>* out) {
  ++counters_.messages;
  // Left in the pipe by a connection that broke. Taken for the next one, it would hide a restart.
  if (!connected_ && ever_connected_) {
    CountSkip(SkipReason::kDisconnected, &counters_.skipped);
    return false;
  }
  OnConnected(out);  // the notice of the first connection can come after its first message
  return true;
}

void EngineFeed::OnLiveMessage(std::span<const std::string_view> frames,
                               std::vector<KvEvent>* out) {
  if (!AcceptLive(out)) return;
  const std::optional<WireMessage> message = ParseLiveFrames(frames);
  if (!message) return CountSkip(SkipReason::kBadFraming, &counters_.skipped);
  TakeLive(BatchOf(*message), out);
}

void EngineFeed::OnLiveBatch(const FeedBatch& batch, std::vector<KvEvent>* out) {
  if (AcceptLive(out)) TakeLive(batch, out);
}

void EngineFeed::TakeLive(const FeedBatch& batch, std::vector<KvEvent>* out) {
  const FeedCursor::Mark& mark = batch.mark;
  FeedCursor& cursor = held_.cursor();
  Verdict verdict = cursor.Classify(mark);
  if (verdict == Verdict::kRestart) {
    BeginRestart(out);
    verdict = cursor.Classify(mark);
  }
  if (verdict == Verdict::kDuplicate) {
    return CountSkip(SkipReason::kDuplicateBatch, &counters_.skipped);
  }
  cursor.OnLive(mark);
  const std::optional<uint64_t> expected = std::exchange(live_next_, mark.sequence + 1);
  if (verdict == Verdict::kAlreadyReplayed) {
    tail_unconfirmed_ = false;
    return CountSkip(SkipReason::kDuplicateBatch, &counters_.skipped);
  }
  if (replay_) {
    if (expected && mark.sequence > *expected) ++counters_.gaps;
    return TakeLiveDuringReplay(batch, verdict, out);
  }
  if (verdict == Verdict::kGap) {
    ++counters_.gaps;
    return OnGap(batch, out);
  }
  tail_unconfirmed_ = false;
  ApplyLive(batch, out);
}

// One that cannot be read is lost, whatever it said. The engine may have it whole.
void EngineFeed::ApplyLive(const FeedBatch& batch, std::vector<KvEvent>* out) {
  if (held_.Apply(batch, out)) {
    copies_unreadable_ = false;
    return;
  }
  unreadable_live_ = batch.mark.sequence;
  if (replay_ && replay_->requested) return;  // it waits for the answer already
  replay_.reset();
  if (!config_.has_replay || copies_unreadable_) return GiveUpUnreadable(batch.mark, out);
  Buffer(batch);  // if the engine has no other copy, either, that shows when it goes in
  held_.LastApplied() ? StartContinue() : StartRebuild();
}

void EngineFeed::GiveUpUnreadable(const FeedCursor::Mark& mark, std::vector<KvEvent>* out) {
  GoOnWithout(fmt::format("batch {} could not be read", mark.sequence), out,
              DegradedReason::kUnreadable);
  held_.cursor().OnApplied(mark);
}

void EngineFeed::TakeLiveDuringReplay(const FeedBatch& batch, Verdict verdict,
                                      std::vector<KvEvent>* out) {
  if (!RepairRuns()) return Buffer(batch);
  if (!replay_->requested && replay_->repair_pending) {
    // Still waiting for its turn: the replay will bring this batch, too. A gap is more urgent.
    if (verdict != Verdict::kNext) {
      replay_.reset();
      return OnGap(batch, out);
    }
  } else {
    Buffer(batch);
    if (verdict != Verdict::kNext) return;
  }
  tail_unconfirmed_ = false;
  ApplyLive(batch, out);
}

void EngineFeed::OnGap(const FeedBatch& batch, std::vector<KvEvent>* out) {
  if (config_.has_replay) {
    Buffer(batch);
    if (held_.LastApplied()) return StartContinue();
    return StartRebuild();
  }
  GoOnWithout(fmt::format("gap before sequence {}, no replay endpoint", batch.mark.sequence), out);
  ApplyLive(batch, out);
}

void EngineFeed::BeginRestart(std::vector<KvEvent>* out) {
  ++counters_.restarts;
  if (restoration_ == Restoration::kPending) restoration_ = Restoration::kRestarted;
  DropRestored();
  AbandonReplay();
  held_.Restart(/*any_base=*/!config_.has_replay, out);
  live_next_.reset();
  copies_unreadable_ = false;
  repair_at_.reset();
  repairs_ = 0;
  if (config_.has_replay) StartRebuild();
}

// ---- Replay messages ----

void EngineFeed::OnReplayMessage(std::span<const std::string_view> frames, MonotonicTime now,
                                 std::vector<KvEvent>* out) {
  if (!replay_ || !replay_->requested) return;
  const std::optional<WireMessage> message = ParseReplayFrames(frames);
  if (!message) return CountSkip(SkipReason::kBadFraming, &counters_.skipped);
  if (message->end_of_replay) return OnReplayEnd(out);
  OnReplayedBatch(BatchOf(*message), now, out);
}

void EngineFeed::OnReplayEnd(std::vector<KvEvent>* out) {
  if (replay_ && replay_->requested) EndReplay(/*marker_seen=*/true, "", out);
}

void EngineFeed::OnReplayedBatch(const FeedBatch& batch, MonotonicTime now,
                                 std::vector<KvEvent>* out) {
  if (!replay_ || !replay_->requested) return;
  TakeReplayed(batch, out);
  // Only what brings us further counts: an engine that repeats itself must not hold the feed up.
  if (replay_ && replay_->requested && std::exchange(replay_->moved, false)) {
    replay_->deadline = now + config_.replay_timeout;
  }
}

void EngineFeed::OnReplayImpossible(std::string_view why, std::vector<KvEvent>* out) {
  if (replay_) EndReplay(/*marker_seen=*/false, why, out);
}

// ---- Time ----

void EngineFeed::OnTick(MonotonicTime now, std::vector<KvEvent>* out) {
  ClearLeftovers(out);
  if (replay_ && recovery_deadline_ && now >= *recovery_deadline_) {
    OnRecoveryLimit(out);
  } else if (replay_ && replay_->requested && now >= replay_->deadline) {
    EndReplay(/*marker_seen=*/false, "replay timed out", out);
  }
  if (!RepairUseful()) {
    repair_at_.reset();
  } else if (!repair_at_) {
    const int64_t doublings = std::min(repairs_, 20u);
    const MonotonicTime backoff = std::min(config_.repair_backoff_min * (int64_t{1} << doublings),
                                           config_.repair_backoff_max);
    repair_at_ = now + backoff + Jitter(config_, repairs_, backoff / 4);
  } else if (now >= *repair_at_) {
    repair_at_.reset();
    ++repairs_;
    if (held_.Damage().empty()) {
      StartContinue(/*tail_only=*/true);
    } else {
      StartRepair();
    }
  }
}

// A rebuild can bring something: the engine may still have batches from before our first one, or a
// batch in full that did not reach us so. Damage that the history itself holds comes back with it,
// at the pace of the backoff. Or nothing is damaged, and only the end of an answer is to be seen.
bool EngineFeed::RepairUseful() const {
  if (!config_.has_replay || !connected_ || replay_) return false;
  return held_.Damage().empty() ? tail_unconfirmed_ : !held_.Truncated();
}

// ---- Health ----

void EngineFeed::OnApplyResult(const KvEvent& event, const ApplyResult& result) {
  if (result.status != ApplyStatus::kParentBlockNotFound) return;
  // What was staged when the event was made may be what is held by now.
  (event.staging == Staging::kStaged ? Building() : held_).OnOrphan();
}

bool EngineFeed::LacksBeginning() const {
  if (!connected_ || replay_ || !held_.BeganLate()) return false;
  if (restoration_ == Restoration::kProved) return false;  // what was saved reaches as far back
  // With a replay endpoint, no base and no damage mean an engine that has said nothing yet.
  return !config_.has_replay || held_.Truncated() || !held_.Damage().empty();
}

FeedState EngineFeed::State() const {
  if (!connected_) return FeedState::kConnecting;
  if (replay_) return FeedState::kRecovering;
  return Detail().empty() ? FeedState::kLive : FeedState::kDegraded;
}

DegradedReason EngineFeed::Reason() const {
  if (State() != FeedState::kDegraded) return DegradedReason::kNone;
  if (!held_.Damage().empty()) return held_.DamageReason();
  return tail_unconfirmed_ ? DegradedReason::kReplayFailed : DegradedReason::kBlockNaming;
}

std::string EngineFeed::Detail() const {
  if (!connected_) return ever_connected_ ? "connection lost" : "";
  if (!held_.Damage().empty()) return held_.Damage();
  if (tail_unconfirmed_) return "a replay ended without its end marker";
  return held_.ForeignNaming();
}

}  // namespace kvrouter
