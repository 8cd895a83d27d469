#ifndef KVROUTER_TESTS_SUPPORT_PLANE_PAYLOAD_H_
#define KVROUTER_TESTS_SUPPORT_PLANE_PAYLOAD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvrouter/block_hash.h"
#include "kvrouter/types.h"
#include "support/msgpack_writer.h"

namespace kvrouter {

// What Dynamo's workers put on the event plane, for tests.
// Blocks are pairs of engine hash and local hash.

using PlaneBlocks = std::vector<std::pair<uint64_t, uint64_t>>;

inline std::string PlaneStored(std::optional<uint64_t> parent, const PlaneBlocks& blocks) {
  MsgpackWriter w;
  w.Map(1).Str("stored").Map(3).Str("parent_hash");
  parent ? w.Uint(*parent) : w.Nil();
  w.Str("start_position").Nil().Str("blocks").Array(blocks.size());
  for (const auto& [block, tokens] : blocks) {
    w.Map(3).Str("block_hash").Uint(block).Str("tokens_hash").Uint(tokens);
    w.Str("mm_extra_info").Nil();
  }
  return w.bytes();
}
inline std::string PlaneRemoved(const std::vector<uint64_t>& hashes) {
  return MsgpackWriter().Map(1).Str("removed").Map(1).Str("block_hashes").UintArray(hashes).bytes();
}
inline std::string PlaneCleared() { return MsgpackWriter().Str("cleared").bytes(); }

struct PlaneEventSpec {
  uint64_t worker_id = 7;
  uint32_t dp_rank = 0;
  uint64_t event_id = 0;
  std::string data = PlaneCleared();  // one of the three above
  std::string storage_tier = "device";
  std::string residency_domain = "worker";  // empty: the field is missing
  bool state_source = false;
};

inline std::string RouterEventBytes(const PlaneEventSpec& spec) {
  MsgpackWriter w;
  w.Map(3 + (spec.residency_domain.empty() ? 0 : 1) + (spec.state_source ? 1 : 0));
  w.Str("worker_id").Uint(spec.worker_id).Str("storage_tier").Str(spec.storage_tier);
  if (!spec.residency_domain.empty()) w.Str("residency_domain").Str(spec.residency_domain);
  w.Str("event").Map(3).Str("event_id").Uint(spec.event_id);
  w.Str("data").Raw(spec.data).Str("dp_rank").Uint(spec.dp_rank);
  if (spec.state_source) w.Str("state_source").Uint(5);
  return w.bytes();
}

inline std::string RouterEventsPayload(const std::vector<PlaneEventSpec>& events) {
  MsgpackWriter w;
  w.Array(events.size());
  for (const PlaneEventSpec& event : events) w.Raw(RouterEventBytes(event));
  return w.bytes();
}

inline std::string EnvelopeBytes(uint64_t publisher_id, uint64_t sequence, std::string_view topic,
                                 std::string_view payload) {
  MsgpackWriter w;
  w.Map(5).Str("publisher_id").Uint(publisher_id).Str("sequence").Uint(sequence);
  w.Str("published_at").Uint(1756671000123).Str("topic").Str(topic).Str("payload").Bin(payload);
  return w.bytes();
}

inline std::string EventsEnvelope(uint64_t publisher_id, uint64_t sequence,
                                  const std::vector<PlaneEventSpec>& events) {
  return EnvelopeBytes(publisher_id, sequence, "kv-events", RouterEventsPayload(events));
}

// The frames of a ZMQ message after the subject.
inline std::string BigEndian64(uint64_t value) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(value >> (8 * (7 - i)));
  return bytes;
}
inline std::string PlaneFrame(std::string_view envelope) {
  std::string bytes = "\x01";
  bytes += BigEndian64(envelope.size()).substr(4);
  bytes += envelope;
  return bytes;
}

// The hashes that a worker would report for blocks of `block_size_tokens` of these tokens; engine
// hashes are the sequence hashes.
inline PlaneBlocks BlocksOfTokens(const std::vector<TokenId>& tokens, uint32_t block_size_tokens) {
  std::vector<LocalBlockHash> locals;
  AppendLocalBlockHashes(tokens, block_size_tokens, BlockSeed({}), &locals);
  PlaneBlocks blocks;
  uint64_t name = 0;
  for (const LocalBlockHash local : locals) {
    name = name * 1'000'003 + static_cast<uint64_t>(local);
    blocks.emplace_back(name, static_cast<uint64_t>(local));
  }
  return blocks;
}

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_SUPPORT_PLANE_PAYLOAD_H_
