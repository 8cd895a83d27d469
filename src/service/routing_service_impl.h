#ifndef KVROUTER_SERVICE_ROUTING_SERVICE_IMPL_H_
#define KVROUTER_SERVICE_ROUTING_SERVICE_IMPL_H_

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "kvrouter/error.h"
#include "service/decision_ring.h"
#include "service/request_table.h"
#include "service/routing_service.h"
#include "service/waiting_requests.h"

namespace kvrouter {

// The parts of RoutingService, for its own files: routing_service.cc decides, request_reports.cc
// takes what callers report of requests that are decided.

// Unique within and, by the random prefix, across lives of the daemon, so that a late Free of an
// earlier life cannot hit a request of this one.
class RequestIdSource {
 public:
  RequestIdSource() {
    std::random_device random;
    prefix_ = (uint64_t{random()} << 32) | random();
  }
  std::string Next() {
    return fmt::format("kvr-{:016x}-{:x}", prefix_, next_.fetch_add(1, std::memory_order_relaxed));
  }

 private:
  uint64_t prefix_;
  std::atomic<uint64_t> next_{1};
};

struct RoutingService::Impl {
  const ServiceConfig config;
  Router* const router;
  const Clock* const clock;
  RequestObserver* const observer;

  RequestIdSource ids;
  RefusalCounts refused;
  RequestTable table;
  WaitingRequests waiting;
  DecisionRing recent;
  std::atomic<bool> stopped{false};

  std::atomic<uint64_t> started{0}, finished{0}, advice{0}, expired{0}, duplicates{0},
      unknown_frees{0}, legs_succeeded{0}, legs_failed{0};

  Impl(ServiceConfig c, Router* r, const Clock* k, RequestObserver* o)
      : config(c),
        router(r),
        clock(k),
        observer(o),
        recent({.max_entries = c.decision_ring_entries, .max_bytes = c.decision_ring_bytes}) {}

  static void Add(std::atomic<uint64_t>* counter, uint64_t n) {
    counter->fetch_add(n, std::memory_order_relaxed);
  }
  static absl::Status FreedFirst(std::string_view request_id) {
    return MakeError(absl::StatusCode::kCancelled, ErrorReason::kUnknownRequest,
                     fmt::format("request_id \"{}\" was freed before it was decided", request_id));
  }

  // As the public one, but counts no answer.
  std::optional<Answer> Submit(RouteRequest request, const Wait& wait, std::string* request_id_out);
  // Submit up to where it may have to wait: settled unless it is a ticket. Gives the request an id
  // if it has none.
  absl::StatusOr<Router::Submission> Start(RouteRequest* request, std::string* request_id_out);
  // OK: the id is reserved for the caller.
  absl::Status Reserve(const std::string& request_id);
  // The end of every request that was decided. Consumes the reservation of one that books; not OK:
  // it was freed meanwhile.
  absl::Status Settle(const std::string& request_id, bool book, RouteDecision* decision,
                      const RequestTable::Times& times);
  // Start of a request's decode leg: nothing if there is no prefill leg to continue, so that the
  // request is one of its own.
  std::optional<absl::StatusOr<Router::Submission>> StartSecondLeg(RouteRequest* request);
  absl::Status SettleSecondLeg(const std::string& request_id, RouteDecision* decision,
                               MonotonicTime now);
  void GiveBackPrefill(BookingId booking) {
    if (booking != kNoBooking) router->Finish(booking, clock->Now());
  }
  // Whether what was decided is what the id is booked for, still.
  bool IsLive(std::string_view request_id, const RouteDecision& decision) const {
    const BookingId booking = table.FindBookingOf(request_id, decision.booking);
    return booking != kNoBooking && router->IsLive(booking);
  }
  // False if the booking is live no more. A fixed plan's prefill leg lives as long as its request.
  bool KeepAlive(std::string_view request_id, BookingId booking) {
    const MonotonicTime now = clock->Now();
    const BookingId prefill = table.FindPrefillBooking(request_id);
    if (prefill != kNoBooking) router->KeepAlive(prefill, now);
    return router->KeepAlive(booking, now);
  }
  // The end of every request that was not.
  void Withdraw(const std::string& request_id, bool book) {
    if (book) table.Withdraw(request_id);
  }
  void Park(std::string request_id, bool book, TicketId ticket, Completion done);
  // Ends the wait, if it still lasts.
  bool Cancel(TicketId ticket, absl::Status why) {
    if (!router->Cancel(ticket)) return false;
    waiting.Resolve(ticket, std::move(why));
    return true;
  }
  // Park for a caller that cannot wait: if the answer is not there at once, the request is freed.
  absl::StatusOr<RouteDecision> AnswerAtOnce(std::string request_id, bool book, TicketId ticket);
  LifecycleResult Free(std::string_view request_id);
  // Of what the table gave out: whether there was anything.
  bool GiveBack(std::string_view request_id, const RequestTable::Released& released);
  void Pump();
  // `call` on the live booking; if the core denies it, the record goes.
  template <typename Call>
  LifecycleResult OnBooking(std::string_view request_id, Call call);
  void Discard(std::string_view request_id, BookingId booking) {
    const RequestTable::Released released = table.EraseBooking(request_id, booking);
    if (!released.found) return;
    GiveBackPrefill(released.prefill_booking);
    Add(&finished, 1);
  }
  // After a report that the core accepted: `advance` of the request's progress may give a figure,
  // which the observer is told.
  template <typename Advance>
  void Note(std::string_view request_id, BookingId booking,
            void (RequestObserver::*tell)(const ServedBy&, std::chrono::nanoseconds),
            Advance advance);
  void NoteEnd(const RequestTable::Released& released) {
    if (observer != nullptr && released.output_tokens > 0)
      observer->OnEnd(released.by, released.output_tokens);
  }
};

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_ROUTING_SERVICE_IMPL_H_
