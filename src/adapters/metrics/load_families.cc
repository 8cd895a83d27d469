#include <string>

#include "adapters/metrics/scraped_families.h"

namespace kvrouter {
namespace {

// One series for each rank of each worker.
template <typename Value>
void ShowPerRank(Metric metric, const char* worker_label,
                 const std::vector<PartitionSnapshot>& partitions, MetricFamilies* out,
                 Value value) {
  out->Open(metric);
  for (const PartitionSnapshot& partition : partitions) {
    for (const TargetLoad& load : partition.loads) {
      out->Add(value(load), WorkerLabels(load, worker_label));
    }
  }
}

}  // namespace

void ShowWorkers(const std::vector<PartitionSnapshot>& partitions, MetricFamilies* out) {
  ShowPerRank(Metric::kWorkerRegistered, "router_worker_id", partitions, out,
              [](const TargetLoad&) { return 1.0; });
  const auto show = [&](Metric metric, auto value) {
    ShowPerRank(metric, "worker_id", partitions, out, value);
  };
  show(Metric::kWorkerActiveDecodeBlocks,
       [](const TargetLoad& load) { return load.active_decode_blocks; });
  show(Metric::kWorkerActivePrefillTokens,
       [](const TargetLoad& load) { return load.active_prefill_tokens; });
  show(Metric::kWorkerActiveRequests, [](const TargetLoad& load) { return load.active_requests; });
  show(Metric::kWorkerDraining, [](const TargetLoad& load) { return load.draining ? 1.0 : 0.0; });
  show(Metric::kWorkerIndexBlocks, [](const TargetLoad& load) { return load.index_blocks; });
}

void ShowPartitions(const std::vector<PartitionSnapshot>& partitions, MetricFamilies* out) {
  const auto show = [&](Metric metric, uint64_t PartitionSnapshot::*figure) {
    out->Open(metric);
    for (const PartitionSnapshot& partition : partitions) {
      // Empty ones stay in the core until their number is needed; nobody needs to see them.
      if (partition.loads.empty() && partition.bookings == 0) continue;
      out->Add(partition.*figure,
               {{"model", partition.model_name}, {"routing_group", partition.routing_group}});
    }
  };
  show(Metric::kBookings, &PartitionSnapshot::bookings);
  show(Metric::kIndexBlocks, &PartitionSnapshot::index_unique_blocks);
  show(Metric::kIndexHolderBlocks, &PartitionSnapshot::index_holder_blocks);
  show(Metric::kIndexBytes, &PartitionSnapshot::index_bytes);
  show(Metric::kIndexNodes, &PartitionSnapshot::index_nodes);
}

}  // namespace kvrouter
