#ifndef KVROUTER_FEED_EVENT_CODEC_H_
#define KVROUTER_FEED_EVENT_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "feed/feed_stats.h"
#include "kvrouter/types.h"

namespace kvrouter {

// From the payload of one engine message to plain structs: what vLLM, SGLang and TensorRT-LLM put
// on the wire, in all documented shapes (tagged arrays, tagged maps, both mixed in one batch). Only
// syntax is judged here; which blocks enter the index is decided by RankFilter.
//
// Parity: Dynamo v1.4.1 lib/kv-router/src/zmq_wire, and engines' own encoders; see
// docs/parity.md#events.

// A run of elements in one of the batch's flat arrays.
struct Slice {
  uint32_t begin = 0;
  uint32_t count = 0;
};

enum class RawKind : uint8_t { kStored, kRemoved, kCleared };

// Empty text means absent.
struct RawEvent {
  RawKind kind = RawKind::kCleared;
  Slice hashes;                    // into RawBatch::hashes
  std::optional<uint64_t> parent;  // stored only; 0 is a real parent
  Slice tokens;                    // into RawBatch::tokens
  // Sent as pairs (t_j, t_j+1), as EAGLE engines of SGLang do: n pairs are n + 1 tokens here. Or,
  // in other forms than msgpack, with the token behind the last block.
  bool tokens_in_pairs = false;
  // False: an item was neither a 32-bit token nor a pair, or pairs and tokens were mixed, or a pair
  // did not continue the one before (then `tokens` is empty).
  bool tokens_readable = true;
  // Into RawBatch::local_hashes: content by hash instead of `tokens`; adapter, salt and items are
  // mixed in.
  Slice local_hashes;
  uint32_t block_size_tokens = 0;

  // How many token positions the event covers.
  uint32_t Positions() const { return tokens.count - (tokens_in_pairs ? 1 : 0); }

  std::string_view medium;
  std::string_view lora_name;
  bool has_lora_number = false;  // a positive lora_id, meaningful only inside the engine's process
  std::string_view cache_salt;
  Slice items;  // into RawBatch::items: images and the like whose identity is known
  // Index of the first block that has content besides its tokens and `items` (prompt embeddings,
  // texts that may be a salt or an item); absent = none.
  std::optional<uint32_t> first_unknown_block;
  std::optional<uint64_t> group_idx;
  std::string_view spec_kind;
  std::string_view locality;
};

// An item that touches a block of an event.
struct BlockItem {
  uint32_t block = 0;
  MultimodalHash hash{};

  friend bool operator==(const BlockItem&, const BlockItem&) = default;
};

struct RawBatch {
  double ts_seconds = 0;
  std::optional<uint64_t> rank;  // absent: the rank of the socket
  std::vector<RawEvent> events;  // in order; skipped ones are missing
  std::vector<uint64_t> hashes;
  std::vector<TokenId> tokens;
  std::vector<LocalBlockHash> local_hashes;  // msgpack has none
  std::vector<BlockItem> items;
  SkipCounts skipped{};  // events left out: kBadEvent, kUnknownTag
  // Of the bad ones, those that took blocks away: which ones is not known.
  uint32_t lost_removals = 0;

  std::span<const uint64_t> Hashes(const RawEvent& event) const {
    return std::span(hashes).subspan(event.hashes.begin, event.hashes.count);
  }
  // Ascending block, within a block in the engine's order; an item that lies in a block twice is
  // listed twice.
  std::span<const BlockItem> Items(const RawEvent& event) const {
    return std::span(items).subspan(event.items.begin, event.items.count);
  }
  std::span<const LocalBlockHash> LocalHashes(const RawEvent& event) const {
    return std::span(local_hashes).subspan(event.local_hashes.begin, event.local_hashes.count);
  }
  std::span<const TokenId> Tokens(const RawEvent& event) const {
    return std::span(tokens).subspan(event.tokens.begin, event.tokens.count);
  }
};

inline constexpr size_t kMaxPayloadBytes = 64u << 20;
inline constexpr uint32_t kMaxEventsPerBatch = 1u << 20;

// Replaces *batch; its texts point into `payload`. Nothing is returned when the batch was decoded
// (possibly with some events skipped); otherwise why the whole message is refused: kBadEnvelope or
// kOversized.
std::optional<SkipReason> DecodeBatch(std::string_view payload, RawBatch* batch);

// The timestamp alone, without decoding the events. Nothing if the payload does not begin like a
// batch.
std::optional<double> PeekTimestamp(std::string_view payload);

}  // namespace kvrouter

#endif  // KVROUTER_FEED_EVENT_CODEC_H_
