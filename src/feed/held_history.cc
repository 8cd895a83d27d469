#include "feed/held_history.h"

#include <fmt/format.h>

#include <utility>

namespace kvrouter {

bool HeldHistory::Apply(const FeedBatch& batch, std::vector<KvEvent>* out) {
  const FeedCursor::Mark& mark = batch.mark;
  const auto refused =
      batch.decoded ? batch.decoded->refused : DecodeBatch(batch.payload, &decoded_);
  if (refused) {
    CountSkip(*refused, &counters_->skipped);
    return false;
  }
  if (!base_) {
    if (mark.sequence == 0 && has_peer_blocks_) DropBlocks(out);
    base_ = mark.sequence;
    if (mark.sequence == 0) {
      ForgetDamage();
    } else if (damage_.empty()) {
      SetDamage(DegradedReason::kHistoryUnknown,
                fmt::format("history before sequence {} is unknown", mark.sequence));
      // No repair is scheduled: a replay endpoint would have been asked first.
    }
  }
  cursor_.OnApplied(mark);
  ++counters_->batches_applied;
  const RawBatch& raw = batch.decoded ? batch.decoded->raw : decoded_;
  for (int i = 0; i < kSkipReasonCount; ++i) counters_->skipped[i] += raw.skipped[i];
  const uint64_t rank = raw.rank.value_or(config_->target.dp_rank);
  if (!IsOwnRank(rank)) {
    CountSkip(SkipReason::kRankOutOfRange, &counters_->skipped);
    return true;
  }
  // The engine's other copy is the same. A store that cannot be read needs no word: what continues
  // it shows that it is missing.
  if (raw.lost_removals > 0)
    SetDamage(DegradedReason::kUnreadable, fmt::format("{} removals of batch {} could not be read",
                                                       raw.lost_removals, mark.sequence));
  for (const RawEvent& event : raw.events) {
    ApplyEvent(static_cast<uint32_t>(rank), mark.sequence, raw, event, out);
  }
  return true;
}

RankFilter& HeldHistory::FilterOf(uint32_t dp_rank) {
  const BlockNaming naming{config_->block_size_tokens, config_->is_eagle, config_->image_token_id};
  return ranks_.try_emplace(dp_rank, naming).first->second;
}

void HeldHistory::ApplyEvent(uint32_t dp_rank, uint64_t sequence, const RawBatch& batch,
                             const RawEvent& event, std::vector<KvEvent>* out) {
  RankFilter& filter = FilterOf(dp_rank);
  const StorageTier tier = TierOf(event.medium).value_or(StorageTier::kDevice);
  switch (event.kind) {
    case RawKind::kStored:
      if (auto stored = filter.Store(batch, event, counters_)) {
        Emit(dp_rank, sequence, staging_, *std::move(stored), out, tier);
      }
      return;
    case RawKind::kRemoved:
      if (auto removed = filter.Remove(batch, event, counters_)) {
        Emit(dp_rank, sequence, staging_, *std::move(removed), out, tier);
      }
      return;
    case RawKind::kCleared:
      filter.OnCleared();
      if (ranks_.size() == 1) {  // an empty cache misses nothing
        ForgetDamage();
        orphan_stores_ = 0;
      }
      Emit(dp_rank, sequence, staging_, Cleared{}, out);
      return;
  }
}

void HeldHistory::Emit(uint32_t dp_rank, uint64_t sequence, Staging staging,
                       std::variant<Stored, Removed, Cleared> data, std::vector<KvEvent>* out,
                       StorageTier tier) {
  ++counters_->events_applied;
  out->push_back(KvEvent{.target = {config_->target.worker, dp_rank},
                         .incarnation = config_->incarnation,
                         .tier = tier,
                         .counting = config_->counting,
                         .staging = staging,
                         .event_id = sequence,
                         .data = std::move(data)});
}

void HeldHistory::OnOrphan() {
  ++orphan_stores_;
  SetDamage(DegradedReason::kUnknownParent,
            fmt::format("{} stores continue blocks we do not know", orphan_stores_));
}

void HeldHistory::OnPeerBlocks(uint32_t dp_rank, std::string_view peer, uint64_t blocks) {
  FilterOf(dp_rank);  // from now on the rank has something to drop
  has_peer_blocks_ = true;
  SetDamage(DegradedReason::kUnproved,
            fmt::format("{} blocks as {} knew them, not proved by the engine", blocks, peer));
}

void HeldHistory::DropBlocks(std::vector<KvEvent>* out) {
  base_.reset();
  has_peer_blocks_ = false;
  orphan_stores_ = 0;
  for (auto& [dp_rank, filter] : ranks_) {
    filter.OnCleared();
    Emit(dp_rank, LastSequence(), staging_, Cleared{}, out);
  }
}

void HeldHistory::GoOnWithout(std::string why, std::vector<KvEvent>* out, DegradedReason reason) {
  DropBlocks(out);
  cursor_.ForgetApplied(/*any_base=*/true);
  SetDamage(reason, std::move(why));
  // The engine may be another one by now, or have kept much of what was given up.
  truncated_ = false;
}

void HeldHistory::BeginAnew() {
  ForgetDamage();
  cursor_.ForgetApplied(/*any_base=*/false);
}

void HeldHistory::Restart(bool any_base, std::vector<KvEvent>* out) {
  DropBlocks(out);
  ranks_.clear();  // the new life may number its KV groups otherwise
  ForgetDamage();
  cursor_.Restart(any_base);
}

HeldHistory HeldHistory::Successor() const {
  HeldHistory next(config_, counters_, Staging::kStaged);
  for (const auto& [dp_rank, filter] : ranks_) next.ranks_.emplace(dp_rank, filter.Successor());
  return next;
}

void HeldHistory::Replace(HeldHistory next, std::vector<KvEvent>* out) {
  // Of every rank that has anything in either; without anything staged a rank is empty from now on.
  for (const auto& [dp_rank, filter] : ranks_) next.ranks_.try_emplace(dp_rank, filter.Successor());
  for (const auto& [dp_rank, filter] : next.ranks_) {
    Emit(dp_rank, next.LastSequence(), Staging::kCommit, Cleared{}, out);
  }
  cursor_.AdoptApplied(next.cursor_);
  ranks_ = std::move(next.ranks_);
  base_ = next.base_;
  SetDamage(next.damage_reason_, std::move(next.damage_));
  has_peer_blocks_ = false;
  orphan_stores_ = next.orphan_stores_;
  truncated_ = next.truncated_;
}

SavedProgress HeldHistory::Save() const {
  SavedProgress saved{.applied = *LastApplied(),
                      .base_sequence = base_,
                      .orphan_stores = orphan_stores_,
                      .history_truncated = truncated_,
                      .damage = damage_,
                      .damage_reason = DamageReason(),
                      .ranks = {}};
  for (const auto& [dp_rank, filter] : ranks_) {
    saved.ranks.push_back(
        {.dp_rank = dp_rank, .held_blocks = 0, .filter = filter.Save(), .blocks = {}});
  }
  return saved;
}

void HeldHistory::Restore(const SavedProgress& saved) {
  cursor_.OnApplied(saved.applied);
  base_ = saved.base_sequence;
  orphan_stores_ = saved.orphan_stores;
  truncated_ = saved.history_truncated;
  SetDamage(saved.damage_reason, saved.damage);
  for (const SavedRank& rank : saved.ranks) {
    if (IsOwnRank(rank.dp_rank)) FilterOf(rank.dp_rank).Restore(rank.filter);
  }
}

bool HeldHistory::IsOutreachedBy(uint64_t sequence) const {
  if (!base_) return true;
  return *base_ == 0 ? sequence == 0 : sequence < *base_;
}

void HeldHistory::ForgetDamage() {
  damage_.clear();
  truncated_ = false;
}

std::string HeldHistory::ForeignNaming() const {
  for (const auto& [dp_rank, filter] : ranks_) {
    if (filter.ForeignBlockSize()) {
      return fmt::format("the engine's block size is {}, the partition's {}",
                         *filter.ForeignBlockSize(), config_->block_size_tokens);
    }
    if (filter.ForeignTokenForm()) {
      return "the engine sends single tokens, the worker is registered as EAGLE (is_eagle), which "
             "sends pairs";
    }
  }
  return "";
}

}  // namespace kvrouter
