#include "adapters/grpc/router_service.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "adapters/grpc/answer_convert.h"
#include "adapters/grpc/dump_stream.h"
#include "adapters/grpc/request_convert.h"
#include "adapters/grpc/route_stream.h"
#include "adapters/grpc/route_text_reactor.h"
#include "adapters/grpc/router_calls.h"
#include "adapters/grpc/status_convert.h"
#include "base/status_macros.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

// What a Route call needs until it is answered.
//
// A booking that cannot be delivered is given back: a call found cancelled when its decision is
// there releases it; a call cancelled while it waits leaves the queue, and if its answer was on its
// way, the booking goes back. The reply of a call that did not wait and is lost on its way keeps
// its booking; the caller's retry under the same id learns of it (ALREADY_EXISTS), or it expires.
struct RouteCall {
  RoutingService* routing = nullptr;
  grpc::CallbackServerContext* context = nullptr;
  v1::RouteResponse* response = nullptr;
  std::string request_id = {};  // set once the request was submitted

  grpc::Status Resolve(const RoutingService::Answer& answer) const {
    if (!answer.ok()) return Refuse(answer.status());
    if (answer->booked && context->IsCancelled()) {
      routing->FreeBooking(request_id, answer->booking);
      return grpc::Status::CANCELLED;
    }
    ToProto(request_id, *answer, response);
    return grpc::Status::OK;
  }

  grpc::Status Refuse(const absl::Status& status) const {
    v1::RouteResponse original;
    bool has_original = false;
    if (ErrorReasonOf(status) == ErrorReason::kDuplicateRequest) {
      if (const auto decision = routing->FindDecision(request_id)) {
        ToProto(request_id, *decision, &original);
        has_original = true;
      }
    }
    return ToGrpcStatus(status, context, has_original ? &original : nullptr);
  }
};

// A Route call that waits: answered on the thread that resolves it, perhaps before Submit has
// returned. Only such calls pay for a reactor: gRPC ends calls on its default one without a detour
// over another thread.
class WaitingRoute final : public grpc::ServerUnaryReactor {
 public:
  WaitingRoute(RouteCall call, TicketId ticket) : call_(std::move(call)), ticket_(ticket) {}

  // From the door, when Submit has returned: from here on a cancellation is acted on.
  void Submitted() {
    State deciding = State::kDeciding;
    if (state_.compare_exchange_strong(deciding, State::kWaiting) && call_.context->IsCancelled()) {
      call_.routing->Abandon(call_.request_id, ticket_);
    }
    Unref();
  }
  void Resolve(const RoutingService::Answer& answer) {
    state_.store(State::kAnswered);
    if (answer.ok()) booking_ = answer->booking;
    Finish(call_.Resolve(answer));
  }

  // Not acted on while deciding: Submitted looks again.
  void OnCancel() override {
    if (state_.load() == State::kWaiting) call_.routing->Abandon(call_.request_id, ticket_);
  }
  // Cancelled here means that the caller did not get the answer. If the booking went back before,
  // this is nothing.
  void OnDone() override {
    if (booking_ != kNoBooking && call_.context->IsCancelled()) {
      call_.routing->FreeBooking(call_.request_id, booking_);
    }
    Unref();
  }

 private:
  enum class State : uint8_t { kDeciding, kWaiting, kAnswered };

  // The door and gRPC each hold the call: after Finish, OnDone may run before the door is through.
  void Unref() {
    if (holders_.fetch_sub(1) == 1) delete this;
  }

  const RouteCall call_;
  const TicketId ticket_;
  BookingId booking_ = kNoBooking;  // written before Finish, read in OnDone
  std::atomic<State> state_{State::kDeciding};
  std::atomic<int> holders_{2};
};

// Of the call, on the clock of the service. A call without one ends with its caller.
std::optional<MonotonicTime> DeadlineOf(const grpc::CallbackServerContext& context,
                                        MonotonicTime now) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return std::nullopt;
  const auto left = deadline - std::chrono::system_clock::now();
  constexpr std::chrono::hours kFarAway(24 * 365);
  if (left > kFarAway) return std::nullopt;
  return now + std::chrono::duration_cast<std::chrono::nanoseconds>(left);
}

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
  absl::StatusOr<RouteInput> input = FromProto(*request);
  if (!input.ok()) {
    routing_->CountRefusal(input.status());
    return FinishNow(context, input.status());
  }
  RouteCall call{.routing = routing_, .context = context, .response = response};
  WaitingRoute* waiting = nullptr;  // deletes itself
  input->request.deadline = DeadlineOf(*context, routing_->Now());
  const auto wait = [&call, &waiting](TicketId ticket) -> RoutingService::Completion {
    waiting = new WaitingRoute(call, ticket);
    return [waiting](const RoutingService::Answer& answer) { waiting->Resolve(answer); };
  };
  const std::optional<RoutingService::Answer> answer =
      routing_->Submit(std::move(input->request), wait, &call.request_id);
  if (!answer) {
    waiting->Submitted();
    return waiting;
  }
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(call.Resolve(*answer));
  return reactor;
}

grpc::ServerUnaryReactor* RouterGrpcService::RouteText(grpc::CallbackServerContext* context,
                                                       const v1::RouteTextRequest* request,
                                                       v1::RouteTextResponse* response) {
  return RouteTextReactor::Start(route_text_, routing_, context, *request, response);
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

grpc::ServerUnaryReactor* RouterGrpcService::ReportLeg(grpc::CallbackServerContext* context,
                                                       const v1::ReportLegRequest* request,
                                                       v1::ReportLegResponse* /*response*/) {
  return FinishNow(context, CallReportLeg(routing_, *request));
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
      ToProto(partition, routing_->Now(), response->add_partitions());
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
