#include "adapters/grpc/route_text_reactor.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "adapters/grpc/answer_convert.h"
#include "adapters/grpc/request_convert.h"
#include "adapters/grpc/status_convert.h"
#include "base/ascii.h"
#include "base/status_macros.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

// Behind a body that is read in wide steps.
constexpr size_t kPaddingBytes = 64;
constexpr std::string_view kCompletions = "/v1/completions";
constexpr std::string_view kChat = "/v1/chat/completions";

absl::StatusOr<RouteTextRequest> FromProto(const v1::RouteTextRequest& message) {
  RouteTextRequest request{.headers = {}, .body = "", .request_id = message.request_id()};
  if (!message.path().empty()) request.path = message.path();
  if (request.path != kCompletions && request.path != kChat) {
    return InvalidMessage(fmt::format("path must be {} or {}, got \"{}\"", kCompletions, kChat,
                                      std::string_view(request.path).substr(0, 64)));
  }
  if (!message.request_id().empty()) KVR_RETURN_IF_ERROR(CheckRequestId(message.request_id()));
  for (const auto& [name, value] : message.headers()) {
    request.headers.emplace_back(AsciiLower(name), value);
  }
  request.body.reserve(message.body().size() + kPaddingBytes);
  request.body = message.body();
  request.book = !message.advise_only();
  request.routing_group = message.routing_group();
  return request;
}

}  // namespace

grpc::ServerUnaryReactor* RouteTextReactor::Start(const RouteTextFunction& route_text,
                                                  RoutingService* routing,
                                                  grpc::CallbackServerContext* context,
                                                  const v1::RouteTextRequest& request,
                                                  v1::RouteTextResponse* response) {
  if (route_text == nullptr) {
    return FinishNow(context,
                     MakeError(absl::StatusCode::kUnimplemented, ErrorReason::kInvalidRequest,
                               "text is not routed here: needs dispatch or route-text"));
  }
  absl::StatusOr<RouteTextRequest> input = FromProto(request);
  if (!input.ok()) {
    routing->CountRefusal(input.status());
    return FinishNow(context, input.status());
  }
  const std::shared_ptr<RouteTextReactor> call(new RouteTextReactor(routing, context, response));
  call->self_ = call;
  std::function<void()> call_off = route_text(
      *std::move(input),
      [call](absl::StatusOr<RouteTextAnswer> answer) { call->Answer(std::move(answer)); });
  bool cancelled = false;
  {
    MutexLock lock(call->mu_);
    cancelled = call->cancelled_;
    if (!call->finished_) call->call_off_ = call_off;
  }
  if (cancelled) call_off();
  return call.get();
}

bool RouteTextReactor::TakeFinish() {
  std::function<void()> released;  // after the lock
  MutexLock lock(mu_);
  released.swap(call_off_);
  return !std::exchange(finished_, true);
}

void RouteTextReactor::Answer(absl::StatusOr<RouteTextAnswer> answer) {
  if (!TakeFinish()) {  // cancelled while this was on its way
    if (answer.ok() && answer->decision.booked)
      routing_->FreeBooking(answer->request_id, answer->decision.booking);
    return;
  }
  if (!answer.ok()) return Finish(ToGrpcStatus(answer.status(), context_));
  if (answer->decision.booked) {
    request_id_ = answer->request_id;
    booking_ = answer->decision.booking;
  }
  ToProto(answer->request_id, answer->decision, response_->mutable_decision());
  response_->set_tokenized(answer->token_ids != nullptr);
  if (answer->token_ids != nullptr)
    response_->mutable_token_ids()->Add(answer->token_ids->begin(), answer->token_ids->end());
  Finish(grpc::Status::OK);
}

void RouteTextReactor::OnCancel() {
  std::function<void()> call_off;
  {
    MutexLock lock(mu_);
    cancelled_ = true;
    call_off = call_off_;
  }
  if (call_off) call_off();
  if (TakeFinish()) Finish(grpc::Status::CANCELLED);
}

// Cancelled here means that the caller did not get the answer.
void RouteTextReactor::OnDone() {
  if (booking_ != kNoBooking && context_->IsCancelled())
    routing_->FreeBooking(request_id_, booking_);
  const std::shared_ptr<RouteTextReactor> last = std::move(self_);
}

}  // namespace kvrouter
