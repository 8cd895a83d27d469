#include <string>
#include <utility>

#include "adapters/metrics/scraped_families.h"

namespace kvrouter {
namespace {

bool IsEmpty(const PartitionSnapshot& partition) {
  return partition.loads.empty() && partition.bookings == 0;
}

MetricLabels LabelsOf(const PartitionSnapshot& partition) {
  return {{"model", partition.model_name}, {"routing_group", partition.routing_group}};
}

constexpr std::pair<const char*, uint64_t RoutedBlocksFigures::*> kChanges[] = {
    {"stored", &RoutedBlocksFigures::stored_total},
    {"refreshed", &RoutedBlocksFigures::refreshed_total},
    {"expired", &RoutedBlocksFigures::expired_total},
    {"forgotten", &RoutedBlocksFigures::forgotten_total},
    {"refused", &RoutedBlocksFigures::refused_total}};

}  // namespace

void ShowOverlapSources(const std::vector<PartitionSnapshot>& partitions, MetricFamilies* out) {
  const auto each = [&](Metric metric, auto show) {
    out->Open(metric);
    for (const PartitionSnapshot& partition : partitions)
      if (!IsEmpty(partition)) show(partition);
  };
  each(Metric::kOverlapSource, [&](const PartitionSnapshot& partition) {
    MetricLabels labels = LabelsOf(partition);
    labels.push_back({"source", std::string(OverlapSourceName(partition.overlap_source))});
    out->Add(1.0, std::move(labels));
  });
  each(Metric::kEventsIgnored, [&](const PartitionSnapshot& partition) {
    out->Add(partition.events_ignored_total, LabelsOf(partition));
  });
  each(Metric::kRoutedBlocks, [&](const PartitionSnapshot& partition) {
    if (partition.routed) out->Add(partition.routed->blocks, LabelsOf(partition));
  });
  each(Metric::kRoutedBytes, [&](const PartitionSnapshot& partition) {
    if (partition.routed) out->Add(partition.routed->bytes, LabelsOf(partition));
  });
  each(Metric::kRoutedChanges, [&](const PartitionSnapshot& partition) {
    if (!partition.routed) return;
    for (const auto& [change, figure] : kChanges) {
      MetricLabels labels = LabelsOf(partition);
      labels.push_back({"change", change});
      out->Add(*partition.routed.*figure, std::move(labels));
    }
  });
}

}  // namespace kvrouter
