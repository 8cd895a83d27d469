#ifndef KVROUTER_ADAPTERS_METRICS_CATALOGUE_WORKER_METRICS_H_
#define KVROUTER_ADAPTERS_METRICS_CATALOGUE_WORKER_METRICS_H_

#include <array>
#include <string_view>

#include "adapters/metrics/catalogue/row_words.h"

namespace kvrouter::catalogue {

// Workers, as the ledger, their reports and their engines have them.

inline constexpr std::string_view kWorkerLabels = "worker_id, dp_rank, worker_type";
inline constexpr std::string_view kWithLoadReports = "With each load report of the rank.";
inline constexpr std::string_view kWithPolls =
    "With every question, engine_poll_ms, and as answers age.";
inline constexpr std::string_view kWithBookings = "With every booking and every report on one.";

// clang-format off
inline constexpr auto kWorkerMetrics = std::to_array<MetricInfo>({
{.metric = Metric::kWorkerRegistered, .name = "dynamo_component_router_worker_registered",
 .type = kGauge, .labels = "router_worker_id, dp_rank, worker_type", .constant = kComponent,
 .unit = "flag", .weighting = kLevel, .origin = kDynamo,
 .meaning = "1 for each rank of a registered worker; the series ends with it.",
 .moves = kWorkersChange},
{.metric = Metric::kWorkerActiveDecodeBlocks, .name = "dynamo_frontend_worker_active_decode_blocks",
 .type = kGauge, .labels = kWorkerLabels, .unit = "blocks", .weighting = kLevel,
 .origin = kDynamo,
 .meaning = "Blocks booked on the worker by live requests, shared blocks counted once.",
 .moves = kWithBookings},
{.metric = Metric::kWorkerActivePrefillTokens,
 .name = "dynamo_frontend_worker_active_prefill_tokens", .type = kGauge, .labels = kWorkerLabels,
 .unit = "tokens", .weighting = kLevel, .origin = kDynamo,
 .meaning = "Uncached prompt tokens of live requests whose prefill has not completed.",
 .moves = kWithBookings},
{.metric = Metric::kWorkerLastTimeToFirstToken,
 .name = "dynamo_frontend_worker_last_time_to_first_token_seconds", .type = kGauge,
 .labels = kWorkerLabels, .unit = "seconds", .weighting = kLevel, .origin = kDynamo,
 .meaning = "As the histogram of that name: of the worker's latest request that reported it.",
 .moves = "With the first prefill_complete of a request."},
{.metric = Metric::kWorkerLastInputTokens,
 .name = "dynamo_frontend_worker_last_input_sequence_tokens", .type = kGauge,
 .labels = kWorkerLabels, .unit = "tokens", .weighting = kLevel, .origin = kDynamo,
 .meaning = "Prompt length of the worker's latest request.",
 .moves = kBooks},
{.metric = Metric::kWorkerLastInterTokenLatency,
 .name = "dynamo_frontend_worker_last_inter_token_latency_seconds", .type = kGauge,
 .labels = kWorkerLabels, .unit = "seconds", .weighting = kLevel, .origin = kDynamo,
 .meaning = "As the histogram of that name: the latest observation of the worker's requests.",
 .moves = "As the histogram."},
{.metric = Metric::kWorkerActiveRequests, .name = "kvrouter_worker_active_requests",
 .type = kGauge, .labels = kWorkerLabels, .unit = "requests", .weighting = kLevel,
 .origin = kOurs,
 .meaning = "Live bookings on the worker.",
 .moves = "With every booking and its end."},
{.metric = Metric::kWorkerDraining, .name = "kvrouter_worker_draining", .type = kGauge,
 .labels = kWorkerLabels, .unit = "flag", .weighting = kLevel, .origin = kOurs,
 .meaning = "1 while the worker takes no new requests.",
 .moves = "When a worker is drained or taken back."},
{.metric = Metric::kWorkerOverloaded, .name = "kvrouter_worker_overloaded", .type = kGauge,
 .labels = kWorkerLabels, .unit = "flag", .weighting = kLevel, .origin = kOurs,
 .meaning = "1 while all ranks of the worker are above an overload threshold: no candidate.",
 .moves = "With bookings and reports of load."},
{.metric = Metric::kWorkerEjected, .name = "kvrouter_worker_ejected", .type = kGauge,
 .labels = kWorkerLabels, .unit = "flag", .weighting = kLevel, .origin = kOurs,
 .meaning = "1 while the rank is taken out because its requests failed fast.",
 .moves = "With reported failures, and when the time is over."},
{.metric = Metric::kWorkerIndexBlocks, .name = "kvrouter_worker_index_blocks", .type = kGauge,
 .labels = kWorkerLabels, .unit = "blocks", .weighting = kLevel, .origin = kOurs,
 .meaning = "Distinct blocks the index believes the worker holds on its device.",
 .moves = kWithEvents},
{.metric = Metric::kWorkerLowerTierBlocks, .name = "kvrouter_worker_lower_tier_blocks",
 .type = kGauge, .labels = "worker_id, dp_rank, worker_type, tier", .unit = "blocks",
 .weighting = kLevel, .origin = kOurs,
 .meaning = "Distinct blocks the index believes the worker holds on a tier below its device, "
            "host_pinned, disk or external. None for a tier on which it holds nothing.",
 .moves = kWithEvents},
{.metric = Metric::kWorkerReportedKvUsedBlocks, .name = "kvrouter_worker_reported_kv_used_blocks",
 .type = kGauge, .labels = kRankLabels, .unit = "blocks", .weighting = kLevel, .origin = kOurs,
 .meaning = "KV blocks in use as the worker last said on Dynamo's event plane; none if it never "
            "did. Overload thresholds look at it.",
 .moves = kWithLoadReports},
{.metric = Metric::kWorkerReportedActiveDecodeBlocks,
 .name = "kvrouter_worker_reported_active_decode_blocks", .type = kGauge, .labels = kRankLabels,
 .unit = "blocks", .weighting = kLevel, .origin = kOurs,
 .meaning = "Decode blocks of the rank as last said on Dynamo's event plane.",
 .moves = kWithLoadReports},
{.metric = Metric::kWorkerReportedActivePrefillTokens,
 .name = "kvrouter_worker_reported_active_prefill_tokens", .type = kGauge, .labels = kRankLabels,
 .unit = "tokens", .weighting = kLevel, .origin = kOurs,
 .meaning = "Prefill tokens of the rank as last said on Dynamo's event plane.",
 .moves = kWithLoadReports},
{.metric = Metric::kWorkerReportAge, .name = "kvrouter_worker_report_age_seconds",
 .type = kGauge, .labels = kRankLabels, .unit = "seconds", .weighting = kLevel, .origin = kOurs,
 .meaning = "Time since the rank's last load report on Dynamo's event plane.",
 .moves = "At every scrape."},
{.metric = Metric::kEngineLoadKnown, .name = "kvrouter_worker_engine_load_known", .type = kGauge,
 .labels = kRankLabels, .unit = "flag", .weighting = kLevel, .origin = kOurs,
 .meaning = "With engine_poll_ms: 1 while what the rank's engine says of its load on /metrics is "
            "recent; 0: it is unknown, and the following have no series.",
 .moves = kWithPolls},
{.metric = Metric::kEngineRunningRequests, .name = "kvrouter_worker_engine_running_requests",
 .type = kGauge, .labels = kRankLabels, .unit = "requests", .weighting = kLevel, .origin = kOurs,
 .meaning = "Requests in the engine's batch, as it last said.",
 .moves = kWithPolls},
{.metric = Metric::kEngineWaitingRequests, .name = "kvrouter_worker_engine_waiting_requests",
 .type = kGauge, .labels = kRankLabels, .unit = "requests", .weighting = kLevel, .origin = kOurs,
 .meaning = "Requests in the engine's queue, as it last said.",
 .moves = kWithPolls},
{.metric = Metric::kEngineKvUsedBlocks, .name = "kvrouter_worker_engine_kv_used_blocks",
 .type = kGauge, .labels = kRankLabels, .unit = "blocks", .weighting = kLevel, .origin = kOurs,
 .meaning = "Blocks of the engine's live requests, as it last said.",
 .moves = kWithPolls},
{.metric = Metric::kEngineKvTotalBlocks, .name = "kvrouter_worker_engine_kv_total_blocks",
 .type = kGauge, .labels = kRankLabels, .unit = "blocks", .weighting = kLevel, .origin = kOurs,
 .meaning = "Blocks that the engine has, as it says, else as its record does.",
 .moves = kWithPolls},
{.metric = Metric::kEngineDriftBlocks, .name = "kvrouter_worker_drift_blocks", .type = kGauge,
 .labels = kRankLabels, .unit = "blocks", .weighting = kLevel, .origin = kOurs,
 .meaning = "How far the router's estimate is off: its active decode blocks minus the blocks that "
            "the engine says its live requests use. Below 0: requests that came past the router, "
            "or output that is not tracked; above: requests that were never freed.",
 .moves = kWithPolls},
{.metric = Metric::kEngineDriftRequests, .name = "kvrouter_worker_drift_requests",
 .type = kGauge, .labels = kRankLabels, .unit = "requests", .weighting = kLevel, .origin = kOurs,
 .meaning = "The router's live bookings on the rank minus the requests that run or wait in its "
            "engine.",
 .moves = kWithPolls},
{.metric = Metric::kEnginePolls, .name = "kvrouter_engine_polls_total", .type = kCounter,
 .labels = "outcome", .unit = "polls", .weighting = kEach, .origin = kOurs,
 .meaning = "Questions for an engine's load: ok, failed (no answer in time, or not 200), "
            "unreadable (nothing of the worker's ranks in it).",
 .moves = kWithPolls},
});
// clang-format on

}  // namespace kvrouter::catalogue

#endif  // KVROUTER_ADAPTERS_METRICS_CATALOGUE_WORKER_METRICS_H_
