#ifndef KVROUTER_CORE_SCHEDULE_SESSION_BINDING_H_
#define KVROUTER_CORE_SCHEDULE_SESSION_BINDING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/affinity/session_table.h"
#include "core/schedule/scorer.h"
#include "core/schedule/target_pool.h"
#include "kvrouter/router.h"
#include "kvrouter/session.h"
#include "kvrouter/types.h"

namespace kvrouter {

// Sessions where targets are picked: which candidate a session asks for, and that its booking holds
// a lease on its binding. Two tables, one per pool.
//
//   Choose ── bound target among the candidates ─────────────> it      bound
//                  soft, and it costs too much ──────────────> by cost  moved
//          ── bound target no candidate: forgotten ──────────> by cost  replaced
//          ── no binding ──> rendezvous, or by cost ─────────> ..       initialised
//   (pick, book)
//   Bound ── the booking takes the lease; End gives it back
//
// A candidate is eligible, so a target that is gone, drains, is overloaded or not allowed to this
// request costs the session its binding, and the request is placed anew in the same step.
//
// Bounded by the bookings. Thread safety: thread-compatible; guarded by the scheduler's mutex.
class SessionBinding {
 public:
  // What a request says of its session.
  struct Claim {
    SessionKey key = kNoSession;
    bool pins = false;  // false: the session is known, but not to be pinned (SessionPlacement)
    bool pinned_by_caller = false;
  };

  struct Candidates {
    std::span<const SeenCandidate> seen;  // ascending target, not empty
    std::span<const double> costs;        // of seen[i]
  };

  struct Choice {
    std::optional<size_t> index = {};  // of the candidate to take; absent: by cost
    SessionOutcome outcome = SessionOutcome::kNotPinned;
    bool rendezvous = false;
    // The binding to forget before another is made.
    bool forget = false;
  };

  explicit SessionBinding(const SessionConfig& config);

  bool IsOn() const { return config_.affinity_ttl.has_value(); }

  // Changes nothing. `incarnation_of(i)`: of candidate i's worker.
  template <typename IncarnationOf>
  Choice Choose(const Claim& claim, TargetPool pool, const Candidates& candidates,
                IncarnationOf incarnation_of, MonotonicTime now) const {
    if (!IsOn() || !claim.pins) return {};
    const auto binding = TableOf(pool).Find(claim.key, now);
    std::optional<size_t> bound;
    if (binding) {
      bound = IndexOf(binding->target, candidates.seen);
      if (bound && incarnation_of(*bound) != binding->incarnation) bound.reset();
    }
    return Choose(claim, binding.has_value(), bound, candidates);
  }

  // The only target that may take the request while it can: the one its session is bound to, unless
  // pins are soft or the caller has a pin of its own.
  std::optional<SessionTable::Binding> PinOf(const Claim& claim, TargetPool pool,
                                             MonotonicTime now) const {
    if (!IsOn() || !claim.pins || config_.soft || claim.pinned_by_caller) return std::nullopt;
    return TableOf(pool).Find(claim.key, now);
  }

  // The request was booked on `binding`; what became of its session.
  SessionOutcome Bound(const Claim& claim, TargetPool pool, const Choice& choice,
                       const SessionTable::Binding& binding, BookingId booking, MonotonicTime now);

  // The booking has ended, in whatever way.
  void End(BookingId booking, MonotonicTime now) {
    if (!leases_.empty()) EndLease(booking, now);
  }
  // The booking's target has failed it, or is gone. False: it holds no lease on a binding.
  bool Fail(BookingId booking);

  void Sweep(MonotonicTime now);

  SessionFigures Figures(TargetPool pool) const;

 private:
  struct Lease {
    TargetPool pool = TargetPool::kDecode;
    SessionHold hold = kNoHold;
  };

  static std::optional<size_t> IndexOf(const Target& target, std::span<const SeenCandidate> seen);
  Choice Choose(const Claim& claim, bool has_binding, std::optional<size_t> bound,
                const Candidates& candidates) const;
  void EndLease(BookingId booking, MonotonicTime now);
  SessionTable& TableOf(TargetPool pool) { return tables_[static_cast<size_t>(pool)]; }
  const SessionTable& TableOf(TargetPool pool) const { return tables_[static_cast<size_t>(pool)]; }

  const SessionConfig config_;
  std::array<SessionTable, 2> tables_;  // by TargetPool
  absl::flat_hash_map<BookingId, Lease> leases_;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_SCHEDULE_SESSION_BINDING_H_
