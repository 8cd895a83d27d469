#include <string>

#include "adapters/metrics/scraped_families.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

void ShowByReason(Metric metric, const RefusalCounts::ByReason& refused, MetricFamilies* out) {
  out->Open(metric);
  for (size_t i = 0; i < refused.size(); ++i) {
    out->Add(refused[i], {{"reason", std::string(ErrorReasonName(static_cast<ErrorReason>(i)))}});
  }
}

}  // namespace

void ShowService(const ServiceCounters& counters,
                 const RefusalCounts::ByReason& registrations_refused,
                 const RefusalCounts::ByReason& publish_refused, MetricFamilies* out) {
  out->Show(Metric::kRequestsStarted, counters.requests_started);
  out->Show(Metric::kRequestsFinished, counters.requests_finished);
  out->Show(Metric::kBookingsExpired, counters.bookings_expired);
  out->Show(Metric::kDuplicateRequests, counters.duplicate_requests);
  ShowByReason(Metric::kRequestsRefused, counters.refused, out);
  ShowByReason(Metric::kRegistrationsRefused, registrations_refused, out);
  ShowByReason(Metric::kPublishRefused, publish_refused, out);
  out->Show(Metric::kUnknownFrees, counters.unknown_frees);
  out->Open(Metric::kLegs);
  out->Add(counters.legs_succeeded, {{"outcome", "succeeded"}});
  out->Add(counters.legs_failed, {{"outcome", "failed"}});
  out->Show(Metric::kDecisionRingEntries, counters.decision_ring_entries);
  out->Show(Metric::kDecisionRingBytes, counters.decision_ring_bytes);
  out->Show(Metric::kDecisionRingEvicted, counters.decision_ring_evicted);
}

}  // namespace kvrouter
