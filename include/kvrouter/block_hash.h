#ifndef KVROUTER_BLOCK_HASH_H_
#define KVROUTER_BLOCK_HASH_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kvrouter/types.h"

namespace kvrouter {

// From tokens to block identities, bit for bit as Dynamo computes them, so that precomputed hashes can be exchanged
// with Dynamo components. XXH3-64 with seeds, little-endian tokens.
// Parity: Dynamo v1.4.1 lib/tokens, lib/kv-hashing; golden vectors in tests/data/hash_vectors.json.

// What besides the tokens makes two blocks different. Empty means absent.
struct BlockIdentity {
  std::string_view lora_name = {};
  std::string_view cache_salt = {};
};

// 1337, plus XXH3(lora_name, seed 0) and XXH3(cache_salt, seed 1) for the non-empty ones, wrapping.
uint64_t BlockSeed(const BlockIdentity& identity);

// One hash per full block of `block_size_tokens` tokens; a trailing partial block has none. 0 tokens per block: none.
void AppendLocalBlockHashes(std::span<const TokenId> tokens, uint32_t block_size_tokens, uint64_t block_seed,
                            std::vector<LocalBlockHash>* out);

// seq[0] = local[0]; seq[i] = XXH3(seq[i-1] ++ local[i], seed 1337). The salt is not mixed in again.
void AppendSequenceHashes(std::span<const LocalBlockHash> local, std::vector<SequenceHash>* out);

// XXH3-64 of raw bytes: the primitive of all of the above.
uint64_t HashBytes(std::string_view bytes, uint64_t seed);

}  // namespace kvrouter

#endif  // KVROUTER_BLOCK_HASH_H_
