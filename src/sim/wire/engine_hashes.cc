#include "sim/wire/engine_hashes.h"

#include <string_view>

#include "kvrouter/block_hash.h"

namespace kvrouter::sim {

std::vector<EngineHash> ChainedEngineHashes(std::span<const TokenId> tokens,
                                            uint32_t block_size_tokens, uint64_t seed) {
  std::vector<EngineHash> hashes;
  if (block_size_tokens == 0) return hashes;
  const size_t full_blocks = tokens.size() / block_size_tokens;
  hashes.reserve(full_blocks);
  uint64_t parent = seed;
  for (size_t i = 0; i < full_blocks; ++i) {
    const auto block = std::as_bytes(tokens.subspan(i * block_size_tokens, block_size_tokens));
    parent = HashBytes({reinterpret_cast<const char*>(block.data()), block.size()}, parent);
    hashes.push_back(EngineHash{parent});
  }
  return hashes;
}

}  // namespace kvrouter::sim
