#include "adapters/grpc/router_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include "adapters/grpc/request_convert.h"
#include "base/status_macros.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

absl::Status FoundOrError(LifecycleResult result, const std::string& request_id) {
  if (result == LifecycleResult::kDone) return absl::OkStatus();
  return MakeError(absl::StatusCode::kNotFound, ErrorReason::kUnknownRequest,
                   fmt::format("no live booking under request_id \"{}\"",
                               std::string_view(request_id).substr(0, 256)));
}

absl::StatusOr<LegOutcome> OutcomeFromProto(int outcome) {
  switch (outcome) {
    case v1::LEG_OUTCOME_UNSPECIFIED:
      return LegOutcome::kUnknown;
    case v1::LEG_OUTCOME_SUCCEEDED:
      return LegOutcome::kSucceeded;
    case v1::LEG_OUTCOME_FAILED:
      return LegOutcome::kFailed;
    default:
      return InvalidMessage(fmt::format(
          "outcome must be 0 (unspecified), 1 (succeeded) or 2 (failed), got {}", outcome));
  }
}

absl::StatusOr<std::optional<LegKind>> LegFromProto(int kind) {
  switch (kind) {
    case v1::LEG_KIND_UNSPECIFIED:
      return std::nullopt;
    case v1::LEG_KIND_SERVE:
      return LegKind::kServe;
    case v1::LEG_KIND_PREFILL:
      return LegKind::kPrefill;
    case v1::LEG_KIND_KV_SOURCE:
      return LegKind::kKvSource;
    case v1::LEG_KIND_DECODE:
      return LegKind::kDecode;
    default:
      return InvalidMessage(fmt::format("leg must be in 0..4, got {}", kind));
  }
}

// Longer than any request lasts.
constexpr uint64_t kMaxAfterMs = 86'400'000;

template <typename Message>
std::optional<std::chrono::nanoseconds> AfterOf(const Message& message) {
  if (!message.has_after_ms()) return std::nullopt;
  return std::chrono::milliseconds(std::min(message.after_ms(), kMaxAfterMs));
}

}  // namespace

absl::Status CallPrefillComplete(RoutingService* routing,
                                 const v1::PrefillCompleteRequest& request) {
  KVR_RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  return FoundOrError(routing->PrefillComplete(request.request_id()), request.request_id());
}

absl::Status CallOutputBlock(RoutingService* routing, const v1::OutputBlockRequest& request) {
  KVR_RETURN_IF_ERROR(CheckOutputBlock(request));
  std::optional<double> decay_fraction;
  if (request.has_decay_fraction()) decay_fraction = request.decay_fraction();
  const std::string& id = request.request_id();
  return FoundOrError(request.has_output_tokens()
                          ? routing->OutputTokens(id, request.output_tokens(), decay_fraction)
                          : routing->OutputBlock(id, decay_fraction),
                      id);
}

absl::Status CallKeepAlive(RoutingService* routing, const v1::KeepAliveRequest& request) {
  KVR_RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  return FoundOrError(routing->KeepAlive(request.request_id()), request.request_id());
}

absl::Status CallFree(RoutingService* routing, const v1::FreeRequest& request,
                      v1::FreeResponse* response) {
  KVR_RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  KVR_ASSIGN_OR_RETURN(const LegOutcome outcome, OutcomeFromProto(request.outcome()));
  response->set_released(routing->Free(request.request_id(), outcome, AfterOf(request)) ==
                         LifecycleResult::kDone);
  return absl::OkStatus();
}

absl::Status CallReportLeg(RoutingService* routing, const v1::ReportLegRequest& request) {
  KVR_RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  LegNews news{.after = AfterOf(request)};
  KVR_ASSIGN_OR_RETURN(news.outcome, OutcomeFromProto(request.outcome()));
  if (news.outcome == LegOutcome::kUnknown)
    return InvalidMessage("outcome must be 1 (succeeded) or 2 (failed), got 0 (unspecified)");
  KVR_ASSIGN_OR_RETURN(news.kind, LegFromProto(request.leg()));
  if (request.has_target()) {
    news.target = Target{.worker = WorkerId{request.target().worker_id()},
                         .dp_rank = request.target().dp_rank()};
  }
  const LifecycleResult result = routing->ReportLeg(request.request_id(), news);
  if (result == LifecycleResult::kUnknownLeg)
    return InvalidMessage("the request's plan has no such leg, or it has no target yet");
  return FoundOrError(result, request.request_id());
}

}  // namespace kvrouter
