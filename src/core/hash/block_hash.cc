#include "kvrouter/block_hash.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

// The header-inlined build of xxHash: a call per 16-token block would cost as much as the hash
// itself.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kvrouter {
namespace {

constexpr uint64_t kBaseSeed = 1337;

// Tokens and hashes are hashed as little-endian bytes; on the machines we build for that is their
// memory.
static_assert(std::endian::native == std::endian::little);

}  // namespace

uint64_t HashBytes(std::string_view bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

uint64_t BlockSeed(const BlockIdentity& identity) {
  uint64_t seed = kBaseSeed;
  if (!identity.lora_name.empty()) seed += HashBytes(identity.lora_name, 0);
  if (!identity.cache_salt.empty()) seed += HashBytes(identity.cache_salt, 1);
  return seed;
}

void AppendLocalBlockHashes(std::span<const TokenId> tokens, uint32_t block_size_tokens,
                            uint64_t block_seed, std::vector<LocalBlockHash>* out) {
  if (block_size_tokens == 0) return;
  const size_t blocks = tokens.size() / block_size_tokens;
  out->reserve(out->size() + blocks);
  const size_t block_bytes = size_t{block_size_tokens} * sizeof(TokenId);
  for (size_t i = 0; i < blocks; ++i) {
    const TokenId* block = tokens.data() + i * block_size_tokens;
    out->push_back(LocalBlockHash{XXH3_64bits_withSeed(block, block_bytes, block_seed)});
  }
}

void AppendLocalBlockHashes(std::span<const TokenId> tokens, const BlockHashing& how,
                            std::vector<LocalBlockHash>* out) {
  if (how.block_size_tokens == 0) return;
  const size_t stride = how.block_size_tokens;
  const size_t window = stride + (how.is_eagle ? 1 : 0);
  std::vector<std::byte> bytes;
  std::vector<MultimodalHash> items;
  for (size_t i = 0; i * stride + window <= tokens.size(); ++i) {
    const auto block = std::as_bytes(tokens.subspan(i * stride, window));
    if (i >= how.multimodal.size() || how.multimodal[i].empty()) {
      out->push_back(
          LocalBlockHash{XXH3_64bits_withSeed(block.data(), block.size(), how.block_seed)});
      continue;
    }
    items = how.multimodal[i];
    std::sort(items.begin(), items.end());
    const auto item_bytes = std::as_bytes(std::span(items));
    bytes.assign(block.begin(), block.end());
    bytes.insert(bytes.end(), item_bytes.begin(), item_bytes.end());
    out->push_back(
        LocalBlockHash{XXH3_64bits_withSeed(bytes.data(), bytes.size(), how.block_seed)});
  }
}

void AppendSequenceHashes(std::span<const LocalBlockHash> local, std::vector<SequenceHash>* out) {
  if (local.empty()) return;
  out->reserve(out->size() + local.size());
  auto previous = static_cast<uint64_t>(local[0]);
  out->push_back(SequenceHash{previous});
  for (size_t i = 1; i < local.size(); ++i) {
    const std::array<uint64_t, 2> link = {previous, static_cast<uint64_t>(local[i])};
    previous = XXH3_64bits_withSeed(link.data(), sizeof(link), kBaseSeed);
    out->push_back(SequenceHash{previous});
  }
}

}  // namespace kvrouter
