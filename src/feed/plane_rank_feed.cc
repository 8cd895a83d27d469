#include "feed/plane_rank_feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvrouter {

void PlaneRankFeed::OnEvent(uint64_t publisher_id, PlaneEvent event, MonotonicTime now,
                            std::vector<KvEvent>* out) {
  if (publisher_ != publisher_id) {
    if (IsOldPublisher(publisher_id))
      return CountSkip(SkipReason::kOldPublisher, &counters_.skipped);
    BeginLife(publisher_id, out);
  }
  if (last_id_ && event.event_id <= *last_id_)
    return CountSkip(SkipReason::kStaleEvent, &counters_.skipped);
  if (event.unreadable) {  // its id is not passed, so the next one shows the hole
    CountSkip(SkipReason::kBadEvent, &counters_.skipped);
    return OnSuspicion(fmt::format("event {} could not be read", event.event_id));
  }
  const bool next = !last_id_ || event.event_id == *last_id_ + 1;
  if (next || event.is_cleared()) {
    if (!last_id_ && event.event_id > 0) {
      damage_ =
          fmt::format("joined at event {}: what the rank held before is not known", event.event_id);
    }
    Take(std::move(event), out);
    return TakeEarly(out);
  }
  if (early_.empty()) ++counters_.gaps;
  const uint64_t event_id = event.event_id;
  early_.try_emplace(event_id, EarlyEvent{std::move(event), now});
  if (config_.gap_wait == MonotonicTime{} || early_.size() > config_.max_early_events)
    GiveUpMissing(out);
}

bool PlaneRankFeed::IsOldPublisher(uint64_t publisher_id) const {
  return std::find(old_publishers_.begin(), old_publishers_.end(), publisher_id) !=
         old_publishers_.end();
}

void PlaneRankFeed::BeginLife(uint64_t publisher_id, std::vector<KvEvent>* out) {
  if (publisher_) {
    ++counters_.restarts;
    old_publishers_.push_back(*publisher_);
    if (old_publishers_.size() > kMaxOldPublishers) old_publishers_.pop_front();
    Reset(out);
  }
  publisher_ = publisher_id;
  last_id_.reset();
  early_.clear();
  damage_.clear();
  suspicion_.clear();
}

// The next event, or one that makes what came before it immaterial.
void PlaneRankFeed::Take(PlaneEvent event, std::vector<KvEvent>* out) {
  last_id_ = event.event_id;
  suspicion_.clear();
  if (event.is_cleared()) {
    damage_.clear();
    orphan_stores_ = 0;
    early_.erase(early_.begin(), early_.upper_bound(event.event_id));
  }
  if (event.ignored) return CountSkip(*event.ignored, &counters_.skipped);
  if (const auto* stored = std::get_if<Stored>(&event.data); stored && stored->blocks.empty())
    return;
  if (const auto* removed = std::get_if<Removed>(&event.data);
      removed && removed->engine_hashes.empty())
    return;  // how Dynamo's publisher says that it left an event out
  Emit(event.event_id, event.tier, std::move(event.data), out);
}

PlaneEvent PlaneRankFeed::PopEarly() {
  return std::move(early_.extract(early_.begin()).mapped().event);
}

// Those that came early and whose turn it is now.
void PlaneRankFeed::TakeEarly(std::vector<KvEvent>* out) {
  while (!early_.empty() && early_.begin()->first == *last_id_ + 1) Take(PopEarly(), out);
}

// The events before the early ones are lost: what the rank holds is not known any more. Of several
// holes the last one counts, but what a cleared event says stands.
void PlaneRankFeed::GiveUpMissing(std::vector<KvEvent>* out) {
  while (!early_.empty()) {
    PlaneEvent event = PopEarly();
    if (event.event_id != *last_id_ + 1) {
      Reset(out);
      damage_ = fmt::format("events {} to {} lost: the blocks known before were dropped",
                            *last_id_ + 1, event.event_id - 1);
    }
    Take(std::move(event), out);
  }
}

void PlaneRankFeed::Reset(std::vector<KvEvent>* out) {
  if (may_hold_) Emit(last_id_.value_or(0), StorageTier::kDevice, Cleared{}, out);
  orphan_stores_ = 0;
}

void PlaneRankFeed::Emit(uint64_t event_id, StorageTier tier,
                         std::variant<Stored, Removed, Cleared> data, std::vector<KvEvent>* out) {
  may_hold_ = !std::holds_alternative<Cleared>(data);
  out->push_back({.target = config_.target,
                  .incarnation = config_.incarnation,
                  .tier = tier,
                  .counting = StoreCounting::kSet,
                  .event_id = event_id,
                  .data = std::move(data)});
  ++counters_.events_applied;
}

void PlaneRankFeed::OnPathDown(std::string_view why) { path_failure_ = why; }

void PlaneRankFeed::OnPathUp() {
  if (path_failure_.empty()) return;
  path_failure_.clear();
  if (publisher_) ++counters_.reconnects;
  OnSuspicion("the connection broke: events may have been lost");
}

void PlaneRankFeed::OnSuspicion(std::string_view why) {
  if (publisher_) suspicion_ = why;
}

void PlaneRankFeed::OnTick(MonotonicTime now, std::vector<KvEvent>* out) {
  if (!early_.empty() && now - early_.begin()->second.came >= config_.gap_wait) GiveUpMissing(out);
}

void PlaneRankFeed::OnApplyResult(const ApplyResult& result) {
  if (result.status == ApplyStatus::kParentBlockNotFound) ++orphan_stores_;
}

void PlaneRankFeed::DropBlocks(std::vector<KvEvent>* out) { Reset(out); }

FeedState PlaneRankFeed::State() const {
  if (!publisher_ || !path_failure_.empty()) return FeedState::kConnecting;
  if (!early_.empty()) return FeedState::kRecovering;
  const bool whole = damage_.empty() && suspicion_.empty() && orphan_stores_ == 0;
  return whole ? FeedState::kLive : FeedState::kDegraded;
}

std::string PlaneRankFeed::Detail() const {
  if (!path_failure_.empty()) return path_failure_;
  if (!publisher_) return "no event yet: what the rank holds is not known";
  if (!early_.empty()) {
    return fmt::format("waiting for events {} to {}", *last_id_ + 1, early_.begin()->first - 1);
  }
  if (!damage_.empty()) return damage_;
  if (!suspicion_.empty()) return suspicion_ + "; the next event will tell";
  if (orphan_stores_ > 0) return fmt::format("{} stores continue unknown blocks", orphan_stores_);
  return "";
}

}  // namespace kvrouter
