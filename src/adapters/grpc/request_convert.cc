#include "adapters/grpc/request_convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "kvrouter/error.h"
#include "kvrouter/limits.h"

namespace kvrouter {
namespace {

TargetSelector FromProto(const v1::TargetSelector& message) {
  TargetSelector selector{.worker = WorkerId{message.worker_id()}, .dp_rank = std::nullopt};
  if (message.has_dp_rank()) selector.dp_rank = message.dp_rank();
  return selector;
}

ConfigOverride FromProto(const v1::ConfigOverride& message) {
  ConfigOverride config;
  if (message.has_overlap_score_credit())
    config.overlap_score_credit = message.overlap_score_credit();
  if (message.has_prefill_load_scale()) config.prefill_load_scale = message.prefill_load_scale();
  if (message.has_router_temperature()) config.router_temperature = message.router_temperature();
  if (message.has_assume_kv_reuse()) config.assume_kv_reuse = message.assume_kv_reuse();
  if (message.has_track_prefill_tokens()) {
    config.track_prefill_tokens = message.track_prefill_tokens();
  }
  if (message.has_shared_cache_multiplier()) {
    config.shared_cache_multiplier = message.shared_cache_multiplier();
  }
  return config;
}

template <typename Hash>
std::vector<Hash> CopyHashes(const google::protobuf::RepeatedField<uint64_t>& field) {
  std::vector<Hash> hashes(static_cast<size_t>(field.size()));
  std::transform(field.begin(), field.end(), hashes.begin(),
                 [](uint64_t bits) { return Hash{bits}; });
  return hashes;
}

absl::StatusOr<RequestPhase> PhaseFromProto(int phase) {
  switch (phase) {
    case v1::PHASE_WHOLE:
      return RequestPhase::kWhole;
    case v1::PHASE_PREFILL:
      return RequestPhase::kPrefill;
    case v1::PHASE_DECODE:
      return RequestPhase::kDecode;
    default:
      return InvalidMessage(
          fmt::format("phase must be 0 (whole), 1 (prefill) or 2 (decode), got {}", phase));
  }
}

absl::Status PromptFromProto(const v1::RouteRequest& message, RouteInput* input) {
  switch (message.prompt_case()) {
    case v1::RouteRequest::kTokenIds: {
      const auto& ids = message.token_ids().ids();
      if (static_cast<uint64_t>(message.block_items_size()) > kMaxItemBlocks) {
        return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kTooLarge,
                         fmt::format("block_items has {} entries, limit {}",
                                     message.block_items_size(), kMaxItemBlocks));
      }
      for (const v1::BlockItems& block : message.block_items()) {
        input->multimodal.push_back(CopyHashes<MultimodalHash>(block.item_hashes()));
      }
      input->request.prompt =
          TokenPrompt{.token_ids = {ids.data(), static_cast<size_t>(ids.size())},
                      .multimodal = input->multimodal};
      return absl::OkStatus();
    }
    case v1::RouteRequest::kHashes:
      input->local_hashes = CopyHashes<LocalBlockHash>(message.hashes().local_block_hashes());
      input->sequence_hashes = CopyHashes<SequenceHash>(message.hashes().sequence_hashes());
      input->request.prompt = HashPrompt{.local_hashes = input->local_hashes,
                                         .sequence_hashes = input->sequence_hashes,
                                         .isl_tokens = message.hashes().isl_tokens()};
      return absl::OkStatus();
    case v1::RouteRequest::PROMPT_NOT_SET:
      break;
  }
  return InvalidMessage("prompt is not set: give token_ids or hashes");
}

}  // namespace

absl::Status InvalidMessage(std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest, message);
}

std::string NameOrDefault(const std::string& name) { return name.empty() ? "default" : name; }

absl::StatusOr<RouteInput> FromProto(const v1::RouteRequest& message) {
  RouteInput input;
  KVR_RETURN_IF_ERROR(PromptFromProto(message, &input));
  RouteRequest& request = input.request;
  request.request_id = message.request_id();
  request.model_name = NameOrDefault(message.model_name());
  request.routing_group = NameOrDefault(message.routing_group());
  request.lora_name = message.lora_name();
  request.cache_salt = message.cache_salt();
  if (message.has_is_eagle()) request.is_eagle = message.is_eagle();
  request.book = !message.advise_only();
  request.overrides = FromProto(message.config_override());
  if (message.has_allowed_worker_ids()) {
    auto& allowed = request.allowed_workers.emplace();
    allowed.reserve(static_cast<size_t>(message.allowed_worker_ids().worker_ids_size()));
    for (const uint64_t id : message.allowed_worker_ids().worker_ids()) {
      allowed.push_back(WorkerId{id});
    }
  }
  for (const v1::TargetSelector& selector : message.excluded()) {
    request.excluded.push_back(FromProto(selector));
  }
  if (message.has_pinned()) request.pinned = FromProto(message.pinned());
  if (message.has_expected_output_tokens()) {
    request.expected_output_tokens = message.expected_output_tokens();
  }
  request.priority_jump = message.priority_jump();
  request.strict_priority = message.strict_priority();
  request.policy_class = message.policy_class();
  request.constraints.required_taints.assign(message.required_taints().begin(),
                                             message.required_taints().end());
  request.constraints.preferred_taints.insert(message.preferred_taints().begin(),
                                              message.preferred_taints().end());
  KVR_ASSIGN_OR_RETURN(request.session_id,
                       CallerSessionId({.dynamo_session_id = message.session_id()}));
  KVR_ASSIGN_OR_RETURN(request.phase, PhaseFromProto(message.phase()));
  request.fixed_plan = message.fixed_plan();
  if (message.has_pinned_prefill()) request.pinned_prefill = FromProto(message.pinned_prefill());
  if (message.has_prefilled_by()) {
    request.prefilled_by = Target{.worker = WorkerId{message.prefilled_by().worker_id()},
                                  .dp_rank = message.prefilled_by().dp_rank()};
  }
  request.has_prefill_result = message.has_prefill_result();
  request.prefill_here = message.prefill_here();
  return input;
}

absl::Status CheckRequestId(const std::string& request_id) {
  return request_id.empty() ? InvalidMessage("request_id must not be empty") : absl::OkStatus();
}

absl::Status CheckOutputBlock(const v1::OutputBlockRequest& message) {
  KVR_RETURN_IF_ERROR(CheckRequestId(message.request_id()));
  // Written so that NaN is refused too.
  if (message.has_decay_fraction() &&
      !(message.decay_fraction() >= 0.0 && message.decay_fraction() <= 1.0)) {
    return InvalidMessage(
        fmt::format("decay_fraction must be 0..1, got {}", message.decay_fraction()));
  }
  return absl::OkStatus();
}

}  // namespace kvrouter
