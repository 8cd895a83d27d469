#ifndef KVROUTER_CORE_REQUEST_COURSE_H_
#define KVROUTER_CORE_REQUEST_COURSE_H_

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/affinity/session_identity.h"
#include "core/partition.h"
#include "core/prompt.h"
#include "core/request_planner.h"
#include "core/schedule/candidate_filter.h"
#include "core/schedule/scheduler.h"
#include "kvrouter/decision.h"
#include "kvrouter/types.h"

namespace kvrouter {

// One request on its way through Router::Submit, from the prompt's overlap to its legs:
//
//   phase  whole    gate ── local ──> pick and book in the decode pool ──> migrate?
//                        └─ remote ─> pick and book in the prefill pool (fixed plan: and decode)
//                             └─ nobody there ──> locally (strict: an error)
//          prefill  pick and book in the prefill pool
//          decode   pick and book in the decode pool, as the second leg
//
// The gate's advice is a pick that books nothing; the pick that books is made anew, so that a burst
// of requests does not end on the one worker that all of them were advised.
//
// Belongs to the calling thread, borrows everything, outlives nothing.
class RequestCourse {
 public:
  struct Parts {
    const RouteRequest& request;
    const IdentifiedPrompt& prompt;
    Partition* partition;
    RequestPlanner* planner;
    const RouterConfig& config;  // in force for this request
    std::span<const OverlapMatch> overlaps;
    std::span<const LowerTierMatch> lower_overlaps;
    std::span<const BlockRange> shared_hits = {};
    std::span<const SequenceHash> chain;  // as the ledger counts it
    bool list_filtered = false;
    MonotonicTime now{};
  };

  // What it comes to before its target stands; outlives a wait for the target.
  struct State {
    SessionIdentifier::Identity session;
    RequestPhase leg = RequestPhase::kWhole;
    std::optional<GateDecision> gate = {};
    std::string prefill_refused = {};
    // Of a fixed plan.
    BookingId decode_booking = kNoBooking;
    std::optional<LegTarget> decode_target = {};
  };

  RequestCourse(const Parts& parts, const SessionIdentifier::Identity& session)
      : parts_(parts), state_{.session = session, .leg = parts.request.phase} {}
  // Of a request that has waited.
  RequestCourse(const Parts& parts, State state) : parts_(parts), state_(std::move(state)) {}

  // Gate, score and book. The candidates are those of the target's pool. Errors as of Submit;
  // UNAVAILABLE for a prefill leg that cannot be had under strict disaggregation.
  //
  // Only a request that is decoded where its prompt is computed may have to wait: then filter() and
  // scheduled() are what it is to wait with. A prefill leg does not wait, since its blocks will be
  // wanted by a decode leg that nobody has placed yet, nor does that.
  absl::StatusOr<Placement> Place(CandidateTable* table);
  const CandidateFilter& filter() const { return *filter_; }
  const ScheduleRequest& scheduled() const { return *scheduled_; }
  const State& state() const { return state_; }

  // What remains to be said once the target stands: session, plan, migration, legs. The rest of the
  // decision is written already.
  void Describe(const Placement& placement, RouteDecision* decision) const;

 private:
  struct Pool {
    TargetPool pool = TargetPool::kDecode;
    bool second_leg = false;  // decodes what another worker computed
    bool book = true;
    const QueueWish* queue = nullptr;  // null: it does not wait
  };

  const RouteRequest& request() const { return parts_.request; }
  GateDecision Gate(CandidateTable* table);
  std::optional<DecodeAdvice> AdviseDecode(CandidateTable* table);
  std::optional<PrefillAdvice> AdvisePrefill(CandidateTable* table);
  absl::StatusOr<Placement> PlaceRemote(CandidateTable* table);
  static absl::Status NoPrefillLeg(const absl::Status& why);
  // Of a fixed plan, beside the prefill target.
  absl::Status PlaceDecodeLeg(const Placement& prefill);
  ScheduleRequest Schedule(const Pool& pool, const CandidateFilter& filter) const;
  absl::StatusOr<Placement> Pick(const Pool& pool, const CandidateFilter& filter,
                                 CandidateTable* table) const;
  // In the decode pool, all of the request; it may wait.
  absl::StatusOr<Placement> PlaceLocally(CandidateTable* table);
  absl::StatusOr<Placement> PickForDecode(bool second_leg, bool book, CandidateTable* table) const;
  absl::StatusOr<Placement> PickForPrefill(bool book, CandidateTable* table) const;
  // The prompt was computed by this worker: what it demands of the decode target.
  std::shared_ptr<const WorkerSpec> Prefiller() const;
  MigrationPlan Migrate(const Placement& placement, const RouteDecision& decision) const;
  LegPlan Legs(const Placement& placement, const RouteDecision& decision,
               const std::optional<MigrationPlan>& migration) const;

  const Parts parts_;
  State state_;
  QueueWish queue_;
  std::optional<CandidateFilter> filter_;
  std::optional<ScheduleRequest> scheduled_;
  // Strict: the gate is local for want of a prefill pool alone.
  bool lacks_prefill_pool_ = false;
  std::shared_ptr<const WorkerSpec> prefiller_;  // of the leg just placed
};

SessionPlacement DescribeSession(const SessionIdentifier::Identity& session,
                                 const Placement& placement);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_REQUEST_COURSE_H_
