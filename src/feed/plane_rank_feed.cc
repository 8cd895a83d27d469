#include "feed/plane_rank_feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvrouter {
namespace {

constexpr std::string_view kDropped = ": the blocks known before were dropped";
constexpr std::string_view kBroke = "the connection broke: events may have been lost";

}  // namespace

PlaneRankFeed::PlaneRankFeed(const PlaneRankFeedConfig& config)
    : config_(config),
      repairable_(config.repairable),
      repair_proves_(config.repair_proves),
      schedule_(config.repair, config.jitter_seed +
                                   static_cast<uint64_t>(config.target.worker) * 31 +
                                   config.target.dp_rank) {}

void PlaneRankFeed::OnEvent(uint64_t publisher_id, PlaneEvent event, MonotonicTime now,
                            std::vector<KvEvent>* out) {
  now_ = std::max(now_, now);
  publishers_.Hear(path_, publisher_id);
  if (publisher_ != publisher_id) {
    if (publisher_ && publishers_.IsOlder(publisher_id, *publisher_))
      return CountSkip(SkipReason::kOldPublisher, &counters_.skipped);
    BeginLife(publisher_id, event.event_id, out);
  }
  if (last_id_ && event.event_id <= *last_id_)
    return CountSkip(SkipReason::kStaleEvent, &counters_.skipped);
  if (event.unreadable) {  // its id is not passed, so the next one shows the hole
    CountSkip(SkipReason::kBadEvent, &counters_.skipped);
    return OnSuspicion(fmt::format("event {} could not be read", event.event_id));
  }
  const bool next = !last_id_ || event.event_id == *last_id_ + 1;
  if (next || event.is_cleared()) {
    if (!last_id_ && event.event_id > 0 && !pictured_) {
      damage_ =
          fmt::format("joined at event {}: what the rank held before is not known", event.event_id);
      damage_reason_ = DegradedReason::kHistoryUnknown;
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

// The first publisher that is heard is the one whose worker a repair before it was about, unless
// it begins only now.
void PlaneRankFeed::BeginLife(uint64_t publisher_id, uint64_t first_id, std::vector<KvEvent>* out) {
  const bool is_new = publisher_ || first_id == 0;
  if (publisher_) ++counters_.restarts;
  publisher_ = publisher_id;
  last_id_.reset();
  early_.clear();
  if (!is_new) return;
  Reset(out);
  ForgetDamage();
  pictured_ = false;
}

void PlaneRankFeed::ForgetDamage() {
  damage_.clear();
  damage_is_final_ = false;
  suspicion_.clear();
  orphan_stores_ = 0;
  holding_since_.reset();
  schedule_.Drop();
  repair_failure_.clear();
  DropTail();
}

// The next event, or one that makes what came before it immaterial.
void PlaneRankFeed::Take(PlaneEvent event, std::vector<KvEvent>* out) {
  // Without an id before it, it does not tell whether others are missing.
  if (last_id_) suspicion_.clear();
  last_id_ = event.event_id;
  if (event.is_cleared()) {
    ForgetDamage();
    early_.erase(early_.begin(), early_.upper_bound(event.event_id));
  }
  if (event.ignored) return CountSkip(*event.ignored, &counters_.skipped);
  if (const auto* stored = std::get_if<Stored>(&event.data); stored && stored->blocks.empty())
    return;
  if (const auto* removed = std::get_if<Removed>(&event.data);
      removed && removed->engine_hashes.empty())
    return;  // how Dynamo's publisher says that it left an event out
  Pass(std::move(event), out);
}

void PlaneRankFeed::Pass(PlaneEvent event, std::vector<KvEvent>* out) {
  if (holding_since_ || schedule_.RunningWell()) {
    if (FitsInTail(event)) {
      tail_bytes_ += event.Bytes();
      tail_.push_back(event);
    } else {
      schedule_.Spoil();
      holding_since_ ? StopHolding(out) : DropTail();
    }
  }
  if (!holding_since_) Emit(event.event_id, event.tier, std::move(event.data), out);
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
      OnLoss(fmt::format("events {} to {} lost", *last_id_ + 1, event.event_id - 1), out);
    }
    Take(std::move(event), out);
  }
}

void PlaneRankFeed::OnLoss(std::string what, std::vector<KvEvent>* out) {
  schedule_.Spoil();
  DropTail();
  damage_ = std::move(what);
  damage_reason_ = DegradedReason::kEventsLost;
  damage_is_final_ = false;
  if (repairable_ && repair_proves_ && (holding_since_ || may_hold_)) {
    if (!holding_since_) holding_since_ = now_;
    return;
  }
  damage_ += kDropped;
  Reset(out);
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

// ---- Paths ----

void PlaneRankFeed::OnPathDown(std::string_view why) { path_failure_ = why; }

void PlaneRankFeed::OnPathUp() {
  if (path_failure_.empty()) return;
  path_failure_.clear();
  if (Known()) ++counters_.reconnects;
  OnSuspicion(kBroke);
}

void PlaneRankFeed::SetListening(bool listening) {
  if (listening && !listening_) {
    OnSuspicion(kBroke);
    nobody_knew_ = false;
  }
  if (!listening) schedule_.Spoil();
  listening_ = listening;
}

void PlaneRankFeed::OnSuspicion(std::string_view why) {
  schedule_.Spoil();
  if (Known()) suspicion_ = why;
}

// ---- Repair ----

void PlaneRankFeed::OnTick(MonotonicTime now, std::vector<KvEvent>* out) {
  now_ = std::max(now_, now);
  if (!early_.empty() && now - early_.begin()->second.came >= config_.gap_wait) GiveUpMissing(out);
  const bool in_vain = !repairable_ || !repair_proves_;
  if (holding_since_ && (in_vain || now - *holding_since_ >= config_.repair_patience))
    StopHolding(out);
  schedule_.OnTick(RepairWanted(), now);
  if (tail_.size() > 0 && !holding_since_ && !schedule_.RunningWell()) DropTail();
  const bool settled =
      listening_ && !holding_since_ && !schedule_.Running() && !RepairWanted().has_value();
  if (!repairable_ || settled) initial_recovery_done_ = true;
}

std::optional<MonotonicTime> PlaneRankFeed::RepairWanted() const {
  if (!repairable_ || !listening_) return std::nullopt;
  if (!damage_is_final_ && !damage_.empty()) return MonotonicTime{};
  if (!repair_proves_) {
    if (Known() || nobody_knew_) return std::nullopt;
    return config_.doubt_grace;
  }
  if (!damage_is_final_ && orphan_stores_ > 0) return MonotonicTime{};
  if (!suspicion_.empty() || !Known()) return config_.doubt_grace;
  return std::nullopt;
}

void PlaneRankFeed::TakeRepair(uint64_t ticket, MonotonicTime now) {
  if (!holding_since_) DropTail();
  tail_of_repair_ = tail_.size();
  schedule_.Start(ticket, now);
  ++counters_.replays_started;
}

void PlaneRankFeed::OnRepaired(uint64_t ticket, RankPicture picture, MonotonicTime now,
                               std::vector<KvEvent>* out) {
  now_ = std::max(now_, now);
  if (!schedule_.Running(ticket)) return;
  if (!schedule_.Finish(ticket)) {
    ++counters_.replays_failed;
    repair_failure_ = "events were lost meanwhile";
    if (!holding_since_) DropTail();
    return;
  }
  ++counters_.replays_completed;
  // Built unseen, and then put in the place of what was known, in one step.
  const size_t begin = out->size();
  for (KvEvent& event : picture.events) {
    event.target = config_.target;
    event.incarnation = config_.incarnation;
    out->push_back(std::move(event));
  }
  const size_t end = out->size();
  // What was held back before is in the picture, or was undone by what it has besides.
  EmitTail(tail_of_repair_, out);
  for (size_t i = begin; i < out->size(); ++i) (*out)[i].staging = Staging::kStaged;
  counters_.events_applied += end - begin;
  Emit(last_id_.value_or(0), StorageTier::kDevice, Cleared{}, out);
  out->back().staging = Staging::kCommit;
  may_hold_ = true;
  ForgetDamage();
  damage_ = std::move(picture.missing);
  damage_reason_ = picture.reason;
  damage_is_final_ = !damage_.empty();
  pictured_ = true;
  results_to_ignore_ = out->size() - begin;
  settled_at_ = now_ + config_.doubt_grace;
}

void PlaneRankFeed::OnRepairFailed(uint64_t ticket, std::string_view why) {
  if (!schedule_.Running(ticket)) return;
  // Whoever was asked in vain at the start is asked again, but not waited for.
  if (schedule_.Finish(ticket)) initial_recovery_done_ = true;
  ++counters_.replays_failed;
  repair_failure_ = why;
  nobody_knew_ = !Known();
  if (!holding_since_) DropTail();
}

bool PlaneRankFeed::FitsInTail(const PlaneEvent& event) const {
  return tail_.size() < config_.max_tail_events &&
         tail_bytes_ + event.Bytes() <= config_.max_tail_bytes;
}

void PlaneRankFeed::EmitTail(size_t from, std::vector<KvEvent>* out) {
  for (size_t i = from; i < tail_.size(); ++i)
    Emit(tail_[i].event_id, tail_[i].tier, tail_[i].data, out);
}

void PlaneRankFeed::DropTail() {
  tail_.clear();
  tail_bytes_ = 0;
  tail_of_repair_ = 0;
}

// No repair came in time: the column on the left.
void PlaneRankFeed::StopHolding(std::vector<KvEvent>* out) {
  holding_since_.reset();
  damage_ += kDropped;
  Reset(out);
  EmitTail(0, out);
  if (!schedule_.RunningWell()) DropTail();
}

// ---- What comes back, and what is shown ----

void PlaneRankFeed::OnApplyResult(const ApplyResult& result) {
  if (results_to_ignore_ > 0) {
    --results_to_ignore_;
    return;
  }
  if (result.status == ApplyStatus::kParentBlockNotFound && now_ >= settled_at_) ++orphan_stores_;
}

void PlaneRankFeed::DropBlocks(std::vector<KvEvent>* out) { Reset(out); }

FeedState PlaneRankFeed::State() const {
  if (!path_failure_.empty()) return FeedState::kConnecting;
  if (!early_.empty() || holding_since_ || schedule_.Running()) return FeedState::kRecovering;
  if (!Known()) return FeedState::kConnecting;
  const bool whole = damage_.empty() && suspicion_.empty() && orphan_stores_ == 0;
  return whole ? FeedState::kLive : FeedState::kDegraded;
}

DegradedReason PlaneRankFeed::Reason() const {
  if (State() != FeedState::kDegraded) return DegradedReason::kNone;
  if (!damage_.empty()) return damage_reason_;
  return suspicion_.empty() ? DegradedReason::kUnknownParent : DegradedReason::kInDoubt;
}

std::string PlaneRankFeed::Detail() const {
  if (!path_failure_.empty()) return path_failure_;
  const std::string repair =
      repair_failure_.empty() ? "" : fmt::format("; not repaired yet: {}", repair_failure_);
  if (!Known()) return "no event yet: what the rank holds is not known" + repair;
  if (!early_.empty()) {
    return fmt::format("waiting for events {} to {}", *last_id_ + 1, early_.begin()->first - 1);
  }
  if (!damage_.empty()) return damage_ + repair;
  if (!suspicion_.empty()) return suspicion_ + "; the next event will tell" + repair;
  if (orphan_stores_ > 0)
    return fmt::format("{} stores continue unknown blocks", orphan_stores_) + repair;
  return "";
}

}  // namespace kvrouter
