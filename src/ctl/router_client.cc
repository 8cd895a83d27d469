#include "ctl/router_client.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <string_view>
#include <utility>

#include "kvrouter/v1/router.grpc.pb.h"
#include "kvrouter/v1/workers.grpc.pb.h"

namespace kvrouter::ctl {
namespace {

constexpr int kMaxMessageBytes = 64 << 20;

std::string_view CodeName(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::CANCELLED:
      return "CANCELLED";
    case grpc::StatusCode::INVALID_ARGUMENT:
      return "INVALID_ARGUMENT";
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return "DEADLINE_EXCEEDED";
    case grpc::StatusCode::NOT_FOUND:
      return "NOT_FOUND";
    case grpc::StatusCode::ALREADY_EXISTS:
      return "ALREADY_EXISTS";
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return "RESOURCE_EXHAUSTED";
    case grpc::StatusCode::FAILED_PRECONDITION:
      return "FAILED_PRECONDITION";
    case grpc::StatusCode::UNAVAILABLE:
      return "UNAVAILABLE";
    case grpc::StatusCode::UNIMPLEMENTED:
      return "UNIMPLEMENTED";
    case grpc::StatusCode::INTERNAL:
      return "INTERNAL";
    default:
      return "ERROR";
  }
}

std::shared_ptr<grpc::Channel> Connect(const std::string& host_port) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY,
                   0);  // the daemon is near; a web proxy is not the way to it
  return grpc::CreateCustomChannel(host_port, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

struct RouterClient::Impl {
  const std::string host_port;
  const std::chrono::milliseconds timeout;
  const std::shared_ptr<grpc::Channel> channel;
  v1::Router::Stub router{channel};
  v1::Workers::Stub workers{channel};

  Impl(std::string address, std::chrono::milliseconds t)
      : host_port(std::move(address)), timeout(t), channel(Connect(host_port)) {}

  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(Stub* stub,
                                grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Response*),
                                const Request& request) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + timeout);
    Response response;
    const grpc::Status status = (stub->*method)(&context, request, &response);
    if (status.ok()) return response;
    return Explain(status, context);
  }

  absl::Status Explain(const grpc::Status& status, const grpc::ClientContext& context) const;
};

absl::Status RouterClient::Impl::Explain(const grpc::Status& status,
                                         const grpc::ClientContext& context) const {
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto found = trailers.find("kvrouter-error-bin");
  v1::ErrorDetail detail;
  if (found == trailers.end() ||
      !detail.ParseFromArray(found->second.data(), static_cast<int>(found->second.size()))) {
    // Not an answer of the daemon: gRPC itself, or somebody else on that port.
    const std::string text =
        code == absl::StatusCode::kUnavailable
            ? fmt::format("cannot reach the daemon at {}: {}", host_port, status.error_message())
            : fmt::format("{}: {}: {}", host_port, CodeName(status.error_code()),
                          status.error_message());
    return absl::Status(code, text);
  }
  std::string text = fmt::format("{} ({}): {}", CodeName(status.error_code()),
                                 v1::ErrorReason_Name(detail.reason()), status.error_message());
  if (detail.has_original_decision()) {
    const v1::RouteResponse& original = detail.original_decision();
    text += fmt::format("; it is on worker {} rank {}, {}", original.target().worker_id(),
                        original.target().dp_rank(), original.address());
  }
  return absl::Status(code, text);
}

RouterClient::RouterClient(std::string host_port, std::chrono::milliseconds timeout)
    : impl_(std::make_unique<Impl>(std::move(host_port), timeout)) {}

RouterClient::~RouterClient() = default;

absl::StatusOr<v1::ListResponse> RouterClient::ListWorkers() {
  return impl_->Call(&impl_->workers, &v1::Workers::Stub::List, v1::ListRequest());
}

absl::StatusOr<v1::RouteResponse> RouterClient::Route(const v1::RouteRequest& request) {
  return impl_->Call(&impl_->router, &v1::Router::Stub::Route, request);
}

absl::StatusOr<v1::Worker> RouterClient::Register(const v1::WorkerSpec& worker) {
  v1::RegisterRequest request;
  *request.mutable_worker() = worker;
  return impl_->Call(&impl_->workers, &v1::Workers::Stub::Register, request);
}

absl::StatusOr<v1::Worker> RouterClient::Drain(uint64_t worker_id) {
  v1::DrainRequest request;
  request.set_worker_id(worker_id);
  return impl_->Call(&impl_->workers, &v1::Workers::Stub::Drain, request);
}

absl::Status RouterClient::Remove(uint64_t worker_id) {
  v1::RemoveRequest request;
  request.set_worker_id(worker_id);
  return impl_->Call(&impl_->workers, &v1::Workers::Stub::Remove, request).status();
}

absl::StatusOr<v1::OverlapScoresResponse> RouterClient::OverlapScores(
    const v1::RouteRequest& route) {
  v1::OverlapScoresRequest request;
  *request.mutable_request() = route;
  return impl_->Call(&impl_->router, &v1::Router::Stub::OverlapScores, request);
}

absl::StatusOr<v1::ExplainResponse> RouterClient::Explain(const std::string& request_id) {
  v1::ExplainRequest request;
  request.set_request_id(request_id);
  return impl_->Call(&impl_->router, &v1::Router::Stub::Explain, request);
}

absl::StatusOr<v1::FreeResponse> RouterClient::Free(const std::string& request_id) {
  v1::FreeRequest request;
  request.set_request_id(request_id);
  return impl_->Call(&impl_->router, &v1::Router::Stub::Free, request);
}

absl::StatusOr<v1::LoadsResponse> RouterClient::Loads() {
  return impl_->Call(&impl_->router, &v1::Router::Stub::Loads, v1::LoadsRequest());
}

}  // namespace kvrouter::ctl
