// From one process to the next: the part of EngineFeed that saves where it is and goes on from
// there.
#include <utility>

#include "base/check.h"
#include "feed/engine_feed.h"

namespace kvrouter {

std::optional<SavedProgress> EngineFeed::Save() const {
  const std::optional<FeedCursor::Mark>& applied = held_.LastApplied();
  if (!config_.has_replay || !applied || !applied->ts_seconds) return std::nullopt;
  SavedProgress saved = held_.Save();
  if (restoration_ == Restoration::kPending) saved.ranks = restored_;
  return saved;
}

void EngineFeed::Restore(SavedProgress saved) {
  KVR_CHECK(config_.has_replay && !ever_connected_, "has_replay={}", config_.has_replay);
  held_.Restore(saved);
  for (SavedRank& rank : saved.ranks) {
    if (held_.IsOwnRank(rank.dp_rank)) restored_.push_back(std::move(rank));
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
                    .event_id = held_.LastApplied()->sequence,
                    .data = Cleared{}};
      std::visit([&](auto& data) { event.data = std::move(data); }, saved.data);
      out->push_back(std::move(event));
    }
  }
  std::vector<SavedRank>().swap(restored_);  // memory returns
}

void EngineFeed::DropRestored() {
  std::vector<SavedRank>().swap(restored_);
  if (restoration_ == Restoration::kPending) restoration_ = Restoration::kUnproved;
}

}  // namespace kvrouter
