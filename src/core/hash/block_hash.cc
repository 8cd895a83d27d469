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

// What is hashed of a block with items. Its memory serves block after block.
class ItemBlockBytes {
 public:
  // The tokens, pad values in place of the image tokens.
  std::span<const std::byte> Padded(std::span<const TokenId> block, TokenId image_token_id,
                                    std::span<const MultimodalHash> items) {
    tokens_.assign(block.begin(), block.end());
    ReplacePlaceholders(tokens_, image_token_id, items);
    return std::as_bytes(std::span(tokens_));
  }

  // The tokens, then the items in ascending order.
  std::span<const std::byte> Followed(std::span<const TokenId> block,
                                      std::span<const MultimodalHash> items) {
    items_.assign(items.begin(), items.end());
    std::sort(items_.begin(), items_.end());
    const auto block_bytes = std::as_bytes(block);
    const auto item_bytes = std::as_bytes(std::span(items_));
    bytes_.assign(block_bytes.begin(), block_bytes.end());
    bytes_.insert(bytes_.end(), item_bytes.begin(), item_bytes.end());
    return bytes_;
  }

 private:
  std::vector<TokenId> tokens_;
  std::vector<MultimodalHash> items_;
  std::vector<std::byte> bytes_;
};

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

uint64_t FullBlocks(uint64_t tokens, const BlockNaming& naming) {
  if (naming.block_size_tokens == 0 || tokens == 0) return 0;
  return (naming.is_eagle ? tokens - 1 : tokens) / naming.block_size_tokens;
}

void AppendLocalBlockHashes(std::span<const TokenId> tokens, const BlockHashing& how,
                            std::vector<LocalBlockHash>* out) {
  if (how.block_size_tokens == 0) return;
  const size_t stride = how.block_size_tokens;
  const size_t window = stride + (how.is_eagle ? 1 : 0);
  if (tokens.size() >= window) out->reserve(out->size() + (tokens.size() - window) / stride + 1);
  ItemBlockBytes item_block;
  for (size_t i = 0; i * stride + window <= tokens.size(); ++i) {
    const auto block = tokens.subspan(i * stride, window);
    const bool has_items = i < how.multimodal.size() && !how.multimodal[i].empty();
    const auto bytes = !has_items ? std::as_bytes(block)
                       : how.image_token_id
                           ? item_block.Padded(block, *how.image_token_id, how.multimodal[i])
                           : item_block.Followed(block, how.multimodal[i]);
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
