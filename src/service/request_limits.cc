#include "service/request_limits.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>
#include <variant>

#include "base/status_macros.h"
#include "kvrouter/error.h"
#include "service/worker_registry.h"

namespace kvrouter {
namespace {

absl::Status Invalid(std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest, message);
}

absl::Status CheckLength(std::string_view field, std::string_view value, size_t limit_bytes) {
  if (value.size() <= limit_bytes) return absl::OkStatus();
  return Invalid(fmt::format("{} is {} bytes long, limit {}", field, value.size(), limit_bytes));
}

absl::Status CheckCount(std::string_view field, size_t count, size_t limit) {
  if (count <= limit) return absl::OkStatus();
  return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kTooLarge,
                   fmt::format("{} has {} entries, limit {}", field, count, limit));
}

absl::Status CheckConstraints(const RoutingConstraints& constraints) {
  KVR_RETURN_IF_ERROR(
      CheckCount("required_taints", constraints.required_taints.size(), kMaxTaintsPerRequest));
  KVR_RETURN_IF_ERROR(
      CheckCount("preferred_taints", constraints.preferred_taints.size(), kMaxTaintsPerRequest));
  for (const std::string& taint : constraints.required_taints) {
    KVR_RETURN_IF_ERROR(CheckLength("required_taints", taint, kMaxTaintBytes));
  }
  for (const auto& [taint, weight] : constraints.preferred_taints) {
    KVR_RETURN_IF_ERROR(CheckLength("preferred_taints", taint, kMaxTaintBytes));
  }
  return absl::OkStatus();
}

absl::Status CheckPromptLength(const ServiceConfig& config, uint64_t isl_tokens) {
  if (isl_tokens <= config.max_prompt_tokens) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kResourceExhausted, ErrorReason::kTooLarge,
      fmt::format("prompt has {} tokens, limit {}", isl_tokens, config.max_prompt_tokens));
}

absl::Status CheckHashPrompt(const HashPrompt& prompt) {
  const size_t local = prompt.local_hashes.size();
  const size_t sequence = prompt.sequence_hashes.size();
  if (sequence != 0 && sequence != local) {
    return Invalid(
        fmt::format("sequence_hashes has {} entries and local_block_hashes {}: must be equal, or "
                    "no sequence hashes",
                    sequence, local));
  }
  // A block has at least one token; the partition, which knows its block size, checks the rest.
  if (local > prompt.isl_tokens) {
    return Invalid(fmt::format("isl_tokens is {}, less than the {} block hashes need",
                               prompt.isl_tokens, local));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRequest(const ServiceConfig& config, const RouteRequest& request) {
  KVR_RETURN_IF_ERROR(CheckLength("request_id", request.request_id, config.max_request_id_bytes));
  if (request.model_name.empty()) return Invalid("model_name must not be empty");
  if (request.routing_group.empty()) return Invalid("routing_group must not be empty");
  KVR_RETURN_IF_ERROR(CheckLength("model_name", request.model_name, kMaxNameBytes));
  KVR_RETURN_IF_ERROR(CheckLength("routing_group", request.routing_group, kMaxNameBytes));
  KVR_RETURN_IF_ERROR(CheckLength("lora_name", request.lora_name, kMaxIdentityBytes));
  KVR_RETURN_IF_ERROR(CheckLength("cache_salt", request.cache_salt, kMaxIdentityBytes));
  KVR_RETURN_IF_ERROR(CheckLength("policy_class", request.policy_class, kMaxPolicyClassBytes));
  if (!std::isfinite(request.priority_jump)) {
    return Invalid(fmt::format("priority_jump must be finite, got {}", request.priority_jump));
  }
  KVR_RETURN_IF_ERROR(CheckConstraints(request.constraints));
  if (const auto* hashes = std::get_if<HashPrompt>(&request.prompt)) {
    KVR_RETURN_IF_ERROR(CheckPromptLength(config, hashes->isl_tokens));
    KVR_RETURN_IF_ERROR(CheckHashPrompt(*hashes));
  } else {
    KVR_RETURN_IF_ERROR(
        CheckPromptLength(config, std::get<TokenPrompt>(request.prompt).token_ids.size()));
  }
  if (request.allowed_workers) {
    KVR_RETURN_IF_ERROR(
        CheckCount("allowed_worker_ids", request.allowed_workers->size(), kMaxTargetsPerRequest));
  }
  KVR_RETURN_IF_ERROR(CheckCount("excluded", request.excluded.size(), kMaxTargetsPerRequest));
  if (request.expected_output_tokens && *request.expected_output_tokens == 0) {
    return Invalid("expected_output_tokens must be > 0, got 0");
  }
  return absl::OkStatus();
}

}  // namespace kvrouter
