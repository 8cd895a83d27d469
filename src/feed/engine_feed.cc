#include "feed/engine_feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvrouter {
namespace {

using Verdict = FeedCursor::Verdict;

// 0..period, spread over feeds and attempts, so that routers and ranks do not replay in step.
MonotonicTime Jitter(const Target& target, uint32_t attempt, MonotonicTime period) {
  uint64_t x =
      static_cast<uint64_t>(target.worker) + 0x9e3779b97f4a7c15u * (target.dp_rank + 1) + attempt;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return MonotonicTime(static_cast<int64_t>(x % static_cast<uint64_t>(period.count() + 1)));
}

FeedBatch BatchOf(const WireMessage& message) {
  return {{message.sequence, PeekTimestamp(message.payload)}, message.payload};
}

}  // namespace

EngineFeed::EngineFeed(const EngineFeedConfig& config) : config_(config) {
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
    if (cursor_.LastApplied()) {
      StartContinue();
    } else {
      StartRebuild(/*repair=*/false);
    }
    return;
  }
  if (cursor_.LastApplied()) {
    GoOnWithout("reconnected without a replay endpoint", out);
  } else {
    cursor_.ForgetApplied(/*any_base=*/true);
  }
}

void EngineFeed::OnDisconnected() {
  connected_ = false;
  tail_unconfirmed_ = false;
  live_next_.reset();  // what was missed in between is a reconnect's matter, no gap
  AbandonReplay();
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
  Verdict verdict = cursor_.Classify(mark);
  if (verdict == Verdict::kRestart) {
    BeginRestart(out);
    verdict = cursor_.Classify(mark);
  }
  if (verdict == Verdict::kDuplicate) {
    return CountSkip(SkipReason::kDuplicateBatch, &counters_.skipped);
  }
  cursor_.OnLive(mark);
  const std::optional<uint64_t> expected = std::exchange(live_next_, mark.sequence + 1);
  if (verdict == Verdict::kAlreadyReplayed) {
    tail_unconfirmed_ = false;
    return CountSkip(SkipReason::kDuplicateBatch, &counters_.skipped);
  }
  if (replay_) {
    if (expected && mark.sequence > *expected) ++counters_.gaps;
    return Buffer(batch);
  }
  if (verdict == Verdict::kGap) return OnGap(batch, out);
  tail_unconfirmed_ = false;
  ApplyBatch(batch, out);
}

void EngineFeed::OnGap(const FeedBatch& batch, std::vector<KvEvent>* out) {
  ++counters_.gaps;
  if (config_.has_replay) {
    Buffer(batch);
    if (cursor_.LastApplied()) return StartContinue();
    return StartRebuild(/*repair=*/false);
  }
  GoOnWithout(fmt::format("gap before sequence {}, no replay endpoint", batch.mark.sequence), out);
  ApplyBatch(batch, out);
}

void EngineFeed::BeginRestart(std::vector<KvEvent>* out) {
  ++counters_.restarts;
  if (restoration_ == Restoration::kPending) restoration_ = Restoration::kRestarted;
  AbandonReplay();
  DropBlocks(out);
  ranks_.clear();  // the new life may number its KV groups otherwise
  live_next_.reset();
  ForgetDamage();
  repairs_ = 0;
  cursor_.Restart(/*any_base=*/!config_.has_replay);
  if (config_.has_replay) StartRebuild(/*repair=*/false);
}

// ---- Replay ----

void EngineFeed::StartRebuild(bool repair) {
  if (!repair) cursor_.ForgetApplied(/*any_base=*/false);
  replay_ = Replay{.from_sequence = 0, .drop_pending = repair};
}

void EngineFeed::StartContinue(bool tail_only) {
  replay_ = Replay{.from_sequence = cursor_.LastApplied()->sequence,
                   .verify_pending = true,
                   .tail_only = tail_only};
}

// What was buffered is in the engine's own history, so a later replay brings it; kept, it could be
// of an older life.
void EngineFeed::AbandonReplay() {
  if (replay_ && replay_->requested) ++counters_.replays_failed;
  replay_.reset();
  ClearBuffer();
}

std::optional<EngineFeed::ReplayRequest> EngineFeed::TakeReplayRequest(MonotonicTime now) {
  if (!ReplayWanted()) return std::nullopt;
  replay_->requested = true;
  replay_->deadline = now + config_.replay_timeout;
  if (!buffer_.empty()) replay_->live_at_request = cursor_.LastLive()->sequence;
  ++counters_.replays_started;
  return ReplayRequest{replay_->from_sequence};
}

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
  const std::optional<FeedCursor::Mark> applied_before = cursor_.LastApplied();
  const bool verified_before = !replay_->verify_pending;
  TakeReplayed(batch, out);
  // Only what brings us further counts: an engine that repeats itself must not hold the feed up.
  if (replay_ && replay_->requested &&
      (cursor_.LastApplied() != applied_before || !replay_->verify_pending != verified_before)) {
    replay_->deadline = now + config_.replay_timeout;
  }
}

