#include "feed/plane_feed.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace kvrouter {
namespace {

bool HasOwnSocket(const WorkerSpec& spec, uint32_t dp_rank) {
  const auto endpoints = spec.events.find(dp_rank);
  return endpoints != spec.events.end() && !endpoints->second.live.empty();
}

}  // namespace

void PlaneFeed::SetWorker(const WorkerSpec& spec, bool reset, std::vector<KvEvent>* out) {
  const auto known = workers_.find(spec.id);
  if (known != workers_.end() && (reset || !SameBlocks(known->second.spec, spec)))
    RemoveWorker(spec.id, out);
  if (reset) DropWaiting(spec.id);
  Worker& worker = workers_[spec.id];
  worker.spec = spec;
  for (auto it = worker.ranks.begin(); it != worker.ranks.end();) {
    if (IsFedHere(spec, it->first)) {
      it->second.feed.SetRepairable(Repairable(spec, it->first), RepairProves(spec, it->first));
      ++it;
      continue;
    }
    RemoveRank({spec.id, it->first}, &it->second, out);
    it = worker.ranks.erase(it);
  }
  for (uint32_t i = 0; i < spec.dp_size; ++i) {
    const uint32_t dp_rank = spec.dp_start_rank + i;
    if (IsFedHere(spec, dp_rank) && !worker.ranks.contains(dp_rank)) AddRank(&worker, dp_rank, out);
  }
  DropWaiting(spec.id);  // what else waited is of no rank that this worker has
}

bool PlaneFeed::IsFedHere(const WorkerSpec& spec, uint32_t dp_rank) const {
  return dp_rank >= spec.dp_start_rank && dp_rank - spec.dp_start_rank < spec.dp_size &&
         !HasOwnSocket(spec, dp_rank) && !elsewhere_.contains({spec.id, dp_rank});
}

void PlaneFeed::AddRank(Worker* worker, uint32_t dp_rank, std::vector<KvEvent>* out) {
  const Target target{worker->spec.id, dp_rank};
  PlaneRankFeedConfig config = config_.rank;
  config.target = target;
  config.incarnation = worker->spec.incarnation;
  config.repairable = Repairable(worker->spec, dp_rank);
  config.repair_proves = RepairProves(worker->spec, dp_rank);
  Rank& rank =
      worker->ranks.emplace(dp_rank, Rank{.feed = PlaneRankFeed(config), .path = std::nullopt})
          .first->second;
  changed_.insert(target);
  if (auto former = former_publishers_.extract(target))
    rank.feed.InheritPublishers(std::move(former.mapped()));
  if (AllPathsBroken()) rank.feed.OnPathDown(paths_.begin()->second);
  rank.feed.SetListening(Listening(rank));
  const auto waiting = waiting_.find(target);
  if (waiting == waiting_.end()) return;
  std::deque<WaitingEvent> events = std::move(waiting->second.events);
  waiting_bytes_ -= waiting->second.bytes;
  waiting_.erase(waiting);
  for (WaitingEvent& event : events) {
    // A hole among them does not close any more, whatever time there was for it.
    Deliver(&rank, event.path, event.publisher_id, std::move(event.event), MonotonicTime{}, out);
  }
}

void PlaneFeed::RemoveRank(Target target, Rank* rank, std::vector<KvEvent>* out) {
  if (out != nullptr) rank->feed.DropBlocks(out);
  changed_.erase(target);
  loads_.erase(target);
  gone_.push_back(ReportOf(target, *rank));
  if (rank->feed.Publishers().Empty()) return;
  // Without its record a rank is followed like a new one.
  if (former_publishers_.size() >= config_.max_waiting_ranks)
    former_publishers_.erase(former_publishers_.begin());
  former_publishers_.insert_or_assign(target, rank->feed.Publishers());
}

