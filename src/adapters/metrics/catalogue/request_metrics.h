#ifndef KVROUTER_ADAPTERS_METRICS_CATALOGUE_REQUEST_METRICS_H_
#define KVROUTER_ADAPTERS_METRICS_CATALOGUE_REQUEST_METRICS_H_

#include <array>

#include "adapters/metrics/catalogue/row_words.h"
#include "adapters/metrics/metric_buckets.h"

namespace kvrouter::catalogue {

// Requests from their booking to their end.

// clang-format off
inline constexpr auto kRequestMetrics = std::to_array<MetricInfo>({
{.metric = Metric::kRequestsStarted, .name = "dynamo_component_router_requests_started_total",
 .type = kCounter, .constant = kRouter, .unit = "requests", .weighting = kRequest,
 .origin = kDynamo,
 .meaning = "Requests booked on a worker.",
 .moves = kBooks},
{.metric = Metric::kRequestsFinished, .name = "dynamo_component_router_requests_total",
 .type = kCounter, .constant = kRouter, .unit = "requests", .weighting = kRequest,
 .origin = kDynamo,
 .meaning = "Booked requests that ended: freed, expired, or lost with their worker.",
 .moves = "When the caller frees the request, or when it is found to have expired or to have lost "
          "its worker."},
{.metric = Metric::kInputSequenceTokens,
 .name = "dynamo_component_router_input_sequence_tokens", .type = kHistogram, .constant = kRouter,
 .unit = "tokens", .weighting = kRequest, .origin = kDynamo, .bounds = kInputTokensBounds,
 .meaning = "Prompt length of each booked request.",
 .moves = kBooks},
{.metric = Metric::kOutputSequenceTokens,
 .name = "dynamo_component_router_output_sequence_tokens", .type = kHistogram, .constant = kRouter,
 .unit = "tokens", .weighting = kRequest, .origin = kDynamo, .bounds = kOutputTokensBounds,
 .meaning = "Generated tokens of each request as far as its caller reported them; a caller that "
            "counts blocks reports up to the first token of the last one.",
 .moves = "When a request with reported output is freed; not when it expired or lost its worker."},
{.metric = Metric::kTimeToFirstToken,
 .name = "dynamo_component_router_time_to_first_token_seconds", .type = kHistogram,
 .constant = kRouter, .unit = "seconds", .weighting = kRequest, .origin = kDynamo,
 .bounds = kFirstTokenSecondsBounds,
 .meaning = "From the arrival of each booked request to the report that its prompt is computed.",
 .moves = "With the first prefill_complete of a request."},
{.metric = Metric::kInterTokenLatency,
 .name = "dynamo_component_router_inter_token_latency_seconds", .type = kHistogram,
 .constant = kRouter, .unit = "seconds", .weighting = kBlock, .origin = kDynamo,
 .bounds = kInterTokenSecondsBounds,
 .meaning = "Time since prefill_complete over the tokens generated since: a request's average so "
            "far, observed at each block of its output.",
 .moves = "When an output report crosses a block boundary, after prefill_complete; whether or not "
          "output blocks count as load."},
{.metric = Metric::kDecisions, .name = "kvrouter_decisions_total", .type = kCounter,
 .labels = "reason", .unit = "requests", .weighting = kRequest, .origin = kOurs,
 .meaning = "Booked decisions by reason; one per request.",
 .moves = kBooks},
{.metric = Metric::kAdvice, .name = "kvrouter_advice_total", .type = kCounter, .unit = "decisions",
 .weighting = kEach, .origin = kOurs,
 .meaning = "Decisions given as advice only: nothing was booked, no hit metric moved.",
 .moves = "With every Route of advise_only, Explain of a request and /select without reservation."},
{.metric = Metric::kBookingsExpired, .name = "kvrouter_bookings_expired_total", .type = kCounter,
 .unit = "requests", .weighting = kRequest, .origin = kOurs,
 .meaning = "Bookings released because their request showed no sign of life for the expiry time. "
            "Callers forget to free.",
 .moves = "At the check every expiry_check_period_ms."},
{.metric = Metric::kDuplicateRequests, .name = "kvrouter_duplicate_requests_total",
 .type = kCounter, .unit = "requests", .weighting = kRequest, .origin = kOurs,
 .meaning = "Requests refused because a booking of the same id was live.",
 .moves = "When a booking request is answered so."},
{.metric = Metric::kRequestsRefused, .name = "kvrouter_requests_refused_total", .type = kCounter,
 .labels = "reason", .unit = "requests", .weighting = kRequest, .origin = kOurs,
 .meaning = "Routing requests, advice and dumps included, that were answered with an error, by the "
            "reason the caller got; 0 for the reasons that only other calls can have.",
 .moves = "With every such answer."},
{.metric = Metric::kRegistrationsRefused, .name = "kvrouter_registrations_refused_total",
 .type = kCounter, .labels = "reason", .unit = "calls", .weighting = kEach, .origin = kOurs,
 .meaning = "Registrations and changes of workers that were refused, by the reason the caller got.",
 .moves = "With every such answer."},
{.metric = Metric::kPublishRefused, .name = "kvrouter_publish_refused_total",
 .type = kCounter, .labels = "reason", .unit = "streams", .weighting = kEach, .origin = kOurs,
 .meaning = "KvEvents.Publish streams that were refused, or ended by what their caller sent, by "
            "the reason the caller got.",
 .moves = "With every such answer."},
{.metric = Metric::kUnknownFrees, .name = "kvrouter_unknown_frees_total", .type = kCounter,
 .unit = "calls", .weighting = kEach, .origin = kOurs,
 .meaning = "Frees of an id that was not live: never booked, already freed, or expired.",
 .moves = "With every such Free or DELETE."},
{.metric = Metric::kLegs, .name = "kvrouter_legs_total", .type = kCounter, .labels = "outcome",
 .unit = "requests", .weighting = kEach, .origin = kOurs,
 .meaning = "How requests fared on their workers, as callers report it: succeeded or failed.",
 .moves = "With a ReportLeg, Free or DELETE that says so."},
{.metric = Metric::kDecisionRingEntries, .name = "kvrouter_decision_ring_entries", .type = kGauge,
 .unit = "decisions", .weighting = kLevel, .origin = kOurs,
 .meaning = "Recent decisions kept for Explain.",
 .moves = kBooks},
{.metric = Metric::kDecisionRingBytes, .name = "kvrouter_decision_ring_bytes", .type = kGauge,
 .unit = "bytes", .weighting = kLevel, .origin = kOurs,
 .meaning = "Estimated memory of the recent decisions kept for Explain.",
 .moves = kBooks},
{.metric = Metric::kDecisionRingEvicted, .name = "kvrouter_decision_ring_evicted_total",
 .type = kCounter, .unit = "decisions", .weighting = kEach, .origin = kOurs,
 .meaning = "Decisions that left the recent ones because a bound was reached.",
 .moves = "In steady traffic with every request."},
});
// clang-format on

}  // namespace kvrouter::catalogue

#endif  // KVROUTER_ADAPTERS_METRICS_CATALOGUE_REQUEST_METRICS_H_
