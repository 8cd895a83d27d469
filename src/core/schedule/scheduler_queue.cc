#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <variant>

#include "core/schedule/overlap_cursor.h"
#include "core/schedule/scheduler.h"
#include "kvrouter/error.h"

// The part of the scheduler that lets requests wait, and that hears how targets fare.

namespace kvrouter {
namespace {

using Readiness = RequestQueue::Readiness;
using Verdict = CandidateFilter::Verdict;

// A pin on a worker, whatever the rank, has a lane of its own, too.
constexpr uint32_t kAnyRank = std::numeric_limits<uint32_t>::max();

std::optional<Target> LaneOf(const std::optional<TargetSelector>& pin) {
  if (!pin) return std::nullopt;
  return Target{.worker = pin->worker, .dp_rank = pin->dp_rank.value_or(kAnyRank)};
}

}  // namespace

// Parity: a bound target acts as a pinned worker (affinity), also in the queue.
std::optional<Target> Scheduler::SessionPinOf(const ScheduleRequest& request,
                                              MonotonicTime now) const {
  const auto binding = sessions_.PinOf(request.session, request.pool, now);
  if (!binding) return std::nullopt;
  const Row* const row = FindRow(binding->target);
  if (row == nullptr || row->worker->incarnation != binding->incarnation) return std::nullopt;
  if (Judge(request, *row, false, now) != Verdict::kEligible) return std::nullopt;
  return binding->target;
}

uint64_t Scheduler::MostCachedTokens(const ScheduleRequest& request, MonotonicTime now) const {
  double most_blocks = 0;
  const std::optional<Target> pin = SessionPinOf(request, now);
  OverlapCursor overlap(request.overlaps, request.lower_overlaps);
  for (const Row& row : rows_) {
    const double blocks = EffectiveBlocks(overlap.DeviceBlocks(row.target),
                                          overlap.LowerTiers(row.target), request.weights.cost);
    if (blocks <= most_blocks || (pin && row.target != *pin)) continue;
    const Verdict verdict = Judge(request, row, false, now);
    if (verdict == Verdict::kEligible || verdict == Verdict::kEjected) most_blocks = blocks;
  }
  const auto cached_tokens =
      static_cast<uint64_t>(std::llround(most_blocks * request.block_size_tokens));
  return std::min(cached_tokens, request.isl_tokens);
}

// Parity: overload is not looked at here. Who is alone in being idle and overloaded lets the
// request go, to a busy target or to the error that all are overloaded.
Readiness Scheduler::ReadinessOf(const ScheduleRequest& request, uint32_t policy_class,
                                 MonotonicTime now) const {
  const PrefillBusyThresholds& busy = queue_.classes().At(policy_class).busy;
  bool any = false;
  bool any_ejected = false;
  bool ejected_idle = false;
  const std::optional<Target> pin = SessionPinOf(request, now);
  for (const Row& row : rows_) {
    if (pin && row.target != *pin) continue;
    const Verdict verdict = Judge(request, row, false, now);
    if (verdict != Verdict::kEligible && verdict != Verdict::kEjected) continue;
    const bool is_busy = IsPrefillBusy(ledger_.LoadOf(row.slot).active_prefill_tokens,
                                       row.worker->max_num_batched_tokens, busy);
    if (verdict == Verdict::kEjected) {
      any_ejected = true;
      ejected_idle = ejected_idle || !is_busy;
    } else if (is_busy) {
      any = true;
    } else {
      return Readiness::kReady;
    }
  }
  if (any) return Readiness::kBusy;
  if (!any_ejected) return Readiness::kNobody;
  return ejected_idle ? Readiness::kReady : Readiness::kBusy;
}

std::optional<RequestQueue::Request> Scheduler::TurnOf(const ScheduleRequest& request,
                                                       MonotonicTime now) const {
  const PolicyClasses& classes = queue_.classes();
  const QueueWish& wish = *request.queue;
  // Which class it is may depend on what is cached; with one class only its place in the queue
  // does.
  const bool one_class = classes.size() == 1;
  uint64_t cached_tokens = one_class ? 0 : MostCachedTokens(request, now);
  const uint32_t policy_class =
      classes.ClassOf(wish.policy_class, request.isl_tokens - cached_tokens);
  if (!classes.At(policy_class).busy.IsSet()) return std::nullopt;
  const Readiness readiness = ReadinessOf(request, policy_class, now);
  if (readiness == Readiness::kNobody) return std::nullopt;
  if (!queue_.MustPark(policy_class, readiness == Readiness::kBusy)) return std::nullopt;
  if (one_class) cached_tokens = MostCachedTokens(request, now);
  return RequestQueue::Request{
      .policy_class = policy_class,
      .strict_priority = wish.strict_priority,
      .priority_jump = wish.priority_jump,
      .isl_tokens = request.isl_tokens,
      .cached_tokens = cached_tokens,
      .pinned = request.filter->pin() ? LaneOf(request.filter->pin()) : SessionPinOf(request, now),
      .deadline = wish.deadline};
}

uint64_t Scheduler::WorkerCount() const {
  uint64_t workers = 0;
  for (size_t i = 0; i < rows_.size(); ++i) {
    workers += i == 0 || rows_[i].target.worker != rows_[i - 1].target.worker ? 1 : 0;
  }
  return workers;
}

absl::StatusOr<TicketId> Scheduler::Park(const RequestQueue::Request& turn,
                                         std::shared_ptr<WaitingRequest> request,
                                         MonotonicTime now) {
  MutexLock lock(mu_);
  // Nobody would ever look for it here again.
  if (rows_.empty()) return request->schedule.filter->NobodyEligible({});
  RequestQueue::Request now_asked = turn;
  // The classes may be others since it was told to wait.
  now_asked.policy_class = ClassOf(*request, turn.isl_tokens - turn.cached_tokens);
  auto parked = queue_.Park(now_asked, WorkerCount(), now);
  if (const auto* rejection = std::get_if<RequestQueue::Rejection>(&parked)) {
    return StatusOf(*rejection);
  }
  const TicketId ticket = std::get<TicketId>(parked);
  waiting_.emplace(ticket, std::move(request));
  waiting_count_.store(waiting_.size(), std::memory_order_relaxed);
  return ticket;
}

uint32_t Scheduler::ClassOf(const WaitingRequest& request, uint64_t uncached_tokens) const {
  return queue_.classes().ClassOf(request.policy_class, uncached_tokens);
}

void Scheduler::Reconfigure(const SchedulerConfig& config) {
  PolicyClasses classes = ClassesFor(config.queue, model_name_);
  MutexLock lock(mu_);
  ejection_.SetOptions(config.outlier_ejection);
  const auto class_of = [&](TicketId ticket) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return ClassOf(*waiting_.find(ticket)->second, queue_.UncachedTokensOf(ticket));
  };
  queue_.Reconfigure(std::move(classes), config.queue.max_waiting,
                     config.queue.overlap_refresh_after, class_of);
}

