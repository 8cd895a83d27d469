#include "adapters/grpc/status_convert.h"

#include <algorithm>
#include <string>

namespace kvrouter {
namespace {

// Clients refuse more than 8 KiB of metadata by default, and the message is percent-encoded on the
// way.
constexpr size_t kMaxMessageBytes = 1024;

// The two enums list the same reasons in the same order (a unit test compares the names).
static_assert(static_cast<int>(ErrorReason::kUnspecified) == v1::ERROR_REASON_UNSPECIFIED);
static_assert(static_cast<int>(ErrorReason::kQueueDeadline) == v1::ERROR_REASON_QUEUE_DEADLINE);

}  // namespace

v1::ErrorReason ToProto(ErrorReason reason) { return static_cast<v1::ErrorReason>(reason); }

v1::ErrorDetail DetailOf(const absl::Status& status) {
  v1::ErrorDetail detail;
  detail.set_reason(ToProto(ErrorReasonOf(status)));
  if (const auto rejection = QueueRejectionOf(status)) {
    v1::QueueLimit* limit = detail.mutable_queue_limit();
    limit->set_policy_class(rejection->policy_class);
    limit->set_limit_kind(rejection->limit_kind);
    limit->set_current(rejection->current);
    limit->set_limit(rejection->limit);
  }
  return detail;
}

grpc::Status ToGrpcStatus(const absl::Status& status, grpc::CallbackServerContext* context,
                          const v1::RouteResponse* original_decision) {
  v1::ErrorDetail detail = DetailOf(status);
  if (original_decision != nullptr) *detail.mutable_original_decision() = *original_decision;
  context->AddTrailingMetadata(kErrorDetailKey, detail.SerializeAsString());

  const size_t length = std::min(status.message().size(), kMaxMessageBytes);
  // absl's codes are gRPC's.
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      std::string(status.message().data(), length));
}

grpc::ServerUnaryReactor* FinishNow(grpc::CallbackServerContext* context,
                                    const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(status.ok() ? grpc::Status::OK : ToGrpcStatus(status, context));
  return reactor;
}

}  // namespace kvrouter
