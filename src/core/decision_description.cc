#include "core/decision_description.h"

#include <algorithm>
#include <cmath>

namespace kvrouter {
namespace {

uint64_t Rounded(double blocks) { return static_cast<uint64_t>(std::llround(blocks)); }

// Engines always compute the last token of a prompt, so of a fully cached one a block less is hit.
uint64_t ExpectedEngineHitTokens(const IdentifiedPrompt& prompt, double device_blocks) {
  if (prompt.isl_tokens == 0) return 0;
  const uint64_t most_blocks = (prompt.isl_tokens - 1) / prompt.block_size_tokens;
  return std::min(static_cast<uint64_t>(device_blocks), most_blocks) * prompt.block_size_tokens;
}

// What the candidates had to offer and what the choice gave up of it.
void DescribeRegret(const CandidateTable& table, RouteDecision* decision) {
  const double best_blocks = table.summary.most_overlap_blocks;
  decision->best_available_overlap_blocks = best_blocks;
  decision->regret_blocks = best_blocks - decision->effective_overlap_blocks;
  if (best_blocks <= 0) return;
  decision->best_available_overlap_target =
      decision->regret_blocks > 0 ? table.seen[table.summary.most_overlap_index].target()
                                  : decision->target;
}

DecisionWeights WeightsOf(const ScoreContext& context) {
  return {.cost = context.weights.cost,
          .track_prefill_tokens = context.weights.track_prefill_tokens,
          .assume_kv_reuse = context.weights.assume_kv_reuse,
          .least_active_prefill_tokens = context.least_active_prefill_tokens,
          .decode_pool = context.decode_pool};
}

}  // namespace

void DescribeDecision(const IdentifiedPrompt& prompt, CandidateTable* candidates,
                      const Placement& placement, const RouterSettings::Version& settings,
                      DetailBuffers* buffers, RouteDecision* out) {
  RouteDecision& decision = *out;
  const CandidateTable& table = *candidates;
  const CandidateCost chosen =
      ScoreSeen(table.seen[placement.index], table.context, table.LowerOf(placement.index),
                table.TaintMultiplierOf(placement.index));
  const uint64_t full_blocks = prompt.local_hashes.size();
  const bool has_partial_block = prompt.isl_tokens > full_blocks * prompt.block_size_tokens;
  decision.target = chosen.target;
  decision.role = placement.worker->role;
  decision.incarnation = placement.worker->incarnation;
  decision.address = placement.worker->address;
  decision.plan = Plan::kLocal;
  decision.reason = placement.reason;
  decision.booking = placement.booking;
  decision.booked = placement.booking != kNoBooking;
  decision.isl_tokens = prompt.isl_tokens;
  decision.block_size_tokens = prompt.block_size_tokens;
  decision.is_eagle = prompt.is_eagle;
  decision.image_token_id = prompt.image_token_id;
  decision.isl_blocks = full_blocks + (has_partial_block ? 1 : 0);
  decision.full_blocks = full_blocks;
  decision.effective_overlap_blocks = chosen.effective_overlap_blocks;
  decision.overlap_blocks = Rounded(chosen.effective_overlap_blocks);
  decision.expected_engine_hit_tokens =
      ExpectedEngineHitTokens(prompt, chosen.device_overlap_blocks);
  decision.best_overlap_blocks = placement.best_overlap_blocks;
  decision.best_overlap_target = placement.best_overlap_target;
  DescribeRegret(table, &decision);
  decision.filtered = FilterCountsOf(placement.filtered);
  decision.filtered_targets = table.filtered;
  decision.weights = WeightsOf(table.context);
  decision.tie_size = placement.pick.tie_size;
  decision.temperature = table.context.weights.temperature;
  decision.draw = placement.pick.draw;
  decision.config_generation = settings.generation;
  DescribeCandidates(candidates, placement.index, settings.config.decision_detail, buffers,
                     &decision);
}

}  // namespace kvrouter
