#include "core/schedule/request_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "core/schedule/booking_id.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

using LimitKind = RequestQueue::LimitKind;

constexpr std::array<std::string_view, 4> kLimitKindNames = {"requests", "raw_isl_tokens",
                                                             "cached_tokens", "max_waiting"};
static_assert(kLimitKindNames.size() == static_cast<size_t>(LimitKind::kMaxWaiting) + 1);

bool AnyQueues(const PolicyClasses& classes) {
  for (uint32_t i = 0; i < classes.size(); ++i) {
    if (classes.At(i).busy.IsSet()) return true;
  }
  return false;
}

uint64_t UncachedTokens(const RequestQueue::Request& request) {
  return request.isl_tokens - std::min(request.cached_tokens, request.isl_tokens);
}

uint64_t CostTokens(const RequestQueue::Request& request) {
  return std::max<uint64_t>(1, UncachedTokens(request));
}

uint64_t TimesWorkers(uint64_t limit_per_worker, uint64_t workers) {
  uint64_t limit = 0;
  return __builtin_mul_overflow(limit_per_worker, workers, &limit)
             ? std::numeric_limits<uint64_t>::max()
             : limit;
}

}  // namespace

std::string_view LimitKindName(LimitKind kind) {
  return kLimitKindNames[static_cast<size_t>(kind)];
}

absl::Status StatusOf(const RequestQueue::Rejection& rejection) {
  return MakeQueueLimitError({.policy_class = rejection.policy_class,
                              .limit_kind = std::string(LimitKindName(rejection.kind)),
                              .current = rejection.current,
                              .limit = rejection.limit});
}

RequestQueue::RequestQueue(const Options& options, PolicyClasses classes, MonotonicTime start)
    : options_(options),
      classes_(std::move(classes)),
      queues_(AnyQueues(classes_)),
      start_(start),
      states_(classes_.size()) {}

bool RequestQueue::MustPark(uint32_t policy_class, bool all_targets_busy) const {
  if (!classes_.At(policy_class).busy.IsSet()) return false;
  return all_targets_busy || states_[policy_class].stats.waiting > 0;
}

double RequestQueue::ScoreOf(const Request& request, MonotonicTime now) const {
  const double jump = request.priority_jump > 0 ? request.priority_jump : 0;
  const double t = std::chrono::duration<double>(now - start_).count();
  switch (classes_.At(request.policy_class).order) {
    case QueueOrder::kFcfs:
      return jump - t;
    case QueueOrder::kLcfs:
      return jump + t;
    case QueueOrder::kWspt:
      return (1 + jump) / static_cast<double>(CostTokens(request));
  }
  return 0;
}

std::optional<RequestQueue::Rejection> RequestQueue::OverLimit(uint32_t policy_class,
                                                               uint64_t workers) const {
  const PolicyClass& limits = classes_.At(policy_class);
  const ClassStats& usage = states_[policy_class].stats;
  const auto reject = [&](LimitKind kind, uint64_t current, uint64_t limit) {
    return Rejection{.policy_class = limits.name, .kind = kind, .current = current, .limit = limit};
  };
  struct Check {
    LimitKind kind;
    std::optional<uint64_t> per_worker;
    uint64_t current;
  };
  for (const Check& check :
       {Check{LimitKind::kRequests, limits.request_limit_per_worker, usage.waiting},
        Check{LimitKind::kRawIslTokens, limits.raw_isl_token_limit_per_worker,
              usage.waiting_isl_tokens},
        Check{LimitKind::kCachedTokens, limits.cached_token_limit_per_worker,
              usage.waiting_cached_tokens}}) {
    if (!check.per_worker) continue;
    const uint64_t limit = TimesWorkers(*check.per_worker, workers);
    if (check.current >= limit) return reject(check.kind, check.current, limit);
  }
  if (WaitingCount() < options_.max_waiting) return std::nullopt;
  return reject(LimitKind::kMaxWaiting, WaitingCount(), options_.max_waiting);
}

std::optional<uint32_t> RequestQueue::TakeSlot() {
  uint32_t slot = 0;
  if (!free_.empty()) {
    slot = free_.back();
    free_.pop_back();
  } else {
    if (entries_.size() >= kMaxBookingSlots) return std::nullopt;
    slot = static_cast<uint32_t>(entries_.size());
    entries_.emplace_back().generation = options_.first_generation - 1;
  }
  ++entries_[slot].generation;  // the first is >= 1: no ticket is kNoTicket
  return slot;
}

// A ticket is made up like a booking's id, so that it finds its partition, and a stale one is
// recognised.
TicketId RequestQueue::TicketOf(uint32_t slot) const {
  return TicketId{static_cast<uint64_t>(MakeBookingId(
      {.partition = options_.partition, .slot = slot, .generation = entries_[slot].generation}))};
}

std::optional<uint32_t> RequestQueue::Find(TicketId ticket) const {
  const BookingParts parts = PartsOf(BookingId{static_cast<uint64_t>(ticket)});
  if (parts.partition != options_.partition || parts.slot >= entries_.size()) return std::nullopt;
  const Entry& entry = entries_[parts.slot];
  if (!entry.waiting || entry.generation != parts.generation) return std::nullopt;
  return parts.slot;
}

