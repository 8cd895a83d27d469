#include "client/router_client.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <optional>
#include <utility>

#include "client/daemon_call.h"
#include "kvrouter/v1/router.grpc.pb.h"
#include "kvrouter/v1/workers.grpc.pb.h"

namespace kvrouter::client {

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
    return ExplainFailure(host_port, status, context);
  }
};

namespace {

// Waits for the operations of one call, one at a time, each for `timeout` at most; then the call is
// cancelled and what is outstanding ends.
class CallQueue {
 public:
  CallQueue(grpc::ClientContext* context, std::chrono::milliseconds timeout)
      : context_(context), timeout_(timeout) {}
  ~CallQueue() { queue_.Shutdown(); }

  grpc::CompletionQueue* get() { return &queue_; }
  bool timed_out() const { return timed_out_; }

  // Whether the operation succeeded.
  bool Wait() {
    void* tag = nullptr;
    bool ok = false;
    const auto until = std::chrono::system_clock::now() + timeout_;
    if (queue_.AsyncNext(&tag, &ok, until) == grpc::CompletionQueue::TIMEOUT) {
      timed_out_ = true;
      context_->TryCancel();
      queue_.Next(&tag, &ok);
    }
    return ok;
  }

 private:
  grpc::ClientContext* const context_;
  const std::chrono::milliseconds timeout_;
  grpc::CompletionQueue queue_;
  bool timed_out_ = false;
};

}  // namespace

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

absl::StatusOr<v1::DumpCounts> RouterClient::Dump(
    const v1::DumpRequest& request,
    const std::function<absl::Status(const v1::DumpedEvent&)>& on_event) {
  grpc::ClientContext context;
  CallQueue queue(&context, impl_->timeout);
  v1::DumpResponse response;
  absl::Status stopped;
  int tag = 0;
  const auto reader = impl_->router.AsyncDump(&context, request, queue.get(), &tag);
  bool ok = queue.Wait();
  std::optional<v1::DumpCounts> counts;
  while (ok) {
    reader->Read(&response, &tag);
    ok = queue.Wait();
    if (!ok || !stopped.ok()) continue;  // what is still on its way after the cancellation
    for (const v1::DumpedEvent& event : response.events()) {
      stopped = on_event(event);
      if (!stopped.ok()) break;
    }
    if (!stopped.ok()) context.TryCancel();
    if (response.has_counts()) counts = response.counts();
  }
  grpc::Status status;
  reader->Finish(&status, &tag);
  queue.Wait();
  if (!stopped.ok()) return stopped;
  if (queue.timed_out()) {
    return absl::DeadlineExceededError(
        fmt::format("{}: nothing came for {} ms", impl_->host_port, impl_->timeout.count()));
  }
  if (!status.ok()) return ExplainFailure(impl_->host_port, status, context);
  if (!counts) return absl::DataLossError("the dump ended without its counts");
  return *counts;
}

}  // namespace kvrouter::client
