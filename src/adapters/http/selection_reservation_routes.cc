#include <fmt/format.h>

#include <utility>

#include "adapters/http/http_format.h"
#include "adapters/http/selection_answers.h"
#include "adapters/http/selection_api.h"
#include "adapters/http/selection_bodies.h"
#include "adapters/http/selection_explanation.h"
#include "adapters/http/selection_headers.h"
#include "adapters/http/selection_leg_report.h"
#include "base/status_macros.h"
#include "kvrouter/error.h"
#include "service/steering_headers.h"

namespace kvrouter {
namespace {

absl::Status Invalid(std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest, message);
}

absl::Status FoundOrError(LifecycleResult result, std::string_view selection_id) {
  if (result == LifecycleResult::kDone) return absl::OkStatus();
  return MakeError(absl::StatusCode::kNotFound, ErrorReason::kUnknownRequest,
                   fmt::format("no live reservation \"{}\"", selection_id));
}

// A target that cannot take the booking is a conflict here, not a lack of workers: the caller chose
// it.
absl::Status BookingError(absl::Status error) {
  switch (ErrorReasonOf(error)) {
    case ErrorReason::kPinnedUnavailable:
    case ErrorReason::kNoWorkers:
      return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReasonOf(error),
                       std::string_view(error.message().data(), error.message().size()));
    default:
      return error;
  }
}

}  // namespace

SelectionApi::Answer SelectionApi::PostReservation(const HttpRequest& request) {
  return Counted(parts_.routing, ReserveAs(request));
}

SelectionApi::Answer SelectionApi::ReserveAs(const HttpRequest& request) {
  KVR_RETURN_IF_ERROR(CheckJsonContent(request));
  KVR_ASSIGN_OR_RETURN(const SteeringHeaders headers, ReadSteeringHeaders(request.headers));
  KVR_ASSIGN_OR_RETURN(const SelectionBody body,
                       ReadSelectionBody(request.body, BodyKind::kReserve));
  if (body.selection_id.empty()) {
    return absl::OutOfRangeError("selection_id: missing field");
  }
  const bool replay = !body.worker_id && !body.HasPrompt();
  KVR_ASSIGN_OR_RETURN(const RouteDecision decision,
                       replay ? Replay(body) : ReserveExplicitly(body, request));
  std::string answer =
      ReservationJson(body.selection_id, body.model_name, body.routing_group, decision);
  if (headers.explain) answer = WithExplanation(std::move(answer), body.selection_id, decision);
  return JsonAnswer(201, std::move(answer));
}

absl::StatusOr<RouteDecision> SelectionApi::ReserveExplicitly(const SelectionBody& body,
                                                              const HttpRequest& request) {
  if (!body.worker_id) return Invalid("worker_id is missing beside the prompt");
  KVR_ASSIGN_OR_RETURN(RouteRequest route, ToRouteRequest(body));
  KVR_ASSIGN_OR_RETURN(route.session_id, ReadSessionId(request, body));
  const Target target{WorkerId{*body.worker_id}, body.dp_rank.value_or(0)};
  absl::StatusOr<RouteDecision> decision =
      parts_.routing->Reserve({.route = std::move(route),
                               .target = target,
                               .effective_prefill_tokens = body.effective_prefill_tokens,
                               .track_prefill_tokens = body.track_prefill_tokens});
  if (decision.ok()) return decision;
  if (ErrorReasonOf(decision.status()) == ErrorReason::kPinnedUnavailable &&
      !parts_.workers->Knows(target.worker)) {
    return MakeError(absl::StatusCode::kNotFound, ErrorReason::kUnknownWorker,
                     fmt::format("no worker with worker_id {}", *body.worker_id));
  }
  return BookingError(decision.status());
}

