#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "adapters/http/dump_json.h"
#include "adapters/http/http_format.h"
#include "adapters/http/selection_answers.h"
#include "adapters/http/selection_api.h"
#include "adapters/http/selection_bodies.h"
#include "adapters/http/selection_explanation.h"
#include "adapters/http/selection_headers.h"
#include "base/status_macros.h"
#include "kvrouter/block_hash.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

uint64_t PromptTokens(const RouteRequest& request) {
  if (const auto* hashes = std::get_if<HashPrompt>(&request.prompt)) return hashes->isl_tokens;
  return std::get<TokenPrompt>(request.prompt).token_ids.size();
}

}  // namespace

SelectionApi::Answer SelectionApi::GetLoads(const HttpRequest&) {
  return JsonAnswer(200, LoadsJson(parts_.router->Snapshot()));
}

SelectionApi::Answer SelectionApi::PotentialLoads(const HttpRequest& request) {
  KVR_RETURN_IF_ERROR(CheckJsonContent(request));
  KVR_ASSIGN_OR_RETURN(const SelectionBody body,
                       ReadSelectionBody(request.body, BodyKind::kPrompt));
  KVR_ASSIGN_OR_RETURN(const RouteRequest route, ToRouteRequest(body));
  KVR_ASSIGN_OR_RETURN(const auto loads, parts_.routing->PotentialLoads(route));
  Pending pending;
  for (const PartitionSnapshot& partition : parts_.router->Snapshot()) {
    if (partition.model_name == route.model_name && partition.routing_group == route.routing_group)
      pending = PendingOf(partition);
  }
  return JsonAnswer(200, PotentialLoadsJson(route, loads, pending));
}

SelectionApi::Answer SelectionApi::OverlapScores(const HttpRequest& request) {
  KVR_RETURN_IF_ERROR(CheckJsonContent(request));
  KVR_ASSIGN_OR_RETURN(const SelectionBody body,
                       ReadSelectionBody(request.body, BodyKind::kPrompt));
  KVR_ASSIGN_OR_RETURN(const RouteRequest route, ToRouteRequest(body));
  KVR_ASSIGN_OR_RETURN(const auto overlaps, parts_.routing->FindOverlap(route));
  for (const PartitionSnapshot& partition : parts_.router->Snapshot()) {
    if (partition.model_name != route.model_name || partition.routing_group != route.routing_group)
      continue;
    const BlockNaming naming{.block_size_tokens = partition.block_size_tokens,
                             .is_eagle = partition.is_eagle};
    CostWeights weights = parts_.router->Config()->scheduler.weights;
    if (route.overrides.overlap_score_credit)
      weights.overlap_score_credit = *route.overrides.overlap_score_credit;
    return JsonAnswer(
        200, OverlapScoresJson(partition.block_size_tokens, FullBlocks(PromptTokens(route), naming),
                               weights, overlaps, partition.loads));
  }
  return MakeError(absl::StatusCode::kNotFound, ErrorReason::kUnknownPartition,
                   fmt::format("no worker is registered for model {} in routing group {}",
                               route.model_name, route.routing_group));
}

SelectionApi::Answer SelectionApi::Dump(const HttpRequest&) {
  KVR_ASSIGN_OR_RETURN(std::string text, Counted(parts_.routing, DumpJson(*parts_.router)));
  return JsonAnswer(200, std::move(text));
}

SelectionApi::Answer SelectionApi::Explain(const HttpRequest& request) {
  const std::string& id = request.path_parameters.front();
  const std::optional<Explanation> explanation = parts_.routing->Explain(id);
  if (explanation) return JsonAnswer(200, ExplanationJson(id, *explanation));
  return MakeError(absl::StatusCode::kNotFound, ErrorReason::kUnknownRequest,
                   fmt::format("no recent decision was booked under \"{}\"", id));
}

SelectionApi::Answer SelectionApi::Health(const HttpRequest&) { return OkAnswer(); }

SelectionApi::Answer SelectionApi::Ready(const HttpRequest&) {
  const Readiness readiness = parts_.readiness();
  return JsonAnswer(readiness.ready ? 200 : 503, ReadyJson(readiness, parts_.workers->List()));
}

}  // namespace kvrouter
