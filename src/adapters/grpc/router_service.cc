#include "adapters/grpc/router_service.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <string>
#include <utility>

#include "adapters/grpc/answer_convert.h"
#include "adapters/grpc/dump_stream.h"
#include "adapters/grpc/request_convert.h"
#include "adapters/grpc/route_stream.h"
#include "adapters/grpc/router_calls.h"
#include "adapters/grpc/status_convert.h"
#include "base/status_macros.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

// One Route call. Answered inside Start when the core decides at once, else later on the thread
// that resolves it.
//
// A booking that cannot be delivered is given back: a call found cancelled when its decision is
// there releases it, and a call cancelled while it waits leaves the queue. A reply that is lost
// after that keeps its booking; the caller's retry under the same id learns of it (ALREADY_EXISTS),
// or it expires.
class RouteCall final : public grpc::ServerUnaryReactor {
 public:
  RouteCall(RoutingService* routing, grpc::CallbackServerContext* context,
            v1::RouteResponse* response)
      : routing_(routing), context_(context), response_(response) {}

  void Start(const v1::RouteRequest& request) {
    absl::StatusOr<RouteInput> input = FromProto(request);
    if (!input.ok()) {
      routing_->CountRefusal(input.status());
      Finish(ToGrpcStatus(input.status(), context_));
    } else {
      routing_->Submit(
          std::move(input->request),
          [this](absl::StatusOr<RouteDecision> decision) { Resolve(std::move(decision)); },
          &request_id_);
      State deciding = State::kDeciding;
      if (state_.compare_exchange_strong(deciding, State::kWaiting) && context_->IsCancelled()) {
        routing_->Free(request_id_);
      }
    }
    Unref();
  }

  // Not acted on while deciding: Start looks again.
  void OnCancel() override {
    if (state_.load() == State::kWaiting) routing_->Free(request_id_);
  }
  void OnDone() override { Unref(); }

 private:
  enum class State : uint8_t { kDeciding, kWaiting, kAnswered };

  void Resolve(absl::StatusOr<RouteDecision> decision) {
    state_.store(State::kAnswered);
    if (!decision.ok()) {
      FinishWithError(decision.status());
    } else if (decision->booked && context_->IsCancelled()) {
      routing_->Free(request_id_);
      Finish(grpc::Status::CANCELLED);
    } else {
      ToProto(request_id_, *decision, response_);
      Finish(grpc::Status::OK);
    }
  }

  void FinishWithError(const absl::Status& status) {
    v1::RouteResponse original;
    bool has_original = false;
    if (ErrorReasonOf(status) == ErrorReason::kDuplicateRequest) {
      if (const auto decision = routing_->FindDecision(request_id_)) {
        ToProto(request_id_, *decision, &original);
        has_original = true;
      }
    }
    Finish(ToGrpcStatus(status, context_, has_original ? &original : nullptr));
  }

  // Start and gRPC each hold the call: after Finish, OnDone may run before Start has returned.
  void Unref() {
    if (holders_.fetch_sub(1) == 1) delete this;
  }

  RoutingService* const routing_;
  grpc::CallbackServerContext* const context_;
  v1::RouteResponse* const response_;
  std::string request_id_;  // set before Resolve runs and before kWaiting
  std::atomic<State> state_{State::kDeciding};
  std::atomic<int> holders_{2};
};

absl::Status ExplainPast(const RoutingService& routing, const std::string& request_id,
                         v1::ExplainResponse* response) {
  KVR_RETURN_IF_ERROR(CheckRequestId(request_id));
  const auto explanation = routing.Explain(request_id);
  if (!explanation) {
    return MakeError(absl::StatusCode::kNotFound, ErrorReason::kUnknownRequest,
                     fmt::format("no recent decision is kept under request_id \"{}\"",
                                 std::string_view(request_id).substr(0, 256)));
  }
  ToProto(request_id, explanation->decision, response->mutable_decision());
  response->set_age_seconds(std::chrono::duration<double>(explanation->age).count());
  response->set_live(explanation->live);
  return absl::OkStatus();
}

absl::Status ExplainNow(RoutingService* routing, const v1::RouteRequest& request,
                        v1::ExplainResponse* response) {
  absl::StatusOr<RouteInput> input = FromProto(request);
  if (!input.ok()) {
    routing->CountRefusal(input.status());
    return input.status();
  }
  input->request.book = false;
  std::string request_id;
  KVR_ASSIGN_OR_RETURN(const RouteDecision decision,
                       routing->Route(std::move(input->request), &request_id));
  ToProto(request_id, decision, response->mutable_decision());
  return absl::OkStatus();
}

absl::Status FindOverlapScores(const RoutingService& routing, const v1::RouteRequest& request,
                               v1::OverlapScoresResponse* response) {
  KVR_ASSIGN_OR_RETURN(const RouteInput input, FromProto(request));
  KVR_ASSIGN_OR_RETURN(const auto overlaps, routing.FindOverlap(input.request));
  for (const TargetOverlap& overlap : overlaps) ToProto(overlap, response->add_overlaps());
  return absl::OkStatus();
}