absl::StatusOr<RouteDecision> SelectionApi::Replay(const SelectionBody& body) {
  std::optional<CachedSelection> cached = parts_.cache->Take(
      body.selection_id, body.model_name, body.routing_group, parts_.clock->Now());
  if (!cached) {
    // A second reservation of what is booked is a duplicate, not a miss.
    if (parts_.routing->FindDecision(body.selection_id)) {
      return MakeError(absl::StatusCode::kAlreadyExists, ErrorReason::kDuplicateRequest,
                       fmt::format("selection_id \"{}\" has a live booking", body.selection_id));
    }
    return MakeError(absl::StatusCode::kNotFound, ErrorReason::kUnknownRequest,
                     fmt::format("no selection \"{}\" of model {} in routing group {} is kept",
                                 body.selection_id, body.model_name, body.routing_group));
  }
  RouteRequest route;
  route.request_id = body.selection_id;
  route.model_name = body.model_name;
  route.routing_group = body.routing_group;
  route.prompt = HashPrompt{.local_hashes = cached->block_hashes,
                            .sequence_hashes = cached->sequence_hashes,
                            .isl_tokens = cached->isl_tokens};
  route.overrides = cached->overrides;
  route.expected_output_tokens = cached->expected_output_tokens;
  route.session_id = cached->session_id;
  absl::StatusOr<RouteDecision> decision = parts_.routing->Reserve(
      {.route = std::move(route),
       .target = cached->target,
       .effective_prefill_tokens = cached->effective_prefill_tokens,
       .track_prefill_tokens = cached->overrides.track_prefill_tokens.value_or(
           parts_.router->Config()->scheduler.track_prefill_tokens)});
  if (decision.ok()) return decision;
  parts_.cache->Restore(*std::move(cached));
  return BookingError(decision.status());
}

SelectionApi::Answer SelectionApi::PrefillComplete(const HttpRequest& request) {
  const std::string& id = request.path_parameters.front();
  KVR_RETURN_IF_ERROR(FoundOrError(parts_.routing->PrefillComplete(id), id));
  return OkAnswer();
}

SelectionApi::Answer SelectionApi::OutputBlock(const HttpRequest& request) {
  const std::string& id = request.path_parameters.front();
  if (!request.body.empty()) KVR_RETURN_IF_ERROR(CheckJsonContent(request));
  KVR_ASSIGN_OR_RETURN(const std::optional<double> decay_fraction,
                       ReadOutputBlockBody(request.body));
  KVR_RETURN_IF_ERROR(FoundOrError(parts_.routing->OutputBlock(id, decay_fraction), id));
  return OkAnswer();
}

// Ours.
SelectionApi::Answer SelectionApi::ReportLeg(const HttpRequest& request) {
  const std::string& id = request.path_parameters.front();
  KVR_RETURN_IF_ERROR(CheckJsonContent(request));
  KVR_ASSIGN_OR_RETURN(const LegNews news, ReadLegReportBody(request.body));
  const LifecycleResult result = parts_.routing->ReportLeg(id, news);
  if (result == LifecycleResult::kUnknownLeg)
    return Invalid("the reservation's plan has no such leg, or it has no target yet");
  KVR_RETURN_IF_ERROR(FoundOrError(result, id));
  return OkAnswer();
}

// Unknown ids are no error: whoever frees twice has what it wants.
// `outcome` and `after_ms` are ours: how the leg that ran ended, and how long after its dispatch.
SelectionApi::Answer SelectionApi::DeleteReservation(const HttpRequest& request) {
  LegOutcome outcome = LegOutcome::kUnknown;
  if (const auto text = QueryParameter(request.query, "outcome")) {
    KVR_ASSIGN_OR_RETURN(outcome, ParseLegOutcome(*text));
  }
  std::optional<std::chrono::nanoseconds> after;
  if (const auto text = QueryParameter(request.query, "after_ms")) {
    KVR_ASSIGN_OR_RETURN(after, ParseAfterMs(*text));
  }
  parts_.routing->Free(request.path_parameters.front(), outcome, after);
  return OkAnswer();
}

}  // namespace kvrouter
