#ifndef KVROUTER_SIM_VIRTUAL_POLICY_FIGURES_H_
#define KVROUTER_SIM_VIRTUAL_POLICY_FIGURES_H_

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "kvrouter/plan.h"
#include "sim/virtual/placement.h"

namespace kvrouter::sim {

// Hits of one run, as sums. Two sides: `overlap` is what the router expected when it decided, `hit`
// what the engine found when prefill started (of a prompt that came from
// another engine: what that one found). Three weightings: tokens, blocks (a prompt's last
// partial block counted or not), requests.
struct HitSums {
  uint64_t requests = 0;
  uint64_t isl_tokens = 0;
  uint64_t isl_blocks = 0;   // ceil(isl / block): what Dynamo's counters call ISL blocks
  uint64_t full_blocks = 0;  // floor: what can hit at all
  uint64_t overlap_blocks = 0;
  uint64_t hit_blocks = 0;
  uint64_t engine_query_tokens = 0;  // the engines' own counters
  uint64_t engine_hit_tokens = 0;
  uint64_t observations = 0;     // requests with a prompt
  double overlap_ratio_sum = 0;  // overlap / isl_blocks over observations: Dynamo's histogram
  // Hit / full_blocks over all requests; 0 for a prompt without a full block.
  double hit_full_block_ratio_sum = 0;
};

// What became of the migration planner's thoughts in one run.
struct MoveSums {
  std::array<uint64_t, kMigrationOutcomeCount> outcomes{};  // requests, by MigrationOutcome
  uint64_t moved = 0;          // prompts that a source held for the target
  uint64_t pulled_blocks = 0;  // that came so
  uint64_t timed_out = 0;      // sources that took too long: the target computed
  uint64_t leases_ended = 0;   // holds that ended before the target had fetched the blocks
  // Over moved prompts: from the decision until the source held them, less its own computing.
  double source_wait_s = 0;
};

// One row of the policy table.
struct PolicyFigures {
  Policy policy = Policy::kKv;
  HitSums sums;
  MoveSums moves;
  double router_token_weighted = 0;   // overlap in tokens / prompt tokens
  double engine_token_weighted = 0;   // the engines' counters: hits / queries
  double router_block_weighted = 0;   // overlap / isl_blocks
  double full_block_hit = 0;          // hit / full_blocks
  double request_weighted = 0;        // mean of the histogram overlap / isl_blocks
  double full_block_request_hit = 0;  // mean of hit / full_blocks
  double max_over_mean_prefill = 0;   // computed prefill tokens of the busiest worker / mean
  double max_over_mean_requests = 0;
  double ttft_p50_s = 0;
  double ttft_p99_s = 0;
  // Busy share of the prefill servers while requests arrived; above 1 is overload.
  double prefill_util = 0;
};

// The figures by name, in the order of tables and documents.
struct FigureColumn {
  std::string_view name;
  double PolicyFigures::*figure;
  int decimals;  // worth printing
};
std::span<const FigureColumn> FigureColumns();

// Each figure averaged; policy and all sums of the first. REQUIRES: !runs.empty(),
// all of one policy.
PolicyFigures MeanFigures(std::span<const PolicyFigures> runs);

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_VIRTUAL_POLICY_FIGURES_H_
