#ifndef KVROUTER_ADAPTERS_METRICS_SCRAPED_FAMILIES_H_
#define KVROUTER_ADAPTERS_METRICS_SCRAPED_FAMILIES_H_

#include <string_view>
#include <vector>

#include "adapters/metrics/metric_families.h"
#include "adapters/metrics/router_metrics.h"
#include "feed/feed_stats.h"
#include "kvrouter/router.h"
#include "service/engine_loads.h"
#include "service/feed_monitor.h"
#include "service/refusal_counts.h"
#include "service/reported_loads.h"
#include "service/routing_service.h"

namespace kvrouter {

// Families that are read from others' counters at the scrape: one function per source, each in the
// order of the catalogue. They hold nothing, so no series outlives what it is about.

// Requests of all doors.
void ShowService(const ServiceCounters& counters,
                 const RefusalCounts::ByReason& registrations_refused,
                 const RefusalCounts::ByReason& publish_refused, MetricFamilies* out);
// Ranks of workers, then partitions. Those of partitions without workers and bookings are left out.
void ShowWorkers(const std::vector<PartitionSnapshot>& partitions, MonotonicTime now,
                 MetricFamilies* out);
// What ranks said of themselves. A field that a rank never said has no series.
void ShowReportedLoads(const std::vector<ReportedLoads::Report>& reports, MonotonicTime now,
                       MetricFamilies* out);
// What ranks' engines say when they are polled, and how far the router's figures are from it. Those
// of ranks that are gone are left out.
void ShowEngineLoads(const std::vector<PartitionSnapshot>& partitions, const EngineLoads* loads,
                     MetricFamilies* out);
void ShowPartitions(const std::vector<PartitionSnapshot>& partitions, MetricFamilies* out);
// Where overlaps come from, and what is remembered of decisions.
void ShowOverlapSources(const std::vector<PartitionSnapshot>& partitions, MetricFamilies* out);
// Models: what waits for a worker, and what the workers of a model said of themselves.
void ShowQueues(const std::vector<PartitionSnapshot>& partitions, MetricFamilies* out);
void ShowModels(const std::vector<WorkerSpec>& workers, MetricFamilies* out);
// Events that reached the index, what the feeds went through, and the state each is in.
void ShowEvents(const FeedMonitor::AppliedCounts& applied, const FeedCounters& totals,
                MetricFamilies* out);
void ShowFeeds(const FeedCounters& totals, MetricFamilies* out);
void ShowFeedStates(const std::vector<FeedReport>& reports, MetricFamilies* out);
// What the sources of worker sets have told and how they fare.
void ShowDiscovery(const DiscoveryFigures& discovery, MetricFamilies* out);
// What was taken over from an earlier process, and is kept for the next.
void ShowWarmStart(const WarmStartFigures& figures, MetricFamilies* out);
// Decisions that are written down, and settings that are read again.
void ShowRecord(const RecordFigures& figures, MetricFamilies* out);
void ShowHttp(const HttpFigures& http, MetricFamilies* out);
void ShowProcess(bool ready, std::string_view version, MetricFamilies* out);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_METRICS_SCRAPED_FAMILIES_H_
