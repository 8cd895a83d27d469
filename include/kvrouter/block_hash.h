#ifndef KVROUTER_BLOCK_HASH_H_
#define KVROUTER_BLOCK_HASH_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "kvrouter/types.h"

namespace kvrouter {

// From tokens to block identities, bit for bit as Dynamo computes them, so that precomputed hashes
// can be exchanged with Dynamo components. XXH3-64 with seeds, little-endian tokens. Parity: Dynamo
// v1.4.1 lib/tokens, lib/kv-hashing; golden vectors in tests/data/hash_vectors.json.

// What besides the tokens makes two blocks different. Empty means absent.
struct BlockIdentity {
  std::string_view lora_name = {};
  std::string_view cache_salt = {};
};

// 1337, plus XXH3(lora_name, seed 0) and XXH3(cache_salt, seed 1) for the non-empty ones, wrapping.
uint64_t BlockSeed(const BlockIdentity& identity);

// One hash per full block of `block_size_tokens` tokens; a trailing partial block has none. 0
// tokens per block: none.
void AppendLocalBlockHashes(std::span<const TokenId> tokens, uint32_t block_size_tokens,
                            uint64_t block_seed, std::vector<LocalBlockHash>* out);

// How the blocks of one model are cut and named: the same for all workers of a partition, since
// blocks named in two ways never match.
struct BlockNaming {
  uint32_t block_size_tokens = 0;
  // Engines whose drafter looks a token ahead: a block is its tokens and the next one, so the last
  // token of a prompt completes no block.
  bool is_eagle = false;
  // The token that stands for images in what the engine announces. Set: a block with items is
  // named by its tokens alone, pad values in place of the runs of this token
  // (ReplacePlaceholders). Absent: the items' hashes follow the tokens.
  std::optional<TokenId> image_token_id = {};

  friend bool operator==(const BlockNaming&, const BlockNaming&) = default;
};

// How many blocks of a prompt have a name: floor(n / block size), EAGLE
// floor((n - 1) / block size). 0 tokens per block: none.
uint64_t FullBlocks(uint64_t tokens, const BlockNaming& naming);

// A prompt's, or an event's, way to its block hashes.
struct BlockHashing {
  uint32_t block_size_tokens = 0;
  uint64_t block_seed = 0;
  bool is_eagle = false;
  std::optional<TokenId> image_token_id = {};
  // The items that touch each block; may end early. Their hashes follow the block's tokens,
  // ascending, repetitions counting. With an image token they are named in the order in which the
  // block shows them. None: as if the block had no entry.
  std::span<const std::vector<MultimodalHash>> multimodal = {};
};
void AppendLocalBlockHashes(std::span<const TokenId> tokens, const BlockHashing& how,
                            std::vector<LocalBlockHash>* out);

// ---- Multimodal items ----

// Of an item's name as engines send it: 64 hexadecimal digits give their first 16, other text is
// hashed. Nothing for the empty name.
std::optional<MultimodalHash> MultimodalHashOf(std::string_view identifier);

// Tokens [begin, end) of a prompt stand for an item. An empty range touches no block.
struct MultimodalRange {
  MultimodalHash hash{};
  uint64_t begin_token = 0;
  uint64_t end_token = 0;
};

// The items of each block, the trailing partial one included: ceil(total_tokens / block size)
// entries. An item is listed once per block however often it touches it; what lies behind the
// prompt's end is ignored.
std::vector<std::vector<MultimodalHash>> MultimodalBlocks(std::span<const MultimodalRange> ranges,
                                                          uint64_t total_tokens,
                                                          uint32_t block_size_tokens);

// Engines that put an item's identity into its placeholder tokens: 1,000,000 + the low 30 bits.
// Such blocks are hashed by tokens alone.
TokenId PadValueOf(MultimodalHash hash);

// Each run of `placeholder` in one block becomes the pad value of the item at the run's place in
// `items`, the last item for runs beyond. Without items nothing changes.
void ReplacePlaceholders(std::span<TokenId> block, TokenId placeholder,
                         std::span<const MultimodalHash> items);

// ---- Chains ----

// seq[0] = local[0]; seq[i] = XXH3(seq[i-1] ++ local[i], seed 1337). The salt is not mixed in
// again.
void AppendSequenceHashes(std::span<const LocalBlockHash> local, std::vector<SequenceHash>* out);

// XXH3-64 of raw bytes: the primitive of all of the above.
uint64_t HashBytes(std::string_view bytes, uint64_t seed);

}  // namespace kvrouter

#endif  // KVROUTER_BLOCK_HASH_H_
