#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "adapters/metrics/scraped_families.h"

namespace kvrouter {
namespace {

struct QueueFigures {
  uint64_t waiting = 0;
  uint64_t isl_tokens = 0;
  uint64_t cached_tokens = 0;
  // By reason, in the order of kBackpressureReasons.
  std::array<uint64_t, 5> refused{};
};

// Dynamo's, and ours at the end.
constexpr std::array<const char*, 5> kBackpressureReasons = {
    "request_limit", "raw_isl_token_limit", "cached_token_limit", "do_not_queue", "max_waiting"};

// A series of its own for each model, role and class: routing groups of one model share it.
using QueueName = std::array<std::string, 3>;

MetricLabels LabelsOf(const QueueName& name) {
  return {{"model", name[0]}, {"worker_type", name[1]}, {"policy_class", name[2]}};
}

std::map<QueueName, QueueFigures> CollectQueues(const std::vector<PartitionSnapshot>& partitions) {
  std::map<QueueName, QueueFigures> queues;
  for (const PartitionSnapshot& partition : partitions) {
    std::string first_role;
    for (const TargetLoad& load : partition.loads) {
      const std::string role(WorkerTypeLabel(load.role));
      if (first_role.empty()) first_role = role;
      // Where nothing ever waits, there is Dynamo's only class, at 0.
      if (partition.queue.empty()) queues[{partition.model_name, role, "default"}];
    }
    if (first_role.empty()) first_role = WorkerTypeLabel(WorkerRole::kDecode);
    for (const QueueClassSnapshot& queued : partition.queue) {
      QueueFigures& figures = queues[{partition.model_name, first_role, queued.policy_class}];
      figures.waiting += queued.waiting;
      figures.isl_tokens += queued.waiting_isl_tokens;
      figures.cached_tokens += queued.waiting_cached_tokens;
      figures.refused[0] += queued.over_request_limit_total;
      figures.refused[1] += queued.over_isl_token_limit_total;
      figures.refused[2] += queued.over_cached_token_limit_total;
      figures.refused[4] += queued.over_max_waiting_total;
    }
  }
  return queues;
}

}  // namespace

void ShowQueues(const std::vector<PartitionSnapshot>& partitions, MetricFamilies* out) {
  const std::map<QueueName, QueueFigures> queues = CollectQueues(partitions);
  const auto show = [&](Metric metric, uint64_t QueueFigures::*figure) {
    out->Open(metric);
    for (const auto& [name, figures] : queues) out->Add(figures.*figure, LabelsOf(name));
  };
  show(Metric::kQueuePendingRequests, &QueueFigures::waiting);
  show(Metric::kQueuePendingIslTokens, &QueueFigures::isl_tokens);
  show(Metric::kQueuePendingCachedTokens, &QueueFigures::cached_tokens);
  out->Open(Metric::kQueueBackpressure);
  for (const auto& [name, figures] : queues) {
    for (size_t i = 0; i < kBackpressureReasons.size(); ++i) {
      MetricLabels labels = LabelsOf(name);
      labels.push_back({"reason", kBackpressureReasons[i]});
      out->Add(figures.refused[i], std::move(labels));
    }
  }
  out->Open(Metric::kQueueRequests);
  for (const PartitionSnapshot& partition : partitions) {
    for (const QueueClassSnapshot& queued : partition.queue) {
      for (const auto& [event, total] :
           {std::pair("parked", queued.parked_total), std::pair("released", queued.released_total),
            std::pair("cancelled", queued.cancelled_total),
            std::pair("expired", queued.expired_total)}) {
        out->Add(total, {{"model", partition.model_name},
                         {"routing_group", partition.routing_group},
                         {"policy_class", queued.policy_class},
                         {"event", event}});
      }
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
