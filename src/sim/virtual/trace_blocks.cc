#include "sim/virtual/trace_blocks.h"

#include <algorithm>

#include "kvrouter/block_hash.h"

namespace kvrouter::sim {

TraceBlocks::TraceBlocks(const Trace& trace) : trace_(trace) {
  const uint64_t block_seed = BlockSeed({});
  std::vector<TokenId> tokens(trace.block_size_tokens);
  std::vector<LocalBlockHash> hashes;
  for (const TraceRow& row : trace.rows) {
    for (const uint32_t id : row.block_ids) {
      const auto [entry, is_new] = local_hashes_.try_emplace(id);
      if (!is_new) continue;
      std::fill(tokens.begin(), tokens.end(), TokenId{id});
      hashes.clear();
      AppendLocalBlockHashes(tokens, trace.block_size_tokens, block_seed, &hashes);
      entry->second = hashes.front();
    }
  }
}

std::vector<LocalBlockHash> TraceBlocks::LocalHashes(const TraceRow& row) const {
  std::vector<LocalBlockHash> hashes;
  hashes.reserve(row.block_ids.size());
  for (const uint32_t id : row.block_ids) hashes.push_back(LocalHash(id));
  return hashes;
}

EngineHash TraceBlocks::EngineHashOf(uint32_t worker, uint32_t block_id) {
  // A bijection of 64 bits that leaves no pattern to lean on (multiply by odd constants, shift).
  uint64_t x = (uint64_t{worker} << 32) | block_id;
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 29)) * 0xd1342543de82ef95;
  return EngineHash{x ^ (x >> 32)};
}

std::vector<EngineHash> TraceBlocks::EngineHashes(uint32_t worker, const TraceRow& row) {
  std::vector<EngineHash> hashes;
  hashes.reserve(row.block_ids.size());
  for (const uint32_t id : row.block_ids) hashes.push_back(EngineHashOf(worker, id));
  return hashes;
}

}  // namespace kvrouter::sim