std::shared_ptr<WaitingRequest> Scheduler::TakeWaiting(TicketId ticket) {
  auto node = waiting_.extract(ticket);
  waiting_count_.store(waiting_.size(), std::memory_order_relaxed);
  return std::move(node.mapped());
}

std::optional<Scheduler::Released> Scheduler::PumpOne(CandidateTable* table, MonotonicTime now) {
  std::optional<Released> out;
  MutexLock lock(mu_);
  const auto judge = [&](TicketId ticket) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return ReadinessOf(waiting_.find(ticket)->second->schedule, queue_.ClassOfWaiting(ticket), now);
  };
  const auto place = [&](const RequestQueue::Released& released) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    out.emplace();
    out->ticket = released.ticket;
    out->waited = released.waited;
    out->request = TakeWaiting(released.ticket);
    if (!released.refresh_overlap) {
      out->placement.emplace(PickAndBookLocked(out->request->schedule, table, now));
    }
  };
  queue_.PumpOne(now, judge, place);
  return out;
}

bool Scheduler::Cancel(TicketId ticket) {
  std::shared_ptr<WaitingRequest> freed_unlocked;
  MutexLock lock(mu_);
  if (!queue_.Cancel(ticket)) return false;
  freed_unlocked = TakeWaiting(ticket);
  return true;
}

void Scheduler::ExpireWaiting(MonotonicTime now, std::vector<TicketId>* expired) {
  MutexLock lock(mu_);
  const size_t first = expired->size();
  queue_.Expire(now, expired);
  for (size_t i = first; i < expired->size(); ++i) TakeWaiting((*expired)[i]);
}

std::vector<QueueClassSnapshot> Scheduler::QueueLocked() const {
  using Limit = RequestQueue::LimitKind;
  std::vector<QueueClassSnapshot> out;
  if (!queue_.Queues()) return out;
  for (uint32_t i = 0; i < queue_.classes().size(); ++i) {
    const RequestQueue::ClassStats stats = queue_.StatsOf(i);
    const auto over = [&](Limit limit) {
      return stats.rejected_by_limit[static_cast<size_t>(limit)];
    };
    out.push_back({.policy_class = queue_.classes().At(i).name,
                   .waiting = stats.waiting,
                   .waiting_isl_tokens = stats.waiting_isl_tokens,
                   .waiting_cached_tokens = stats.waiting_cached_tokens,
                   .parked_total = stats.parked_total,
                   .released_total = stats.released_total,
                   .cancelled_total = stats.cancelled_total,
                   .expired_total = stats.expired_total,
                   .over_request_limit_total = over(Limit::kRequests),
                   .over_isl_token_limit_total = over(Limit::kRawIslTokens),
                   .over_cached_token_limit_total = over(Limit::kCachedTokens),
                   .over_max_waiting_total = over(Limit::kMaxWaiting)});
  }
  return out;
}

const Scheduler::Row* Scheduler::FindRow(Target target) const {
  const auto row = std::lower_bound(rows_.begin(), rows_.end(), target,
                                    [](const Row& r, const Target& t) { return r.target < t; });
  return row != rows_.end() && row->target == target ? &*row : nullptr;
}

void Scheduler::ReportLoad(const ReportedLoad& load) {
  MutexLock lock(mu_);
  const Row* const found = FindRow(load.target);
  if (found == nullptr) return;
  Row* const row = &rows_[static_cast<size_t>(found - rows_.data())];
  if (load.kv_used_blocks) row->reported.kv_used_blocks = load.kv_used_blocks;
  if (load.active_decode_blocks) row->reported.active_decode_blocks = load.active_decode_blocks;
}

void Scheduler::ReportLeg(const LegReport& leg, MonotonicTime now) {
  MutexLock lock(mu_);
  const Row* const row = FindRow(leg.target);
  if (row == nullptr || row->worker->incarnation != leg.incarnation) return;
  if (leg.succeeded) {
    ejection_.ReportSuccess(leg.target, now);
  } else {
    ejection_.ReportFailure(leg.target, leg.after, rows_.size(), now);
  }
}

}  // namespace kvrouter
