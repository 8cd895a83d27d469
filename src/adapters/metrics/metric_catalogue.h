#ifndef KVROUTER_ADAPTERS_METRICS_METRIC_CATALOGUE_H_
#define KVROUTER_ADAPTERS_METRICS_METRIC_CATALOGUE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace kvrouter {

// Every metric family of the daemon: one row each in a table under catalogue/, from which the page
// /metrics takes names, help texts and buckets, and from which docs/metrics.md is printed. What has
// no row cannot be shown; tests see to it that every row is.

// In the order of the catalogue.
enum class Metric : uint8_t {
  // Hits
  kHitRate,
  kOverlapBlocks,
  kIslBlocks,
  kOverlapTokens,
  kIslTokens,
  kExpectedEngineHitTokens,
  // Regret
  kBestOverlapTokens,
  kRegretBlocks,
  kNonMaxOverlapSelections,
  kOverlapBlocksLost,
  // Where a decision's time goes
  kOverheadBlockHashing,
  kOverheadSequenceHashing,
  kOverheadFindMatches,
  kOverheadScheduling,
  kOverheadTotal,
  // Requests
  kRequestsStarted,
  kRequestsFinished,
  kInputSequenceTokens,
  kOutputSequenceTokens,
  kTimeToFirstToken,
  kInterTokenLatency,
  kDecisions,
  kAdvice,
  kBookingsExpired,
  kDuplicateRequests,
  kRequestsRefused,
  kRegistrationsRefused,
  kPublishRefused,
  kUnknownFrees,
  kLegs,
  kDecisionRingEntries,
  kDecisionRingBytes,
  kDecisionRingEvicted,
  // Decisions written down, settings read again, another policy on trial
  kDecisionLogRecords,
  kDecisionLogBytes,
  kDecisionLogIncomplete,
  kDecisionLogDropped,
  kDecisionLogQueuedBytes,
  kDecisionLogRotations,
  kConfigGeneration,
  kConfigReloads,
  kConfigReloadFailed,
  kShadowDecisions,
  kShadowOverlapBlocks,
  kShadowRegretBlocks,
  // Sessions, gate, migration
  kSessionRequests,
  kSessionSources,
  kGateDecisions,
  kGateInputMissing,
  kPrefillRefused,
  kMigrationDecisions,
  kPlans,
  kSecondLegs,
  kSessions,
  kSessionLeases,
  kSessionsExpired,
  kSessionsEvicted,
  kSessionsInvalidated,
  kSessionsRefused,
  kLineageEnds,
  kLineageAliases,
  kLineageEvicted,
  kLineageRefused,
  kHotSessions,
  kHotSessionsTurned,
  kContinuations,
  kContinuationsEvicted,
  kKvHomes,
  kKvHomesEvicted,
  // Cache events
  kEventsApplied,
  kEventWarnings,
  kOrphanBlocks,
  kZmqIngressBatches,
  // Workers
  kWorkerRegistered,
  kWorkerActiveDecodeBlocks,
  kWorkerActivePrefillTokens,
  kWorkerLastTimeToFirstToken,
  kWorkerLastInputTokens,
  kWorkerLastInterTokenLatency,
  kWorkerActiveRequests,
  kWorkerDraining,
  kWorkerOverloaded,
  kWorkerEjected,
  kWorkerIndexBlocks,
  kWorkerLowerTierBlocks,
  kWorkerReportedKvUsedBlocks,
  kWorkerReportedActiveDecodeBlocks,
  kWorkerReportedActivePrefillTokens,
  kWorkerReportAge,
  kEngineLoadKnown,
  kEngineRunningRequests,
  kEngineWaitingRequests,
  kEngineKvUsedBlocks,
  kEngineKvTotalBlocks,
  kEngineDriftBlocks,
  kEngineDriftRequests,
  kEnginePolls,
  // Models
  kQueuePendingRequests,
  kQueuePendingIslTokens,
  kQueuePendingCachedTokens,
  kQueueBackpressure,
  kQueueRequests,
  kModelTotalKvBlocks,
  kModelMaxNumBatchedTokens,
  kModelKvCacheBlockSize,
  // Partitions
  kBookings,
  kEjections,
  kEjectionsRefused,
  kIndexBlocks,
  kIndexHolderBlocks,
  kIndexLowerTierBlocks,
  kIndexDeviceForgotten,
  kIndexLowerTierForgotten,
  kIndexWholeForgotten,
  kIndexBytes,
  kIndexNodes,
  kOverlapSource,
  kEventsIgnored,
  kRoutedBlocks,
  kRoutedBytes,
  kRoutedChanges,
  // Event feeds
  kFeedMessages,
  kFeedBatchesApplied,
  kFeedEventsApplied,
  kFeedSkipped,
  kFeedGaps,
  kFeedReplaysStarted,
  kFeedReplays,
  kFeedRestarts,
  kFeedReconnects,
  kFeedLiveDropped,
  kFeedHashMemoryFull,
  kFeedState,
  kFeedDegraded,
  // Discovery
  kDiscoveryCurrent,
  kDiscoveryWorkers,
  kDiscoveryUpdates,
  kDiscoveryConflicts,
  kDiscoveryRefusals,
  kDiscoveryLogLinesDropped,
  kWorkerSign,
  // Warm restart
  kSnapshotWrites,
  kSnapshotAge,
  kSnapshotFeeds,
  kSnapshotBlocks,
  kSnapshotBytes,
  kSnapshotWriteTime,
  kSnapshotLoads,
  kSnapshotRestoredFeeds,
  kSnapshotRestoredBlocks,
  kSnapshotWaitingFeeds,
  kSnapshotWaitingBytes,
  kPeerDumps,
  kPeerRanks,
  kPeerBlocks,
  // Dispatch
  kFrontendCachedTokens,
  kDispatchRequests,
  kDispatchLiveRequests,
  kDispatchRequestTime,
  kDispatchFirstTokenTime,
  kDispatchLegs,
  kDispatchLegTime,
  kDispatchFallbacks,
  kDispatchOutgrown,
  kDispatchRetries,
  kDispatchLeasesLeft,
  kDeliveredPromptTokens,
  kDeliveredPredictedTokens,
  kDeliveredOverlapTokens,
  kOverlapCalibrationError,
  kTokenizeTexts,
  kTokenizeTime,
  kTokenizeInFlight,
  kTokenizeBreakersOpen,
  kTokenizeCacheEntries,
  kTokenizeCacheBytes,
  kTokenizeCacheEvicted,
  kEngineCalls,
  kEngineCallsRetried,
  kEngineCallsNow,
  kEngineConnections,
  kEngineConnectionsOpened,
  kEngineConnectionsReused,
  kEngineConnectionsClosed,
  kEngineBytes,
  kEngineNameLookups,
  // The HTTP door
  kHttpRequests,
  kHttpUnrouted,
  kHttpConnections,
  kHttpBufferedBytes,
  kHttpConnectionsAccepted,
  kHttpConnectionsRefused,
  kHttpConnectionsEvicted,
  kHttpAcceptFailures,
  kHttpTimeouts,
  kHttpBadRequests,
  kHttpBuffersFull,
  kHttpStreamsOverflowed,
  kHttpStreamsPaused,
  kHttpTlsHandshakesFailed,
  kHttpTlsReloads,
  kHttpSelectionRequests,
  kHttpIndexerRequests,
  kSelectionsCached,
  kSelectionsCachedBytes,
  kSelectionsEvicted,
  kSelectionsExpired,
  // The process
  kReady,
  kBuildInfo,
  kProcessCpuSeconds,
  kProcessResidentBytes,
  kProcessVirtualBytes,
  kProcessStartTime,
  kProcessOpenFds,
  kProcessMaxFds,
  kProcessThreads,
};
inline constexpr size_t kMetricCount = static_cast<size_t>(Metric::kProcessThreads) + 1;

