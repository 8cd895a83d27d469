#ifndef KVROUTER_SIM_VIRTUAL_BREAK_EVEN_H_
#define KVROUTER_SIM_VIRTUAL_BREAK_EVEN_H_

#include <cstdint>
#include <optional>

#include "sim/model/engine_model.h"
#include "sim/virtual/policy_figures.h"

namespace kvrouter::sim {

// Longer prompts are not tried.
inline constexpr uint64_t kMaxBreakEvenTokens = 1'048'576;

// From how many prompt tokens on, all of which a source holds and the target does not, a pull gives
// the first token sooner than computing does; nothing if never. Measured: two idle engines of this
// configuration serve prompts both ways. REQUIRES: service is kContinuousBatching.
std::optional<uint64_t> IdleBreakEvenTokens(const EngineConfig& engine);

// The same for the prompts that a run moved, whose sources were not idle: what has to be gained to
// pay for the mean time that they waited there, and for the blocks' way. Nothing if never, or if
// nothing was moved. Not counted is what the source's other requests lose.
std::optional<uint64_t> LoadedBreakEvenTokens(const EngineConfig& engine, const MoveSums& moves);

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_VIRTUAL_BREAK_EVEN_H_
