#ifndef KVROUTER_TESTS_SUPPORT_ENGINE_PAYLOAD_H_
#define KVROUTER_TESTS_SUPPORT_ENGINE_PAYLOAD_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "feed/wire_frames.h"
#include "kvrouter/types.h"
#include "support/msgpack_writer.h"

namespace kvrouter {

// Payloads and frames as an engine sends them. Events are msgpack texts, so that a test can mix
// shapes in one batch.

struct StoreSpec {
  std::vector<uint64_t> hashes;
  std::optional<uint64_t> parent;
  std::vector<TokenId> tokens;
  uint32_t block_size = 4;
  std::string medium = "GPU";
};

inline std::string ArrayStore(const StoreSpec& s) {
  MsgpackWriter w;
  w.Array(7).Str("BlockStored").UintArray(s.hashes);
  if (s.parent) {
    w.Uint(*s.parent);
  } else {
    w.Nil();
  }
  return w.UintArray(s.tokens).Uint(s.block_size).Nil().Str(s.medium).bytes();
}

// `extra` holds `extra_pairs` further key-value pairs.
inline std::string MapStore(const StoreSpec& s, size_t extra_pairs = 0,
                            std::string_view extra = "") {
  MsgpackWriter w;
  w.Map(7 + extra_pairs).Str("type").Str("BlockStored").Str("block_hashes").UintArray(s.hashes);
  w.Str("parent_block_hash");
  if (s.parent) {
    w.Uint(*s.parent);
  } else {
    w.Nil();
  }
  w.Str("token_ids").UintArray(s.tokens).Str("block_size").Uint(s.block_size);
  return w.Str("lora_id").Nil().Str("medium").Str(s.medium).Raw(extra).bytes();
}

inline std::string ArrayRemove(const std::vector<uint64_t>& hashes,
                               std::string_view medium = "GPU") {
  return MsgpackWriter().Array(3).Str("BlockRemoved").UintArray(hashes).Str(medium).bytes();
}

inline std::string MapRemove(const std::vector<uint64_t>& hashes, size_t extra_pairs = 0,
                             std::string_view extra = "") {
  MsgpackWriter w;
  w.Map(3 + extra_pairs).Str("type").Str("BlockRemoved").Str("block_hashes").UintArray(hashes);
  return w.Str("medium").Str("GPU").Raw(extra).bytes();
}

inline std::string ArrayCleared() {
  return MsgpackWriter().Array(1).Str("AllBlocksCleared").bytes();
}

inline std::string BatchPayload(double ts, const std::vector<std::string>& events,
                                std::optional<int64_t> rank = 0) {
  MsgpackWriter w;
  w.Array(3).Float(ts).Array(events.size());
  for (const std::string& event : events) w.Raw(event);
  if (rank) {
    w.Int(*rank);
  } else {
    w.Nil();
  }
  return w.bytes();
}

inline std::string SequenceFrame(uint64_t sequence) {
  const auto bytes = EncodeSequence(sequence);
  return std::string(bytes.data(), bytes.size());
}

inline std::string FromHex(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1])));
  }
  return bytes;
}

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_SUPPORT_ENGINE_PAYLOAD_H_
