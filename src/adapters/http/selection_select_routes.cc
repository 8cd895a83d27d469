#include <utility>
#include <variant>
#include <vector>

#include "adapters/http/selection_answers.h"
#include "adapters/http/selection_api.h"
#include "adapters/http/selection_bodies.h"
#include "adapters/http/selection_explanation.h"
#include "adapters/http/selection_headers.h"
#include "base/status_macros.h"
#include "kvrouter/block_hash.h"

namespace kvrouter {
namespace {

// The prompt as hashes: what outlives the request and what the answer shows.
struct PromptHashes {
  std::vector<LocalBlockHash> local;
  std::vector<SequenceHash> sequence;
};

PromptHashes HashesOf(const RouteRequest& request, const RouteDecision& decision) {
  PromptHashes hashes;
  if (const auto* given = std::get_if<HashPrompt>(&request.prompt)) {
    hashes.local.assign(given->local_hashes.begin(), given->local_hashes.end());
    hashes.sequence.assign(given->sequence_hashes.begin(), given->sequence_hashes.end());
    return hashes;
  }
  const auto& [tokens, multimodal] = std::get<TokenPrompt>(request.prompt);
  AppendLocalBlockHashes(
      tokens,
      {.block_size_tokens = decision.block_size_tokens,
       .block_seed = BlockSeed({.lora_name = request.lora_name, .cache_salt = request.cache_salt}),
       .is_eagle = decision.is_eagle,
       .image_token_id = decision.image_token_id,
       .multimodal = multimodal},
      &hashes.local);
  AppendSequenceHashes(hashes.local, &hashes.sequence);
  return hashes;
}

}  // namespace

SelectionApi::Answer SelectionApi::Select(const HttpRequest& request) {
  KVR_RETURN_IF_ERROR(Counted(parts_.routing, CheckJsonContent(request)));
  KVR_ASSIGN_OR_RETURN(const SelectionHeaders headers,
                       Counted(parts_.routing, ReadSelectionHeaders(request)));
  KVR_ASSIGN_OR_RETURN(const SelectionBody body,
                       Counted(parts_.routing, ReadSelectionBody(request.body, BodyKind::kSelect)));
  KVR_ASSIGN_OR_RETURN(RouteRequest route, Counted(parts_.routing, ToRouteRequest(body)));
  route.book = false;
  KVR_ASSIGN_OR_RETURN(const RouteDecision decision, parts_.routing->Route(route));
  if (!body.selection_id.empty()) {
    PromptHashes hashes = HashesOf(route, decision);
    parts_.cache->Put({.selection_id = body.selection_id,
                       .model_name = body.model_name,
                       .routing_group = body.routing_group,
                       .target = decision.target,
                       .block_hashes = std::move(hashes.local),
                       .sequence_hashes = std::move(hashes.sequence),
                       .isl_tokens = decision.isl_tokens,
                       .effective_prefill_tokens = EffectivePrefillTokens(decision),
                       .overrides = body.overrides,
                       .expected_output_tokens = body.expected_output_tokens},
                      parts_.clock->Now());
  }
  std::string answer = SelectionJson(body.selection_id, route, decision, std::nullopt);
  if (headers.explain) answer = WithExplanation(std::move(answer), body.selection_id, decision);
  return JsonAnswer(200, std::move(answer));
}

SelectionApi::Answer SelectionApi::SelectAndReserve(const HttpRequest& request) {
  KVR_RETURN_IF_ERROR(Counted(parts_.routing, CheckJsonContent(request)));
  KVR_ASSIGN_OR_RETURN(const SelectionHeaders headers,
                       Counted(parts_.routing, ReadSelectionHeaders(request)));
  KVR_ASSIGN_OR_RETURN(const SelectionBody body,
                       Counted(parts_.routing, ReadSelectionBody(request.body, BodyKind::kSelect)));
  KVR_ASSIGN_OR_RETURN(const RouteRequest route, Counted(parts_.routing, ToRouteRequest(body)));
  std::string selection_id;
  KVR_ASSIGN_OR_RETURN(const RouteDecision decision, parts_.routing->Route(route, &selection_id));
  const PromptHashes hashes = HashesOf(route, decision);
  const BookedPrompt booked{.sequence_hashes = hashes.sequence,
                            .track_prefill_tokens = body.overrides.track_prefill_tokens.value_or(
                                parts_.router->Config()->scheduler.track_prefill_tokens)};
  std::string answer = SelectionJson(selection_id, route, decision, booked);
  if (headers.explain) answer = WithExplanation(std::move(answer), selection_id, decision);
  return JsonAnswer(200, std::move(answer));
}

}  // namespace kvrouter
