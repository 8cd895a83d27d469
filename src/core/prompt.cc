#include "core/prompt.h"

#include <fmt/format.h>

#include <variant>

#include "base/status_macros.h"
#include "core/schedule/effective_weights.h"
#include "core/schedule/taints.h"
#include "kvrouter/block_hash.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

absl::Status Invalid(std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest, message);
}

IdentifiedPrompt Unidentified(uint64_t isl_tokens, const BlockNaming& naming) {
  return {.local_hashes = {},
          .sequence_hashes = {},
          .isl_tokens = isl_tokens,
          .block_size_tokens = naming.block_size_tokens,
          .is_eagle = naming.is_eagle,
          .image_token_id = naming.image_token_id};
}

absl::StatusOr<IdentifiedPrompt> IdentifyHashes(const HashPrompt& prompt, const BlockNaming& naming,
                                                PromptBuffers* buffers, PhaseTimer* timer) {
  const uint64_t hashes = prompt.local_hashes.size();
  const uint64_t full_blocks = FullBlocks(prompt.isl_tokens, naming);
  if (full_blocks != hashes) {
    return Invalid(fmt::format(
        "isl_tokens {} has {} full blocks of {} tokens{}, got {} block hashes", prompt.isl_tokens,
        full_blocks, naming.block_size_tokens, naming.is_eagle ? " and one ahead" : "", hashes));
  }
  IdentifiedPrompt identified = Unidentified(prompt.isl_tokens, naming);
  identified.local_hashes = prompt.local_hashes;
  identified.sequence_hashes = prompt.sequence_hashes;
  if (prompt.sequence_hashes.empty()) {
    AppendSequenceHashes(prompt.local_hashes, &buffers->sequence_hashes);
    identified.sequence_hashes = buffers->sequence_hashes;
    timer->End(DecisionPhase::kSequenceHashing);
  } else if (prompt.sequence_hashes.size() != hashes) {
    return Invalid(fmt::format("{} sequence hashes for {} block hashes; send as many, or none",
                               prompt.sequence_hashes.size(), hashes));
  }
  return identified;
}

absl::StatusOr<IdentifiedPrompt> IdentifyTokens(const TokenPrompt& prompt, uint64_t block_seed,
                                                const BlockNaming& naming, PromptBuffers* buffers,
                                                PhaseTimer* timer) {
  const auto& [tokens, multimodal] = prompt;
  const uint64_t blocks = tokens.size() / naming.block_size_tokens +
                          (tokens.size() % naming.block_size_tokens == 0 ? 0 : 1);
  for (uint64_t i = blocks; i < multimodal.size(); ++i) {
    if (multimodal[i].empty()) continue;
    return Invalid(fmt::format("multimodal items for block {}, the prompt has {} of {} tokens", i,
                               blocks, naming.block_size_tokens));
  }
  if (multimodal.empty() && !naming.is_eagle) {
    AppendLocalBlockHashes(tokens, naming.block_size_tokens, block_seed, &buffers->local_hashes);
  } else {
    AppendLocalBlockHashes(tokens,
                           {.block_size_tokens = naming.block_size_tokens,
                            .block_seed = block_seed,
                            .is_eagle = naming.is_eagle,
                            .image_token_id = naming.image_token_id,
                            .multimodal = multimodal},
                           &buffers->local_hashes);
  }
  timer->End(DecisionPhase::kBlockHashing);
  AppendSequenceHashes(buffers->local_hashes, &buffers->sequence_hashes);
  timer->End(DecisionPhase::kSequenceHashing);
  IdentifiedPrompt identified = Unidentified(tokens.size(), naming);
  identified.local_hashes = buffers->local_hashes;
  identified.sequence_hashes = buffers->sequence_hashes;
  return identified;
}

}  // namespace

absl::StatusOr<IdentifiedPrompt> IdentifyPrompt(const RouteRequest& request,
                                                const BlockNaming& naming, PromptBuffers* buffers,
                                                PhaseTimer* timer) {
  buffers->local_hashes.clear();
  buffers->sequence_hashes.clear();
  if (request.is_eagle && *request.is_eagle != naming.is_eagle) {
    return Invalid(fmt::format("is_eagle is {}, the workers of model {} in routing group {} are {}",
                               *request.is_eagle, request.model_name, request.routing_group,
                               naming.is_eagle ? "EAGLE engines" : "no EAGLE engines"));
  }
  if (const auto* hashes = std::get_if<HashPrompt>(&request.prompt)) {
    return IdentifyHashes(*hashes, naming, buffers, timer);
  }
  return IdentifyTokens(
      std::get<TokenPrompt>(request.prompt),
      BlockSeed({.lora_name = request.lora_name, .cache_salt = request.cache_salt}), naming,
      buffers, timer);
}

absl::Status ValidateRequest(const RouteRequest& request) {
  KVR_RETURN_IF_ERROR(ValidateOverrides(request.overrides));
  if (request.expected_output_tokens && *request.expected_output_tokens == 0) {
    return Invalid("expected_output_tokens must be > 0, got 0");
  }
  if (request.session_id.size() > kMaxSessionIdBytes) {
    return Invalid(fmt::format("session_id must have at most {} bytes, got {}", kMaxSessionIdBytes,
                               request.session_id.size()));
  }
  return Validate(request.constraints);
}

}  // namespace kvrouter
