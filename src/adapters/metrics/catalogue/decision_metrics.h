#ifndef KVROUTER_ADAPTERS_METRICS_CATALOGUE_DECISION_METRICS_H_
#define KVROUTER_ADAPTERS_METRICS_CATALOGUE_DECISION_METRICS_H_

#include <array>
#include <string_view>

#include "adapters/metrics/catalogue/row_words.h"
#include "adapters/metrics/metric_buckets.h"

namespace kvrouter::catalogue {

// What was decided: hits, what they cost, and the time it took.

inline constexpr std::string_view kDecides = "With every decision, advice included.";

// clang-format off
// Hits.
inline constexpr auto kHitMetrics = std::to_array<MetricInfo>({
{.metric = Metric::kHitRate, .name = "dynamo_component_router_kv_hit_rate", .type = kHistogram,
 .constant = kRouter, .unit = "ratio", .weighting = kRequest, .origin = kDynamo,
 .bounds = kRatioBounds,
 .meaning = "Predicted hit ratio of each booked request, in 0..1: overlap blocks over prompt "
            "blocks. Its mean is not the hit rate of the fleet; use the block or token counters "
            "for that.",
 .moves = "When a request with a prompt books, once."},
{.metric = Metric::kOverlapBlocks, .name = "dynamo_component_router_kv_overlap_blocks_total",
 .type = kCounter, .constant = kRouter, .unit = "blocks", .weighting = kBlock, .origin = kDynamo,
 .meaning = "Prompt blocks of booked requests found cached on the chosen worker, tier-weighted, "
            "fractions kept. Over kv_isl_blocks_total: the block-weighted predicted hit rate.",
 .moves = kBooks},
{.metric = Metric::kIslBlocks, .name = "dynamo_component_router_kv_isl_blocks_total",
 .type = kCounter, .constant = kRouter, .unit = "blocks", .weighting = kBlock, .origin = kDynamo,
 .meaning = "Prompt blocks of booked requests, a partial last block counted whole.",
 .moves = kBooks},
{.metric = Metric::kOverlapTokens, .name = "kvrouter_overlap_tokens_total", .type = kCounter,
 .unit = "tokens", .weighting = kToken, .origin = kOurs,
 .meaning = "Prompt tokens of booked requests found cached on the chosen worker (overlap blocks "
            "times block size). Over kvrouter_isl_tokens_total: the token-weighted predicted hit "
            "rate, comparable with an engine's.",
 .moves = kBooks},
{.metric = Metric::kIslTokens, .name = "kvrouter_isl_tokens_total", .type = kCounter,
 .unit = "tokens", .weighting = kToken, .origin = kOurs,
 .meaning = "Prompt tokens of booked requests.",
 .moves = kBooks},
{.metric = Metric::kExpectedEngineHitTokens, .name = "kvrouter_expected_engine_hit_tokens_total",
 .type = kCounter, .unit = "tokens", .weighting = kToken, .origin = kOurs,
 .meaning = "Hits the engine is expected to count: as kvrouter_overlap_tokens_total, but a fully "
            "cached prompt counts without its last block, since engines recompute at least one "
            "token.",
 .moves = kBooks},
});

// Regret.
inline constexpr auto kRegretMetrics = std::to_array<MetricInfo>({
{.metric = Metric::kBestOverlapTokens, .name = "kvrouter_best_overlap_tokens_total",
 .type = kCounter, .unit = "tokens", .weighting = kToken, .origin = kOurs,
 .meaning = "Prompt tokens of booked requests cached on the eligible worker that holds most of "
            "them. Beside kvrouter_overlap_tokens_total: what routing gave up for the sake of "
            "load; beside kvrouter_isl_tokens_total: how warm the caches are.",
 .moves = kBooks},
{.metric = Metric::kRegretBlocks, .name = "kvrouter_regret_blocks_total", .type = kCounter,
 .unit = "blocks", .weighting = kBlock, .origin = kOurs,
 .meaning = "Overlap of the best eligible worker minus that of the chosen one, over booked "
            "requests, tier-weighted.",
 .moves = "When a request books on a worker that holds less of its prompt than another eligible "
          "one."},
{.metric = Metric::kNonMaxOverlapSelections,
 .name = "dynamo_component_router_non_max_overlap_selections_total", .type = kCounter,
 .labels = "worker_type", .constant = kRouter, .unit = "requests", .weighting = kRequest,
 .origin = kDynamo,
 .meaning = "Booked requests whose worker holds less of the prompt than another eligible one; "
            "equal overlap and pins do not count. By type of the chosen worker.",
 .moves = "When such a request books."},
{.metric = Metric::kOverlapBlocksLost, .name = "dynamo_component_router_overlap_blocks_lost",
 .type = kHistogram, .labels = "worker_type", .constant = kRouter, .unit = "blocks",
 .weighting = kRequest, .origin = kDynamo, .bounds = kBlocksLostBounds,
 .meaning = "Overlap given up by each request that non_max_overlap_selections_total counts.",
 .moves = "When such a request books."},
});

// Where a decision's time goes.
inline constexpr auto kOverheadMetrics = std::to_array<MetricInfo>({
{.metric = Metric::kOverheadBlockHashing, .name = "dynamo_router_overhead_block_hashing_ms",
 .type = kHistogram, .constant = kRouterIdOnly, .unit = "milliseconds", .weighting = kEach,
 .origin = kDynamo, .bounds = kComputeMsBounds,
 .meaning = "Hashing a prompt's tokens block by block.",
 .moves = "With every decision for a prompt of tokens, advice included."},
{.metric = Metric::kOverheadSequenceHashing, .name = "dynamo_router_overhead_seq_hashing_ms",
 .type = kHistogram, .constant = kRouterIdOnly, .unit = "milliseconds", .weighting = kEach,
 .origin = kDynamo, .bounds = kComputeMsBounds,
 .meaning = "Chaining a prompt's block hashes.",
 .moves = "With every decision for a prompt without sequence hashes, advice included."},
{.metric = Metric::kOverheadFindMatches, .name = "dynamo_router_overhead_indexer_find_matches_ms",
 .type = kHistogram, .constant = kRouterIdOnly, .unit = "milliseconds", .weighting = kEach,
 .origin = kDynamo, .bounds = kAsyncMsBounds,
 .meaning = "Finding how much of the prompt each worker holds.",
 .moves = kDecides},
{.metric = Metric::kOverheadScheduling, .name = "dynamo_router_overhead_scheduling_ms",
 .type = kHistogram, .constant = kRouterIdOnly, .unit = "milliseconds", .weighting = kEach,
 .origin = kDynamo, .bounds = kAsyncMsBounds,
 .meaning = "Waiting for the scheduler of the partition, computing costs, picking and booking.",
 .moves = kDecides},
{.metric = Metric::kOverheadTotal, .name = "dynamo_router_overhead_total_ms",
 .type = kHistogram, .constant = kRouterIdOnly, .unit = "milliseconds", .weighting = kEach,
 .origin = kDynamo, .bounds = kAsyncMsBounds,
 .meaning = "The whole decision, from the call into the core until it stands; reading the request "
            "and writing the answer are not in it.",
 .moves = kDecides},
});
// clang-format on

}  // namespace kvrouter::catalogue

#endif  // KVROUTER_ADAPTERS_METRICS_CATALOGUE_DECISION_METRICS_H_
