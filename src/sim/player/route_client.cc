#include "sim/player/route_client.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <boost/asio/post.hpp>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/mutex.h"
#include "client/daemon_call.h"
#include "kvrouter/v1/router.grpc.pb.h"

namespace kvrouter::sim {
namespace {

template <typename Request, typename Response>
struct Call {
  grpc::ClientContext context;
  Request request;
  Response response;
};

}  // namespace

struct RouteClient::Impl {
  boost::asio::io_context* io;
  std::string host_port;
  std::chrono::milliseconds timeout;
  std::unique_ptr<v1::Router::Stub> stub;

  Mutex mu;
  CondVar none_open;
  std::unordered_set<grpc::ClientContext*> open_calls ABSL_GUARDED_BY(mu);

  template <typename Request, typename Response>
  std::shared_ptr<Call<Request, Response>> Begin(Request request) {
    auto call = std::make_shared<Call<Request, Response>>();
    call->request = std::move(request);
    call->context.set_deadline(std::chrono::system_clock::now() + timeout);
    MutexLock lock(mu);
    open_calls.insert(&call->context);
    return call;
  }

  absl::Status Outcome(std::string_view call, const grpc::Status& status,
                       const grpc::ClientContext& context) const {
    if (status.ok()) return absl::OkStatus();
    const absl::Status why = client::ExplainFailure(host_port, status, context);
    return absl::Status(
        why.code(),
        fmt::format("{}: {}", call, std::string_view(why.message().data(), why.message().size())));
  }

  void End(grpc::ClientContext* context) {
    MutexLock lock(mu);
    open_calls.erase(context);
    if (open_calls.empty()) none_open.NotifyAll();
  }
};

RouteClient::RouteClient(boost::asio::io_context* io, const std::string& host_port,
                         std::chrono::milliseconds timeout)
    : impl_(std::make_unique<Impl>()) {
  impl_->io = io;
  impl_->timeout = timeout;
  impl_->host_port = host_port;
  impl_->stub = v1::Router::NewStub(client::Connect(host_port));
}

RouteClient::~RouteClient() {
  MutexLock lock(impl_->mu);
  // Cancelled calls end on gRPC's threads, soon.
  for (grpc::ClientContext* context : impl_->open_calls) context->TryCancel();
  while (!impl_->open_calls.empty()) impl_->none_open.Wait(impl_->mu);
}

void RouteClient::Route(v1::RouteRequest request, RouteDone done) {
  auto call = impl_->Begin<v1::RouteRequest, v1::RouteResponse>(std::move(request));
  impl_->stub->async()->Route(
      &call->context, &call->request, &call->response,
      [impl = impl_.get(), call, done = std::move(done)](const grpc::Status& status) mutable {
        boost::asio::post(*impl->io, [call, done = std::move(done),
                                      outcome = impl->Outcome("Route", status, call->context)] {
          if (!outcome.ok()) return done(outcome);
          done(std::move(call->response));
        });
        impl->End(&call->context);
      });
}

void RouteClient::PrefillComplete(const std::string& request_id, Done done) {
  v1::PrefillCompleteRequest request;
  request.set_request_id(request_id);
  auto call =
      impl_->Begin<v1::PrefillCompleteRequest, v1::PrefillCompleteResponse>(std::move(request));
  impl_->stub->async()->PrefillComplete(
      &call->context, &call->request, &call->response,
      [impl = impl_.get(), call, done = std::move(done)](const grpc::Status& status) mutable {
        boost::asio::post(*impl->io, [done = std::move(done),
                                      outcome = impl->Outcome("PrefillComplete", status,
                                                              call->context)] { done(outcome); });
        impl->End(&call->context);
      });
}

void RouteClient::Free(const std::string& request_id, Done done) {
  v1::FreeRequest request;
  request.set_request_id(request_id);
  auto call = impl_->Begin<v1::FreeRequest, v1::FreeResponse>(std::move(request));
  impl_->stub->async()->Free(
      &call->context, &call->request, &call->response,
      [impl = impl_.get(), call, done = std::move(done)](const grpc::Status& status) mutable {
        boost::asio::post(
            *impl->io, [done = std::move(done),
                        outcome = impl->Outcome("Free", status, call->context)] { done(outcome); });
        impl->End(&call->context);
      });
}

}  // namespace kvrouter::sim
