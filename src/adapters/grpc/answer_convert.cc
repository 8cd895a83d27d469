#include "adapters/grpc/answer_convert.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "adapters/grpc/plan_convert.h"

namespace kvrouter {
namespace {

void LowerTiersToProto(const std::array<uint64_t, kStorageTierCount>& tier_blocks,
                       v1::LowerTierBlocks* message) {
  message->set_host(tier_blocks[static_cast<size_t>(StorageTier::kHostPinned)]);
  message->set_disk(tier_blocks[static_cast<size_t>(StorageTier::kDisk)]);
  message->set_external(tier_blocks[static_cast<size_t>(StorageTier::kExternal)]);
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
    case DecisionReason::kSession:
      return v1::DECISION_REASON_SESSION;
    case DecisionReason::kRendezvous:
      return v1::DECISION_REASON_RENDEZVOUS;
  }
  return v1::DECISION_REASON_UNSPECIFIED;
}

v1::Plan ToProto(Plan plan) {
  switch (plan) {
    case Plan::kLocal:
      return v1::PLAN_LOCAL;
    case Plan::kRemotePrefill:
      return v1::PLAN_REMOTE_PREFILL;
    case Plan::kMigrate:
      return v1::PLAN_MIGRATE;
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
    case FilterReason::kOtherRole:
      return v1::FILTER_REASON_OTHER_ROLE;
    case FilterReason::kNotPinned:
      return v1::FILTER_REASON_NOT_PINNED;
    case FilterReason::kNotAllowed:
      return v1::FILTER_REASON_NOT_ALLOWED;
    case FilterReason::kExcluded:
      return v1::FILTER_REASON_EXCLUDED;
    case FilterReason::kDraining:
      return v1::FILTER_REASON_DRAINING;
    case FilterReason::kTaints:
      return v1::FILTER_REASON_TAINTS;
    case FilterReason::kNoLoraReplica:
      return v1::FILTER_REASON_NO_LORA_REPLICA;
    case FilterReason::kOverloaded:
      return v1::FILTER_REASON_OVERLOADED;
    case FilterReason::kEjected:
      return v1::FILTER_REASON_EJECTED;
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
  counts->set_taints(decision.filtered.taints);
  counts->set_no_lora_replica(decision.filtered.no_lora_replica);
  counts->set_ejected(decision.filtered.ejected);
  counts->set_other_role(decision.filtered.other_role);
  for (const FilteredTarget& filtered : decision.filtered_targets) {
    v1::FilteredTarget* target = message->add_filtered_targets();
    ToProto(filtered.target, target->mutable_target());
    target->set_reason(ToProto(filtered.reason));
    target->set_device_overlap_blocks(filtered.device_overlap_blocks);
  }
}

}  // namespace

void ToProto(const Target& target, v1::Target* message) {
  message->set_worker_id(static_cast<uint64_t>(target.worker));
  message->set_dp_rank(target.dp_rank);
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
  message->set_waited_seconds(std::chrono::duration<double>(decision.waited).count());
  message->set_config_generation(decision.config_generation);
  PlanToProto(decision, message);
}

void ToProto(const TargetOverlap& overlap, v1::TargetOverlap* message) {
  ToProto(overlap.target, message->mutable_target());
  message->set_device_blocks(overlap.device_blocks);
  message->set_host_blocks(overlap.host_blocks);
  message->set_disk_blocks(overlap.disk_blocks);
  message->set_external_blocks(overlap.external_blocks);
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

void ToProto(const PartitionSnapshot& partition, MonotonicTime now, v1::PartitionLoads* message) {
  message->set_model_name(partition.model_name);
  message->set_routing_group(partition.routing_group);
  message->set_block_size_tokens(partition.block_size_tokens);
  message->set_bookings(partition.bookings);
  message->set_index_unique_blocks(partition.index_unique_blocks);
  message->set_index_holder_blocks(partition.index_holder_blocks);
  message->set_index_bytes(partition.index_bytes);
  LowerTiersToProto(partition.tier_blocks, message->mutable_lower_tier_blocks());
  for (const QueueClassSnapshot& queued : partition.queue) {
    v1::QueueClass* queue = message->add_queue();
    queue->set_policy_class(queued.policy_class);
    queue->set_waiting(queued.waiting);
    queue->set_waiting_isl_tokens(queued.waiting_isl_tokens);
    queue->set_waiting_cached_tokens(queued.waiting_cached_tokens);
  }
  for (const TargetLoad& load : partition.loads) {
    v1::TargetLoad* target = message->add_targets();
    ToProto(load.target, target->mutable_target());
    target->set_incarnation(static_cast<uint64_t>(load.incarnation));
    target->set_draining(load.draining);
    target->set_active_prefill_tokens(load.active_prefill_tokens);
    target->set_active_decode_blocks(load.active_decode_blocks);
    target->set_active_requests(load.active_requests);
    target->set_index_blocks(load.index_blocks);
    target->set_overloaded(load.overloaded);
    const std::chrono::duration<double> ejected = load.ejected_until.value_or(now) - now;
    target->set_ejected_seconds(std::max(0.0, ejected.count()));
    LowerTiersToProto(load.tier_blocks, target->mutable_lower_tier_blocks());
  }
}

}  // namespace kvrouter