std::variant<TicketId, RequestQueue::Rejection> RequestQueue::Park(const Request& request,
                                                                   uint64_t workers,
                                                                   MonotonicTime now) {
  ClassStats& stats = states_[request.policy_class].stats;
  auto rejection = OverLimit(request.policy_class, workers);
  const auto slot = rejection ? std::nullopt : TakeSlot();
  if (!slot) {
    if (!rejection) {
      rejection = Rejection{.policy_class = classes_.At(request.policy_class).name,
                            .kind = LimitKind::kMaxWaiting,
                            .current = WaitingCount(),
                            .limit = kMaxBookingSlots};
    }
    ++stats.rejected_total;
    ++stats.rejected_by_limit[static_cast<size_t>(rejection->kind)];
    return *std::move(rejection);
  }
  Entry& entry = entries_[*slot];
  entry.waiting = true;
  entry.request = request;
  entry.request.cached_tokens = std::min(request.cached_tokens, request.isl_tokens);
  entry.parked_at = now;
  entry.key = {.strict_priority = request.strict_priority,
               .score = ScoreOf(request, now),
               .arrival = arrivals_++,
               .slot = *slot};
  Insert(*slot);
  ++stats.parked_total;
  return TicketOf(*slot);
}

void RequestQueue::Insert(uint32_t slot) {
  const Entry& entry = entries_[slot];
  ClassState& state = states_[entry.request.policy_class];
  Lane& lane = state.lanes[entry.request.pinned];
  if (lane.empty() || entry.key < *lane.begin()) {
    if (!lane.empty()) state.heads.erase(*lane.begin());
    state.heads.emplace(entry.key, entry.request.pinned);
  }
  lane.insert(entry.key);
  by_deadline_.emplace(entry.request.deadline, slot);
  ++state.stats.waiting;
  state.stats.waiting_isl_tokens += entry.request.isl_tokens;
  state.stats.waiting_cached_tokens += entry.request.cached_tokens;
}

void RequestQueue::Remove(uint32_t slot) {
  Entry& entry = entries_[slot];
  ClassState& state = states_[entry.request.policy_class];
  const auto lane = state.lanes.find(entry.request.pinned);
  const bool was_head = lane->second.begin()->slot == slot;
  lane->second.erase(entry.key);
  if (was_head) {
    state.heads.erase(entry.key);
    if (!lane->second.empty()) state.heads.emplace(*lane->second.begin(), lane->first);
  }
  if (lane->second.empty()) state.lanes.erase(lane);
  by_deadline_.erase({entry.request.deadline, slot});
  --state.stats.waiting;
  state.stats.waiting_isl_tokens -= entry.request.isl_tokens;
  state.stats.waiting_cached_tokens -= entry.request.cached_tokens;
  if (state.stats.waiting == 0) state.deficit_tokens = 0;
  const uint32_t generation = entry.generation;
  entry = Entry();
  entry.generation = generation;
  if (generation < kMaxGeneration) free_.push_back(slot);  // else the slot is retired
}

std::optional<RequestQueue::Ready> RequestQueue::FirstReady(uint32_t policy_class,
                                                            const Judge& judge, BusyHeads* busy) {
  auto& heads = states_[policy_class].heads;
  while (!heads.empty()) {
    const uint32_t slot = heads.begin()->first.slot;
    if (judge(TicketOf(slot)) != Readiness::kBusy) {
      return Ready{.policy_class = policy_class,
                   .slot = slot,
                   .cost_tokens = CostTokens(entries_[slot].request)};
    }
    (*busy)[policy_class].insert(heads.extract(heads.begin()));
  }
  return std::nullopt;
}

RequestQueue::Ready RequestQueue::TakeTurn(const std::vector<Ready>& ready) {
  const auto affords = [&](const Ready& r) {
    return states_[r.policy_class].deficit_tokens >= r.cost_tokens;
  };
  if (std::none_of(ready.begin(), ready.end(), affords)) {
    uint64_t rounds = std::numeric_limits<uint64_t>::max();
    for (const Ready& r : ready) {
      const uint64_t quantum = classes_.At(r.policy_class).quantum_tokens;
      const uint64_t missing = r.cost_tokens - states_[r.policy_class].deficit_tokens;
      rounds = std::min(rounds, missing / quantum + (missing % quantum > 0 ? 1 : 0));
    }
    for (const Ready& r : ready) {
      states_[r.policy_class].deficit_tokens += rounds * classes_.At(r.policy_class).quantum_tokens;
    }
  }
  // The last one goes on; else the first after it that can, round and round.
  const auto turn = [&](const Ready& r) {
    const auto classes = static_cast<uint32_t>(classes_.size());
    return last_class_ ? (r.policy_class + classes - *last_class_) % classes : r.policy_class;
  };
  const Ready* chosen = nullptr;
  for (const Ready& r : ready) {
    if (affords(r) && (chosen == nullptr || turn(r) < turn(*chosen))) chosen = &r;
  }
  last_class_ = chosen->policy_class;
  states_[chosen->policy_class].deficit_tokens -= chosen->cost_tokens;
  return *chosen;
}

