#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/ascii.h"
#include "kvrouter/block_hash.h"

namespace kvrouter {
namespace {

constexpr TokenId kFirstPadValue = 1'000'000;
constexpr uint64_t kPadMask = (uint64_t{1} << 30) - 1;

bool IsHexDigit(char c) { return HexDigitValue(c) >= 0; }

}  // namespace

std::optional<MultimodalHash> MultimodalHashOf(std::string_view identifier) {
  if (identifier.empty()) return std::nullopt;
  constexpr size_t kDigestDigits = 64;
  constexpr size_t kKeptDigits = 16;
  if (identifier.size() != kDigestDigits ||
      !std::all_of(identifier.begin(), identifier.end(), IsHexDigit)) {
    return MultimodalHash{HashBytes(identifier, 0)};
  }
  uint64_t value = 0;
  std::from_chars(identifier.data(), identifier.data() + kKeptDigits, value, 16);
  return MultimodalHash{value};
}

std::vector<std::vector<MultimodalHash>> MultimodalBlocks(std::span<const MultimodalRange> ranges,
                                                          uint64_t total_tokens,
                                                          uint32_t block_size_tokens) {
  if (block_size_tokens == 0) return {};
  const uint64_t blocks =
      total_tokens / block_size_tokens + (total_tokens % block_size_tokens == 0 ? 0 : 1);
  std::vector<std::vector<MultimodalHash>> items(blocks);
  for (const MultimodalRange& range : ranges) {
    const uint64_t end_token = std::min(range.end_token, total_tokens);
    if (range.begin_token >= end_token) continue;
    const uint64_t last_block = (end_token - 1) / block_size_tokens;
    for (uint64_t block = range.begin_token / block_size_tokens; block <= last_block; ++block) {
      auto& of_block = items[block];
      if (std::find(of_block.begin(), of_block.end(), range.hash) == of_block.end()) {
        of_block.push_back(range.hash);
      }
    }
  }
  return items;
}

TokenId PadValueOf(MultimodalHash hash) {
  return kFirstPadValue + static_cast<TokenId>(static_cast<uint64_t>(hash) & kPadMask);
}

void ReplacePlaceholders(std::span<TokenId> block, TokenId placeholder,
                         std::span<const MultimodalHash> items) {
  if (items.empty()) return;
  size_t run = 0;
  bool in_run = false;
  for (TokenId& token : block) {
    const bool is_placeholder = token == placeholder;
    if (in_run && !is_placeholder) ++run;
    if (is_placeholder) token = PadValueOf(items[std::min(run, items.size() - 1)]);
    in_run = is_placeholder;
  }
}

}  // namespace kvrouter
