#include "adapters/grpc/router_calls.h"

#include <fmt/format.h>

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
  response->set_released(routing->Free(request.request_id(), outcome) == LifecycleResult::kDone);
  return absl::OkStatus();
}

}  // namespace kvrouter
