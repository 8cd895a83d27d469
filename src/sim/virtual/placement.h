#ifndef KVROUTER_SIM_VIRTUAL_PLACEMENT_H_
#define KVROUTER_SIM_VIRTUAL_PLACEMENT_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "kvrouter/config.h"
#include "kvrouter/plan.h"
#include "sim/model/engine_model.h"
#include "sim/trace/trace.h"
#include "sim/virtual/fleet.h"
#include "sim/virtual/trace_blocks.h"

namespace kvrouter::sim {

enum class Policy : uint8_t { kKv, kRoundRobin, kRandom, kLeastLoaded };
inline constexpr Policy kAllPolicies[] = {Policy::kKv, Policy::kRoundRobin, Policy::kRandom,
                                          Policy::kLeastLoaded};
// As on the command line and in tables: "round_robin".
std::string_view PolicyName(Policy policy);

// Another worker's blocks of the prompt are to be had first.
struct Pull {
  uint32_t source = 0;
  std::chrono::nanoseconds timeout{};  // of the source's step; then the target computes
};

// Where a request goes, and how many leading blocks of it are thought to be there.
struct Placed {
  uint32_t worker = 0;
  uint64_t overlap_blocks = 0;
  std::optional<Pull> pull = {};
  std::optional<MigrationOutcome> migration = {};  // what the planner said, if it was asked
};

// Chooses a worker for each request of a trace; request ids are row indices. Thread-compatible.
class Placement {
 public:
  virtual ~Placement() = default;
  virtual absl::StatusOr<Placed> Place(size_t row_index, MonotonicTime now) = 0;
  // Everything the engines say, in time order; ids as KvMoves makes them.
  virtual void See(uint32_t worker, const EngineEvent& event) = 0;
};

// What placements look at. All of it outlives them.
struct PlacementInputs {
  const Trace& trace;
  const TraceBlocks& blocks;
  const Fleet& fleet;
};

// The product's own core: Router::Submit decides and books, events feed its index, and the booking
// ends with the request.
absl::StatusOr<std::unique_ptr<Placement>> MakeKvPlacement(const PlacementInputs& inputs,
                                                           const RouterConfig& config);

// Policies without a router, for comparison. They know the truth: overlap is what the chosen engine
// holds now, load is what the engines have.
std::unique_ptr<Placement> MakeRoundRobinPlacement(const PlacementInputs& inputs);
std::unique_ptr<Placement> MakeRandomPlacement(const PlacementInputs& inputs, uint64_t seed);
// Least (outstanding prefill tokens / block size + distinct active blocks); ties at random.
std::unique_ptr<Placement> MakeLeastLoadedPlacement(const PlacementInputs& inputs, uint64_t seed);

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_VIRTUAL_PLACEMENT_H_
