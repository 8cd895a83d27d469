// What callers report of requests that are decided: how far they are, how their legs fared, their
// end.
#include <chrono>
#include <optional>
#include <string_view>

#include "service/routing_service_impl.h"

namespace kvrouter {

template <typename Call>
LifecycleResult RoutingService::Impl::OnBooking(std::string_view request_id, Call call) {
  const BookingId booking = table.FindBooking(request_id);
  if (booking == kNoBooking) return LifecycleResult::kUnknownRequest;
  if (call(booking)) return LifecycleResult::kDone;
  Discard(request_id, booking);
  return LifecycleResult::kUnknownRequest;
}

template <typename Advance>
void RoutingService::Impl::Note(std::string_view request_id, BookingId booking,
                                void (RequestObserver::*tell)(const ServedBy&,
                                                              std::chrono::nanoseconds),
                                Advance advance) {
  if (observer == nullptr) return;
  ServedBy by;
  std::optional<std::chrono::nanoseconds> figure;
  table.WithProgress(request_id, booking,
                     [&](RequestProgress& progress, const ServedBy& served_by) {
                       figure = advance(progress);
                       by = served_by;
                     });
  if (figure) (observer->*tell)(by, *figure);
}

LifecycleResult RoutingService::PrefillComplete(std::string_view request_id) {
  const MonotonicTime now = impl_->clock->Now();
  const RequestTable::PrefillEnd end = impl_->table.TakePrefillEnd(request_id);
  impl_->GiveBackPrefill(end.booking);
  const LifecycleResult result = impl_->OnBooking(request_id, [&](BookingId booking) {
    if (!impl_->router->PrefillComplete(booking, now)) return false;
    impl_->Note(request_id, booking, &RequestObserver::OnFirstToken,
                [now](RequestProgress& progress) { return progress.FirstToken(now); });
    return true;
  });
  if (end.pulled && result == LifecycleResult::kDone && impl_->observer != nullptr)
    impl_->observer->OnDecodingPulled(request_id, *end.pulled);
  if (impl_->waiting.Size() > 0) impl_->Pump();
  return result;
}

LifecycleResult RoutingService::OutputTokens(std::string_view request_id, uint64_t output_tokens,
                                             std::optional<double> decay_fraction) {
  const MonotonicTime now = impl_->clock->Now();
  return impl_->OnBooking(request_id, [&](BookingId booking) {
    if (!impl_->router->OutputTokens(booking, output_tokens, decay_fraction, now)) return false;
    impl_->Note(request_id, booking, &RequestObserver::OnOutputBlock,
                [output_tokens, now](RequestProgress& progress) {
                  return progress.OutputTokens(output_tokens, now);
                });
    return true;
  });
}

LifecycleResult RoutingService::OutputBlock(std::string_view request_id,
                                            std::optional<double> decay_fraction) {
  const MonotonicTime now = impl_->clock->Now();
  return impl_->OnBooking(request_id, [&](BookingId booking) {
    if (!impl_->router->OutputBlock(booking, decay_fraction, now)) return false;
    impl_->Note(request_id, booking, &RequestObserver::OnOutputBlock,
                [now](RequestProgress& progress) { return progress.OutputBlock(now); });
    return true;
  });
}

LifecycleResult RoutingService::KeepAlive(std::string_view request_id) {
  return impl_->OnBooking(request_id, [&](BookingId booking) {
    return impl_->KeepAlive(request_id, booking);
  });
}

bool RoutingService::Impl::GiveBack(std::string_view request_id,
                                    const RequestTable::Released& released) {
  bool done = released.found;
  if (released.booking != kNoBooking) {
    // False: expired or lost with its worker, and nobody noticed until now.
    done = router->Finish(released.booking, clock->Now());
    GiveBackPrefill(released.prefill_booking);
    Add(&finished, 1);
    if (done) NoteEnd(released);
  } else if (released.ticket != kNoTicket) {
    Cancel(released.ticket, FreedFirst(request_id));
  }
  return done;
}

LifecycleResult RoutingService::Impl::Free(std::string_view request_id) {
  const bool done = GiveBack(request_id, table.Release(request_id));
  if (!done) Add(&unknown_frees, 1);
  if (waiting.Size() > 0) Pump();
  return done ? LifecycleResult::kDone : LifecycleResult::kUnknownRequest;
}

LifecycleResult RoutingService::Free(std::string_view request_id, LegOutcome outcome,
                                     std::optional<std::chrono::nanoseconds> after) {
  if (outcome != LegOutcome::kUnknown) ReportLeg(request_id, outcome, after);
  return impl_->Free(request_id);
}

LifecycleResult RoutingService::ReportLeg(std::string_view request_id, const LegNews& news) {
  const RequestTable::LegSearch found =
      impl_->table.FindLeg(request_id, {.kind = news.kind, .target = news.target});
  if (!found.booked) return LifecycleResult::kUnknownRequest;
  if (!found.leg) return LifecycleResult::kUnknownLeg;
  if (news.outcome == LegOutcome::kUnknown) return LifecycleResult::kDone;
  const RequestTable::PlacedLeg& leg = *found.leg;
  const bool succeeded = news.outcome == LegOutcome::kSucceeded;
  if (!succeeded && leg.booking != kNoBooking) impl_->router->DropSession(leg.booking);
  if (succeeded && leg.kind == LegKind::kKvSource) impl_->table.NotePulled(request_id);
  Impl::Add(succeeded ? &impl_->legs_succeeded : &impl_->legs_failed, 1);
  const MonotonicTime now = impl_->clock->Now();
  impl_->router->ReportLeg({.target = leg.by.target,
                            .incarnation = leg.by.incarnation,
                            .succeeded = succeeded,
                            .after = news.after.value_or(now - leg.decided_at)},
                           now);
  if (impl_->observer != nullptr) {
    impl_->observer->OnLeg(
        {.request_id = request_id, .kind = leg.kind, .by = leg.by, .succeeded = succeeded});
  }
  return LifecycleResult::kDone;
}

LifecycleResult RoutingService::FreeBooking(std::string_view request_id, BookingId booking) {
  const RequestTable::Released released = impl_->table.EraseBooking(request_id, booking);
  if (!released.found) return LifecycleResult::kUnknownRequest;
  Impl::Add(&impl_->finished, 1);
  const bool done = impl_->router->Finish(released.booking, impl_->clock->Now());
  impl_->GiveBackPrefill(released.prefill_booking);
  if (done) impl_->NoteEnd(released);
  if (impl_->waiting.Size() > 0) impl_->Pump();
  return done ? LifecycleResult::kDone : LifecycleResult::kUnknownRequest;
}

}  // namespace kvrouter
