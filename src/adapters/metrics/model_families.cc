#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "adapters/metrics/scraped_families.h"

namespace kvrouter {
namespace {

// Values of Dynamo's labels while nothing waits: its default class, and the limits of a queue.
constexpr const char* kOnlyPolicyClass = "default";
constexpr std::array<const char*, 4> kBackpressureReasons = {"request_limit", "raw_isl_token_limit",
                                                             "cached_token_limit", "do_not_queue"};

}  // namespace

void ShowQueues(const std::vector<PartitionSnapshot>& partitions, MetricFamilies* out) {
  // Two routing groups of one model share its series.
  std::set<std::pair<std::string, std::string>> pools;
  for (const PartitionSnapshot& partition : partitions) {
    for (const TargetLoad& load : partition.loads)
      pools.emplace(partition.model_name, WorkerTypeLabel(load.role));
  }
  const auto labels = [](const auto& pool) {
    return MetricLabels{
        {"model", pool.first}, {"worker_type", pool.second}, {"policy_class", kOnlyPolicyClass}};
  };
  for (const Metric metric : {Metric::kQueuePendingRequests, Metric::kQueuePendingIslTokens,
                              Metric::kQueuePendingCachedTokens}) {
    out->Open(metric);
    for (const auto& pool : pools) out->Add(0.0, labels(pool));
  }
  out->Open(Metric::kQueueBackpressure);
  for (const auto& pool : pools) {
    for (const char* reason : kBackpressureReasons) {
      MetricLabels with_reason = labels(pool);
      with_reason.push_back({"reason", reason});
      out->Add(0.0, std::move(with_reason));
    }
  }
}

void ShowModels(const std::vector<WorkerSpec>& workers, MetricFamilies* out) {
  const auto show = [&](Metric metric, auto figure) {
    std::map<std::string, uint64_t> largest;
    for (const WorkerSpec& worker : workers) {
      uint64_t& of_model = largest[worker.model_name];
      of_model = std::max<uint64_t>(of_model, worker.*figure);
    }
    out->Open(metric);
    for (const auto& [model, value] : largest) {
      if (value > 0) out->Add(value, {{"model", model}});
    }
  };
  show(Metric::kModelTotalKvBlocks, &WorkerSpec::total_kv_blocks);
  show(Metric::kModelMaxNumBatchedTokens, &WorkerSpec::max_num_batched_tokens);
  show(Metric::kModelKvCacheBlockSize, &WorkerSpec::block_size_tokens);
}

}  // namespace kvrouter
