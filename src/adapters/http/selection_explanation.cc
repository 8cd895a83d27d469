#include "adapters/http/selection_explanation.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "adapters/http/selection_plan.h"
#include "base/check.h"

namespace kvrouter {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const Target& target) {
  return {{"worker_id", static_cast<uint64_t>(target.worker)}, {"dp_rank", target.dp_rank}};
}

Json ToJson(const CandidateCost& cost) {
  return {{"target", ToJson(cost.target)},
          {"device_overlap_blocks", cost.device_overlap_blocks},
          {"host_overlap_blocks", cost.host_overlap_blocks},
          {"disk_overlap_blocks", cost.disk_overlap_blocks},
          {"shared_overlap_blocks", cost.shared_overlap_blocks},
          {"effective_overlap_blocks", cost.effective_overlap_blocks},
          {"credit_blocks", cost.credit_blocks},
          {"raw_prefill_blocks", cost.raw_prefill_blocks},
          {"prefill_cost_blocks", cost.prefill_cost_blocks},
          {"decode_blocks", cost.decode_blocks},
          {"request_cost_blocks", cost.request_cost_blocks},
          {"taint_multiplier", cost.taint_multiplier},
          {"cost_blocks", cost.cost_blocks},
          {"active_prefill_tokens", cost.active_prefill_tokens},
          {"active_decode_blocks", cost.active_decode_blocks},
          {"additional_decode_blocks", cost.additional_decode_blocks},
          {"active_requests", cost.active_requests}};
}

Json ToJson(const DecisionWeights& weights) {
  return {{"overlap_score_credit", weights.cost.overlap_score_credit},
          {"overlap_score_credit_decay", weights.cost.overlap_score_credit_decay},
          {"prefill_load_scale", weights.cost.prefill_load_scale},
          {"decode_active_request_weight", weights.cost.decode_active_request_weight},
          {"host_cache_hit_weight", weights.cost.host_cache_hit_weight},
          {"disk_cache_hit_weight", weights.cost.disk_cache_hit_weight},
          {"shared_cache_multiplier", weights.cost.shared_cache_multiplier},
          {"track_prefill_tokens", weights.track_prefill_tokens},
          {"assume_kv_reuse", weights.assume_kv_reuse},
          {"least_active_prefill_tokens", weights.least_active_prefill_tokens}};
}

Json ToJson(const FilterCounts& counts) {
  return {{"not_pinned", counts.not_pinned},
          {"not_allowed", counts.not_allowed},
          {"excluded", counts.excluded},
          {"draining", counts.draining},
          {"overloaded", counts.overloaded},
          {"taints", counts.taints},
          {"no_lora_replica", counts.no_lora_replica},
          {"ejected", counts.ejected},
          {"other_role", counts.other_role}};
}

Json ToJson(const FilteredTarget& filtered) {
  return {{"target", ToJson(filtered.target)},
          {"reason", FilterReasonName(filtered.reason)},
          {"device_overlap_blocks", filtered.device_overlap_blocks}};
}

Json ToJson(const CandidateSummary& summary) {
  return {{"count", summary.count},
          {"min_cost_blocks", summary.min_cost_blocks},
          {"max_cost_blocks", summary.max_cost_blocks},
          {"mean_cost_blocks", summary.mean_cost_blocks}};
}

template <typename Items>
Json List(const Items& items) {
  Json list = Json::array();
  for (const auto& item : items) list.push_back(ToJson(item));
  return list;
}

Json OrNull(const std::optional<Target>& target) {
  return target ? ToJson(*target) : Json(nullptr);
}

Json ToJson(std::string_view request_id, const RouteDecision& decision) {
  return {{"request_id", request_id},
          {"target", ToJson(decision.target)},
          {"incarnation", static_cast<uint64_t>(decision.incarnation)},
          {"address", decision.address},
          {"plan", PlanName(decision.plan)},
          {"reason", DecisionReasonName(decision.reason)},
          {"phase", RequestPhaseName(decision.leg)},
          {"legs", LegsJson(decision)},
          {"lease_ms", LeaseJson(decision)},
          {"gate", GateJson(decision)},
          {"prefill_refused", decision.planning ? decision.planning->prefill_refused : ""},
          {"migration", MigrationJson(decision)},
          {"session", SessionJson(decision)},
          {"booked", decision.booked},
          {"overlap_blocks", decision.overlap_blocks},
          {"isl_blocks", decision.isl_blocks},
          {"isl_tokens", decision.isl_tokens},
          {"block_size_tokens", decision.block_size_tokens},
          {"effective_overlap_blocks", decision.effective_overlap_blocks},
          {"expected_engine_hit_tokens", decision.expected_engine_hit_tokens},
          {"candidates", List(decision.candidates)},
          {"candidate_count", decision.candidate_count},
          {"tie_size", decision.tie_size},
          {"temperature", decision.temperature},
          {"best_overlap_blocks", decision.best_overlap_blocks},
          {"best_overlap_target", OrNull(decision.best_overlap_target)},
          {"omitted", decision.omitted.count > 0 ? ToJson(decision.omitted) : Json(nullptr)},
          {"filtered", ToJson(decision.filtered)},
          {"filtered_targets", List(decision.filtered_targets)},
          {"best_available_overlap_blocks", decision.best_available_overlap_blocks},
          {"best_available_overlap_target", OrNull(decision.best_available_overlap_target)},
          {"regret_blocks", decision.regret_blocks},
          {"draw", decision.draw},
          {"weights", ToJson(decision.weights)},
          {"waited_seconds", std::chrono::duration<double>(decision.waited).count()},
          {"config_generation", decision.config_generation}};
}

}  // namespace

std::string DecisionJson(std::string_view request_id, const RouteDecision& decision) {
  return ToJson(request_id, decision).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string ExplanationJson(std::string_view request_id, const Explanation& explanation) {
  const Json json = {{"decision", ToJson(request_id, explanation.decision)},
                     {"age_seconds", std::chrono::duration<double>(explanation.age).count()},
                     {"live", explanation.live}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string WithExplanation(std::string answer, std::string_view request_id,
                            const RouteDecision& decision) {
  KVR_CHECK(answer.size() > 2 && answer.back() == '}', "no JSON object with members: {}", answer);
  answer.pop_back();
  answer += ",\"explanation\":";
  answer += ExplanationJson(request_id, {.decision = decision, .live = decision.booked});
  answer += '}';
  return answer;
}

}  // namespace kvrouter
