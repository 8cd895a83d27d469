#include "adapters/grpc/workers_service.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adapters/grpc/status_convert.h"
#include "adapters/grpc/worker_convert.h"
#include "adapters/grpc/workers_watch.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

grpc::ServerUnaryReactor* FinishWithWorker(grpc::CallbackServerContext* context,
                                           const absl::StatusOr<WorkerSpec>& stored,
                                           v1::Worker* response) {
  if (stored.ok()) ToProto(*stored, response);
  return FinishNow(context, stored.status());
}

}  // namespace

grpc::ServerUnaryReactor* WorkersGrpcService::Register(grpc::CallbackServerContext* context,
                                                       const v1::RegisterRequest* request,
                                                       v1::Worker* response) {
  absl::StatusOr<WorkerSpec> spec =
      request->has_worker() ? FromProto(request->worker())
                            : MakeError(absl::StatusCode::kInvalidArgument,
                                        ErrorReason::kInvalidRequest, "worker is not set");
  if (spec.ok()) {
    spec = workers_->Register(*std::move(spec));
  } else {
    workers_->CountRefusal(spec.status());
  }
  return FinishWithWorker(context, spec, response);
}

grpc::ServerUnaryReactor* WorkersGrpcService::Update(grpc::CallbackServerContext* context,
                                                     const v1::UpdateRequest* request,
                                                     v1::Worker* response) {
  const absl::StatusOr<WorkerPatch> patch = FromProto(*request);
  if (!patch.ok()) {
    workers_->CountRefusal(patch.status());
    return FinishNow(context, patch.status());
  }
  return FinishWithWorker(context, workers_->Update(WorkerId{request->worker_id()}, *patch),
                          response);
}

grpc::ServerUnaryReactor* WorkersGrpcService::Drain(grpc::CallbackServerContext* context,
                                                    const v1::DrainRequest* request,
                                                    v1::Worker* response) {
  return FinishWithWorker(context, workers_->Drain(WorkerId{request->worker_id()}), response);
}

grpc::ServerUnaryReactor* WorkersGrpcService::Remove(grpc::CallbackServerContext* context,
                                                     const v1::RemoveRequest* request,
                                                     v1::RemoveResponse* /*response*/) {
  return FinishNow(context, workers_->Remove(WorkerId{request->worker_id()}));
}

grpc::ServerUnaryReactor* WorkersGrpcService::List(grpc::CallbackServerContext* context,
                                                   const v1::ListRequest* request,
                                                   v1::ListResponse* response) {
  const auto wanted = [](const std::string& filter, const std::string& name) {
    return filter.empty() || filter == name;
  };
  const std::vector<FeedReport> reports =
      feeds_ != nullptr ? feeds_->Reports() : std::vector<FeedReport>();
  const std::vector<PartitionSnapshot> partitions = router_->Snapshot();
  for (const WorkerSpec& spec : workers_->List()) {
    if (!wanted(request->model_name(), spec.model_name) ||
        !wanted(request->routing_group(), spec.routing_group)) {
      continue;
    }
    v1::Worker* worker = response->add_workers();
    ToProto(spec, worker);
    FeedsToProto(spec, reports, partitions, worker);
    if (signs_ == nullptr) continue;
    for (const std::string_view sign : NamesOf(signs_->Of(spec)))
      worker->add_signs(sign.data(), sign.size());
  }
  return FinishNow(context, absl::OkStatus());
}

grpc::ServerWriteReactor<v1::WatchResponse>* WorkersGrpcService::Watch(
    grpc::CallbackServerContext* context, const v1::WatchRequest* request) {
  return new WorkersWatch(workers_, context, &stopping_, *request);  // deletes itself
}

}  // namespace kvrouter
