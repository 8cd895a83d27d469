#ifndef KVROUTER_ADAPTERS_METRICS_CATALOGUE_PARTITION_METRICS_H_
#define KVROUTER_ADAPTERS_METRICS_CATALOGUE_PARTITION_METRICS_H_

#include <array>
#include <string_view>

#include "adapters/metrics/catalogue/row_words.h"

namespace kvrouter::catalogue {

// Queues, bookings and index of what requests are routed within.

inline constexpr std::string_view kQueueLabels = "model, worker_type, policy_class";
inline constexpr std::string_view kQueueMoves = "When a request begins to wait, goes or leaves.";
inline constexpr std::string_view kWithRouted = "With every booking, and when its time is over.";

// clang-format off
// Models.
inline constexpr auto kModelMetrics = std::to_array<MetricInfo>({
{.metric = Metric::kQueuePendingRequests, .name = "dynamo_frontend_router_queue_pending_requests",
 .type = kGauge, .labels = kQueueLabels, .unit = "requests", .weighting = kLevel,
 .origin = kDynamo,
 .meaning = "Requests that wait for a worker.",
 .moves = kQueueMoves},
{.metric = Metric::kQueuePendingIslTokens,
 .name = "dynamo_frontend_router_queue_pending_isl_tokens", .type = kGauge,
 .labels = kQueueLabels, .unit = "tokens", .weighting = kLevel, .origin = kDynamo,
 .meaning = "Prompt tokens of requests that wait.",
 .moves = kQueueMoves},
{.metric = Metric::kQueuePendingCachedTokens,
 .name = "dynamo_frontend_router_queue_pending_cached_tokens", .type = kGauge,
 .labels = kQueueLabels, .unit = "tokens", .weighting = kLevel, .origin = kDynamo,
 .meaning = "Cached prompt tokens of requests that wait, on the worker that has most of them.",
 .moves = kQueueMoves},
{.metric = Metric::kQueueBackpressure,
 .name = "dynamo_frontend_router_queue_backpressure_total", .type = kCounter,
 .labels = "model, worker_type, policy_class, reason", .unit = "requests",
 .weighting = kRequest, .origin = kDynamo,
 .meaning = "Requests refused because a queue was full, by the limit met; do_not_queue stays 0.",
 .moves = "With every such answer."},
{.metric = Metric::kQueueRequests, .name = "kvrouter_queue_requests_total", .type = kCounter,
 .labels = "model, routing_group, policy_class, event", .unit = "requests", .weighting = kRequest,
 .origin = kOurs,
 .meaning = "Requests that began to wait (parked), and what became of them: released to be "
            "decided, cancelled because the caller left or freed them, expired at their deadline. "
            "Parked minus the others: what waits.",
 .moves = kQueueMoves},
{.metric = Metric::kModelTotalKvBlocks, .name = "dynamo_frontend_model_total_kv_blocks",
 .type = kGauge, .labels = "model", .unit = "blocks", .weighting = kLevel, .origin = kDynamo,
 .meaning = "KV blocks of a rank, the most that any worker of the model stated; none if none did.",
 .moves = kWorkersChange},
{.metric = Metric::kModelMaxNumBatchedTokens,
 .name = "dynamo_frontend_model_max_num_batched_tokens", .type = kGauge, .labels = "model",
 .unit = "tokens", .weighting = kLevel, .origin = kDynamo,
 .meaning = "Tokens of a batch, the most that any worker of the model stated; none if none did.",
 .moves = kWorkersChange},
{.metric = Metric::kModelKvCacheBlockSize, .name = "dynamo_frontend_model_kv_cache_block_size",
 .type = kGauge, .labels = "model", .unit = "tokens", .weighting = kLevel, .origin = kDynamo,
 .meaning = "Tokens of a KV block, the most of any worker of the model.",
 .moves = kWorkersChange},
});

// Partitions.
inline constexpr auto kPartitionMetrics = std::to_array<MetricInfo>({
{.metric = Metric::kBookings, .name = "kvrouter_bookings", .type = kGauge,
 .labels = kPartitionLabels, .unit = "requests", .weighting = kLevel, .origin = kOurs,
 .meaning = "Live bookings of the partition.",
 .moves = "With every booking and its end."},
{.metric = Metric::kEjections, .name = "kvrouter_ejections_total", .type = kCounter,
 .labels = kPartitionLabels, .unit = "times", .weighting = kEach, .origin = kOurs,
 .meaning = "Times that a rank was taken out because its requests failed fast.",
 .moves = "With reported failures."},
{.metric = Metric::kEjectionsRefused, .name = "kvrouter_ejections_refused_total",
 .type = kCounter, .labels = kPartitionLabels, .unit = "times", .weighting = kEach, .origin = kOurs,
 .meaning = "Times that a rank should have been taken out and was not: too many were out, or it "
            "was the last one.",
 .moves = "With reported failures."},
{.metric = Metric::kIndexBlocks, .name = "kvrouter_index_blocks", .type = kGauge,
 .labels = kPartitionLabels, .unit = "blocks", .weighting = kLevel, .origin = kOurs,
 .meaning = "Distinct block positions in the index, however many workers hold them.",
 .moves = kWithEvents},
{.metric = Metric::kIndexHolderBlocks, .name = "kvrouter_index_holder_blocks", .type = kGauge,
 .labels = kPartitionLabels, .unit = "blocks", .weighting = kLevel, .origin = kOurs,
 .meaning = "Pairs of worker rank and block on its device in the index.",
 .moves = kWithEvents},
{.metric = Metric::kIndexLowerTierBlocks, .name = "kvrouter_index_lower_tier_blocks",
 .type = kGauge, .labels = "model, routing_group, tier", .unit = "blocks", .weighting = kLevel,
 .origin = kOurs,
 .meaning = "Pairs of worker rank and block on a tier below its device in the index, by tier: "
            "host_pinned, disk, external.",
 .moves = kWithEvents},
{.metric = Metric::kIndexDeviceForgotten,
 .name = "kvrouter_index_device_forgotten_blocks_total", .type = kCounter,
 .labels = kPartitionLabels, .unit = "blocks", .weighting = kEach, .origin = kOurs,
 .meaning = "Blocks of a rank that were forgotten, on all tiers, because it announced more than "
            "max_device_blocks on its device.",
 .moves = "When a rank's device grows beyond the bound, by all that was known of the rank."},
{.metric = Metric::kIndexLowerTierForgotten,
 .name = "kvrouter_index_lower_tier_forgotten_blocks_total", .type = kCounter,
 .labels = kPartitionLabels, .unit = "blocks", .weighting = kEach, .origin = kOurs,
 .meaning = "Blocks below a device that were forgotten because a rank announced more than "
            "max_lower_tier_blocks on one tier.",
 .moves = "When a tier of a rank grows beyond the bound, by all that was known of it."},
{.metric = Metric::kIndexWholeForgotten,
 .name = "kvrouter_index_whole_forgotten_blocks_total", .type = kCounter,
 .labels = kPartitionLabels, .unit = "blocks", .weighting = kEach, .origin = kOurs,
 .meaning = "Blocks of the largest ranks that were forgotten, on all tiers, because all ranks "
            "together held more than max_index_blocks.",
 .moves = "Rank by rank until the bound is kept, by all that was known of each."},
{.metric = Metric::kIndexBytes, .name = "kvrouter_index_bytes", .type = kGauge,
 .labels = kPartitionLabels, .unit = "bytes", .weighting = kLevel, .origin = kOurs,
 .meaning = "Estimated memory of the index.",
 .moves = kWithEvents},
{.metric = Metric::kIndexNodes, .name = "kvrouter_index_nodes", .type = kGauge,
 .labels = kPartitionLabels, .unit = "nodes", .weighting = kLevel, .origin = kOurs,
 .meaning = "Nodes of the index.",
 .moves = kWithEvents},
{.metric = Metric::kOverlapSource, .name = "kvrouter_overlap_source", .type = kGauge,
 .labels = "model, routing_group, source", .unit = "flag", .weighting = kLevel, .origin = kOurs,
 .meaning = "1 for where the partition knows from which blocks its workers hold: events, routing "
            "(its own decisions, router_kv_events false) or none (load alone).",
 .moves = "Never: settings decide it at start."},
{.metric = Metric::kEventsIgnored, .name = "kvrouter_events_ignored_total", .type = kCounter,
 .labels = kPartitionLabels, .unit = "events", .weighting = kEach, .origin = kOurs,
 .meaning = "KV events that came though the partition does not go by events.",
 .moves = "With every such event, e.g. through the indexer API."},
{.metric = Metric::kRoutedBlocks, .name = "kvrouter_routed_blocks", .type = kGauge,
 .labels = kPartitionLabels, .unit = "blocks", .weighting = kLevel, .origin = kOurs,
 .meaning = "Pairs of worker rank and block that count as held because a prompt was sent there "
            "(router_kv_events false, or router_predicted_ttl_secs); none where decisions are not "
            "remembered.",
 .moves = kWithRouted},
{.metric = Metric::kRoutedBytes, .name = "kvrouter_routed_blocks_bytes", .type = kGauge,
 .labels = kPartitionLabels, .unit = "bytes", .weighting = kLevel, .origin = kOurs,
 .meaning = "Estimated memory of their times, with router_predicted_ttl_secs that of their index "
            "too.",
 .moves = kWithRouted},
{.metric = Metric::kRoutedChanges, .name = "kvrouter_routed_block_changes_total",
 .type = kCounter, .labels = "model, routing_group, change", .unit = "blocks",
 .weighting = kEach, .origin = kOurs,
 .meaning = "Such pairs that were stored, refreshed by another booking, expired, forgotten for "
            "max_routed_blocks, or refused because a caller's hashes contradict what is known.",
 .moves = kWithRouted},
});
// clang-format on

}  // namespace kvrouter::catalogue

#endif  // KVROUTER_ADAPTERS_METRICS_CATALOGUE_PARTITION_METRICS_H_
