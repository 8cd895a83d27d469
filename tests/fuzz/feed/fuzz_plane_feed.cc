// Bytes of a message of Dynamo's event plane through decoding and the fleet's state machines.
// Checks what must hold for any input: no event without content comes out, events are those of
// registered ranks, ids count up, the same bytes always mean the same.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "feed/plane_feed.h"

namespace kvrouter {
namespace {

bool SameData(const PlaneEvent& a, const PlaneEvent& b) {
  return a.target == b.target && a.event_id == b.event_id && a.ignored == b.ignored &&
         a.unreadable == b.unreadable && a.data.index() == b.data.index();
}

void CheckDecoding(std::string_view bytes) {
  PlaneBatch batch, again;
  const auto refused = DecodeRouterEvents(bytes, &batch);
  KVR_CHECK(DecodeRouterEvents(bytes, &again) == refused, "decoding is not repeatable");
  KVR_CHECK(batch.events.size() == again.events.size(), "{} and {} events", batch.events.size(),
            again.events.size());
  for (size_t i = 0; i < batch.events.size(); ++i)
    KVR_CHECK(SameData(batch.events[i], again.events[i]), "event {} differs", i);
  (void)DecodeActiveLoad(bytes);
  const std::string_view number = bytes.substr(0, 8);
  const std::string_view frames[] = {"kv-events", number, number, bytes};
  if (const auto parsed = ParsePlaneFrames(frames))
    KVR_CHECK(parsed->envelope.size() + 5 == bytes.size(), "{} bytes", parsed->envelope.size());
}

void CheckFeed(std::string_view bytes, MonotonicTime gap_wait) {
  PlaneFeed feed({.rank = {.gap_wait = gap_wait}, .max_waiting_bytes = 1 << 20});
  std::vector<KvEvent> events;
  for (const uint64_t id : {0, 1, 7}) {
    WorkerSpec spec;
    spec.id = WorkerId{id};
    spec.incarnation = Incarnation{1};
    spec.block_size_tokens = 4;
    spec.dp_size = 2;
    feed.SetWorker(spec, false, &events);
  }
  feed.OnMessage(0, bytes, {}, &events);
  feed.OnMessage(1, bytes, {}, &events);  // by a second path: nothing new
  feed.OnPathDown(0, "down");
  feed.OnDropped(1);
  feed.OnTick(std::chrono::hours(1), &events);
  feed.OnPathUp(0);
  for (const KvEvent& event : events) {
    KVR_CHECK(event.target.dp_rank < 2, "rank {}", event.target.dp_rank);
    KVR_CHECK(event.counting == StoreCounting::kSet, "counted");
    if (const auto* stored = std::get_if<Stored>(&event.data))
      KVR_CHECK(!stored->blocks.empty(), "empty store");
    if (const auto* removed = std::get_if<Removed>(&event.data))
      KVR_CHECK(!removed->engine_hashes.empty(), "empty removal");
    feed.OnApplyResult(event.target, {.status = ApplyStatus::kParentBlockNotFound});
  }
  for (const auto& report : feed.TakeChanges().ranks)
    KVR_CHECK(report.state != FeedState::kRecovering, "still waiting after an hour");
}

}  // namespace
}  // namespace kvrouter

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  kvrouter::CheckDecoding(bytes);
  for (const auto gap_wait : {kvrouter::MonotonicTime{}, kvrouter::MonotonicTime{1}})
    kvrouter::CheckFeed(bytes, gap_wait);
  return 0;
}
