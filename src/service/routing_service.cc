#include "service/routing_service.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "base/status_macros.h"
#include "kvrouter/error.h"
#include "service/routing_service_impl.h"

namespace kvrouter {
namespace {

absl::Status Duplicate(std::string_view request_id, std::string_view state) {
  return MakeError(absl::StatusCode::kAlreadyExists, ErrorReason::kDuplicateRequest,
                   fmt::format("request_id \"{}\" {}", request_id, state));
}

absl::Status ShuttingDown() {
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kShuttingDown,
                   "the router is shutting down");
}

// The decision as the request's record keeps it.
RouteDecision WithoutLists(RouteDecision* decision) {
  CandidateList candidates = std::exchange(decision->candidates, {});
  std::vector<FilteredTarget> filtered = std::exchange(decision->filtered_targets, {});
  RouteDecision copy = *decision;
  decision->candidates = std::move(candidates);
  decision->filtered_targets = std::move(filtered);
  return copy;
}

}  // namespace

absl::Status RoutingService::Impl::Reserve(const std::string& request_id) {
  while (true) {
    const RequestTable::Reserved reserved = table.Reserve(request_id);
    switch (reserved.result) {
      case RequestTable::ReserveResult::kReserved:
        return absl::OkStatus();
      case RequestTable::ReserveResult::kDeciding:
        Add(&duplicates, 1);
        return Duplicate(request_id, "is being decided by an earlier call");
      case RequestTable::ReserveResult::kBooked:
        break;
    }
    if (KeepAlive(request_id, reserved.booking)) {
      Add(&duplicates, 1);
      return Duplicate(request_id, "has a live booking");
    }
    // Its worker left: the retry of a request must not be refused for the sake of a booking that no
    // longer exists.
    Discard(request_id, reserved.booking);
  }
}

absl::Status RoutingService::Impl::Settle(const std::string& request_id, bool book,
                                          RouteDecision* decision,
                                          const RequestTable::Times& times) {
  if (!book) {
    Add(&advice, 1);
    return absl::OkStatus();
  }
  Add(&started, 1);
  auto record = table.Confirm(request_id, WithoutLists(decision), times);
  if (!record) {
    router->Finish(decision->booking, times.decided_at);
    GiveBackPrefill(decision->decode_booking);
    Add(&finished, 1);
    return FreedFirst(request_id);
  }
  recent.Record(std::move(record), decision->candidates, decision->filtered_targets);
  return absl::OkStatus();
}

std::optional<absl::StatusOr<Router::Submission>> RoutingService::Impl::StartSecondLeg(
    RouteRequest* request) {
  const RequestTable::SecondLeg leg = table.BeginSecondLeg(request->request_id);
  if (leg.busy) {
    Add(&duplicates, 1);
    return Duplicate(request->request_id, "has its decode leg decided by an earlier call");
  }
  if (!leg.begun) return std::nullopt;
  request->prefilled_by = leg.prefilled_by;
  request->may_wait = false;  // its blocks are there and held for it
  const MonotonicTime now = clock->Now();
  auto submission = router->Submit(*request, now);
  if (!submission.ok()) {
    table.WithdrawSecondLeg(request->request_id);
    return submission;
  }
  auto& decision = std::get<RouteDecision>(*submission);
  absl::Status settled = SettleSecondLeg(request->request_id, &decision, now);
  if (!settled.ok()) return settled;
  return submission;
}

absl::Status RoutingService::Impl::SettleSecondLeg(const std::string& request_id,
                                                   RouteDecision* decision, MonotonicTime now) {
  auto confirmed = table.ConfirmSecondLeg(request_id, WithoutLists(decision), now);
  if (!confirmed.record) {
    router->Finish(decision->booking, now);
    return FreedFirst(request_id);
  }
  GiveBackPrefill(confirmed.prefill_booking);
  recent.Record(std::move(confirmed.record), decision->candidates, decision->filtered_targets);
  return absl::OkStatus();
}

void RoutingService::Impl::Park(std::string request_id, bool book, TicketId ticket,
                                Completion done) {
  const bool wanted = !book || table.SetTicket(request_id, ticket);
  const MonotonicTime arrived_at = clock->Now();
  waiting.Park(ticket, [this, request_id, book, arrived_at,
                        done = std::move(done)](absl::StatusOr<RouteDecision> decision) {
    if (decision.ok()) {
      absl::Status settled = Settle(request_id, book, &*decision,
                                    {.arrived_at = arrived_at, .decided_at = clock->Now()});
      if (!settled.ok()) decision = std::move(settled);
    } else {
      Withdraw(request_id, book);
    }
    done(std::move(decision));
  });
  if (!wanted) {
    // Freed between the reservation and now, so the Free did not know the ticket.
    Cancel(ticket, FreedFirst(request_id));
  } else if (stopped.load(std::memory_order_acquire)) {
    Cancel(ticket, ShuttingDown());  // StopIntake did not see it
  }
}

