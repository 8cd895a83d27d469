#ifndef KVROUTER_FEED_PLANE_CODEC_H_
#define KVROUTER_FEED_PLANE_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "feed/feed_stats.h"
#include "kvrouter/events.h"
#include "kvrouter/types.h"

namespace kvrouter {

// Dynamo's event plane as bytes: what its workers publish over NATS or ZMQ once they have
// normalised their engine's events. Msgpack with named fields; unknown names are stepped over, so
// that later versions can add some.
//
//   envelope      {publisher_id, sequence, published_at, topic, payload}
//   kv-events     payload = [RouterEvent, ...] or one RouterEvent
//   kv_metrics    payload = one ActiveLoad
//   over ZMQ      topic or subject | publisher_id (8 bytes BE) | sequence (8 bytes BE) | frame
//                 frame = version 1 | length (4 bytes BE) | envelope
//
// Parity: Dynamo v1.4.1 lib/kv-router/src/protocols.rs; see docs/parity.md#events.

// Workers send at most 128 events and 8,192 blocks a message.
inline constexpr size_t kMaxPlaneMessageBytes = 16u << 20;

inline constexpr std::string_view kKvEventsTopic = "kv-events";
inline constexpr std::string_view kKvMetricsTopic = "kv_metrics";

struct PlaneEnvelope {
  uint64_t publisher_id = 0;  // one life of one publisher
  uint64_t sequence = 0;      // of its messages, from 0
  std::string_view topic;     // its last segment, if it is a whole subject
  std::string_view payload;
};

// The texts point into `bytes`. Nothing is returned when it was decoded, otherwise why not.
std::optional<SkipReason> DecodeEnvelope(std::string_view bytes, PlaneEnvelope* envelope);

// The envelope in the frames of a ZMQ message; nothing when the frames are not of that shape.
struct PlaneFrames {
  std::string_view subject;
  std::string_view envelope;
};
std::optional<PlaneFrames> ParsePlaneFrames(std::span<const std::string_view> frames);

// One RouterEvent. What its storage tier and residency domain say about blocks that we do not keep
// is settled here: such an event carries the reason to pass over it, and only its id counts.
struct PlaneEvent {
  Target target;
  uint64_t event_id = 0;
  StorageTier tier = StorageTier::kDevice;
  std::optional<SkipReason> ignored = std::nullopt;
  // The id is known, the content is not: as good as lost.
  bool unreadable = false;
  std::variant<Stored, Removed, Cleared> data = Cleared{};

  bool is_cleared() const {
    return !ignored && !unreadable && std::holds_alternative<Cleared>(data);
  }
  size_t Bytes() const;  // of memory, estimated
};

inline constexpr uint32_t kMaxPlaneEventsPerMessage = 1u << 16;

struct PlaneBatch {
  std::vector<PlaneEvent> events;
  uint64_t bad_events = 0;  // of no known worker, rank or id
};

// Replaces *batch. Nothing is returned when the message was decoded, possibly with bad events left
// out; otherwise why the whole of it is refused.
std::optional<SkipReason> DecodeRouterEvents(std::string_view payload, PlaneBatch* batch);

// What a worker, or another router, says about one rank's load.
// A field that is absent was not said.
struct ActiveLoad {
  Target target;
  std::optional<uint64_t> active_decode_blocks;
  std::optional<uint64_t> active_prefill_tokens;
  std::optional<uint64_t> kv_used_blocks;
};
std::optional<ActiveLoad> DecodeActiveLoad(std::string_view payload);
// Takes over the fields that `more` says.
void MergeLoad(const ActiveLoad& more, ActiveLoad* load);

// Where workers publish: namespace.{ns}[.component.{component}[.endpoint.{endpoint}]].{topic}, each
// segment percent-encoded. A component or endpoint of "*" stays a wildcard (of NATS).
struct PlaneScope {
  std::string dynamo_namespace;
  std::string component;  // empty: the namespace's own subject
  std::string endpoint;   // empty: the component's own subject
};
std::string PlaneSubject(const PlaneScope& scope, std::string_view topic);

}  // namespace kvrouter

#endif  // KVROUTER_FEED_PLANE_CODEC_H_
