#include "core/schedule/shadow.h"

#include <algorithm>

#include "core/schedule/pick.h"
#include "core/schedule/scorer.h"

namespace kvrouter {

EffectiveWeights ShadowWeights(const RouterConfig& config, const ConfigOverride& overrides) {
  SchedulerConfig scheduler = config.scheduler;
  scheduler.weights = config.shadow->weights;
  scheduler.router_temperature = config.shadow->router_temperature;
  return ResolveWeights(scheduler, overrides);
}

ShadowChoice ChooseInShadow(const CandidateTable& table, const Placement& placement,
                            const EffectiveWeights& weights, uint64_t seed,
                            std::vector<double>* costs) {
  ScoreContext context = table.context;
  context.weights = weights;
  costs->resize(table.seen.size());
  ScoreAll(table.seen, context, *costs, table.lower, table.taint_multipliers);
  const bool drew = placement.pick.tie_size > 1 || placement.reason == DecisionReason::kSampled;
  const double draw = drew ? placement.pick.draw : DrawOf(seed);
  const double made_cost = (*costs)[placement.index];
  size_t chosen = placement.index;
  if (weights.temperature > 0) {
    chosen = PickBySoftmax(*costs, weights.temperature, draw).index;
  } else if (*std::min_element(costs->begin(), costs->end()) < made_cost) {
    chosen = PickLowestCost(*costs, draw).index;
  }
  const CandidateCost there = ScoreSeen(table.seen[chosen], table.context, table.LowerOf(chosen),
                                        table.TaintMultiplierOf(chosen));
  return {.target = table.seen[chosen].target(),
          .agrees = chosen == placement.index,
          .effective_overlap_blocks = there.effective_overlap_blocks,
          .shadow_regret_blocks = std::max(0.0, made_cost - (*costs)[chosen]),
          .live_regret_blocks = std::max(0.0, table.costs[chosen] - table.costs[placement.index])};
}

}  // namespace kvrouter