absl::StatusOr<Router::Submission> RoutingService::Impl::Start(RouteRequest* request,
                                                               std::string* request_id_out) {
  if (request->request_id.empty()) request->request_id = ids.Next();
  if (request_id_out != nullptr) *request_id_out = request->request_id;
  if (stopped.load(std::memory_order_acquire)) {
    return ShuttingDown();
  }
  KVR_RETURN_IF_ERROR(CheckRequest(config, *request));
  if (request->book && request->phase == RequestPhase::kDecode) {
    if (auto second = StartSecondLeg(request)) return *std::move(second);
  }
  if (request->book) KVR_RETURN_IF_ERROR(Reserve(request->request_id));
  const MonotonicTime now = clock->Now();
  auto submission = router->Submit(*request, now);
  if (!submission.ok()) {
    Withdraw(request->request_id, request->book);
  } else if (auto* decision = std::get_if<RouteDecision>(&*submission)) {
    absl::Status settled = Settle(request->request_id, request->book, decision,
                                  {.arrived_at = now, .decided_at = now});
    if (!settled.ok()) return settled;
  }
  return submission;
}

std::optional<RoutingService::Answer> RoutingService::Impl::Submit(RouteRequest request,
                                                                   const Wait& wait,
                                                                   std::string* request_id_out) {
  auto submission = Start(&request, request_id_out);
  if (!submission.ok()) return submission.status();
  if (const auto* ticket = std::get_if<TicketId>(&*submission)) {
    Park(std::move(request.request_id), request.book, *ticket, wait(*ticket));
    Pump();
    return std::nullopt;
  }
  return std::get<RouteDecision>(*std::move(submission));
}

// What is resolved here may free load again: callers that left, requests that were freed meanwhile.
// So it goes on until nobody can go; and a Pump from inside a completion leaves that to the one it
// is inside of, for completions may follow each other by the thousand.
void RoutingService::Impl::Pump() {
  static thread_local const Impl* pumping = nullptr;
  if (pumping == this) return;
  const Impl* const outer = std::exchange(pumping, this);
  for (auto batch = router->Pump(clock->Now()); !batch.empty();
       batch = router->Pump(clock->Now())) {
    for (Router::Resolved& resolved : batch) {
      waiting.Resolve(resolved.ticket, std::move(resolved.decision));
    }
  }
  pumping = outer;
}

RoutingService::RoutingService(ServiceConfig config, Router* router, const Clock* clock,
                               RequestObserver* observer)
    : impl_(std::make_unique<Impl>(config, router, clock, observer)) {}

RoutingService::~RoutingService() {
  for (WaitingRequests::Continuation& continuation : impl_->waiting.TakeAll()) {
    continuation(ShuttingDown());
  }
}

std::optional<RoutingService::Answer> RoutingService::Submit(RouteRequest request, const Wait& wait,
                                                             std::string* request_id_out) {
  const auto wait_counted = [this, &wait](TicketId ticket) -> Completion {
    return [impl = impl_.get(), done = wait(ticket)](Answer answer) {
      impl->refused.Count(answer.status());
      done(std::move(answer));
    };
  };
  std::optional<Answer> answer = impl_->Submit(std::move(request), wait_counted, request_id_out);
  if (answer) impl_->refused.Count(answer->status());
  return answer;
}

void RoutingService::Abandon(std::string_view request_id, TicketId ticket) {
  if (ticket == kNoTicket) return;  // it never waited
  const absl::Status left = MakeError(absl::StatusCode::kCancelled, ErrorReason::kUnspecified,
                                      "the caller left while the request waited");
  if (!impl_->Cancel(ticket, left)) {
    impl_->GiveBack(request_id, impl_->table.Release(request_id, ticket));
  }
  PumpWaiting();
}

absl::StatusOr<RouteDecision> RoutingService::Route(RouteRequest request,
                                                    std::string* request_id_out) {
  if (!request.book) request.may_wait = false;
  auto submission = impl_->Start(&request, request_id_out);
  if (!submission.ok()) {
    impl_->refused.Count(submission.status());
    return submission.status();
  }
  if (const auto* ticket = std::get_if<TicketId>(&*submission)) {
    return impl_->AnswerAtOnce(std::move(request.request_id), request.book, *ticket);
  }
  return std::get<RouteDecision>(*std::move(submission));
}

absl::StatusOr<RouteDecision> RoutingService::Impl::AnswerAtOnce(std::string request_id, bool book,
                                                                 TicketId ticket) {
  // Shared: if the request waits after all, its completion runs long after this call has left.
  struct Answer {
    Mutex mu;
    bool abandoned ABSL_GUARDED_BY(mu) = false;
    std::optional<absl::StatusOr<RouteDecision>> decision ABSL_GUARDED_BY(mu);
  };
  const auto answer = std::make_shared<Answer>();
  Park(request_id, book, ticket, [answer](absl::StatusOr<RouteDecision> decision) {
    MutexLock lock(answer->mu);
    if (!answer->abandoned) answer->decision = std::move(decision);
  });
  {
    MutexLock lock(answer->mu);
    if (answer->decision) {
      refused.Count(answer->decision->status());
      return *std::move(answer->decision);
    }
    answer->abandoned = true;
  }
  if (book) Free(request_id);
  absl::Status would_wait =
      MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kQueueLimit,
                "the request would have to wait, which this door does not support");
  refused.Count(would_wait);
  return would_wait;
}