void PlaneFeed::RemoveWorker(WorkerId id, std::vector<KvEvent>* out) {
  const auto known = workers_.find(id);
  if (known == workers_.end()) return;
  for (auto& [dp_rank, rank] : known->second.ranks) RemoveRank({id, dp_rank}, &rank, out);
  workers_.erase(known);
}

const PlaneFeed::Rank* PlaneFeed::FindRank(Target target) const {
  const auto worker = workers_.find(target.worker);
  if (worker == workers_.end()) return nullptr;
  const auto rank = worker->second.ranks.find(target.dp_rank);
  return rank == worker->second.ranks.end() ? nullptr : &rank->second;
}

PlaneFeed::Rank* PlaneFeed::FindRank(Target target) {
  return const_cast<Rank*>(std::as_const(*this).FindRank(target));
}

// ---- Who else feeds it ----

void PlaneFeed::OnFedElsewhere(Target target) {
  if (!elsewhere_.insert(target).second) return;
  Rank* const rank = FindRank(target);
  if (rank == nullptr) return;
  RemoveRank(target, rank, nullptr);
  workers_.at(target.worker).ranks.erase(target.dp_rank);
}

void PlaneFeed::OnFedHere(Target target, std::vector<KvEvent>* out) {
  elsewhere_.erase(target);
  const auto worker = workers_.find(target.worker);
  if (worker == workers_.end() || worker->second.ranks.contains(target.dp_rank)) return;
  if (IsFedHere(worker->second.spec, target.dp_rank)) AddRank(&worker->second, target.dp_rank, out);
}

// ---- Messages ----

void PlaneFeed::OnMessage(uint32_t path, std::string_view envelope_bytes, MonotonicTime now,
                          std::vector<KvEvent>* out) {
  PlaneEnvelope envelope;
  if (const auto refused = DecodeEnvelope(envelope_bytes, &envelope)) {
    return CountSkip(*refused, &unattributed_.skipped);
  }
  if (envelope.topic == kKvEventsTopic) return OnEvents(path, envelope, now, out);
  if (envelope.topic == kKvMetricsTopic) return OnLoad(envelope.payload);
  CountSkip(SkipReason::kUnknownTag, &unattributed_.skipped);
}

void PlaneFeed::OnEvents(uint32_t path, const PlaneEnvelope& envelope, MonotonicTime now,
                         std::vector<KvEvent>* out) {
  if (const auto refused = DecodeRouterEvents(envelope.payload, &batch_)) {
    CountSkip(*refused, &unattributed_.skipped);
    return OnDropped(0);
  }
  if (batch_.bad_events > 0) {
    unattributed_.skipped[static_cast<size_t>(SkipReason::kBadEvent)] += batch_.bad_events;
    OnDropped(0);
  }
  std::optional<Target> counted;
  for (PlaneEvent& event : batch_.events) {
    const Target target = event.target;
    Rank* const rank = FindRank(target);
    if (rank == nullptr) {
      Wait({.path = path, .publisher_id = envelope.publisher_id, .event = std::move(event)});
      continue;
    }
    if (counted != target) rank->feed.OnMessage();
    counted = target;
    Deliver(rank, path, envelope.publisher_id, std::move(event), now, out);
  }
}

void PlaneFeed::Deliver(Rank* rank, uint32_t path, uint64_t publisher_id, PlaneEvent event,
                        MonotonicTime now, std::vector<KvEvent>* out) {
  changed_.insert(event.target);
  if (rank->path != path) {
    rank->path = path;
    rank->feed.SetPath(path);
    const std::string& failure = paths_[path];
    failure.empty() ? rank->feed.OnPathUp() : rank->feed.OnPathDown(failure);
    rank->feed.SetListening(failure.empty());
  }
  rank->feed.OnEvent(publisher_id, std::move(event), now, out);
}

