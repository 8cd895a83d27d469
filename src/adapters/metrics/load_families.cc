#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

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

constexpr StorageTier kLowerTiers[] = {StorageTier::kHostPinned, StorageTier::kDisk,
                                       StorageTier::kExternal};

void ShowLowerTiers(const std::vector<PartitionSnapshot>& partitions, MetricFamilies* out) {
  out->Open(Metric::kWorkerLowerTierBlocks);
  for (const PartitionSnapshot& partition : partitions) {
    for (const TargetLoad& load : partition.loads) {
      for (const StorageTier tier : kLowerTiers) {
        const uint64_t blocks = load.tier_blocks[static_cast<size_t>(tier)];
        if (blocks == 0) continue;
        MetricLabels labels = WorkerLabels(load, "worker_id");
        labels.push_back({"tier", std::string(TierName(tier))});
        out->Add(blocks, std::move(labels));
      }
    }
  }
}

}  // namespace

void ShowWorkers(const std::vector<PartitionSnapshot>& partitions, MonotonicTime now,
                 MetricFamilies* out) {
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
  show(Metric::kWorkerOverloaded,
       [](const TargetLoad& load) { return load.overloaded ? 1.0 : 0.0; });
  show(Metric::kWorkerEjected, [now](const TargetLoad& load) {
    return load.ejected_until && *load.ejected_until > now ? 1.0 : 0.0;
  });
  show(Metric::kWorkerIndexBlocks, [](const TargetLoad& load) { return load.index_blocks; });
  ShowLowerTiers(partitions, out);
}

void ShowReportedLoads(const std::vector<ReportedLoads::Report>& reports, MonotonicTime now,
                       MetricFamilies* out) {
  const auto labels = [](const ReportedLoads::Report& report) -> MetricLabels {
    const Target target = report.load.target;
    return {{"worker_id", fmt::format("{}", static_cast<uint64_t>(target.worker))},
            {"dp_rank", fmt::format("{}", target.dp_rank)}};
  };
  const auto show = [&](Metric metric, std::optional<uint64_t> ActiveLoad::*field) {
    out->Open(metric);
    for (const ReportedLoads::Report& report : reports) {
      if (report.load.*field) out->Add(*(report.load.*field), labels(report));
    }
  };
  show(Metric::kWorkerReportedKvUsedBlocks, &ActiveLoad::kv_used_blocks);
  show(Metric::kWorkerReportedActiveDecodeBlocks, &ActiveLoad::active_decode_blocks);
  show(Metric::kWorkerReportedActivePrefillTokens, &ActiveLoad::active_prefill_tokens);
  out->Open(Metric::kWorkerReportAge);
  for (const ReportedLoads::Report& report : reports) {
    out->Add(std::chrono::duration<double>(now - report.at).count(), labels(report));
  }
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
  show(Metric::kEjections, &PartitionSnapshot::ejections_total);
  show(Metric::kEjectionsRefused, &PartitionSnapshot::ejections_refused_total);
  show(Metric::kIndexBlocks, &PartitionSnapshot::index_unique_blocks);
  show(Metric::kIndexHolderBlocks, &PartitionSnapshot::index_holder_blocks);
  show(Metric::kIndexBytes, &PartitionSnapshot::index_bytes);
  show(Metric::kIndexNodes, &PartitionSnapshot::index_nodes);
  show(Metric::kIndexDeviceForgotten, &PartitionSnapshot::device_forgotten_total);
  show(Metric::kIndexLowerTierForgotten, &PartitionSnapshot::lower_tier_forgotten_total);
  show(Metric::kIndexWholeForgotten, &PartitionSnapshot::whole_forgotten_total);
  out->Open(Metric::kIndexLowerTierBlocks);
  for (const PartitionSnapshot& partition : partitions) {
    if (partition.loads.empty() && partition.bookings == 0) continue;
    for (const StorageTier tier : kLowerTiers) {
      out->Add(partition.tier_blocks[static_cast<size_t>(tier)],
               {{"model", partition.model_name},
                {"routing_group", partition.routing_group},
                {"tier", std::string(TierName(tier))}});
    }
  }
}

}  // namespace kvrouter