void EngineFeed::TakeReplayed(const FeedBatch& batch, std::vector<KvEvent>* out) {
  const FeedCursor::Mark& mark = batch.mark;
  if (mark.sequence < replay_->from_sequence) return;
  if (replay_->verify_pending) {
    if (mark == cursor_.LastApplied()) {
      replay_->verify_pending = false;
      return ReleaseRestored(out);
    }
    return BeginRestart(out);
  }
  if (replay_->drop_pending) {
    // What began at 0 is only worth dropping for a history that is still whole.
    const bool reaches_back = base_sequence_ == 0u
                                  ? mark.sequence == 0
                                  : !base_sequence_ || mark.sequence < *base_sequence_;
    if (!reaches_back) {
      history_truncated_ = true;
      return EndReplay(/*marker_seen=*/false, "the engine's history begins no earlier", out);
    }
    replay_->drop_pending = false;
    DropBlocks(out);
    ForgetDamage();
    cursor_.ForgetApplied(/*any_base=*/false);
  }
  if (cursor_.LastApplied() && mark.sequence <= cursor_.LastApplied()->sequence) {
    return CountSkip(SkipReason::kDuplicateBatch, &counters_.skipped);
  }
  if (!cursor_.IsNext(mark.sequence)) {
    if (cursor_.LastApplied()) return OnHole(batch, out);
    history_truncated_ = true;
    damage_ = fmt::format("the engine's history begins at sequence {}", mark.sequence);
  }
  replay_->progressed = true;
  ApplyBatch(batch, out);
}

// Either the engine never kept these batches, or its socket dropped them because the reader was
// slow.
void EngineFeed::OnHole(const FeedBatch& batch, std::vector<KvEvent>* out) {
  if (replay_->progressed) {
    ++counters_.replays_failed;
    return StartContinue();
  }
  const std::string why = fmt::format("sequences {} to {} are not in the engine's history",
                                      cursor_.LastApplied()->sequence + 1, batch.mark.sequence - 1);
  GoOnWithout(why, out);
  history_truncated_ = true;
  replay_->progressed = true;
  ApplyBatch(batch, out);
}

void EngineFeed::OnReplayImpossible(std::string_view why, std::vector<KvEvent>* out) {
  if (replay_) EndReplay(/*marker_seen=*/false, why, out);
}

void EngineFeed::OnTick(MonotonicTime now, std::vector<KvEvent>* out) {
  if (replay_ && replay_->requested && now >= replay_->deadline) {
    EndReplay(/*marker_seen=*/false, "replay timed out", out);
  }
  if (!RepairUseful()) {
    repair_at_.reset();
  } else if (!repair_at_) {
    const int64_t doublings = std::min(repairs_, 20u);
    const MonotonicTime backoff = std::min(config_.repair_backoff_min * (int64_t{1} << doublings),
                                           config_.repair_backoff_max);
    repair_at_ = now + backoff + Jitter(config_.target, repairs_, backoff / 4);
  } else if (now >= *repair_at_) {
    repair_at_.reset();
    ++repairs_;
    StartRebuild(/*repair=*/true);
  }
}

void EngineFeed::EndReplay(bool marker_seen, std::string_view failure, std::vector<KvEvent>* out) {
  if (marker_seen && replay_->verify_pending) return BeginRestart(out);
  const Replay ended = *std::exchange(replay_, std::nullopt);
  ++(marker_seen ? counters_.replays_completed : counters_.replays_failed);
  if (ended.drop_pending) {
    history_truncated_ = history_truncated_ || marker_seen;  // a repair that found nothing
  } else if (!marker_seen) {
    const bool unverified = ended.verify_pending && !ended.tail_only;
    if (unverified || !cursor_.LastApplied()) {  // the same engine or not: we cannot know
      GoOnWithout(std::string(failure), out);
    } else if (ended.progressed) {
      return StartContinue(/*tail_only=*/true);  // the rest may only have been lost on the way
    } else {
      tail_unconfirmed_ = true;
    }
  }
  DrainBuffer(ended, out);
}

// ---- Live batches that waited ----

void EngineFeed::Buffer(const FeedBatch& batch) {
  buffer_.push_back({batch.mark, std::string(batch.payload), batch.decoded});
  buffered_bytes_ += buffer_.back().bytes();
  while (buffer_.size() > config_.max_buffered_batches ||
         (buffered_bytes_ > config_.max_buffered_bytes && buffer_.size() > 1)) {
    buffered_bytes_ -= buffer_.front().bytes();
    buffer_.pop_front();
    ++counters_.live_dropped;
  }
}

