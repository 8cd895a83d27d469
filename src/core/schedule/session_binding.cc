#include "core/schedule/session_binding.h"

#include <algorithm>

#include "core/affinity/pin_choice.h"

namespace kvrouter {
namespace {

static_assert(static_cast<size_t>(TargetPool::kDecode) == 0);
static_assert(static_cast<size_t>(TargetPool::kPrefill) == 1);

SessionTable::Options TableOptions(const SessionConfig& config) {
  return {.idle_ttl = config.affinity_ttl.value_or(SessionTable::Options().idle_ttl),
          .max_sessions = config.max_sessions};
}

size_t RendezvousIndex(SessionKey key, std::span<const SeenCandidate> seen) {
  size_t best = 0;
  uint64_t best_hash = 0;
  for (size_t i = 0; i < seen.size(); ++i) {
    const uint64_t hash = RendezvousHash(key, seen[i].target());
    if (hash >= best_hash) {
      best = i;
      best_hash = hash;
    }
  }
  return best;
}

}  // namespace

SessionBinding::SessionBinding(const SessionConfig& config)
    : config_(config),
      tables_{SessionTable(TableOptions(config)), SessionTable(TableOptions(config))} {}

std::optional<size_t> SessionBinding::IndexOf(const Target& target,
                                              std::span<const SeenCandidate> seen) {
  const auto it =
      std::lower_bound(seen.begin(), seen.end(), target,
                       [](const SeenCandidate& c, const Target& t) { return c.target() < t; });
  if (it == seen.end() || it->target() != target) return std::nullopt;
  return static_cast<size_t>(it - seen.begin());
}

SessionBinding::Choice SessionBinding::Choose(const Claim& claim, bool has_binding,
                                              std::optional<size_t> bound,
                                              const Candidates& candidates) const {
  if (claim.pinned_by_caller && has_binding && !bound)
    return {.outcome = SessionOutcome::kConflict};
  if (bound) {
    const double lowest = *std::min_element(candidates.costs.begin(), candidates.costs.end());
    if (!config_.soft || claim.pinned_by_caller ||
        KeepsPin(candidates.costs[*bound], lowest, config_.soft_pin)) {
      return {.index = bound, .outcome = SessionOutcome::kBound};
    }
    return {.outcome = SessionOutcome::kMoved};
  }
  Choice choice{.outcome = has_binding ? SessionOutcome::kReplaced : SessionOutcome::kInitialised,
                .forget = has_binding};
  if (config_.rendezvous && !claim.pinned_by_caller) {
    choice.index = RendezvousIndex(claim.key, candidates.seen);
    choice.rendezvous = true;
  }
  return choice;
}

SessionOutcome SessionBinding::Bound(const Claim& claim, TargetPool pool, const Choice& choice,
                                     const SessionTable::Binding& binding, BookingId booking,
                                     MonotonicTime now) {
  if (choice.outcome == SessionOutcome::kNotPinned || choice.outcome == SessionOutcome::kConflict)
    return choice.outcome;
  SessionTable& table = TableOf(pool);
  if (choice.forget) table.Forget(claim.key);
  const SessionHold hold = table.Bind(claim.key, binding, now);
  if (hold == kNoHold) return SessionOutcome::kNoRoom;
  leases_.emplace(booking, Lease{.pool = pool, .hold = hold});
  return choice.outcome;
}

void SessionBinding::EndLease(BookingId booking, MonotonicTime now) {
  const auto it = leases_.find(booking);
  if (it == leases_.end()) return;
  TableOf(it->second.pool).Release(it->second.hold, now);
  leases_.erase(it);
}

bool SessionBinding::Fail(BookingId booking) {
  const auto it = leases_.find(booking);
  if (it == leases_.end()) return false;
  const bool was_bound = TableOf(it->second.pool).Invalidate(it->second.hold);
  leases_.erase(it);
  return was_bound;
}

void SessionBinding::Sweep(MonotonicTime now) {
  for (SessionTable& table : tables_) table.Sweep(now);
}

SessionFigures SessionBinding::Figures(TargetPool pool) const {
  const SessionTable::Stats stats = TableOf(pool).GetStats();
  return {.sessions = stats.sessions,
          .leases = stats.leases,
          .expired_total = stats.expired_total,
          .evicted_total = stats.evicted_total,
          .invalidated_total = stats.invalidated_total,
          .refused_total = stats.refused_total};
}

}  // namespace kvrouter
