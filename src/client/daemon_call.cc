#include "client/daemon_call.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

namespace kvrouter::client {
namespace {

constexpr int kMaxMessageBytes = 64 << 20;

}  // namespace

std::shared_ptr<grpc::Channel> Connect(const std::string& host_port, bool own) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  // The daemon is near; a web proxy is not the way to it.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (own) arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(host_port, grpc::InsecureChannelCredentials(), arguments);
}

std::string_view CodeName(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return "OK";
    case absl::StatusCode::kCancelled:
      return "CANCELLED";
    case absl::StatusCode::kUnknown:
      return "UNKNOWN";
    case absl::StatusCode::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case absl::StatusCode::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case absl::StatusCode::kNotFound:
      return "NOT_FOUND";
    case absl::StatusCode::kAlreadyExists:
      return "ALREADY_EXISTS";
    case absl::StatusCode::kPermissionDenied:
      return "PERMISSION_DENIED";
    case absl::StatusCode::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case absl::StatusCode::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case absl::StatusCode::kAborted:
      return "ABORTED";
    case absl::StatusCode::kOutOfRange:
      return "OUT_OF_RANGE";
    case absl::StatusCode::kUnimplemented:
      return "UNIMPLEMENTED";
    case absl::StatusCode::kInternal:
      return "INTERNAL";
    case absl::StatusCode::kUnavailable:
      return "UNAVAILABLE";
    case absl::StatusCode::kDataLoss:
      return "DATA_LOSS";
    case absl::StatusCode::kUnauthenticated:
      return "UNAUTHENTICATED";
    default:
      return "ERROR";
  }
}

std::optional<v1::ErrorDetail> DetailOf(const grpc::ClientContext& context) {
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto found = trailers.find("kvrouter-error-bin");
  v1::ErrorDetail detail;
  if (found == trailers.end() ||
      !detail.ParseFromArray(found->second.data(), static_cast<int>(found->second.size()))) {
    return std::nullopt;
  }
  return detail;
}

absl::Status ExplainFailure(const std::string& host_port, const grpc::Status& status,
                            const grpc::ClientContext& context) {
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  const std::optional<v1::ErrorDetail> detail = DetailOf(context);
  if (!detail) {
    const std::string text =
        code == absl::StatusCode::kUnavailable
            ? fmt::format("cannot reach the daemon at {}: {}", host_port, status.error_message())
            : fmt::format("{}: {}: {}", host_port, CodeName(code), status.error_message());
    return absl::Status(code, text);
  }
  std::string text = fmt::format("{} ({}): {}", CodeName(code),
                                 v1::ErrorReason_Name(detail->reason()), status.error_message());
  if (detail->has_original_decision()) {
    const v1::RouteResponse& original = detail->original_decision();
    text += fmt::format("; it is on worker {} rank {}, {}", original.target().worker_id(),
                        original.target().dp_rank(), original.address());
  }
  return absl::Status(code, text);
}

}  // namespace kvrouter::client