absl::Status FindPotentialLoads(const RoutingService& routing, const v1::RouteRequest& request,
                                v1::PotentialLoadsResponse* response) {
  KVR_ASSIGN_OR_RETURN(const RouteInput input, FromProto(request));
  KVR_ASSIGN_OR_RETURN(const auto loads, routing.PotentialLoads(input.request));
  for (const TargetPotentialLoad& load : loads) ToProto(load, response->add_targets());
  return absl::OkStatus();
}

}  // namespace

grpc::ServerUnaryReactor* RouterGrpcService::Route(grpc::CallbackServerContext* context,
                                                   const v1::RouteRequest* request,
                                                   v1::RouteResponse* response) {
  auto* call = new RouteCall(routing_, context, response);  // deletes itself
  call->Start(*request);
  return call;
}

grpc::ServerBidiReactor<v1::StreamRequest, v1::StreamResponse>* RouterGrpcService::RouteStream(
    grpc::CallbackServerContext* context) {
  return kvrouter::RouteStream::Start(routing_, context);
}

grpc::ServerUnaryReactor* RouterGrpcService::PrefillComplete(
    grpc::CallbackServerContext* context, const v1::PrefillCompleteRequest* request,
    v1::PrefillCompleteResponse* /*response*/) {
  return FinishNow(context, CallPrefillComplete(routing_, *request));
}

grpc::ServerUnaryReactor* RouterGrpcService::OutputBlock(grpc::CallbackServerContext* context,
                                                         const v1::OutputBlockRequest* request,
                                                         v1::OutputBlockResponse* /*response*/) {
  return FinishNow(context, CallOutputBlock(routing_, *request));
}

grpc::ServerUnaryReactor* RouterGrpcService::KeepAlive(grpc::CallbackServerContext* context,
                                                       const v1::KeepAliveRequest* request,
                                                       v1::KeepAliveResponse* /*response*/) {
  return FinishNow(context, CallKeepAlive(routing_, *request));
}

grpc::ServerUnaryReactor* RouterGrpcService::Free(grpc::CallbackServerContext* context,
                                                  const v1::FreeRequest* request,
                                                  v1::FreeResponse* response) {
  return FinishNow(context, CallFree(routing_, *request, response));
}

grpc::ServerUnaryReactor* RouterGrpcService::Explain(grpc::CallbackServerContext* context,
                                                     const v1::ExplainRequest* request,
                                                     v1::ExplainResponse* response) {
  switch (request->what_case()) {
    case v1::ExplainRequest::kRequestId:
      return FinishNow(context, ExplainPast(*routing_, request->request_id(), response));
    case v1::ExplainRequest::kRequest:
      return FinishNow(context, ExplainNow(routing_, request->request(), response));
    case v1::ExplainRequest::WHAT_NOT_SET:
      break;
  }
  return FinishNow(context,
                   MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest,
                             "nothing to explain: give request_id or request"));
}

grpc::ServerUnaryReactor* RouterGrpcService::OverlapScores(grpc::CallbackServerContext* context,
                                                           const v1::OverlapScoresRequest* request,
                                                           v1::OverlapScoresResponse* response) {
  return FinishNow(context, FindOverlapScores(*routing_, request->request(), response));
}

grpc::ServerUnaryReactor* RouterGrpcService::PotentialLoads(
    grpc::CallbackServerContext* context, const v1::PotentialLoadsRequest* request,
    v1::PotentialLoadsResponse* response) {
  return FinishNow(context, FindPotentialLoads(*routing_, request->request(), response));
}

grpc::ServerUnaryReactor* RouterGrpcService::Loads(grpc::CallbackServerContext* context,
                                                   const v1::LoadsRequest* request,
                                                   v1::LoadsResponse* response) {
  const auto wanted = [](const std::string& filter, const std::string& name) {
    return filter.empty() || filter == name;
  };
  for (const PartitionSnapshot& partition : router_->Snapshot()) {
    if (wanted(request->model_name(), partition.model_name) &&
        wanted(request->routing_group(), partition.routing_group)) {
      ToProto(partition, response->add_partitions());
    }
  }
  return FinishNow(context, absl::OkStatus());
}

grpc::ServerWriteReactor<v1::DumpResponse>* RouterGrpcService::Dump(
    grpc::CallbackServerContext* context, const v1::DumpRequest* request) {
  absl::StatusOr<std::unique_ptr<DumpCursor>> cursor = OpenDump(*request);
  routing_->CountRefusal(cursor.status());
  return new DumpStream(std::move(cursor), &dumps_, context);  // deletes itself
}

absl::StatusOr<std::unique_ptr<DumpCursor>> RouterGrpcService::OpenDump(
    const v1::DumpRequest& request) {
  if (!dumps_.Take()) {
    return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                     fmt::format("{} dumps are running, which is the limit", DumpSlots::kSlots));
  }
  absl::StatusOr<std::unique_ptr<DumpCursor>> cursor = router_->OpenDump(
      NameOrDefault(request.model_name()), NameOrDefault(request.routing_group()));
  if (!cursor.ok()) dumps_.GiveBack();
  return cursor;
}

}  // namespace kvrouter