void RoutingService::CountRefusal(const absl::Status& answer) { impl_->refused.Count(answer); }

absl::StatusOr<std::vector<TargetOverlap>> RoutingService::FindOverlap(
    const RouteRequest& request) const {
  KVR_RETURN_IF_ERROR(CheckRequest(impl_->config, request));
  return impl_->router->FindOverlap(request);
}

absl::StatusOr<std::vector<TargetPotentialLoad>> RoutingService::PotentialLoads(
    const RouteRequest& request) const {
  KVR_RETURN_IF_ERROR(CheckRequest(impl_->config, request));
  return impl_->router->PotentialLoads(request);
}

absl::StatusOr<RouteDecision> RoutingService::Reserve(ReserveRequest request,
                                                      std::string* request_id_out) {
  RouteRequest& route = request.route;
  route.book = true;
  if (route.request_id.empty()) route.request_id = impl_->ids.Next();
  if (request_id_out != nullptr) *request_id_out = route.request_id;
  if (impl_->stopped.load(std::memory_order_acquire)) {
    return ShuttingDown();
  }
  KVR_RETURN_IF_ERROR(CheckRequest(impl_->config, route));
  KVR_RETURN_IF_ERROR(impl_->Reserve(route.request_id));
  const MonotonicTime now = impl_->clock->Now();
  auto decision = impl_->router->Reserve(request, now);
  if (!decision.ok()) {
    impl_->Withdraw(route.request_id, /*book=*/true);
    return decision;
  }
  KVR_RETURN_IF_ERROR(impl_->Settle(route.request_id, /*book=*/true, &*decision,
                                    {.arrived_at = now, .decided_at = now}));
  return decision;
}

bool RoutingService::HasBooking(std::string_view request_id, BookingId booking) const {
  return impl_->table.FindBookingOf(request_id, booking) != kNoBooking;
}

std::optional<RouteDecision> RoutingService::FindDecision(std::string_view request_id) const {
  return impl_->table.FindDecision(request_id);
}

std::optional<Explanation> RoutingService::Explain(std::string_view request_id) const {
  auto recorded = impl_->recent.Find(request_id);
  if (!recorded) return std::nullopt;
  const bool live = impl_->IsLive(request_id, recorded->decision);
  return Explanation{.decision = std::move(recorded->decision),
                     .age = impl_->clock->Now() - recorded->decided_at,
                     .live = live};
}

std::vector<RecentDecision> RoutingService::Recent(size_t count) const {
  std::vector<RecentDecision> recent;
  const MonotonicTime now = impl_->clock->Now();
  for (const auto& request : impl_->recent.Newest(count)) {
    recent.push_back({.request_id = request->request_id,
                      .decision = request->decision,
                      .age = now - request->decided_at,
                      .live = impl_->IsLive(request->request_id, request->decision)});
  }
  return recent;
}

void RoutingService::Tick() {
  Impl::Add(&impl_->expired, impl_->router->Expire(impl_->clock->Now()).size());
  // Finds the records of what has just expired and of what left with its worker. One look-up per
  // live booking.
  std::vector<BookingId> left_over;
  const uint64_t gone = impl_->table.Sweep(
      [this](BookingId booking) { return impl_->router->IsLive(booking); }, &left_over);
  for (const BookingId prefill : left_over) impl_->GiveBackPrefill(prefill);
  Impl::Add(&impl_->finished, gone);
  impl_->Pump();
}

void RoutingService::PumpWaiting() {
  if (impl_->waiting.Size() > 0) impl_->Pump();
}

MonotonicTime RoutingService::Now() const { return impl_->clock->Now(); }

void RoutingService::StopIntake() {
  impl_->stopped.store(true, std::memory_order_release);
  for (const TicketId ticket : impl_->waiting.Tickets()) impl_->Cancel(ticket, ShuttingDown());
}

uint64_t RoutingService::LiveRequests() const { return impl_->table.BookedCount(); }

ServiceCounters RoutingService::Counters() const {
  const auto load = [](const std::atomic<uint64_t>& counter) {
    return counter.load(std::memory_order_relaxed);
  };
  const DecisionRing::Figures recent = impl_->recent.Read();
  return {.requests_started = load(impl_->started),
          .requests_finished = load(impl_->finished),
          .advice = load(impl_->advice),
          .bookings_expired = load(impl_->expired),
          .duplicate_requests = load(impl_->duplicates),
          .unknown_frees = load(impl_->unknown_frees),
          .waiting = impl_->waiting.Size(),
          .legs_succeeded = load(impl_->legs_succeeded),
          .legs_failed = load(impl_->legs_failed),
          .decision_ring_entries = recent.entries,
          .decision_ring_bytes = recent.bytes,
          .decision_ring_evicted = recent.evicted_total,
          .refused = impl_->refused.Read()};
}

}  // namespace kvrouter