enum class MetricType : uint8_t { kCounter, kGauge, kHistogram };
std::string_view MetricTypeName(MetricType type);

// Constant labels: those of a Dynamo component, these and router_id, or router_id alone.
enum class ConstantLabels : uint8_t { kNone, kComponent, kRouter, kRouterIdOnly };

// What one step of a counter or one observation stands for, that is: what a rate or a mean over the
// family is weighted by. A ratio of counters has the weighting of its denominator.
enum class Weighting : uint8_t {
  kRequest,  // every request counts the same, whatever its length
  kBlock,    // a request counts by its blocks
  kToken,    // a request counts by its tokens
  kEach,     // one per occurrence of what the unit names
  kLevel,    // a gauge: the state at the scrape
};
std::string_view WeightingName(Weighting weighting);

// Where the name comes from.
enum class MetricOrigin : uint8_t {
  kDynamo,      // kept letter for letter, docs/parity.md says what differs
  kOurs,        // kvrouter_*
  kPrometheus,  // what every Prometheus client shows
};
std::string_view MetricOriginName(MetricOrigin origin);

struct MetricInfo {
  Metric metric;
  std::string_view name;
  MetricType type;
  std::string_view labels = "";  // beside constant ones; in their order, separated by ", "
  ConstantLabels constant = ConstantLabels::kNone;
  std::string_view unit;
  Weighting weighting;
  MetricOrigin origin;
  std::span<const double> bounds = {};  // upper bounds of a histogram's buckets, without +Inf
  std::string_view meaning;             // with a full stop
  std::string_view moves;               // when it changes; with a full stop
};

std::span<const MetricInfo> MetricCatalogue();
const MetricInfo& InfoOf(Metric metric);

// The HELP line: meaning, unit and weighting.
std::string HelpText(const MetricInfo& info);

// The tables of docs/metrics.md.
std::string MetricCatalogueMarkdown();

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_METRICS_METRIC_CATALOGUE_H_
