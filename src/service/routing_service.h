#ifndef KVROUTER_SERVICE_ROUTING_SERVICE_H_
#define KVROUTER_SERVICE_ROUTING_SERVICE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "kvrouter/plan.h"
#include "kvrouter/router.h"
#include "service/refusal_counts.h"
#include "service/request_limits.h"
#include "service/request_observer.h"

namespace kvrouter {

// What a call on an unknown or dead id means differs by door (gRPC Free: OK with released=false;
// HTTP prefill: 404), so the service says what happened and the door decides.
enum class LifecycleResult : uint8_t {
  kDone,
  kUnknownRequest,  // never booked, already freed, or expired
  kUnknownLeg,      // its plan has no such leg, or the leg has no target yet; of ReportLeg only
};

// How what was sent to a request's target ended, as its caller reports it.
enum class LegOutcome : uint8_t { kUnknown, kSucceeded, kFailed };

// What a caller says of one leg of a booked request. Its plan names the legs: the first of this
// kind to this target is meant, each if given. Neither: the one that runs, which is the prefill leg
// until it is over (PrefillComplete of a fixed plan, or the decode leg was asked for).
struct LegNews {
  LegOutcome outcome = LegOutcome::kUnknown;
  std::optional<LegKind> kind = {};
  std::optional<Target> target = {};
  // Its dispatch; absent: counted from the decision, which may be long before.
  std::optional<std::chrono::nanoseconds> after = {};
};

// Figures of the service for metrics.
struct ServiceCounters {
  uint64_t requests_started = 0;   // booked
  uint64_t requests_finished = 0;  // freed, expired or lost with their worker
  uint64_t advice = 0;
  uint64_t bookings_expired = 0;
  uint64_t duplicate_requests = 0;
  uint64_t unknown_frees = 0;
  uint64_t waiting = 0;         // for a ticket's decision
  uint64_t legs_succeeded = 0;  // as reported
  uint64_t legs_failed = 0;
  uint64_t decision_ring_entries = 0;
  uint64_t decision_ring_bytes = 0;
  uint64_t decision_ring_evicted = 0;
  // Answers of Submit and Route that were errors, each counted once, and those of CountRefusal.
  RefusalCounts::ByReason refused{};
};

// A decision of the past.
struct Explanation {
  RouteDecision decision;
  std::chrono::nanoseconds age{};
  bool live = false;  // its booking still is
};

// One of the last bookings, without candidates and filtered targets.
struct RecentDecision {
  std::string request_id;
  RouteDecision decision;
  std::chrono::nanoseconds age{};
  bool live = false;
};

// Lies between the core and the doors: request records by id, idempotency, time. One instance
// serves all doors, so a request booked through one can be freed through another.
//
// A record (request_table.h) reserves its id before the core decides and then owns the booking. It
// gives it back exactly once: on Free, on expiry, or when the worker left (the core has then
// dropped the booking; the record is found by the next call on its id or by Tick). No lock is held
// while the core decides or a completion runs.
//
// Thread safety: thread-safe.
class RoutingService {
 public:
  using Answer = absl::StatusOr<RouteDecision>;
  using Completion = std::function<void(Answer)>;

  // `router`, `clock` and `observer`, which may be null, outlive the service.
  RoutingService(ServiceConfig config, Router* router, const Clock* clock,
                 RequestObserver* observer = nullptr);
  ~RoutingService();

  // Decides, and books if request.book. Returns the answer when it is there at once, as it always
  // is without a queue. Otherwise nothing: the request waits. Then `wait` was called, once and
  // before the request could be resolved (who gives up meanwhile calls Abandon with its ticket),
  // and the completion it made gets the answer, exactly once, never under a lock, perhaps before
  // Submit returns. An empty request_id is replaced by a generated one (in *request_id_out if
  // given, set before `wait` runs). Additional errors: those of CheckRequest; kShuttingDown;
  // kDuplicateRequest (ALREADY_EXISTS) when a booking of this id is live (FindDecision then has the
  // original, and its life is prolonged: the caller is evidently there) or still being decided (no
  // original yet); CANCELLED when Free came first. With phase kDecode and the id of a live request
  // whose prefill leg is out, it is that request's second leg: on success the record owns the
  // decode booking and the prefill booking is given back.
  using Wait = std::function<Completion(TicketId)>;
  std::optional<Answer> Submit(RouteRequest request, const Wait& wait,
                               std::string* request_id_out = nullptr);