void EngineFeed::ClearBuffer() {
  buffer_.clear();
  buffered_bytes_ = 0;
}

void EngineFeed::DrainBuffer(const Replay& ended, std::vector<KvEvent>* out) {
  bool gap_is_final = !ended.progressed;
  while (!buffer_.empty()) {
    const FeedCursor::Mark& next = buffer_.front().mark;
    const std::optional<FeedCursor::Mark>& applied = cursor_.LastApplied();
    if (applied && next.sequence <= applied->sequence) {
      CountSkip(SkipReason::kDuplicateBatch, &counters_.skipped);
    } else {
      if (!cursor_.IsNext(next.sequence)) {
        // Asked before this batch came, the engine could not know that we would need what precedes
        // it.
        gap_is_final =
            gap_is_final && ended.live_at_request && next.sequence <= *ended.live_at_request;
        if (!gap_is_final) return applied ? StartContinue() : StartRebuild(/*repair=*/false);
        GoOnWithout(
            fmt::format("gap before sequence {}, not in the engine's history", next.sequence), out);
        history_truncated_ = true;
        gap_is_final = false;
      }
      ApplyBatch(buffer_.front().AsBatch(), out);
    }
    tail_unconfirmed_ = false;
    buffered_bytes_ -= buffer_.front().bytes();
    buffer_.pop_front();
  }
}

// ---- Blocks ----

void EngineFeed::GoOnWithout(std::string why, std::vector<KvEvent>* out) {
  DropBlocks(out);
  cursor_.ForgetApplied(/*any_base=*/true);
  damage_ = std::move(why);
}

void EngineFeed::DropBlocks(std::vector<KvEvent>* out) {
  restored_.clear();
  if (restoration_ == Restoration::kPending) restoration_ = Restoration::kUnproved;
  base_sequence_.reset();
  orphan_stores_ = 0;
  const uint64_t sequence = cursor_.LastApplied() ? cursor_.LastApplied()->sequence : 0;
  for (auto& [dp_rank, filter] : ranks_) {
    filter.OnCleared();
    Emit(dp_rank, sequence, Cleared{}, out);
  }
}

void EngineFeed::ApplyBatch(const FeedBatch& batch, std::vector<KvEvent>* out) {
  const FeedCursor::Mark& mark = batch.mark;
  if (!base_sequence_) {
    base_sequence_ = mark.sequence;
    if (mark.sequence == 0) {
      ForgetDamage();
    } else if (damage_.empty()) {
      damage_ = fmt::format("history before sequence {} is unknown", mark.sequence);
      // No repair is scheduled: a replay endpoint would have been asked first.
    }
  }
  cursor_.OnApplied(mark);
  const auto refused =
      batch.decoded ? batch.decoded->refused : DecodeBatch(batch.payload, &decoded_);
  if (refused) {
    CountSkip(*refused, &counters_.skipped);
    damage_ = fmt::format("batch {} could not be decoded", mark.sequence);
    return;
  }
  ++counters_.batches_applied;
  const RawBatch& raw = batch.decoded ? batch.decoded->raw : decoded_;
  for (int i = 0; i < kSkipReasonCount; ++i) counters_.skipped[i] += raw.skipped[i];
  const uint64_t rank = raw.rank.value_or(config_.target.dp_rank);
  if (rank < config_.dp_start_rank || rank - config_.dp_start_rank >= config_.dp_size) {
    return CountSkip(SkipReason::kRankOutOfRange, &counters_.skipped);
  }
  for (const RawEvent& event : raw.events) {
    ApplyEvent(static_cast<uint32_t>(rank), mark.sequence, raw, event, out);
  }
}

RankFilter& EngineFeed::FilterOf(uint32_t dp_rank) {
  const BlockNaming naming{config_.block_size_tokens, config_.is_eagle, config_.image_token_id};
  return ranks_.try_emplace(dp_rank, naming).first->second;
}

void EngineFeed::ApplyEvent(uint32_t dp_rank, uint64_t sequence, const RawBatch& batch,
                            const RawEvent& event, std::vector<KvEvent>* out) {
  RankFilter& filter = FilterOf(dp_rank);
  switch (event.kind) {
    case RawKind::kStored:
      if (auto stored = filter.Store(batch, event, &counters_)) {
        Emit(dp_rank, sequence, *std::move(stored), out);
      }
      return;
    case RawKind::kRemoved:
      if (auto removed = filter.Remove(batch, event, &counters_)) {
        Emit(dp_rank, sequence, *std::move(removed), out);
      }
      return;
    case RawKind::kCleared:
      filter.OnCleared();
      if (ranks_.size() == 1) {  // an empty cache misses nothing
        ForgetDamage();
        orphan_stores_ = 0;
      }
      Emit(dp_rank, sequence, Cleared{}, out);
      return;
  }
}