bool RequestQueue::ReleaseOne(MonotonicTime now, const Judge& judge, const Place& place,
                              BusyHeads* busy) {
  std::vector<Ready> ready;
  for (uint32_t c = 0; c < states_.size(); ++c) {
    if (const auto first = FirstReady(c, judge, busy)) ready.push_back(*first);
  }
  if (ready.empty()) return false;
  const Ready chosen = TakeTurn(ready);
  const Entry& entry = entries_[chosen.slot];
  const std::chrono::nanoseconds waited = now - entry.parked_at;
  const Released released{
      .ticket = TicketOf(chosen.slot),
      .waited = waited,
      .refresh_overlap = options_.overlap_refresh_after > std::chrono::nanoseconds::zero() &&
                         waited >= options_.overlap_refresh_after};
  Remove(chosen.slot);
  ++states_[chosen.policy_class].stats.released_total;
  place(released);
  return true;
}

void RequestQueue::TakeBack(BusyHeads* busy) {
  for (size_t c = 0; c < states_.size(); ++c) states_[c].heads.merge((*busy)[c]);
}

void RequestQueue::Pump(MonotonicTime now, const Judge& judge, const Place& place) {
  BusyHeads busy(states_.size());
  while (WaitingCount() > 0 && ReleaseOne(now, judge, place, &busy)) {
  }
  TakeBack(&busy);
}

bool RequestQueue::PumpOne(MonotonicTime now, const Judge& judge, const Place& place) {
  if (WaitingCount() == 0) return false;
  BusyHeads busy(states_.size());
  const bool released = ReleaseOne(now, judge, place, &busy);
  TakeBack(&busy);
  return released;
}

void RequestQueue::Reconfigure(PolicyClasses classes, uint32_t max_waiting,
                               std::chrono::nanoseconds overlap_refresh_after,
                               const ClassOf& class_of) {
  options_.max_waiting = max_waiting;
  options_.overlap_refresh_after = overlap_refresh_after;
  const PolicyClasses before = std::exchange(classes_, std::move(classes));
  std::vector<ClassState> left = std::exchange(states_, std::vector<ClassState>(classes_.size()));
  queues_ = AnyQueues(classes_);
  std::optional<uint32_t> last_class;
  for (uint32_t was = 0; was < before.size(); ++was) {
    for (uint32_t is = 0; is < classes_.size(); ++is) {
      if (classes_.At(is).name != before.At(was).name) continue;
      states_[is].stats = left[was].stats;
      states_[is].stats.waiting = 0;
      states_[is].stats.waiting_isl_tokens = 0;
      states_[is].stats.waiting_cached_tokens = 0;
      states_[is].deficit_tokens = left[was].deficit_tokens;
      if (last_class_ == was) last_class = is;
    }
  }
  last_class_ = last_class;
  const auto waiting = std::exchange(by_deadline_, {});
  for (const auto& [deadline, slot] : waiting) {
    Entry& entry = entries_[slot];
    const std::string& was = before.At(entry.request.policy_class).name;
    entry.request.policy_class = class_of(TicketOf(slot));
    entry.key.score = ScoreOf(entry.request, entry.parked_at);
    Insert(slot);
    if (classes_.At(entry.request.policy_class).name == was) continue;
    ++states_[entry.request.policy_class].stats.parked_total;
    for (uint32_t is = 0; is < classes_.size(); ++is)
      if (classes_.At(is).name == was) ++states_[is].stats.released_total;
  }
  for (ClassState& state : states_)
    if (state.stats.waiting == 0) state.deficit_tokens = 0;
}

uint32_t RequestQueue::NextGeneration() const {
  uint32_t highest = options_.first_generation - 1;
  for (const Entry& entry : entries_) highest = std::max(highest, entry.generation);
  return highest + 1;
}

bool RequestQueue::Cancel(TicketId ticket) {
  const auto slot = Find(ticket);
  if (!slot) return false;
  ++states_[entries_[*slot].request.policy_class].stats.cancelled_total;
  Remove(*slot);
  return true;
}

void RequestQueue::Expire(MonotonicTime now, std::vector<TicketId>* expired) {
  while (!by_deadline_.empty() && by_deadline_.begin()->first <= now) {
    const uint32_t slot = by_deadline_.begin()->second;
    expired->push_back(TicketOf(slot));
    ++states_[entries_[slot].request.policy_class].stats.expired_total;
    Remove(slot);
  }
}

void RequestQueue::Clear(std::vector<TicketId>* cleared) {
  std::vector<std::pair<uint64_t, uint32_t>> waiting;
  for (const auto& [deadline, slot] : by_deadline_) {
    waiting.emplace_back(entries_[slot].key.arrival, slot);
  }
  std::sort(waiting.begin(), waiting.end());
  for (const auto& [arrival, slot] : waiting) {
    cleared->push_back(TicketOf(slot));
    ++states_[entries_[slot].request.policy_class].stats.cancelled_total;
    Remove(slot);
  }
}

}  // namespace kvrouter
