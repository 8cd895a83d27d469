#ifndef KVROUTER_ADAPTERS_GRPC_PROTO_CONVERT_H_
#define KVROUTER_ADAPTERS_GRPC_PROTO_CONVERT_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kvrouter/router.h"
#include "kvrouter/v1/router.pb.h"
#include "kvrouter/v1/workers.pb.h"
#include "service/feed_monitor.h"
#include "service/worker_registry.h"

namespace kvrouter {

// Between the messages of kvrouter.v1 and the types of the core, both ways. Pure. What only the
// wire can get wrong is checked here (a prompt that is not set, an enum value we do not know, an
// empty id); limits are the service's.

// A request with what it borrows. Token ids are borrowed from the message itself (packed fixed32
// lies in memory as the core wants it); hashes are copied, since the core's hash types are types of
// their own.
struct RouteInput {
  RouteRequest request;
  std::vector<std::vector<MultimodalHash>> multimodal;
  std::vector<LocalBlockHash> local_hashes;
  std::vector<SequenceHash> sequence_hashes;
};

// `message` must outlive the result.
absl::StatusOr<RouteInput> FromProto(const v1::RouteRequest& message);
void ToProto(std::string_view request_id, const RouteDecision& decision,
             v1::RouteResponse* message);

// Of calls on a live booking: an id must be given.
absl::Status CheckRequestId(const std::string& request_id);
absl::Status CheckOutputBlock(const v1::OutputBlockRequest& message);

absl::StatusOr<WorkerSpec> FromProto(const v1::WorkerSpec& message);
absl::StatusOr<WorkerPatch> FromProto(const v1::UpdateRequest& message);
void ToProto(const WorkerSpec& spec, v1::Worker* message);

// One status per rank of the worker. `reports` and `partitions` are whole snapshots; the worker's
// parts are picked out.
void FeedsToProto(const WorkerSpec& spec, const std::vector<FeedReport>& reports,
                  const std::vector<PartitionSnapshot>& partitions, v1::Worker* message);

void ToProto(const TargetOverlap& overlap, v1::TargetOverlap* message);
void ToProto(const TargetPotentialLoad& load, v1::TargetPotentialLoad* message);
void ToProto(const PartitionSnapshot& partition, v1::PartitionLoads* message);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_GRPC_PROTO_CONVERT_H_