  // A request that waits is not wanted any more, as its door hears after Submit has returned: it
  // leaves at once, and its completion gets CANCELLED. If it was decided meanwhile, its booking is
  // given back.
  void Abandon(std::string_view request_id, TicketId ticket);

  // Submit for callers that cannot wait: a request that would have to is refused with kQueueLimit;
  // advice is decided at once.
  absl::StatusOr<RouteDecision> Route(RouteRequest request, std::string* request_id_out = nullptr);

  // For a door that refuses a message before it is a request, or whose Reserve was refused: counted
  // like an answer of Submit.
  void CountRefusal(const absl::Status& answer);

  // Looking only, with the same checks of the request; nothing is booked, counted or kept. As in
  // Router.
  absl::StatusOr<std::vector<TargetOverlap>> FindOverlap(const RouteRequest& request) const;
  absl::StatusOr<std::vector<TargetPotentialLoad>> PotentialLoads(
      const RouteRequest& request) const;

  // Books on the target the caller names (Router::Reserve); never waits. Record, id and errors as
  // Submit of a booking request.
  absl::StatusOr<RouteDecision> Reserve(ReserveRequest request,
                                        std::string* request_id_out = nullptr);

  // With a fixed plan it ends the prefill leg.
  LifecycleResult PrefillComplete(std::string_view request_id);
  // `output_tokens` cumulative.
  LifecycleResult OutputTokens(std::string_view request_id, uint64_t output_tokens,
                               std::optional<double> decay_fraction);
  LifecycleResult OutputBlock(std::string_view request_id, std::optional<double> decay_fraction);
  LifecycleResult KeepAlive(std::string_view request_id);
  // Also of a request that still waits or is being decided: it then ends with CANCELLED. `outcome`
  // as in ReportLeg, of the leg that runs.
  LifecycleResult Free(std::string_view request_id, LegOutcome outcome = LegOutcome::kUnknown,
                       std::optional<std::chrono::nanoseconds> after = {});

  // How a leg of the request fared. Targets that fail fast and again are taken out for a while
  // (Router::ReportLeg); a session is bound no longer to a target that failed it. Bookings stay.
  LifecycleResult ReportLeg(std::string_view request_id, const LegNews& news);
  // Of the leg that runs.
  LifecycleResult ReportLeg(std::string_view request_id, LegOutcome outcome,
                            std::optional<std::chrono::nanoseconds> after = {}) {
    return ReportLeg(request_id, {.outcome = outcome, .after = after});
  }

  // Frees the request only if it still has this booking: for an owner who may be late, when the id
  // may meanwhile be somebody else's.
  LifecycleResult FreeBooking(std::string_view request_id, BookingId booking);
  bool HasBooking(std::string_view request_id, BookingId booking) const;

  // The decision of a live booking (without its candidates), for duplicates.
  std::optional<RouteDecision> FindDecision(std::string_view request_id) const;

  // The last decision booked under this id, with everything behind it, while it is among the recent
  // ones (ServiceConfig::decision_ring_entries); also after its request has ended.
  std::optional<Explanation> Explain(std::string_view request_id) const;
  // The last `count` decisions of those kept for Explain, newest first.
  std::vector<RecentDecision> Recent(size_t count) const;

  // Releases expired bookings and answers what can be answered. The daemon calls it every
  // expiry_check_period.
  void Tick();
  // Answers what can be answered, if anybody waits: after changes of workers, and so often that
  // deadlines are kept.
  void PumpWaiting();
  // As the core is told the time.
  MonotonicTime Now() const;

  // After this every Submit fails with kShuttingDown (UNAVAILABLE), and so does who waits;
  // lifecycle calls still work.
  void StopIntake();

  uint64_t LiveRequests() const;
  ServiceCounters Counters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_ROUTING_SERVICE_H_
