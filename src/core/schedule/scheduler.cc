#include "core/schedule/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/status_macros.h"
#include "core/schedule/overlap_cursor.h"
#include "kvrouter/error.h"

namespace kvrouter {

namespace {

LoadLedger::Options LedgerOptions(const Scheduler::Options& options) {
  return {.partition = options.partition,
          .first_generation = options.first_generation,
          .max_bookings = options.config.max_bookings,
          .idle_expiry = options.config.active_request_expiry,
          .track_output_blocks = options.config.track_output_blocks};
}

}  // namespace

Scheduler::Scheduler(const Options& options)
    : config_(options.config),
      model_name_(options.model_name),
      ledger_(LedgerOptions(options)),
      random_(options.random_seed),
      ejection_(options.config.outlier_ejection),
      queue_({.partition = options.partition,
              .first_generation = options.first_generation,
              .max_waiting = options.config.queue.max_waiting,
              .overlap_refresh_after = options.config.queue.overlap_refresh_after},
             ClassesFor(options.config.queue, options.model_name), MonotonicTime{}),
      sessions_(options.sessions) {}

std::vector<Scheduler::Row>::iterator Scheduler::FirstRowOf(WorkerId id) {
  return std::lower_bound(rows_.begin(), rows_.end(), id,
                          [](const Row& row, WorkerId w) { return row.target.worker < w; });
}

const Scheduler::Row& Scheduler::RowOf(const Target& target, std::span<const Row> rows) {
  return *std::lower_bound(rows.begin(), rows.end(), target,
                           [](const Row& row, const Target& t) { return row.target < t; });
}

void Scheduler::CountOpenTargets() {
  has_decode_workers_.store(
      std::any_of(rows_.begin(), rows_.end(),
                  [](const Row& row) { return !row.draining && row.role == WorkerRole::kDecode; }),
      std::memory_order_relaxed);
  for (const TargetPool pool : {TargetPool::kDecode, TargetPool::kPrefill}) {
    const auto open = std::count_if(rows_.begin(), rows_.end(), [pool](const Row& row) {
      return !row.draining && IsInPool(row.role, pool);
    });
    open_targets_[static_cast<size_t>(pool)].store(static_cast<uint32_t>(open),
                                                   std::memory_order_relaxed);
  }
}

void Scheduler::DropTarget(TargetSlot slot) {
  if (!sessions_.IsOn()) return ledger_.RemoveTarget(slot);
  std::vector<BookingId> voided;
  ledger_.RemoveTarget(slot, &voided);
  for (const BookingId booking : voided) sessions_.Fail(booking);
}

void Scheduler::SetWorker(std::shared_ptr<const WorkerSpec> spec) {
  auto facts = std::make_shared<WorkerFacts>(WorkerFacts{
      .taints = TaintsOf(spec->taints, spec->topology), .adapters = spec->lora_adapters});
  if (facts->adapters) std::sort(facts->adapters->begin(), facts->adapters->end());
  MutexLock lock(mu_);
  const auto first = FirstRowOf(spec->id);
  auto last = first;
  std::vector<Row> rows(spec->dp_size);
  std::vector<bool> kept(spec->dp_size, false);
  for (; last != rows_.end() && last->target.worker == spec->id; ++last) {
    const uint32_t offset = last->target.dp_rank - spec->dp_start_rank;  // wraps below the start
    if (offset < spec->dp_size) {
      rows[offset].slot = last->slot;
      rows[offset].reported = last->reported;
      kept[offset] = true;
    } else {
      DropTarget(last->slot);
      ejection_.Forget(last->target);
    }
  }
  for (uint32_t offset = 0; offset < spec->dp_size; ++offset) {
    rows[offset].target = {.worker = spec->id, .dp_rank = spec->dp_start_rank + offset};
    rows[offset].draining = spec->draining;
    rows[offset].role = spec->role;
    rows[offset].worker = spec;
    rows[offset].facts = facts;
    if (!kept[offset]) rows[offset].slot = ledger_.AddTarget();
  }
  const auto gap = rows_.erase(first, last);
  rows_.insert(gap, std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
  CountOpenTargets();
}

void Scheduler::RemoveWorker(WorkerId id) {
  MutexLock lock(mu_);
  const auto first = FirstRowOf(id);
  auto last = first;
  for (; last != rows_.end() && last->target.worker == id; ++last) {
    DropTarget(last->slot);
    ejection_.Forget(last->target);
  }
  rows_.erase(first, last);
  CountOpenTargets();
}

absl::StatusOr<Placement> Scheduler::PickAndBook(const ScheduleRequest& request,
                                                 CandidateTable* table, MonotonicTime now) {
  KVR_RETURN_IF_ERROR(request.filter->CheckPin());
  MutexLock lock(mu_);
  if (request.queue != nullptr && queue_.Queues()) {
    Placement waits;
    waits.must_wait = TurnOf(request, now);
    if (waits.must_wait) return waits;
  }
  return PickAndBookLocked(request, table, now);
}

absl::StatusOr<Placement> Scheduler::PickAndBookLocked(const ScheduleRequest& request,
                                                       CandidateTable* table, MonotonicTime now) {
  Placement placement;
  FindOverloaded(request.overload != nullptr ? *request.overload : config_.overload, table);
  CollectCandidates(request, Ejected::kOut, now, table, &placement);
  if (table->seen.empty()) {
    const auto ejected = static_cast<size_t>(CandidateFilter::Verdict::kEjected);
    if (placement.filtered[ejected] == 0) {
      return request.filter->NobodyEligible(placement.filtered);
    }
    placement = {};
    CollectCandidates(request, Ejected::kServe, now, table, &placement);
  }
  ScoreCandidates(request, table);
  const SessionBinding::Choice session = ChooseBySession(request, *table, now);
  PickCandidate(request, *table, session, &placement);
  if (request.book && !Book(request, *table, now, &placement)) {
    return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                     fmt::format("max_bookings reached: {} bookings are live in this partition",
                                 config_.max_bookings));
  }
  if (request.book) {
    placement.session = sessions_.Bound(request.session, request.pool, session,
                                        {.target = table->seen[placement.index].target(),
                                         .incarnation = placement.worker->incarnation},
                                        placement.booking, now);
  }
  return placement;
}

bool Scheduler::IsOverloaded(const Target& target, const OverloadThresholds& thresholds) const {
  if (!thresholds.IsSet()) return false;
  CandidateTable table;
  MutexLock lock(mu_);
  FindOverloaded(thresholds, &table);
  if (table.overloaded.empty()) return false;
  for (size_t i = 0; i < rows_.size(); ++i)
    if (rows_[i].target == target) return table.overloaded[i];
  return false;
}

uint64_t Scheduler::PendingPrefillTokens(const Target& target) const {
  MutexLock lock(mu_);
  const auto row = std::lower_bound(rows_.begin(), rows_.end(), target,
                                    [](const Row& r, const Target& t) { return r.target < t; });
  if (row == rows_.end() || row->target != target) return 0;
  return ledger_.LoadOf(row->slot).active_prefill_tokens;
}

void Scheduler::FindOverloaded(const OverloadThresholds& thresholds, CandidateTable* table) const {
  table->overloaded.clear();
  if (!thresholds.IsSet()) return;
  table->rank_loads.clear();
  for (const Row& row : rows_) {
    const LoadLedger::Load load = ledger_.LoadOf(row.slot);
    DecodeSignals decode = row.reported;
    // What is known here is newer than what anybody reports of it, and somebody else's requests
    // may be there besides.
    decode.active_decode_blocks =
        std::max(decode.active_decode_blocks.value_or(0), load.active_decode_blocks);
    table->rank_loads.push_back({.target = row.target,
                                 .active_prefill_tokens = load.active_prefill_tokens,
                                 .max_num_batched_tokens = row.worker->max_num_batched_tokens,
                                 .total_kv_blocks = row.worker->total_kv_blocks,
                                 .decode = decode});
  }
  FindOverloadedWorkers(table->rank_loads, thresholds, &table->overloaded);
}

CandidateFilter::Verdict Scheduler::Judge(const ScheduleRequest& request, const Row& row,
                                          bool overloaded, MonotonicTime now) const {
  if (!IsInPool(row.role, request.pool)) return CandidateFilter::Verdict::kOtherRole;
  const CandidateFilter& filter = *request.filter;
  const bool ejected = !ejection_.IsQuiet() && ejection_.IsEjected(row.target, now);
  if (filter.unrestricted() && !row.draining && !overloaded && !ejected) {
    return CandidateFilter::Verdict::kEligible;
  }
  return filter.Judge({.target = row.target,
                       .draining = row.draining,
                       .overloaded = overloaded,
                       .ejected = ejected,
                       .taints = row.facts->taints,
                       .adapters = row.facts->adapters ? &*row.facts->adapters : nullptr});
}

void Scheduler::CollectCandidates(const ScheduleRequest& request, Ejected ejected,
                                  MonotonicTime now, CandidateTable* table,
                                  Placement* placement) const {
  table->filtered.clear();
  // What is not tracked is not looked for: requests without reuse share nothing with anybody.
  table->live_blocks.assign(ledger_.SlotCount(), 0);
  if (request.weights.assume_kv_reuse) {
    ledger_.FindLivePrefixes(request.chain, table->live_blocks);
  }
  table->seen.Begin(rows_.size());
  const bool has_lower = !request.lower_overlaps.empty() || !request.shared_hits.empty();
  table->lower.resize(has_lower ? rows_.size() : 0);
  const bool has_preferences = request.filter->has_preferences();
  table->taint_multipliers.resize(has_preferences ? rows_.size() : 0);
  const bool any_overloaded = !table->overloaded.empty();
  size_t candidates = 0;
  OverlapCursor overlap(request.overlaps, request.lower_overlaps);
  for (size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    const uint32_t device_blocks = overlap.DeviceBlocks(row.target);
    double effective_blocks = device_blocks;
    if (has_lower) {
      table->lower[candidates] = overlap.LowerTiers(row.target);
      table->lower[candidates].shared_blocks =
          static_cast<uint32_t>(HitsBeyond(request.shared_hits, device_blocks));
      effective_blocks =
          EffectiveBlocks(device_blocks, table->lower[candidates], request.weights.cost);
    }
    if (effective_blocks > placement->best_overlap_blocks) {
      placement->best_overlap_blocks = effective_blocks;
      placement->best_overlap_target = row.target;
    }
    const auto verdict = Judge(request, row, any_overloaded && table->overloaded[i], now);
    if (verdict != CandidateFilter::Verdict::kEligible) {
      ++placement->filtered[static_cast<size_t>(verdict)];
      if (ejected == Ejected::kOut || verdict != CandidateFilter::Verdict::kEjected) {
        Exclude(row, verdict, device_blocks, request, table);
        continue;
      }
    }
    if (has_preferences) {
      table->taint_multipliers[candidates] =
          TaintMultiplier(request.filter->PreferredTaintWeight(row.facts->taints));
    }
    const LoadLedger::Load load = ledger_.LoadOf(row.slot);
    const size_t live_blocks = table->live_blocks[static_cast<uint32_t>(row.slot)];
    // Written where it stays: copied from a temporary, it would be read before its parts have
    // reached memory.
    SeenCandidate& seen = table->seen[candidates++];
    seen.worker = row.target.worker;
    seen.dp_rank = row.target.dp_rank;
    seen.device_overlap_blocks = device_blocks;
    seen.additional_decode_blocks = static_cast<uint32_t>(request.chain.size() - live_blocks);
    seen.active_decode_blocks = static_cast<uint32_t>(
        std::min<double>(load.active_decode_blocks, std::numeric_limits<uint32_t>::max()));
    seen.packed_load = SeenCandidate::PackLoad(load.active_prefill_tokens, load.active_requests);
  }
  table->seen.Truncate(candidates);
  if (has_lower) table->lower.resize(candidates);
  if (has_preferences) table->taint_multipliers.resize(candidates);
}

void Scheduler::Exclude(const Row& row, CandidateFilter::Verdict verdict, double overlap_blocks,
                        const ScheduleRequest& request, CandidateTable* table) {
  if (!request.list_filtered || table->filtered.size() >= kMaxFilteredTargets) return;
  table->filtered.push_back(
      {.target = row.target, .reason = ReasonOf(verdict), .device_overlap_blocks = overlap_blocks});
}

void Scheduler::ScoreCandidates(const ScheduleRequest& request, CandidateTable* table) {
  uint64_t least_prefill_tokens = std::numeric_limits<uint64_t>::max();
  for (const SeenCandidate& seen : table->seen) {
    least_prefill_tokens = std::min(least_prefill_tokens, seen.active_prefill_tokens());
  }
  table->context = {.weights = request.weights,
                    .isl_tokens = request.isl_tokens,
                    .block_size_tokens = request.block_size_tokens,
                    .least_active_prefill_tokens = least_prefill_tokens,
                    .decode_pool = request.decode_pool,
                    .stated_overlap_blocks = request.stated_overlap_blocks};
  table->costs.resize(table->seen.size());
  table->summary =
      ScoreAll(table->seen, table->context, table->costs, table->lower, table->taint_multipliers);
}

SessionBinding::Choice Scheduler::ChooseBySession(const ScheduleRequest& request,
                                                  const CandidateTable& table,
                                                  MonotonicTime now) const {
  const std::span<const Row> rows = rows_;  // read under the lock that is held here
  return sessions_.Choose(
      request.session, request.pool, {.seen = table.seen, .costs = table.costs},
      [&](size_t i) { return RowOf(table.seen[i].target(), rows).worker->incarnation; }, now);
}

void Scheduler::PickCandidate(const ScheduleRequest& request, const CandidateTable& table,
                              const SessionBinding::Choice& session, Placement* placement) {
  const bool samples = !session.index && request.weights.temperature > 0 && table.costs.size() > 1;
  placement->pick = session.index ? Pick{.index = *session.index}
                    : samples     ? PickBySoftmax(table.costs, request.weights.temperature, random_)
                                  : PickLowestCost(table.costs, random_);
  placement->index = placement->pick.index;
  placement->session = session.outcome;
  placement->reason = request.filter->pinned()       ? DecisionReason::kPinned
                      : session.rendezvous           ? DecisionReason::kRendezvous
                      : session.index                ? DecisionReason::kSession
                      : table.costs.size() == 1      ? DecisionReason::kOnlyCandidate
                      : samples                      ? DecisionReason::kSampled
                      : placement->pick.tie_size > 1 ? DecisionReason::kTieBreak
                                                     : DecisionReason::kLowestCost;
  const Row& row = RowOf(table.seen[placement->index].target(), rows_);
  placement->worker = row.worker;
  placement->slot = row.slot;
}

bool Scheduler::Book(const ScheduleRequest& request, const CandidateTable& table, MonotonicTime now,
                     Placement* placement) {
  const SeenCandidate& chosen = table.seen[placement->index];
  const double effective_blocks =
      ScoreSeen(chosen, table.context, table.LowerOf(placement->index)).effective_overlap_blocks;
  const auto cached_tokens = static_cast<uint64_t>(
      std::llround(effective_blocks * static_cast<double>(request.block_size_tokens)));
  const uint64_t uncached_tokens = request.isl_tokens - std::min(cached_tokens, request.isl_tokens);
  const auto booking =
      ledger_.Add({.target = placement->slot,
                   .chain = request.chain,
                   .share_prefixes = request.weights.assume_kv_reuse,
                   .prefill_tokens = request.weights.track_prefill_tokens ? uncached_tokens : 0,
                   .isl_tokens = request.isl_tokens,
                   .block_size_tokens = request.block_size_tokens,
                   .expected_output_tokens = request.expected_output_tokens},
                  now);
  if (!booking) return false;
  placement->booking = *booking;
  return true;
}

std::vector<TargetPotentialLoad> Scheduler::PotentialLoads(const ScheduleRequest& request) const {
  std::vector<TargetPotentialLoad> loads;
  MutexLock lock(mu_);
  std::vector<uint32_t> live_blocks(ledger_.SlotCount(), 0);
  if (request.weights.assume_kv_reuse) ledger_.FindLivePrefixes(request.chain, live_blocks);
  loads.reserve(rows_.size());
  OverlapCursor overlap(request.overlaps, request.lower_overlaps);
  for (const Row& row : rows_) {
    const double effective_blocks = EffectiveBlocks(
        overlap.DeviceBlocks(row.target), overlap.LowerTiers(row.target), request.weights.cost);
    const auto cached_tokens =
        std::min(static_cast<uint64_t>(std::llround(effective_blocks * request.block_size_tokens)),
                 request.isl_tokens);
    const uint64_t added_tokens =
        request.weights.track_prefill_tokens ? request.isl_tokens - cached_tokens : 0;
    const uint64_t added_blocks =
        request.chain.size() - live_blocks[static_cast<uint32_t>(row.slot)];
    const LoadLedger::Load load = ledger_.LoadOf(row.slot);
    loads.push_back(
        {.target = row.target,
         .incarnation = row.worker->incarnation,
         .role = row.worker->role,
         .draining = row.worker->draining,
         .overlap_blocks = static_cast<uint64_t>(std::llround(effective_blocks)),
         .potential_prefill_tokens = load.active_prefill_tokens + added_tokens,
         .potential_decode_blocks = load.active_decode_blocks + static_cast<double>(added_blocks),
         .active_requests = load.active_requests});
  }
  return loads;
}

bool Scheduler::PrefillComplete(BookingId id, MonotonicTime now) {
  MutexLock lock(mu_);
  return ledger_.PrefillComplete(id, now);
}

bool Scheduler::OutputTokens(BookingId id, uint64_t output_tokens, std::optional<double> fraction,
                             MonotonicTime now) {
  MutexLock lock(mu_);
  return ledger_.OutputTokens(id, output_tokens, fraction, now);
}

bool Scheduler::OutputBlock(BookingId id, std::optional<double> fraction, MonotonicTime now) {
  MutexLock lock(mu_);
  return ledger_.OutputBlock(id, fraction, now);
}

bool Scheduler::KeepAlive(BookingId id, MonotonicTime now) {
  MutexLock lock(mu_);
  return ledger_.KeepAlive(id, now);
}

bool Scheduler::Finish(BookingId id, MonotonicTime now) {
  MutexLock lock(mu_);
  sessions_.End(id, now);
  return ledger_.Finish(id);
}

bool Scheduler::DropSession(BookingId id) {
  MutexLock lock(mu_);
  return sessions_.Fail(id);
}

bool Scheduler::IsLive(BookingId id) const {
  MutexLock lock(mu_);
  return ledger_.IsLive(id);
}

void Scheduler::Expire(MonotonicTime now, std::vector<BookingId>* expired) {
  MutexLock lock(mu_);
  const size_t before = expired->size();
  ledger_.Expire(now, expired);
  for (size_t i = before; i < expired->size(); ++i) sessions_.End((*expired)[i], now);
  sessions_.Sweep(now);
}

Scheduler::LoadSnapshot Scheduler::Loads(const OverloadThresholds* overload) const {
  MutexLock lock(mu_);
  LoadSnapshot snapshot;
  snapshot.bookings = ledger_.LiveBookings();
  snapshot.expired_total = ledger_.ExpiredTotal();
  snapshot.ejections_total = ejection_.EjectionsTotal();
  snapshot.ejections_refused_total = ejection_.RefusedTotal();
  snapshot.queue = QueueLocked();
  snapshot.decode_sessions = sessions_.Figures(TargetPool::kDecode);
  snapshot.prefill_sessions = sessions_.Figures(TargetPool::kPrefill);
  snapshot.loads.reserve(rows_.size());
  CandidateTable table;
  FindOverloaded(overload != nullptr ? *overload : config_.overload, &table);
  for (size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    const LoadLedger::Load load = ledger_.LoadOf(row.slot);
    const OutlierEjection::Record health = ejection_.RecordOf(row.target);
    snapshot.loads.push_back({.target = row.target,
                              .incarnation = row.worker->incarnation,
                              .role = row.worker->role,
                              .draining = row.worker->draining,
                              .active_prefill_tokens = load.active_prefill_tokens,
                              .active_decode_blocks = load.active_decode_blocks,
                              .active_requests = load.active_requests,
                              .overloaded = !table.overloaded.empty() && table.overloaded[i],
                              .ejected_until = health.until,
                              .ejections = health.ejections});
  }
  return snapshot;
}

uint32_t Scheduler::NextGeneration() const {
  MutexLock lock(mu_);
  return std::max(ledger_.NextGeneration(), queue_.NextGeneration());
}

}  // namespace kvrouter
