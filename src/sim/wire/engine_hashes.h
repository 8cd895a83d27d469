#ifndef KVROUTER_SIM_WIRE_ENGINE_HASHES_H_
#define KVROUTER_SIM_WIRE_ENGINE_HASHES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kvrouter/types.h"

namespace kvrouter::sim {

// An engine's own names for the full blocks of a prompt: h[i] = XXH3(tokens of block i, seed
// h[i-1]), h[-1] = `seed`. Real engines draw their seed at random in every process, so equal
// prompts have other hashes on every engine and after every restart; a router that compared them
// across workers would look right only if the simulation were kinder.
std::vector<EngineHash> ChainedEngineHashes(std::span<const TokenId> tokens,
                                            uint32_t block_size_tokens, uint64_t seed);

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_WIRE_ENGINE_HASHES_H_
