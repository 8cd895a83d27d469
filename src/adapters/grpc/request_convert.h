#ifndef KVROUTER_ADAPTERS_GRPC_REQUEST_CONVERT_H_
#define KVROUTER_ADAPTERS_GRPC_REQUEST_CONVERT_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvrouter/decision.h"
#include "kvrouter/v1/router.pb.h"

namespace kvrouter {

// From messages of kvrouter.v1.Router to what the core is asked. Pure. What only the wire can get
// wrong is checked here (a prompt that is not set, an enum value we do not know, an empty id);
// limits are the service's.

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

// Of calls on a live booking: an id must be given.
absl::Status CheckRequestId(const std::string& request_id);
absl::Status CheckOutputBlock(const v1::OutputBlockRequest& message);

// What all messages have in common: empty names mean "default", and a message that makes no sense
// is INVALID_ARGUMENT (kInvalidRequest).
std::string NameOrDefault(const std::string& name);
absl::Status InvalidMessage(std::string_view message);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_GRPC_REQUEST_CONVERT_H_
