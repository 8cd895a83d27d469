#include <fmt/format.h>

#include <algorithm>

#include "base/status_macros.h"
#include "core/schedule/pick.h"
#include "core/schedule/scorer.h"
#include "kvrouter/decision_record.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

absl::Status CannotReplay(std::string_view message) {
  return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kInvalidRequest, message);
}

// The record's policy with the change applied, except where the request had settings of its own.
EffectiveWeights Changed(const DecisionRecord& record, PolicyChange change) {
  const OverriddenSettings& own = record.overridden;
  if (own.overlap_score_credit) change.overlap_score_credit.reset();
  if (own.prefill_load_scale) change.prefill_load_scale.reset();
  if (own.router_temperature) change.router_temperature.reset();
  if (own.shared_cache_multiplier) change.shared_cache_multiplier.reset();
  const ShadowPolicy policy = ApplyPolicyChange(change, record.weights.cost, record.temperature);
  return {.cost = policy.weights,
          .temperature = policy.router_temperature,
          .track_prefill_tokens = record.weights.track_prefill_tokens,
          .assume_kv_reuse = record.weights.assume_kv_reuse};
}

// As Scheduler::PickCandidate.
bool Samples(double temperature, size_t candidates) { return temperature > 0 && candidates > 1; }

bool HasDrawn(const DecisionRecord& record) {
  return record.tie_size > 1 || Samples(record.temperature, record.candidates.size());
}

}  // namespace

absl::StatusOr<Redecision> Redecide(const DecisionRecord& record, const PolicyChange& change,
                                    uint64_t seed) {
  if (!record.CanBeReplayed()) {
    return CannotReplay(fmt::format("its {} candidates were not recorded", record.candidate_count));
  }
  const auto recorded = std::find_if(record.candidates.begin(), record.candidates.end(),
                                     [&](const auto& c) { return c.target == record.target; });
  if (recorded == record.candidates.end())
    return CannotReplay("its target is not among its candidates");

  const EffectiveWeights weights = Changed(record, change);
  const ScoreContext context{
      .weights = weights,
      .isl_tokens = record.isl_tokens,
      .block_size_tokens = record.block_size_tokens,
      .least_active_prefill_tokens = record.weights.least_active_prefill_tokens,
      .decode_pool = record.weights.decode_pool};
  std::vector<double> costs;
  costs.reserve(record.candidates.size());
  for (const CandidateInput& candidate : record.candidates)
    costs.push_back(ScoreCandidate(candidate, context).cost_blocks);
  const double draw = HasDrawn(record) ? record.draw : DrawOf(seed);
  const auto recorded_index = static_cast<size_t>(recorded - record.candidates.begin());
  const Pick pick = !IsByCost(record.reason) ? Pick{.index = recorded_index}
                    : Samples(weights.temperature, costs.size())
                        ? PickBySoftmax(costs, weights.temperature, draw)
                        : PickLowestCost(costs, draw);

  ScoreContext as_recorded = context;
  as_recorded.weights = Changed(record, {});
  const auto overlap = [&](size_t i) {
    return ScoreCandidate(record.candidates[i], as_recorded).effective_overlap_blocks;
  };
  return Redecision{.index = pick.index,
                    .recorded_index = recorded_index,
                    .moves = pick.index != recorded_index,
                    .cost_blocks = costs[pick.index],
                    .recorded_cost_blocks = costs[recorded_index],
                    .overlap_blocks = overlap(pick.index),
                    .recorded_overlap_blocks = overlap(recorded_index)};
}

}  // namespace kvrouter