// Of a worker that is registered, but not with this rank, nothing is expected any more.
void PlaneFeed::Wait(WaitingEvent event) {
  const Target target = event.event.target;
  if (const auto worker = workers_.find(target.worker); worker != workers_.end()) {
    const bool other =
        HasOwnSocket(worker->second.spec, target.dp_rank) || elsewhere_.contains(target);
    return CountSkip(other ? SkipReason::kOtherSource : SkipReason::kUnknownWorker,
                     &unattributed_.skipped);
  }
  WaitingRank& rank = waiting_[target];
  if (rank.events.empty()) rank.since = next_arrival_++;
  const auto drop_oldest = [this, &rank] {
    const size_t bytes = rank.events.front().event.Bytes();
    rank.bytes -= bytes;
    waiting_bytes_ -= bytes;
    rank.events.pop_front();
    CountSkip(SkipReason::kUnknownWorker, &unattributed_.skipped);
  };
  const size_t bytes = event.event.Bytes();
  rank.bytes += bytes;
  waiting_bytes_ += bytes;
  rank.events.push_back(std::move(event));
  if (rank.events.size() > config_.max_waiting_events_per_rank) drop_oldest();
  while (waiting_.size() > config_.max_waiting_ranks ||
         waiting_bytes_ > config_.max_waiting_bytes) {
    DropWaiting(std::min_element(
        waiting_.begin(), waiting_.end(),
        [](const auto& a, const auto& b) { return a.second.since < b.second.since; }));
  }
}

void PlaneFeed::DropWaiting(WorkerId id) {
  for (auto it = waiting_.lower_bound({id, 0}); it != waiting_.end() && it->first.worker == id;)
    DropWaiting(it++);
}

void PlaneFeed::DropWaiting(std::map<Target, WaitingRank>::iterator rank) {
  unattributed_.skipped[static_cast<size_t>(SkipReason::kUnknownWorker)] +=
      rank->second.events.size();
  waiting_bytes_ -= rank->second.bytes;
  waiting_.erase(rank);
}

void PlaneFeed::OnLoad(std::string_view payload) {
  const auto load = DecodeActiveLoad(payload);
  if (!load) return CountSkip(SkipReason::kBadEvent, &unattributed_.skipped);
  const auto worker = workers_.find(load->target.worker);
  const WorkerSpec* const spec = worker == workers_.end() ? nullptr : &worker->second.spec;
  if (spec == nullptr || load->target.dp_rank < spec->dp_start_rank ||
      load->target.dp_rank - spec->dp_start_rank >= spec->dp_size) {
    return CountSkip(SkipReason::kUnknownWorker, &unattributed_.skipped);
  }
  MergeLoad(*load, &loads_[load->target]);
}

void PlaneFeed::OnPathUp(uint32_t path) {
  paths_[path].clear();
  ForEachRank([&](Target target, Rank& rank) {
    if (rank.path.value_or(path) == path) rank.feed.OnPathUp();
    rank.feed.SetListening(Listening(rank));
    changed_.insert(target);
  });
}

void PlaneFeed::OnPathDown(uint32_t path, std::string_view why) {
  paths_[path] = why;
  const bool all = AllPathsBroken();
  ForEachRank([&](Target target, Rank& rank) {
    if (rank.path ? *rank.path == path : all) rank.feed.OnPathDown(why);
    rank.feed.SetListening(Listening(rank));
    changed_.insert(target);
  });
}

// Of a rank that was never heard it is not known by which path it will be: by one that works only
// if all do.
bool PlaneFeed::Listening(const Rank& rank) const {
  const auto works = [](const auto& path) { return path.second.empty(); };
  if (!rank.path) return !paths_.empty() && std::all_of(paths_.begin(), paths_.end(), works);
  const auto path = paths_.find(*rank.path);
  return path != paths_.end() && works(*path);
}

// So that a rank that was never heard, of which the path is not known,
// waits for nothing that is there.
bool PlaneFeed::AllPathsBroken() const {
  return !paths_.empty() && std::none_of(paths_.begin(), paths_.end(),
                                         [](const auto& path) { return path.second.empty(); });
}

