#include "adapters/metrics/metric_catalogue.h"

#include <array>

#include "adapters/metrics/metric_buckets.h"

namespace kvrouter {
namespace {

using enum MetricType;
using enum ConstantLabels;
using enum Weighting;
using enum MetricOrigin;

constexpr std::string_view kBooks = "When a request books, once, whatever the door.";
constexpr std::string_view kDecides = "With every decision, advice included.";
constexpr std::string_view kWorkerLabels = "worker_id, dp_rank, worker_type";
constexpr std::string_view kQueueLabels = "model, worker_type, policy_class";
constexpr std::string_view kQueueMoves = "Not yet: requests do not wait.";
constexpr std::string_view kPartitionLabels = "model, routing_group";
constexpr std::string_view kWithBookings = "With every booking and every report on one.";
constexpr std::string_view kWorkersChange = "When workers come, change and go.";
constexpr std::string_view kWithEvents = "With the cache events applied.";

// clang-format off
constexpr std::array<MetricInfo, kMetricCount> kCatalogue = {{

// ---- Hits ----
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

// ---- Regret ----
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

// ---- Where a decision's time goes ----
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

// ---- Requests ----
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
{.metric = Metric::kUnknownFrees, .name = "kvrouter_unknown_frees_total", .type = kCounter,
 .unit = "calls", .weighting = kEach, .origin = kOurs,
 .meaning = "Frees of an id that was not live: never booked, already freed, or expired.",
 .moves = "With every such Free or DELETE."},
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

// ---- Cache events ----
{.metric = Metric::kEventsApplied, .name = "dynamo_component_kv_cache_events_applied",
 .type = kCounter, .labels = "event_type, status", .constant = kComponent, .unit = "events",
 .weighting = kEach, .origin = kDynamo,
 .meaning = "KV cache events applied to the index, by kind and by the first problem met.",
 .moves = "With every event handed to the index, live and replayed."},
{.metric = Metric::kEventWarnings, .name = "dynamo_component_kv_cache_event_warnings",
 .type = kCounter, .labels = "warning_kind", .constant = kComponent, .unit = "events",
 .weighting = kEach, .origin = kDynamo,
 .meaning = "KV cache events that were applied but look odd; duplicate_store: at least one block "
            "was held already.",
 .moves = "With every such event."},
{.metric = Metric::kOrphanBlocks, .name = "kvrouter_orphan_blocks_total", .type = kCounter,
 .unit = "blocks", .weighting = kEach, .origin = kOurs,
 .meaning = "Blocks of stores whose parent block was unknown, so that they could not be placed.",
 .moves = "With every such store."},

{.metric = Metric::kZmqIngressBatches,
 .name = "dynamo_component_router_kv_zmq_ingress_batches_total", .type = kCounter,
 .constant = kComponent, .unit = "batches", .weighting = kEach, .origin = kDynamo,
 .meaning = "As kvrouter_feed_batches_applied_total, under Dynamo's name.",
 .moves = "With every batch of an engine's socket that is handed on."},

// ---- Workers ----
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
{.metric = Metric::kWorkerActiveRequests, .name = "kvrouter_worker_active_requests",
 .type = kGauge, .labels = kWorkerLabels, .unit = "requests", .weighting = kLevel,
 .origin = kOurs,
 .meaning = "Live bookings on the worker.",
 .moves = "With every booking and its end."},
{.metric = Metric::kWorkerDraining, .name = "kvrouter_worker_draining", .type = kGauge,
 .labels = kWorkerLabels, .unit = "flag", .weighting = kLevel, .origin = kOurs,
 .meaning = "1 while the worker takes no new requests.",
 .moves = "When a worker is drained or taken back."},
{.metric = Metric::kWorkerIndexBlocks, .name = "kvrouter_worker_index_blocks", .type = kGauge,
 .labels = kWorkerLabels, .unit = "blocks", .weighting = kLevel, .origin = kOurs,
 .meaning = "Distinct blocks the index believes the worker holds.",
 .moves = kWithEvents},

// ---- Models ----
{.metric = Metric::kQueuePendingRequests, .name = "dynamo_frontend_router_queue_pending_requests",
 .type = kGauge, .labels = kQueueLabels, .unit = "requests", .weighting = kLevel,
 .origin = kDynamo,
 .meaning = "Requests that wait for a worker. 0: there is no queue yet.",
 .moves = kQueueMoves},
{.metric = Metric::kQueuePendingIslTokens,
 .name = "dynamo_frontend_router_queue_pending_isl_tokens", .type = kGauge,
 .labels = kQueueLabels, .unit = "tokens", .weighting = kLevel, .origin = kDynamo,
 .meaning = "Prompt tokens of requests that wait. 0: there is no queue yet.",
 .moves = kQueueMoves},
{.metric = Metric::kQueuePendingCachedTokens,
 .name = "dynamo_frontend_router_queue_pending_cached_tokens", .type = kGauge,
 .labels = kQueueLabels, .unit = "tokens", .weighting = kLevel, .origin = kDynamo,
 .meaning = "Cached prompt tokens of requests that wait. 0: there is no queue yet.",
 .moves = kQueueMoves},
{.metric = Metric::kQueueBackpressure,
 .name = "dynamo_frontend_router_queue_backpressure_total", .type = kCounter,
 .labels = "model, worker_type, policy_class, reason", .unit = "requests",
 .weighting = kRequest, .origin = kDynamo,
 .meaning = "Requests refused because a queue was full, by the limit met. 0: there is no queue "
            "yet.",
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

// ---- Partitions ----
{.metric = Metric::kBookings, .name = "kvrouter_bookings", .type = kGauge,
 .labels = kPartitionLabels, .unit = "requests", .weighting = kLevel, .origin = kOurs,
 .meaning = "Live bookings of the partition.",
 .moves = "With every booking and its end."},
{.metric = Metric::kIndexBlocks, .name = "kvrouter_index_blocks", .type = kGauge,
 .labels = kPartitionLabels, .unit = "blocks", .weighting = kLevel, .origin = kOurs,
 .meaning = "Distinct block positions in the index, however many workers hold them.",
 .moves = kWithEvents},
{.metric = Metric::kIndexHolderBlocks, .name = "kvrouter_index_holder_blocks", .type = kGauge,
 .labels = kPartitionLabels, .unit = "blocks", .weighting = kLevel, .origin = kOurs,
 .meaning = "Pairs of worker rank and block in the index.",
 .moves = kWithEvents},
{.metric = Metric::kIndexBytes, .name = "kvrouter_index_bytes", .type = kGauge,
 .labels = kPartitionLabels, .unit = "bytes", .weighting = kLevel, .origin = kOurs,
 .meaning = "Estimated memory of the index.",
 .moves = kWithEvents},
{.metric = Metric::kIndexNodes, .name = "kvrouter_index_nodes", .type = kGauge,
 .labels = kPartitionLabels, .unit = "nodes", .weighting = kLevel, .origin = kOurs,
 .meaning = "Nodes of the index.",
 .moves = kWithEvents},

// ---- Event feeds ----
{.metric = Metric::kFeedMessages, .name = "kvrouter_feed_messages_total", .type = kCounter,
 .unit = "messages", .weighting = kEach, .origin = kOurs,
 .meaning = "Live messages received from engines' event sockets.",
 .moves = "With every message."},
{.metric = Metric::kFeedBatchesApplied, .name = "kvrouter_feed_batches_applied_total",
 .type = kCounter, .unit = "batches", .weighting = kEach, .origin = kOurs,
 .meaning = "Event batches applied, live and replayed.",
 .moves = "With every batch."},
{.metric = Metric::kFeedEventsApplied, .name = "kvrouter_feed_events_applied_total",
 .type = kCounter, .unit = "events", .weighting = kEach, .origin = kOurs,
 .meaning = "Events handed on to the index, live and replayed.",
 .moves = "With every event."},
{.metric = Metric::kFeedSkipped, .name = "kvrouter_feed_skipped_total", .type = kCounter,
 .labels = "reason", .unit = "items", .weighting = kEach, .origin = kOurs,
 .meaning = "Messages, events or parts of events that were not applied, by reason; the stream "
            "goes on.",
 .moves = "With every message, event or part that is skipped."},
{.metric = Metric::kFeedGaps, .name = "kvrouter_feed_gaps_total", .type = kCounter,
 .unit = "gaps", .weighting = kEach, .origin = kOurs,
 .meaning = "Live sequence numbers that jumped ahead: history is missing until replayed.",
 .moves = "With every jump."},
{.metric = Metric::kFeedReplaysStarted, .name = "kvrouter_feed_replays_started_total",
 .type = kCounter, .unit = "replays", .weighting = kEach, .origin = kOurs,
 .meaning = "Replays asked of engines.",
 .moves = "At connect, after gaps, and when a degraded feed tries again."},
{.metric = Metric::kFeedReplays, .name = "kvrouter_feed_replays_total", .type = kCounter,
 .labels = "outcome", .unit = "replays", .weighting = kEach, .origin = kOurs,
 .meaning = "Replays that ended; failed: time-out, or the history was gone.",
 .moves = "At the end of every replay."},
{.metric = Metric::kFeedRestarts, .name = "kvrouter_feed_restarts_total", .type = kCounter,
 .unit = "restarts", .weighting = kEach, .origin = kOurs,
 .meaning = "Engines that began a new life on the same socket; their blocks were dropped.",
 .moves = "When a restart is recognised by sequence or timestamp."},
{.metric = Metric::kFeedReconnects, .name = "kvrouter_feed_reconnects_total", .type = kCounter,
 .unit = "connections", .weighting = kEach, .origin = kOurs,
 .meaning = "Event sockets that came back after a lost connection.",
 .moves = "With every new connection but the first."},
{.metric = Metric::kFeedLiveDropped, .name = "kvrouter_feed_live_dropped_total",
 .type = kCounter, .unit = "batches", .weighting = kEach, .origin = kOurs,
 .meaning = "Live batches dropped because the buffer during a replay was full; they are replayed "
            "again.",
 .moves = "With every batch dropped."},
{.metric = Metric::kFeedHashMemoryFull, .name = "kvrouter_feed_hash_memory_full_total",
 .type = kCounter, .unit = "hashes", .weighting = kEach, .origin = kOurs,
 .meaning = "Hashes of skipped or salted blocks that were not remembered because a rank's memory "
            "for them was full; a later removal or continuation of such a block is misread.",
 .moves = "With every hash not remembered."},
{.metric = Metric::kFeedState, .name = "kvrouter_feed_state", .type = kGauge,
 .labels = "worker_id, dp_rank, state", .unit = "flag", .weighting = kLevel, .origin = kOurs,
 .meaning = "1 for the state the rank's event feed is in, 0 for the others. degraded: live, but "
            "blocks may be missing.",
 .moves = "When the state changes."},

// ---- The HTTP door ----
{.metric = Metric::kHttpRequests, .name = "kvrouter_http_requests_total", .type = kCounter,
 .unit = "calls", .weighting = kEach, .origin = kOurs,
 .meaning = "HTTP requests answered.",
 .moves = "With every answer, probes and scrapes included."},
{.metric = Metric::kHttpConnectionsRefused, .name = "kvrouter_http_connections_refused_total",
 .type = kCounter, .unit = "connections", .weighting = kEach, .origin = kOurs,
 .meaning = "HTTP connections closed at once: too many were open.",
 .moves = "With every connection refused."},
{.metric = Metric::kHttpTimeouts, .name = "kvrouter_http_timeouts_total", .type = kCounter,
 .unit = "connections", .weighting = kEach, .origin = kOurs,
 .meaning = "HTTP connections closed because the client was too slow to send or to read.",
 .moves = "With every connection closed so."},
{.metric = Metric::kHttpBadRequests, .name = "kvrouter_http_bad_requests_total", .type = kCounter,
 .unit = "calls", .weighting = kEach, .origin = kOurs,
 .meaning = "HTTP requests refused: malformed, or over a size limit.",
 .moves = "With every such answer."},
{.metric = Metric::kHttpStreamsOverflowed, .name = "kvrouter_http_streams_overflowed_total",
 .type = kCounter, .unit = "streams", .weighting = kEach, .origin = kOurs,
 .meaning = "Streamed HTTP answers cut because the client did not keep up.",
 .moves = "With every stream cut."},
{.metric = Metric::kHttpSelectionRequests, .name = "kvrouter_http_selection_requests_total",
 .type = kCounter, .labels = "method, route, status", .unit = "calls", .weighting = kEach,
 .origin = kOurs,
 .meaning = "Requests of the selection API, by route and class of the answer's status.",
 .moves = "With every answer of a route; what has no route or is no request counts elsewhere."},
{.metric = Metric::kSelectionsCached, .name = "kvrouter_selections_cached", .type = kGauge,
 .unit = "selections", .weighting = kLevel, .origin = kOurs,
 .meaning = "Inputs of /select calls kept for a later booking by selection_id.",
 .moves = "With every /select that names an id, and when such an input is booked or leaves."},
{.metric = Metric::kSelectionsCachedBytes, .name = "kvrouter_selections_cached_bytes",
 .type = kGauge, .unit = "bytes", .weighting = kLevel, .origin = kOurs,
 .meaning = "Memory of the kept inputs of /select calls.",
 .moves = "As kvrouter_selections_cached."},
{.metric = Metric::kSelectionsEvicted, .name = "kvrouter_selections_evicted_total",
 .type = kCounter, .unit = "selections", .weighting = kEach, .origin = kOurs,
 .meaning = "Kept inputs of /select calls dropped before their time: too many, or too large.",
 .moves = "With every input dropped."},
{.metric = Metric::kSelectionsExpired, .name = "kvrouter_selections_expired_total",
 .type = kCounter, .unit = "selections", .weighting = kEach, .origin = kOurs,
 .meaning = "Kept inputs of /select calls that nobody booked in time.",
 .moves = "With every input whose time is over."},

// ---- The process ----
{.metric = Metric::kReady, .name = "kvrouter_ready", .type = kGauge, .unit = "flag",
 .weighting = kLevel, .origin = kOurs,
 .meaning = "1 when /ready answers 200.",
 .moves = "With /ready."},
{.metric = Metric::kBuildInfo, .name = "kvrouter_build_info", .type = kGauge,
 .labels = "version, compiler", .unit = "flag", .weighting = kLevel, .origin = kOurs,
 .meaning = "Always 1; what is running.",
 .moves = "Never."},
{.metric = Metric::kProcessCpuSeconds, .name = "process_cpu_seconds_total", .type = kCounter,
 .unit = "seconds", .weighting = kEach, .origin = kPrometheus,
 .meaning = "User and system CPU time.",
 .moves = "While the process works."},
{.metric = Metric::kProcessResidentBytes, .name = "process_resident_memory_bytes",
 .type = kGauge, .unit = "bytes", .weighting = kLevel, .origin = kPrometheus,
 .meaning = "Resident memory.",
 .moves = "Read from the system at the scrape, like the rest of this group."},
{.metric = Metric::kProcessVirtualBytes, .name = "process_virtual_memory_bytes", .type = kGauge,
 .unit = "bytes", .weighting = kLevel, .origin = kPrometheus,
 .meaning = "Virtual memory.",
 .moves = "Read at the scrape."},
{.metric = Metric::kProcessStartTime, .name = "process_start_time_seconds", .type = kGauge,
 .unit = "seconds", .weighting = kLevel, .origin = kPrometheus,
 .meaning = "Start of the process since the Unix epoch.",
 .moves = "Never."},
{.metric = Metric::kProcessOpenFds, .name = "process_open_fds", .type = kGauge, .unit = "files",
 .weighting = kLevel, .origin = kPrometheus,
 .meaning = "Open file descriptors.",
 .moves = "Read at the scrape."},
{.metric = Metric::kProcessMaxFds, .name = "process_max_fds", .type = kGauge, .unit = "files",
 .weighting = kLevel, .origin = kPrometheus,
 .meaning = "Limit of open file descriptors.",
 .moves = "Read at the scrape."},
{.metric = Metric::kProcessThreads, .name = "process_threads", .type = kGauge, .unit = "threads",
 .weighting = kLevel, .origin = kPrometheus,
 .meaning = "Threads of the process.",
 .moves = "Read at the scrape."},
}};
// clang-format on

constexpr bool RowsAreInOrder() {
  for (size_t i = 0; i < kCatalogue.size(); ++i) {
    if (kCatalogue[i].metric != static_cast<Metric>(i)) return false;
  }
  return true;
}
static_assert(RowsAreInOrder(), "the rows must have the order of enum Metric");

}  // namespace

std::span<const MetricInfo> MetricCatalogue() { return kCatalogue; }

const MetricInfo& InfoOf(Metric metric) { return kCatalogue[static_cast<size_t>(metric)]; }

}  // namespace kvrouter
