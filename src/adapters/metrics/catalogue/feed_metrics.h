#ifndef KVROUTER_ADAPTERS_METRICS_CATALOGUE_FEED_METRICS_H_
#define KVROUTER_ADAPTERS_METRICS_CATALOGUE_FEED_METRICS_H_

#include <array>

#include "adapters/metrics/catalogue/row_words.h"

namespace kvrouter::catalogue {

// Cache events, and the feeds that bring them.

// clang-format off
// Cache events.
inline constexpr auto kCacheEventMetrics = std::to_array<MetricInfo>({
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
 .meaning = "Blocks of stores whose parent block was unknown, so that they could not be placed; "
            "not those behind what was forgotten for max_device_blocks or max_index_blocks (status "
            "parent_forgotten).",
 .moves = "With every such store."},

{.metric = Metric::kZmqIngressBatches,
 .name = "dynamo_component_router_kv_zmq_ingress_batches_total", .type = kCounter,
 .constant = kComponent, .unit = "batches", .weighting = kEach, .origin = kDynamo,
 .meaning = "As kvrouter_feed_batches_applied_total, under Dynamo's name.",
 .moves = "With every batch of an engine's socket that is handed on."},
});

// Event feeds.
inline constexpr auto kFeedMetrics = std::to_array<MetricInfo>({
{.metric = Metric::kFeedMessages, .name = "kvrouter_feed_messages_total", .type = kCounter,
 .unit = "messages", .weighting = kEach, .origin = kOurs,
 .meaning = "Live messages received from engines, on their event sockets or as KvEvents.Publish.",
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
{.metric = Metric::kFeedDegraded, .name = "kvrouter_feed_degraded", .type = kGauge,
 .labels = "worker_id, dp_rank, reason", .unit = "flag", .weighting = kLevel, .origin = kOurs,
 .meaning = "1 for each rank whose feed is degraded, under the reason: history_unknown (from "
            "before the first event we have), events_lost (and nobody could bring them), "
            "unreadable (an event that came), reconnected (nobody can tell what was said "
            "meanwhile), replay_failed, unknown_parent (stores continue blocks that nobody told us "
            "of), unproved (known from a peer only), in_doubt (the next event will tell), "
            "block_naming (block size or token form is not the partition's), no_socket. A feed "
            "that is not degraded has no series.",
 .moves = "When the state or the reason changes."},
});
// clang-format on

}  // namespace kvrouter::catalogue

#endif  // KVROUTER_ADAPTERS_METRICS_CATALOGUE_FEED_METRICS_H_
