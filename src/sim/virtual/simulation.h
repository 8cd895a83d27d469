#ifndef KVROUTER_SIM_VIRTUAL_SIMULATION_H_
#define KVROUTER_SIM_VIRTUAL_SIMULATION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kvrouter/config.h"
#include "sim/model/engine_model.h"
#include "sim/virtual/placement.h"
#include "sim/virtual/policy_figures.h"
#include "sim/virtual/trace_blocks.h"

namespace kvrouter::sim {

struct SimulationConfig {
  Policy policy = Policy::kKv;
  uint32_t workers = 8;  // > 0
  EngineConfig engine;   // block_size_tokens is taken from the trace
  // Random_seed and decision_detail are set here. Plans to migrate are carried out, which takes
  // engines of kContinuousBatching.
  RouterConfig router;
  uint64_t seed = 1;
  double speedup = 1;  // > 0. Arrivals come this much faster than recorded
  // Each request is decided only when the one before has finished and its blocks are visible:
  // instant service. Times mean nothing then, but counts are exact.
  bool sequential = false;
};

// Runs the whole trace in virtual time. The same arguments give the same figures.
absl::StatusOr<PolicyFigures> Simulate(const TraceBlocks& blocks, const SimulationConfig& config);

// Means over `runs` runs (> 0) with seeds config.seed, config.seed + 1, …: few early ties decide
// where conversations grow, so figures of single runs scatter (full_block_hit of skewed_isl with 8
// workers: standard deviation 0.008). Where nothing is random one run is made.
absl::StatusOr<PolicyFigures> SimulateMean(const TraceBlocks& blocks, SimulationConfig config,
                                           uint32_t runs);

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_VIRTUAL_SIMULATION_H_
