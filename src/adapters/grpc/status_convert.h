#ifndef KVROUTER_ADAPTERS_GRPC_STATUS_CONVERT_H_
#define KVROUTER_ADAPTERS_GRPC_STATUS_CONVERT_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>
#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "kvrouter/error.h"
#include "kvrouter/v1/router.pb.h"

namespace kvrouter {

// All error mapping of the gRPC doors.

// Trailing metadata with a serialised kvrouter.v1.ErrorDetail.
inline constexpr char kErrorDetailKey[] = "kvrouter-error-bin";

v1::ErrorReason ToProto(ErrorReason reason);

// What programs read: the reason, and which limit of the queue was met.
v1::ErrorDetail DetailOf(const absl::Status& status);

// What the caller sees of `status`: its code, its message (cut at a length that trailers can carry)
// and, in the context's trailers, the reason and with a duplicate the original decision. REQUIRES:
// !status.ok(), before the call finishes.
grpc::Status ToGrpcStatus(const absl::Status& status, grpc::CallbackServerContext* context,
                          const v1::RouteResponse* original_decision = nullptr);

// Ends a unary call at once, well or badly.
grpc::ServerUnaryReactor* FinishNow(grpc::CallbackServerContext* context,
                                    const absl::Status& status);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_GRPC_STATUS_CONVERT_H_
