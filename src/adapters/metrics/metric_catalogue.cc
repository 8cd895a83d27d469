#include "adapters/metrics/metric_catalogue.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "adapters/metrics/catalogue/decision_metrics.h"
#include "adapters/metrics/catalogue/dispatch_metrics.h"
#include "adapters/metrics/catalogue/feed_metrics.h"
#include "adapters/metrics/catalogue/http_metrics.h"
#include "adapters/metrics/catalogue/partition_metrics.h"
#include "adapters/metrics/catalogue/plan_metrics.h"
#include "adapters/metrics/catalogue/process_metrics.h"
#include "adapters/metrics/catalogue/record_metrics.h"
#include "adapters/metrics/catalogue/request_metrics.h"
#include "adapters/metrics/catalogue/source_metrics.h"
#include "adapters/metrics/catalogue/worker_metrics.h"

namespace kvrouter {
namespace {

template <size_t... kRows>
constexpr auto Joined(const std::array<MetricInfo, kRows>&... tables) {
  std::array<MetricInfo, (kRows + ...)> rows{};
  auto* end = rows.data();
  ((end = std::copy(tables.begin(), tables.end(), end)), ...);
  return rows;
}

constexpr auto kCatalogue =
    Joined(catalogue::kHitMetrics, catalogue::kRegretMetrics, catalogue::kOverheadMetrics,
           catalogue::kRequestMetrics, catalogue::kRecordMetrics, catalogue::kPlanMetrics,
           catalogue::kCacheEventMetrics, catalogue::kWorkerMetrics, catalogue::kModelMetrics,
           catalogue::kPartitionMetrics, catalogue::kFeedMetrics, catalogue::kDiscoveryMetrics,
           catalogue::kWarmRestartMetrics, catalogue::kDispatchMetrics, catalogue::kTokenizeMetrics,
           catalogue::kEngineCallMetrics, catalogue::kHttpMetrics, catalogue::kProcessMetrics);

constexpr bool RowsAreInOrder() {
  for (size_t i = 0; i < kCatalogue.size(); ++i) {
    if (kCatalogue[i].metric != static_cast<Metric>(i)) return false;
  }
  return true;
}
static_assert(kCatalogue.size() == kMetricCount, "every metric has one row");
static_assert(RowsAreInOrder(), "the rows must have the order of enum Metric");

}  // namespace

std::span<const MetricInfo> MetricCatalogue() { return kCatalogue; }

const MetricInfo& InfoOf(Metric metric) { return kCatalogue[static_cast<size_t>(metric)]; }

}  // namespace kvrouter
