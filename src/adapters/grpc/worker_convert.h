#ifndef KVROUTER_ADAPTERS_GRPC_WORKER_CONVERT_H_
#define KVROUTER_ADAPTERS_GRPC_WORKER_CONVERT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "kvrouter/router.h"
#include "kvrouter/v1/workers.pb.h"
#include "service/feed_monitor.h"
#include "service/worker_registry.h"

namespace kvrouter {

// Between the messages of kvrouter.v1.Workers and what the registry knows, both ways. Pure.

absl::StatusOr<WorkerSpec> FromProto(const v1::WorkerSpec& message);
absl::StatusOr<WorkerPatch> FromProto(const v1::UpdateRequest& message);
void ToProto(const WorkerSpec& spec, v1::Worker* message);

// One status per rank of the worker. `reports` and `partitions` are whole snapshots; the worker's
// parts are picked out.
void FeedsToProto(const WorkerSpec& spec, const std::vector<FeedReport>& reports,
                  const std::vector<PartitionSnapshot>& partitions, v1::Worker* message);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_GRPC_WORKER_CONVERT_H_