void PlaneFeed::OnDropped(uint64_t messages) {
  unattributed_.live_dropped += messages;
  ForEachRank([&](Target target, Rank& rank) {
    rank.feed.OnSuspicion(messages > 0 ? "messages were dropped here, faster than they were read"
                                       : "a message could not be read");
    changed_.insert(target);
  });
}

void PlaneFeed::OnTick(MonotonicTime now, std::vector<KvEvent>* out) {
  ForEachRank([&](Target target, Rank& rank) {
    const FeedState before = rank.feed.State();
    rank.feed.OnTick(now, out);
    if (rank.feed.State() != before || before == FeedState::kRecovering) changed_.insert(target);
  });
}

void PlaneFeed::OnApplyResult(Target target, const ApplyResult& result) {
  if (Rank* const rank = FindRank(target)) rank->feed.OnApplyResult(result);
}

// ---- Repairs ----

bool PlaneFeed::Repairable(const WorkerSpec& spec, uint32_t dp_rank) const {
  return config_.repairable && config_.repairable(spec, dp_rank);
}

bool PlaneFeed::RepairProves(const WorkerSpec& spec, uint32_t dp_rank) const {
  return !config_.repair_proves || config_.repair_proves(spec, dp_rank);
}

std::vector<PlaneFeed::Repair> PlaneFeed::TakeRepairs(size_t at_most, MonotonicTime now) {
  std::vector<Repair> repairs;
  ForEachRank([&](Target target, Rank& rank) {
    if (repairs.size() >= at_most || !rank.feed.RepairDue(now)) return;
    rank.feed.TakeRepair(next_ticket_, now);
    repairs.push_back({.spec = workers_.at(target.worker).spec,
                       .dp_rank = target.dp_rank,
                       .ticket = next_ticket_++});
    changed_.insert(target);
  });
  return repairs;
}

bool PlaneFeed::RepairRunning(Target target, uint64_t ticket) const {
  const Rank* const rank = FindRank(target);
  return rank != nullptr && rank->feed.RepairRunning(ticket);
}

void PlaneFeed::OnRepaired(Target target, uint64_t ticket, RankPicture picture, MonotonicTime now,
                           std::vector<KvEvent>* out) {
  Rank* const rank = FindRank(target);
  if (rank == nullptr) return;
  rank->feed.OnRepaired(ticket, std::move(picture), now, out);
  changed_.insert(target);
}

void PlaneFeed::OnRepairFailed(Target target, uint64_t ticket, std::string_view why) {
  Rank* const rank = FindRank(target);
  if (rank == nullptr) return;
  rank->feed.OnRepairFailed(ticket, why);
  changed_.insert(target);
}

bool PlaneFeed::InitialRecoveryDone() const {
  return std::all_of(workers_.begin(), workers_.end(), [](const auto& worker) {
    const auto& ranks = worker.second.ranks;
    return std::all_of(ranks.begin(), ranks.end(),
                       [](const auto& rank) { return rank.second.feed.InitialRecoveryDone(); });
  });
}

// ---- What is reported ----

PlaneFeed::RankReport PlaneFeed::ReportOf(Target target, const Rank& rank) {
  return {.target = target,
          .state = rank.feed.State(),
          .reason = rank.feed.Reason(),
          .detail = rank.feed.Detail(),
          .counters = rank.feed.Counters()};
}

PlaneFeed::Changes PlaneFeed::TakeChanges() {
  Changes changes;
  changes.gone.swap(gone_);
  for (const Target target : changed_) {
    const Rank* const rank = FindRank(target);
    if (rank != nullptr) changes.ranks.push_back(ReportOf(target, *rank));
  }
  for (const auto& [target, load] : loads_) changes.loads.push_back(load);
  changed_.clear();
  loads_.clear();
  return changes;
}

template <typename Visit>
void PlaneFeed::ForEachRank(const Visit& visit) {
  for (auto& [id, worker] : workers_) {
    for (auto& [dp_rank, rank] : worker.ranks) visit(Target{id, dp_rank}, rank);
  }
}

}  // namespace kvrouter
