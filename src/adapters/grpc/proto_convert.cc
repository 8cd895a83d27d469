#include "adapters/grpc/proto_convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/status_macros.h"
#include "feed/feed_stats.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

absl::Status Invalid(std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest, message);
}

std::string NameOrDefault(const std::string& name) { return name.empty() ? "default" : name; }

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

absl::Status PromptFromProto(const v1::RouteRequest& message, RouteInput* input) {
  switch (message.prompt_case()) {
    case v1::RouteRequest::kTokenIds: {
      const auto& ids = message.token_ids().ids();
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
  return Invalid("prompt is not set: give token_ids or hashes");
}

void ToProto(const Target& target, v1::Target* message) {
  message->set_worker_id(static_cast<uint64_t>(target.worker));
  message->set_dp_rank(target.dp_rank);
}

v1::DecisionReason ToProto(DecisionReason reason) {
  switch (reason) {
    case DecisionReason::kLowestCost:
      return v1::DECISION_REASON_LOWEST_COST;
    case DecisionReason::kTieBreak:
      return v1::DECISION_REASON_TIE_BREAK;
    case DecisionReason::kSampled:
      return v1::DECISION_REASON_SAMPLED;
    case DecisionReason::kOnlyCandidate:
      return v1::DECISION_REASON_ONLY_CANDIDATE;
    case DecisionReason::kPinned:
      return v1::DECISION_REASON_PINNED;
  }
  return v1::DECISION_REASON_UNSPECIFIED;
}

v1::Plan ToProto(Plan plan) {
  switch (plan) {
    case Plan::kLocal:
      return v1::PLAN_LOCAL;
  }
  return v1::PLAN_UNSPECIFIED;
}

void ToProto(const CandidateCost& cost, v1::CandidateCost* message) {
  ToProto(cost.target, message->mutable_target());
  message->set_device_overlap_blocks(cost.device_overlap_blocks);
  message->set_host_overlap_blocks(cost.host_overlap_blocks);
  message->set_disk_overlap_blocks(cost.disk_overlap_blocks);
  message->set_shared_overlap_blocks(cost.shared_overlap_blocks);
  message->set_effective_overlap_blocks(cost.effective_overlap_blocks);
  message->set_credit_blocks(cost.credit_blocks);
  message->set_raw_prefill_blocks(cost.raw_prefill_blocks);
  message->set_prefill_cost_blocks(cost.prefill_cost_blocks);
  message->set_decode_blocks(cost.decode_blocks);
  message->set_request_cost_blocks(cost.request_cost_blocks);
  message->set_taint_multiplier(cost.taint_multiplier);
  message->set_cost_blocks(cost.cost_blocks);
  message->set_active_prefill_tokens(cost.active_prefill_tokens);
  message->set_active_decode_blocks(cost.active_decode_blocks);
  message->set_additional_decode_blocks(cost.additional_decode_blocks);
  message->set_active_requests(cost.active_requests);
}

v1::FilterReason ToProto(FilterReason reason) {
  switch (reason) {
    case FilterReason::kNotPinned:
      return v1::FILTER_REASON_NOT_PINNED;
    case FilterReason::kNotAllowed:
      return v1::FILTER_REASON_NOT_ALLOWED;
    case FilterReason::kExcluded:
      return v1::FILTER_REASON_EXCLUDED;
    case FilterReason::kDraining:
      return v1::FILTER_REASON_DRAINING;
  }
  return v1::FILTER_REASON_UNSPECIFIED;
}

void ToProto(const DecisionWeights& weights, v1::DecisionWeights* message) {
  message->set_overlap_score_credit(weights.cost.overlap_score_credit);
  message->set_overlap_score_credit_decay(weights.cost.overlap_score_credit_decay);
  message->set_prefill_load_scale(weights.cost.prefill_load_scale);
  message->set_decode_active_request_weight(weights.cost.decode_active_request_weight);
  message->set_host_cache_hit_weight(weights.cost.host_cache_hit_weight);
  message->set_disk_cache_hit_weight(weights.cost.disk_cache_hit_weight);
  message->set_shared_cache_multiplier(weights.cost.shared_cache_multiplier);
  message->set_track_prefill_tokens(weights.track_prefill_tokens);
  message->set_assume_kv_reuse(weights.assume_kv_reuse);
  message->set_least_active_prefill_tokens(weights.least_active_prefill_tokens);
}

// Who was no candidate, and which candidates are not shown.
void AbsentToProto(const RouteDecision& decision, v1::RouteResponse* message) {
  if (decision.omitted.count > 0) {
    v1::CandidateSummary* omitted = message->mutable_omitted();
    omitted->set_count(decision.omitted.count);
    omitted->set_min_cost_blocks(decision.omitted.min_cost_blocks);
    omitted->set_max_cost_blocks(decision.omitted.max_cost_blocks);
    omitted->set_mean_cost_blocks(decision.omitted.mean_cost_blocks);
  }
  v1::FilterCounts* counts = message->mutable_filtered();
  counts->set_not_pinned(decision.filtered.not_pinned);
  counts->set_not_allowed(decision.filtered.not_allowed);
  counts->set_excluded(decision.filtered.excluded);
  counts->set_draining(decision.filtered.draining);
  counts->set_overloaded(decision.filtered.overloaded);
  for (const FilteredTarget& filtered : decision.filtered_targets) {
    v1::FilteredTarget* target = message->add_filtered_targets();
    ToProto(filtered.target, target->mutable_target());
    target->set_reason(ToProto(filtered.reason));
    target->set_device_overlap_blocks(filtered.device_overlap_blocks);
  }
}

absl::StatusOr<WorkerRole> RoleFromProto(int role) {
  switch (role) {
    case v1::WORKER_ROLE_AGGREGATED:
      return WorkerRole::kAggregated;
    case v1::WORKER_ROLE_PREFILL:
      return WorkerRole::kPrefill;
    case v1::WORKER_ROLE_DECODE:
      return WorkerRole::kDecode;
    default:
      return Invalid(
          fmt::format("role must be 0 (aggregated), 1 (prefill) or 2 (decode), got {}", role));
  }
}

v1::WorkerRole ToProto(WorkerRole role) {
  switch (role) {
    case WorkerRole::kAggregated:
      break;
    case WorkerRole::kPrefill:
      return v1::WORKER_ROLE_PREFILL;
    case WorkerRole::kDecode:
      return v1::WORKER_ROLE_DECODE;
  }
  return v1::WORKER_ROLE_AGGREGATED;
}

std::map<uint32_t, EventEndpoints> EventsFromProto(
    const google::protobuf::Map<uint32_t, v1::EventEndpoints>& message) {
  std::map<uint32_t, EventEndpoints> events;
  for (const auto& [dp_rank, endpoints] : message) {
    events[dp_rank] = {.live = endpoints.live(), .replay = endpoints.replay()};
  }
  return events;
}

const TargetLoad* FindLoad(const std::vector<PartitionSnapshot>& partitions, const WorkerSpec& spec,
                           Target target) {
  for (const PartitionSnapshot& partition : partitions) {
    if (partition.model_name != spec.model_name || partition.routing_group != spec.routing_group) {
      continue;
    }
    const auto it = std::lower_bound(
        partition.loads.begin(), partition.loads.end(), target,
        [](const TargetLoad& load, const Target& wanted) { return load.target < wanted; });
    if (it != partition.loads.end() && it->target == target) return &*it;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<RouteInput> FromProto(const v1::RouteRequest& message) {
  RouteInput input;
  KVR_RETURN_IF_ERROR(PromptFromProto(message, &input));
  RouteRequest& request = input.request;
  request.request_id = message.request_id();
  request.model_name = NameOrDefault(message.model_name());
  request.routing_group = NameOrDefault(message.routing_group());
  request.lora_name = message.lora_name();
  request.cache_salt = message.cache_salt();
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
  return input;
}

void ToProto(std::string_view request_id, const RouteDecision& decision,
             v1::RouteResponse* message) {
  message->set_request_id(request_id.data(), request_id.size());
  ToProto(decision.target, message->mutable_target());
  message->set_incarnation(static_cast<uint64_t>(decision.incarnation));
  message->set_address(decision.address);
  message->set_plan(ToProto(decision.plan));
  message->set_reason(ToProto(decision.reason));
  message->set_booked(decision.booked);
  message->set_overlap_blocks(decision.overlap_blocks);
  message->set_isl_blocks(decision.isl_blocks);
  message->set_isl_tokens(decision.isl_tokens);
  message->set_block_size_tokens(decision.block_size_tokens);
  message->set_effective_overlap_blocks(decision.effective_overlap_blocks);
  message->set_expected_engine_hit_tokens(decision.expected_engine_hit_tokens);
  for (const CandidateCost& cost : decision.candidates) ToProto(cost, message->add_candidates());
  message->set_candidate_count(decision.candidate_count);
  message->set_tie_size(decision.tie_size);
  message->set_temperature(decision.temperature);
  message->set_best_overlap_blocks(decision.best_overlap_blocks);
  if (decision.best_overlap_target) {
    ToProto(*decision.best_overlap_target, message->mutable_best_overlap_target());
  }
  message->set_best_available_overlap_blocks(decision.best_available_overlap_blocks);
  if (decision.best_available_overlap_target) {
    ToProto(*decision.best_available_overlap_target,
            message->mutable_best_available_overlap_target());
  }
  message->set_regret_blocks(decision.regret_blocks);
  AbsentToProto(decision, message);
  message->set_draw(decision.draw);
  ToProto(decision.weights, message->mutable_weights());
}

absl::Status CheckRequestId(const std::string& request_id) {
  return request_id.empty() ? Invalid("request_id must not be empty") : absl::OkStatus();
}

absl::Status CheckOutputBlock(const v1::OutputBlockRequest& message) {
  KVR_RETURN_IF_ERROR(CheckRequestId(message.request_id()));
  // Written so that NaN is refused too.
  if (message.has_decay_fraction() &&
      !(message.decay_fraction() >= 0.0 && message.decay_fraction() <= 1.0)) {
    return Invalid(fmt::format("decay_fraction must be 0..1, got {}", message.decay_fraction()));
  }
  return absl::OkStatus();
}

absl::StatusOr<WorkerSpec> FromProto(const v1::WorkerSpec& message) {
  WorkerSpec spec;
  spec.id = WorkerId{message.worker_id()};
  spec.incarnation = Incarnation{message.incarnation()};
  spec.model_name = NameOrDefault(message.model_name());
  spec.routing_group = NameOrDefault(message.routing_group());
  spec.address = message.address();
  spec.block_size_tokens = message.block_size_tokens();
  spec.dp_start_rank = message.dp_start_rank();
  spec.dp_size = std::max(1u, message.dp_size());
  KVR_ASSIGN_OR_RETURN(spec.role, RoleFromProto(message.role()));
  spec.total_kv_blocks = message.total_kv_blocks();
  spec.max_num_batched_tokens = message.max_num_batched_tokens();
  spec.events = EventsFromProto(message.events());
  return spec;
}

absl::StatusOr<WorkerPatch> FromProto(const v1::UpdateRequest& message) {
  WorkerPatch patch;
  if (message.has_address()) patch.address = message.address();
  if (message.has_block_size_tokens()) patch.block_size_tokens = message.block_size_tokens();
  if (message.has_dp_start_rank()) patch.dp_start_rank = message.dp_start_rank();
  if (message.has_dp_size()) patch.dp_size = message.dp_size();
  if (message.has_role()) {
    KVR_ASSIGN_OR_RETURN(patch.role, RoleFromProto(message.role()));
  }
  if (message.has_draining()) patch.draining = message.draining();
  if (message.has_total_kv_blocks()) patch.total_kv_blocks = message.total_kv_blocks();
  if (message.has_max_num_batched_tokens()) {
    patch.max_num_batched_tokens = message.max_num_batched_tokens();
  }
  if (message.has_events()) patch.events = EventsFromProto(message.events().by_rank());
  return patch;
}

void ToProto(const WorkerSpec& spec, v1::Worker* message) {
  v1::WorkerSpec* out = message->mutable_spec();
  out->set_worker_id(static_cast<uint64_t>(spec.id));
  out->set_incarnation(static_cast<uint64_t>(spec.incarnation));
  out->set_model_name(spec.model_name);
  out->set_routing_group(spec.routing_group);
  out->set_address(spec.address);
  out->set_block_size_tokens(spec.block_size_tokens);
  out->set_dp_start_rank(spec.dp_start_rank);
  out->set_dp_size(spec.dp_size);
  out->set_role(ToProto(spec.role));
  out->set_total_kv_blocks(spec.total_kv_blocks);
  out->set_max_num_batched_tokens(spec.max_num_batched_tokens);
  for (const auto& [dp_rank, endpoints] : spec.events) {
    v1::EventEndpoints& to = (*out->mutable_events())[dp_rank];
    to.set_live(endpoints.live);
    to.set_replay(endpoints.replay);
  }
  message->set_draining(spec.draining);
}

void FeedsToProto(const WorkerSpec& spec, const std::vector<FeedReport>& reports,
                  const std::vector<PartitionSnapshot>& partitions, v1::Worker* message) {
  for (uint32_t i = 0; i < spec.dp_size; ++i) {
    const Target target{spec.id, spec.dp_start_rank + i};
    v1::FeedStatus* feed = message->add_feeds();
    feed->set_dp_rank(target.dp_rank);
    if (const TargetLoad* load = FindLoad(partitions, spec, target)) {
      feed->set_index_blocks(load->index_blocks);
    }
    const auto report = std::lower_bound(
        reports.begin(), reports.end(), target,
        [](const FeedReport& r, const Target& wanted) { return r.target < wanted; });
    // No report yet: the source has not come round to this worker.
    const bool reported = report != reports.end() && report->target == target;
    const auto endpoints = spec.events.find(target.dp_rank);
    const bool configured = endpoints != spec.events.end() && !endpoints->second.live.empty();
    const FeedState state = reported     ? report->state
                            : configured ? FeedState::kConnecting
                                         : FeedState::kNone;
    const std::string_view name = FeedStateName(state);
    feed->set_state(name.data(), name.size());
    if (!reported) continue;
    feed->set_detail(report->detail);
    feed->set_events_applied(report->counters.events_applied);
    feed->set_gaps(report->counters.gaps);
    feed->set_restarts(report->counters.restarts);
  }
}

void ToProto(const TargetOverlap& overlap, v1::TargetOverlap* message) {
  ToProto(overlap.target, message->mutable_target());
  message->set_device_blocks(overlap.device_blocks);
}

void ToProto(const TargetPotentialLoad& load, v1::TargetPotentialLoad* message) {
  ToProto(load.target, message->mutable_target());
  message->set_incarnation(static_cast<uint64_t>(load.incarnation));
  message->set_draining(load.draining);
  message->set_overlap_blocks(load.overlap_blocks);
  message->set_potential_prefill_tokens(load.potential_prefill_tokens);
  message->set_potential_decode_blocks(load.potential_decode_blocks);
  message->set_active_requests(load.active_requests);
}

void ToProto(const PartitionSnapshot& partition, v1::PartitionLoads* message) {
  message->set_model_name(partition.model_name);
  message->set_routing_group(partition.routing_group);
  message->set_block_size_tokens(partition.block_size_tokens);
  message->set_bookings(partition.bookings);
  message->set_index_unique_blocks(partition.index_unique_blocks);
  message->set_index_holder_blocks(partition.index_holder_blocks);
  message->set_index_bytes(partition.index_bytes);
  for (const TargetLoad& load : partition.loads) {
    v1::TargetLoad* target = message->add_targets();
    ToProto(load.target, target->mutable_target());
    target->set_incarnation(static_cast<uint64_t>(load.incarnation));
    target->set_draining(load.draining);
    target->set_active_prefill_tokens(load.active_prefill_tokens);
    target->set_active_decode_blocks(load.active_decode_blocks);
    target->set_active_requests(load.active_requests);
    target->set_index_blocks(load.index_blocks);
  }
}

}  // namespace kvrouter
