#include "core/prompt.h"

#include <fmt/format.h>

#include <variant>

#include "base/status_macros.h"
#include "core/schedule/effective_weights.h"
#include "kvrouter/block_hash.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

absl::Status Invalid(std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest, message);
}

absl::StatusOr<IdentifiedPrompt> IdentifyHashes(const HashPrompt& prompt,
                                                uint32_t block_size_tokens, PromptBuffers* buffers,
                                                PhaseTimer* timer) {
  const uint64_t hashes = prompt.local_hashes.size();
  if (prompt.isl_tokens / block_size_tokens != hashes) {
    return Invalid(fmt::format("isl_tokens {} has {} full blocks of {} tokens, got {} block hashes",
                               prompt.isl_tokens, prompt.isl_tokens / block_size_tokens,
                               block_size_tokens, hashes));
  }
  IdentifiedPrompt identified{.local_hashes = prompt.local_hashes,
                              .sequence_hashes = prompt.sequence_hashes,
                              .isl_tokens = prompt.isl_tokens,
                              .block_size_tokens = block_size_tokens};
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

}  // namespace

absl::StatusOr<IdentifiedPrompt> IdentifyPrompt(const RouteRequest& request,
                                                uint32_t block_size_tokens, PromptBuffers* buffers,
                                                PhaseTimer* timer) {
  buffers->local_hashes.clear();
  buffers->sequence_hashes.clear();
  if (const auto* hashes = std::get_if<HashPrompt>(&request.prompt)) {
    return IdentifyHashes(*hashes, block_size_tokens, buffers, timer);
  }
  const auto& [tokens, multimodal] = std::get<TokenPrompt>(request.prompt);
  const uint64_t blocks = (tokens.size() + block_size_tokens - 1) / block_size_tokens;
  if (multimodal.size() > blocks) {
    return Invalid(fmt::format("multimodal items for {} blocks, the prompt has {} of {} tokens",
                               multimodal.size(), blocks, block_size_tokens));
  }
  const uint64_t seed =
      BlockSeed({.lora_name = request.lora_name, .cache_salt = request.cache_salt});
  if (multimodal.empty()) {
    AppendLocalBlockHashes(tokens, block_size_tokens, seed, &buffers->local_hashes);
  } else {
    AppendLocalBlockHashes(tokens,
                           {.block_size_tokens = block_size_tokens,
                            .block_seed = seed,
                            .is_eagle = false,
                            .multimodal = multimodal},
                           &buffers->local_hashes);
  }
  timer->End(DecisionPhase::kBlockHashing);
  AppendSequenceHashes(buffers->local_hashes, &buffers->sequence_hashes);
  timer->End(DecisionPhase::kSequenceHashing);
  return IdentifiedPrompt{.local_hashes = buffers->local_hashes,
                          .sequence_hashes = buffers->sequence_hashes,
                          .isl_tokens = tokens.size(),
                          .block_size_tokens = block_size_tokens};
}

absl::Status ValidateRequest(const RouteRequest& request) {
  KVR_RETURN_IF_ERROR(ValidateOverrides(request.overrides));
  if (request.expected_output_tokens && *request.expected_output_tokens == 0) {
    return Invalid("expected_output_tokens must be > 0, got 0");
  }
  return absl::OkStatus();
}

}  // namespace kvrouter