void EngineFeed::Emit(uint32_t dp_rank, uint64_t sequence,
                      std::variant<Stored, Removed, Cleared> data, std::vector<KvEvent>* out) {
  ++counters_.events_applied;
  out->push_back(KvEvent{.target = {config_.target.worker, dp_rank},
                         .incarnation = config_.incarnation,
                         .tier = StorageTier::kDevice,
                         .counting = config_.counting,
                         .event_id = sequence,
                         .data = std::move(data)});
}

// ---- From one process to the next ----

std::optional<SavedProgress> EngineFeed::Save() const {
  const std::optional<FeedCursor::Mark>& applied = cursor_.LastApplied();
  if (!config_.has_replay || !applied || !applied->ts_seconds) return std::nullopt;
  SavedProgress saved{.applied = *applied,
                      .base_sequence = base_sequence_,
                      .orphan_stores = orphan_stores_,
                      .history_truncated = history_truncated_,
                      .damage = damage_,
                      .ranks = restored_};
  if (restoration_ == Restoration::kPending) return saved;
  for (const auto& [dp_rank, filter] : ranks_) {
    saved.ranks.push_back(
        {.dp_rank = dp_rank, .held_blocks = 0, .filter = filter.Save(), .blocks = {}});
  }
  return saved;
}

void EngineFeed::Restore(SavedProgress saved) {
  KVR_CHECK(config_.has_replay && !ever_connected_, "has_replay={}", config_.has_replay);
  cursor_.OnApplied(saved.applied);
  base_sequence_ = saved.base_sequence;
  orphan_stores_ = saved.orphan_stores;
  history_truncated_ = saved.history_truncated;
  damage_ = std::move(saved.damage);
  for (const SavedRank& rank : saved.ranks) {
    if (rank.dp_rank < config_.dp_start_rank ||
        rank.dp_rank - config_.dp_start_rank >= config_.dp_size)
      continue;
    FilterOf(rank.dp_rank).Restore(rank.filter);
    restored_.push_back(rank);
  }
  restoration_ = Restoration::kPending;
}

void EngineFeed::ReleaseRestored(std::vector<KvEvent>* out) {
  if (restoration_ != Restoration::kPending) return;
  restoration_ = Restoration::kProved;
  for (SavedRank& rank : restored_) {
    for (SavedEvent& saved : rank.blocks) {
      KvEvent event{.target = {config_.target.worker, rank.dp_rank},
                    .incarnation = config_.incarnation,
                    .tier = saved.tier,
                    .event_id = cursor_.LastApplied()->sequence,
                    .data = Cleared{}};
      std::visit([&](auto& data) { event.data = std::move(data); }, saved.data);
      out->push_back(std::move(event));
    }
  }
  std::vector<SavedRank>().swap(restored_);  // memory returns
}

// ---- Health ----

void EngineFeed::OnApplyResult(const ApplyResult& result) {
  if (result.status != ApplyStatus::kParentBlockNotFound) return;
  ++orphan_stores_;
  damage_ = fmt::format("{} stores continue blocks we do not know", orphan_stores_);
}

// A rebuild can bring something: the engine may still have batches from before our first one, or a
// batch in full that did not reach us so. Damage that the history itself holds comes back with it,
// at the pace of the backoff.
bool EngineFeed::RepairUseful() const {
  return config_.has_replay && connected_ && !replay_ && !damage_.empty() && !history_truncated_;
}

void EngineFeed::ForgetDamage() {
  damage_.clear();
  history_truncated_ = false;
  repair_at_.reset();
}

std::string EngineFeed::ForeignNaming() const {
  for (const auto& [dp_rank, filter] : ranks_) {
    if (filter.ForeignBlockSize()) {
      return fmt::format("the engine's block size is {}, the partition's {}",
                         *filter.ForeignBlockSize(), config_.block_size_tokens);
    }
    if (filter.ForeignTokenForm()) {
      return "the engine sends single tokens, the worker is registered as EAGLE (is_eagle), which "
             "sends pairs";
    }
  }
  return "";
}

FeedState EngineFeed::State() const {
  if (!connected_) return FeedState::kConnecting;
  if (replay_) return FeedState::kRecovering;
  return Detail().empty() ? FeedState::kLive : FeedState::kDegraded;
}

std::string EngineFeed::Detail() const {
  if (!connected_) return ever_connected_ ? "connection lost" : "";
  if (!damage_.empty()) return damage_;
  if (tail_unconfirmed_) return "a replay ended without its end marker";
  return ForeignNaming();
}

}  // namespace kvrouter
