#ifndef KVROUTER_ADAPTERS_METRICS_CATALOGUE_ROW_WORDS_H_
#define KVROUTER_ADAPTERS_METRICS_CATALOGUE_ROW_WORDS_H_

#include <string_view>

#include "adapters/metrics/metric_catalogue.h"

// The tables of metric_catalogue.cc, which alone includes them; so they name values of the columns
// without their type. What several tables say is here.
namespace kvrouter::catalogue {

using enum MetricType;
using enum ConstantLabels;
using enum Weighting;
using enum MetricOrigin;

inline constexpr std::string_view kBooks = "When a request books, once, whatever the door.";
inline constexpr std::string_view kRankLabels = "worker_id, dp_rank";
inline constexpr std::string_view kPartitionLabels = "model, routing_group";
inline constexpr std::string_view kWorkersChange = "When workers come, change and go.";
inline constexpr std::string_view kWithEvents = "With the cache events applied.";

}  // namespace kvrouter::catalogue

#endif  // KVROUTER_ADAPTERS_METRICS_CATALOGUE_ROW_WORDS_H_
