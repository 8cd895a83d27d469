#ifndef KVROUTER_ADAPTERS_METRICS_CATALOGUE_SOURCE_METRICS_H_
#define KVROUTER_ADAPTERS_METRICS_CATALOGUE_SOURCE_METRICS_H_

#include <array>

#include "adapters/metrics/catalogue/row_words.h"

namespace kvrouter::catalogue {

// Where workers, and blocks of an earlier process, come from.

// clang-format off
// Discovery.
inline constexpr auto kDiscoveryMetrics = std::to_array<MetricInfo>({
{.metric = Metric::kDiscoveryCurrent, .name = "kvrouter_discovery_current", .type = kGauge,
 .labels = "source", .unit = "flag", .weighting = kLevel, .origin = kOurs,
 .meaning = "1 while what the source of workers said last is its present state, as far as it can "
            "tell; 0: the set in force is an older one.",
 .moves = "When an attempt of the source to learn its set fails, or works again."},
{.metric = Metric::kDiscoveryWorkers, .name = "kvrouter_discovery_workers", .type = kGauge,
 .labels = "source, state", .unit = "workers", .weighting = kLevel, .origin = kOurs,
 .meaning = "Workers that the source wants: registered by it, held by somebody else (conflict), "
            "refused by the registry, or removed by a caller.",
 .moves = "With every change of what the source wants, and of the worker set."},
{.metric = Metric::kDiscoveryUpdates, .name = "kvrouter_discovery_updates_total",
 .type = kCounter, .labels = "source, outcome", .unit = "attempts", .weighting = kEach,
 .origin = kOurs,
 .meaning = "Attempts of the source to learn its set of workers.",
 .moves = "When a changed set is applied, and with every attempt that fails."},
{.metric = Metric::kDiscoveryConflicts, .name = "kvrouter_discovery_conflicts_total",
 .type = kCounter, .labels = "source", .unit = "workers", .weighting = kEach, .origin = kOurs,
 .meaning = "Workers of the source that were found held by a stronger source or by a caller.",
 .moves = "Once per worker, and again when what the source wants of it changes."},
{.metric = Metric::kDiscoveryRefusals, .name = "kvrouter_discovery_refusals_total",
 .type = kCounter, .labels = "source", .unit = "workers", .weighting = kEach, .origin = kOurs,
 .meaning = "Workers of the source that the registry refused, for their block size or a limit.",
 .moves = "Once per worker and reason, and again when what the source wants of it changes."},
{.metric = Metric::kDiscoveryLogLinesDropped, .name = "kvrouter_discovery_log_lines_dropped_total",
 .type = kCounter, .unit = "lines", .weighting = kEach, .origin = kOurs,
 .meaning = "Log lines of discovery that were dropped because too many waited.",
 .moves = "With every line dropped."},
{.metric = Metric::kWorkerSign, .name = "kvrouter_worker_sign", .type = kGauge,
 .labels = "worker_id, reason", .unit = "flag", .weighting = kLevel, .origin = kOurs,
 .meaning = "1 while something makes the router blind or wrong about a worker that looks well: its "
            "engine is unreachable, has another block_size than declared, does not serve the "
            "declared model_name, has prefix_caching_off, is a silent_publisher (computed new "
            "blocks, but sent no event for 10 s), or has no replay endpoint declared "
            "(replay_missing), or has event endpoints though this router does not go by events "
            "(events_ignored). All but the last two need introspect_workers.",
 .moves = "When the engine was asked (introspect_period_ms) or its record changed."},
});

// Warm restart.
inline constexpr auto kWarmRestartMetrics = std::to_array<MetricInfo>({
{.metric = Metric::kSnapshotWrites, .name = "kvrouter_snapshot_writes_total", .type = kCounter,
 .labels = "result", .unit = "snapshots", .weighting = kEach, .origin = kOurs,
 .meaning = "Snapshots written to the disk (ok), or why one was not; the one before stays then.",
 .moves = "On the timer, and when the process ends."},
{.metric = Metric::kSnapshotAge, .name = "kvrouter_snapshot_age_seconds", .type = kGauge,
 .unit = "s", .weighting = kLevel, .origin = kOurs,
 .meaning = "Since the snapshot on the disk was written, by this process or an earlier one. No "
            "series: there is none.",
 .moves = "With time; back to 0 with every snapshot written."},
{.metric = Metric::kSnapshotFeeds, .name = "kvrouter_snapshot_feeds", .type = kGauge,
 .unit = "feeds", .weighting = kLevel, .origin = kOurs,
 .meaning = "Event feeds in the snapshot on the disk: those that a later process can continue.",
 .moves = "With every snapshot written or read."},
{.metric = Metric::kSnapshotBlocks, .name = "kvrouter_snapshot_blocks", .type = kGauge,
 .unit = "blocks", .weighting = kLevel, .origin = kOurs,
 .meaning = "Pairs of rank and block in the snapshot on the disk.",
 .moves = "With every snapshot written or read."},
{.metric = Metric::kSnapshotBytes, .name = "kvrouter_snapshot_bytes", .type = kGauge,
 .unit = "bytes", .weighting = kLevel, .origin = kOurs,
 .meaning = "Size of the snapshot on the disk.",
 .moves = "With every snapshot written or read."},
{.metric = Metric::kSnapshotWriteTime, .name = "kvrouter_snapshot_write_seconds", .type = kGauge,
 .unit = "s", .weighting = kLevel, .origin = kOurs,
 .meaning = "How long the last snapshot took, until it was safe on the disk. 0: an earlier "
            "process wrote it.",
 .moves = "With every snapshot written."},
{.metric = Metric::kSnapshotLoads, .name = "kvrouter_snapshot_loads_total", .type = kCounter,
 .labels = "result", .unit = "snapshots", .weighting = kEach, .origin = kOurs,
 .meaning = "Whether the snapshot could be read at the start (ok), or why not: absent, refused "
            "(corrupt, cut off, another version, another file), too_large, io_error.",
 .moves = "Once, at the start."},
{.metric = Metric::kSnapshotRestoredFeeds, .name = "kvrouter_snapshot_restored_feeds_total",
 .type = kCounter, .labels = "outcome", .unit = "feeds", .weighting = kEach, .origin = kOurs,
 .meaning = "What became of the feeds in the snapshot that was read: proved by the engine's "
            "replay, or dropped, and why.",
 .moves = "When the engine has proved a feed, or it is dropped."},
{.metric = Metric::kSnapshotRestoredBlocks, .name = "kvrouter_snapshot_restored_blocks_total",
 .type = kCounter, .labels = "outcome", .unit = "blocks", .weighting = kEach, .origin = kOurs,
 .meaning = "The blocks of those feeds.",
 .moves = "With those feeds."},
{.metric = Metric::kSnapshotWaitingFeeds, .name = "kvrouter_snapshot_waiting_feeds",
 .type = kGauge, .unit = "feeds", .weighting = kLevel, .origin = kOurs,
 .meaning = "Feeds of the snapshot that was read whose workers are not registered yet.",
 .moves = "Falls as workers are registered, and to 0 after snapshot_worker_wait_secs."},
{.metric = Metric::kSnapshotWaitingBytes, .name = "kvrouter_snapshot_waiting_bytes",
 .type = kGauge, .unit = "bytes", .weighting = kLevel, .origin = kOurs,
 .meaning = "Memory that those feeds take.",
 .moves = "With those feeds."},

{.metric = Metric::kPeerDumps, .name = "kvrouter_peer_dumps_total", .type = kCounter,
 .labels = "result", .unit = "dumps", .weighting = kEach, .origin = kOurs,
 .meaning = "Dumps asked of other routers (indexer_peers): read (ok), or why not.",
 .moves = "When a rank's engine cannot tell what it held before, once per peer and round."},
{.metric = Metric::kPeerRanks, .name = "kvrouter_peer_ranks_total", .type = kCounter,
 .labels = "outcome", .unit = "ranks", .weighting = kEach, .origin = kOurs,
 .meaning = "Ranks that other routers were asked about: taken, unknown to those that answered, "
            "unanswered, or outdone by what the engine itself told meanwhile.",
 .moves = "With every rank asked about, once it is settled."},
{.metric = Metric::kPeerBlocks, .name = "kvrouter_peer_blocks_total", .type = kCounter,
 .unit = "blocks", .weighting = kEach, .origin = kOurs,
 .meaning = "Blocks taken over from other routers' dumps.",
 .moves = "With every rank taken."},
});
// clang-format on

}  // namespace kvrouter::catalogue

#endif  // KVROUTER_ADAPTERS_METRICS_CATALOGUE_SOURCE_METRICS_H_
