#include "kvrouter/decision_record.h"

namespace kvrouter {
namespace {

// The credit of a second leg, which has none whatever the settings (unless disaggregation is
// conditional, and then it is recorded with what it had).
bool IsWithoutCredit(const DecisionWeights& weights) {
  return weights.decode_pool && weights.cost.overlap_score_credit == 0;
}

OverriddenSettings OverriddenBy(const ConfigOverride& overrides, const DecisionWeights& weights) {
  return {.overlap_score_credit =
              overrides.overlap_score_credit.has_value() || IsWithoutCredit(weights),
          .prefill_load_scale = overrides.prefill_load_scale.has_value(),
          .router_temperature = overrides.router_temperature.has_value(),
          .assume_kv_reuse = overrides.assume_kv_reuse.has_value(),
          .track_prefill_tokens = overrides.track_prefill_tokens.has_value(),
          .shared_cache_multiplier = overrides.shared_cache_multiplier.has_value()};
}

CandidateInput InputsOf(const CandidateCost& cost) {
  return {.target = cost.target,
          .device_overlap_blocks = cost.device_overlap_blocks,
          .host_overlap_blocks = cost.host_overlap_blocks,
          .disk_overlap_blocks = cost.disk_overlap_blocks,
          .shared_overlap_blocks = cost.shared_overlap_blocks,
          .active_prefill_tokens = cost.active_prefill_tokens,
          .active_decode_blocks = cost.active_decode_blocks,
          .additional_decode_blocks = cost.additional_decode_blocks,
          .active_requests = cost.active_requests,
          .taint_multiplier = cost.taint_multiplier};
}

}  // namespace

DecisionRecord RecordOf(const DecisionFacts& facts, const RecordBounds& bounds, uint64_t unix_ms) {
  const RouteDecision& decision = facts.decision;
  DecisionRecord record{.unix_ms = unix_ms,
                        .config_generation = decision.config_generation,
                        .request_id = facts.request.request_id,
                        .model_name = facts.request.model_name,
                        .routing_group = facts.request.routing_group,
                        .booked = decision.booked,
                        .isl_tokens = decision.isl_tokens,
                        .block_size_tokens = decision.block_size_tokens,
                        .weights = decision.weights,
                        .temperature = decision.temperature,
                        .overridden = OverriddenBy(facts.request.overrides, decision.weights),
                        .candidates = {},
                        .candidate_count = static_cast<uint32_t>(facts.candidates.size()),
                        .reason = decision.reason,
                        .target = decision.target,
                        .tie_size = decision.tie_size,
                        .draw = decision.draw,
                        .sequence_hashes = {}};
  if (facts.candidates.size() <= bounds.max_candidates) {
    record.candidates.reserve(facts.candidates.size());
    for (const CandidateCost& cost : facts.candidates) record.candidates.push_back(InputsOf(cost));
  }
  if (bounds.with_hashes)
    record.sequence_hashes.assign(facts.sequence_hashes.begin(), facts.sequence_hashes.end());
  return record;
}

}  // namespace kvrouter
