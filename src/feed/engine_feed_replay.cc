// Replays, and the histories that they build: the half of EngineFeed that asks the engine.
#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "feed/engine_feed.h"

namespace kvrouter {
namespace {

// What is missing may have come, and been worth nothing.
DegradedReason ReasonOfHole(bool unreadable) {
  return unreadable ? DegradedReason::kUnreadable : DegradedReason::kEventsLost;
}

}  // namespace

// ---- Beginning and giving up ----

void EngineFeed::StartRebuild() {
  held_.cursor().ForgetApplied(/*any_base=*/false);
  replay_ = Replay{.from_sequence = 0};
}

void EngineFeed::StartRepair() { replay_ = Replay{.from_sequence = 0, .repair_pending = true}; }

void EngineFeed::StartContinue(bool tail_only) {
  replay_ = Replay{.from_sequence = Building().LastApplied()->sequence,
                   .verify_pending = true,
                   .tail_only = tail_only};
}

// What was buffered is in the engine's own history, so a later replay brings it; kept, it could be
// of an older life.
void EngineFeed::AbandonReplay() {
  if (replay_ && replay_->requested) ++counters_.replays_failed;
  replay_.reset();
  recovery_deadline_.reset();
  GiveUpStaged();
  buffer_.Clear();
  unreadable_live_.reset();
}

std::optional<EngineFeed::ReplayRequest> EngineFeed::TakeReplayRequest(MonotonicTime now) {
  if (!ReplayWanted()) return std::nullopt;
  replay_->requested = true;
  replay_->deadline = now + config_.replay_timeout;
  if (!recovery_deadline_) recovery_deadline_ = now + config_.recovery_limit;
  if (!buffer_.Empty()) replay_->live_at_request = held_.cursor().LastLive()->sequence;
  ++counters_.replays_started;
  return ReplayRequest{replay_->from_sequence};
}

// ---- Replayed batches ----

void EngineFeed::TakeReplayed(const FeedBatch& batch, std::vector<KvEvent>* out) {
  const FeedCursor::Mark& mark = batch.mark;
  if (mark.sequence < replay_->from_sequence) return;
  if (replay_->verify_pending) {
    if (mark != Building().LastApplied()) return BeginRestart(out);
    replay_->verify_pending = false;
    replay_->moved = true;
    return ReleaseRestored(out);
  }
  if (replay_->repair_pending) {
    if (!held_.IsOutreachedBy(mark.sequence)) {
      held_.SetTruncated();
      return EndReplay(/*marker_seen=*/false, "", out);
    }
    replay_->repair_pending = false;
    if (held_.Holds()) {
      Stage(/*repair=*/true, out);
    } else {
      held_.BeginAnew();
    }
  }
  HeldHistory& building = Building();
  const auto& applied = building.LastApplied();
  if (applied && mark.sequence <= applied->sequence) {
    return CountSkip(SkipReason::kDuplicateBatch, &counters_.skipped);
  }
  if (!building.cursor().IsNext(mark.sequence)) {
    if (applied) return OnHole(batch, out);
    if (!replay_->unreadable) building.SetTruncated();
    building.SetDamage(DegradedReason::kHistoryUnknown,
                       fmt::format("the engine's history begins at sequence {}", mark.sequence));
  }
  ApplyReplayed(batch, out);
}

void EngineFeed::ApplyReplayed(const FeedBatch& batch, std::vector<KvEvent>* out) {
  if (Building().Apply(batch, out)) {
    replay_->progressed = true;
    replay_->moved = true;
  } else {
    replay_->unreadable = true;  // what follows it shows a hole
  }
}

// Either the engine never kept these batches, or its socket dropped them because the reader was
// slow.
void EngineFeed::OnHole(const FeedBatch& batch, std::vector<KvEvent>* out) {
  // Of an engine whose copies turned out to be unreadable the next one is not asked for twice.
  const bool is_known = replay_->unreadable && copies_unreadable_;
  if (replay_->progressed && !is_known) {
    ++counters_.replays_failed;
    return StartContinue();
  }
  const uint64_t next = batch.mark.sequence;
  if (IsRepairStaged() && !held_.IsOutreachedBy(next)) {
    const Replay ended = *std::exchange(replay_, std::nullopt);
    ++counters_.replays_failed;
    held_.SetTruncated();
    GiveUpRepair();
    return DrainBuffer(ended, /*may_ask=*/true, out);
  }
  std::string why = fmt::format("sequences {} to {} are not in the engine's history",
                                Building().LastApplied()->sequence + 1, next - 1);
  Stage(/*repair=*/false, out);
  Building().GoOnWithout(std::move(why), out, ReasonOfHole(replay_->unreadable));
  copies_unreadable_ = std::exchange(replay_->unreadable, false);
  if (!copies_unreadable_) Building().SetTruncated();
  ApplyReplayed(batch, out);
}

// ---- The end of a replay ----

void EngineFeed::EndReplay(bool marker_seen, std::string_view failure, std::vector<KvEvent>* out) {
  if (marker_seen && replay_->verify_pending) return BeginRestart(out);
  Replay ended = *std::exchange(replay_, std::nullopt);
  ended.marker_seen = marker_seen;
  ++(marker_seen ? counters_.replays_completed : counters_.replays_failed);
  if (ended.repair_pending) {
    if (marker_seen) held_.SetTruncated();  // a repair that found nothing
    GiveUpRepair();
  } else if (!marker_seen) {
    OnMarkerMissing(ended, failure, out);
  } else {
    tail_unconfirmed_ = false;
    if (ended.unreadable) OnUnreadableEnd(ended, out);
  }
  if (replay_) return;
  DrainBuffer(ended, /*may_ask=*/true, out);
}

// Its last batch could not be read. The next answer may bring it whole.
void EngineFeed::OnUnreadableEnd(const Replay& ended, std::vector<KvEvent>* out) {
  if (ended.progressed) return StartContinue();
  if (!buffer_.Empty()) return;  // what waited is it, or shows the gap
  if (IsRepairStaged()) return GiveUpRepair();
  copies_unreadable_ = true;
  GiveUpStaged();
  GoOnWithout("the engine's last batch could not be read", out, DegradedReason::kUnreadable);
}

void EngineFeed::OnMarkerMissing(const Replay& ended, std::string_view failure,
                                 std::vector<KvEvent>* out) {
  const bool unverified = ended.verify_pending && !ended.tail_only;
  const std::optional<FeedCursor::Mark> applied = Building().LastApplied();
  if (unverified || !applied) {  // the same engine or not: we cannot know
    if (IsRepairStaged()) return GiveUpRepair();
    GiveUpStaged();
    GoOnWithout(std::string(failure), out, DegradedReason::kReplayFailed);
  } else if (ended.progressed || !(ended.tail_only || staged_)) {
    StartContinue(/*tail_only=*/true);  // the rest may only have been lost on the way
  } else if (IsRepairStaged() && held_.LastApplied()->sequence > applied->sequence &&
             (buffer_.Empty() || buffer_.FrontMark().sequence > applied->sequence + 1)) {
    GiveUpRepair();  // it ends before what is held, and nothing that waited goes on from there
  } else {
    tail_unconfirmed_ = true;
  }
}

void EngineFeed::OnRecoveryLimit(std::vector<KvEvent>* out) {
  const bool repair = RepairRuns();
  const Replay ended = *std::exchange(replay_, std::nullopt);
  if (ended.requested) ++counters_.replays_failed;
  recovery_deadline_.reset();
  if (repair) {
    GiveUpRepair();
  } else {
    GiveUpStaged();
    const auto limit = std::chrono::duration_cast<std::chrono::seconds>(config_.recovery_limit);
    GoOnWithout(fmt::format("recovery took longer than {} s", limit.count()), out,
                DegradedReason::kReplayFailed);
  }
  DrainBuffer(ended, /*may_ask=*/repair, out);
}

void EngineFeed::DrainBuffer(const Replay& ended, bool may_ask, std::vector<KvEvent>* out) {
  // Asked before a batch came, the engine could not know that we would need what precedes it, or
  // the batch itself.
  const auto asked_after = [&ended](const FeedCursor::Mark& mark) {
    return ended.live_at_request && mark.sequence <= *ended.live_at_request;
  };
  bool gap_is_final = !ended.progressed;
  while (!buffer_.Empty()) {
    const FeedCursor::Mark next = buffer_.FrontMark();
    const std::optional<FeedCursor::Mark> applied = Building().LastApplied();
    if (applied && next.sequence <= applied->sequence) {
      CountSkip(SkipReason::kDuplicateBatch, &counters_.skipped);
    } else {
      if (!Building().cursor().IsNext(next.sequence)) {
        gap_is_final = gap_is_final && asked_after(next);
        if (!gap_is_final && may_ask) return applied ? StartContinue() : StartRebuild();
        if (IsRepairStaged()) {
          GiveUpRepair();
          continue;
        }
        Stage(/*repair=*/false, out);
        Building().GoOnWithout(
            fmt::format("gap before sequence {}, not in the engine's history", next.sequence), out,
            ReasonOfHole(ended.unreadable));
        copies_unreadable_ = ended.unreadable;
        // An answer that was cut short does not tell.
        if (ended.marker_seen && !ended.unreadable) Building().SetTruncated();
        gap_is_final = false;
      }
      if (unreadable_live_ == next.sequence || !Building().Apply(buffer_.Front(), out)) {
        const bool is_final = copies_unreadable_ || (!ended.progressed && asked_after(next));
        if (!is_final && may_ask)
          return Building().LastApplied() ? StartContinue() : StartRebuild();
        copies_unreadable_ = copies_unreadable_ || ended.unreadable;
        GiveUpStaged();
        GiveUpUnreadable(next, out);
      }
    }
    tail_unconfirmed_ = false;
    buffer_.PopFront();
  }
  recovery_deadline_.reset();
  if (!staged_) return;
  held_.Replace(std::move(staged_->history), out);
  staged_.reset();
}

// ---- What is built unseen ----

void EngineFeed::Stage(bool repair, std::vector<KvEvent>* out) {
  if (staged_ || !held_.Holds()) return;
  ClearLeftovers(out);
  staged_.emplace(Staged{.history = held_.Successor(), .repair = repair});
}

void EngineFeed::GiveUpStaged() {
  if (!staged_) return;
  leftovers_ = std::move(staged_->history);
  staged_.reset();
}

// What is held took in every live batch that followed on it: these need not wait any longer.
void EngineFeed::GiveUpRepair() {
  GiveUpStaged();
  const std::optional<FeedCursor::Mark>& applied = held_.LastApplied();
  while (!buffer_.Empty() && applied && buffer_.FrontMark().sequence <= applied->sequence) {
    buffer_.PopFront();
  }
}

void EngineFeed::ClearLeftovers(std::vector<KvEvent>* out) {
  if (!leftovers_) return;
  leftovers_->DropBlocks(out);
  leftovers_.reset();
}

}  // namespace kvrouter
