// Bytes of a live message's payload through decoding, filtering and the sequence machine. Checks
// what must hold for any input: slices stay inside their arrays, events come out whole, the same
// bytes always mean the same.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "feed/engine_feed.h"

namespace kvrouter {
namespace {

void CheckBatch(const RawBatch& batch) {
  for (const RawEvent& event : batch.events) {
    KVR_CHECK(uint64_t{event.hashes.begin} + event.hashes.count <= batch.hashes.size(),
              "hashes {}+{} of {}", event.hashes.begin, event.hashes.count, batch.hashes.size());
    KVR_CHECK(uint64_t{event.tokens.begin} + event.tokens.count <= batch.tokens.size(),
              "tokens {}+{} of {}", event.tokens.begin, event.tokens.count, batch.tokens.size());
    KVR_CHECK(uint64_t{event.items.begin} + event.items.count <= batch.items.size(),
              "items {}+{} of {}", event.items.begin, event.items.count, batch.items.size());
    KVR_CHECK(!event.tokens_in_pairs || event.tokens.count >= 2, "{} tokens in pairs",
              event.tokens.count);
    for (size_t i = 1; i < event.items.count; ++i) {
      KVR_CHECK(batch.Items(event)[i - 1].block <= batch.Items(event)[i].block, "item {}", i);
    }
  }
}

void CheckEvents(const std::vector<KvEvent>& events, uint32_t dp_size) {
  for (const KvEvent& event : events) {
    KVR_CHECK(event.target.dp_rank < dp_size, "rank {}", event.target.dp_rank);
    if (const auto* stored = std::get_if<Stored>(&event.data))
      KVR_CHECK(!stored->blocks.empty(), "empty store");
    if (const auto* removed = std::get_if<Removed>(&event.data)) {
      KVR_CHECK(!removed->engine_hashes.empty(), "empty removal");
    }
  }
}

void Run(std::string_view payload) {
  RawBatch batch, again;
  const auto refused = DecodeBatch(payload, &batch);
  if (!refused) CheckBatch(batch);
  KVR_CHECK(DecodeBatch(payload, &again) == refused && again.hashes == batch.hashes &&
                again.tokens == batch.tokens && again.items == batch.items,
            "decoding is not repeatable");
  if (!refused) KVR_CHECK(PeekTimestamp(payload).has_value(), "a batch without timestamp");

  constexpr uint32_t kDpSize = 4;
  for (int variant = 0; variant < 4; ++variant) {
    const bool has_replay = variant % 2 == 1;
    const bool pads_and_pairs = variant >= 2;
    EngineFeed feed({.target = {WorkerId{1}, 0},
                     .incarnation = Incarnation{1},
                     .dp_size = kDpSize,
                     .block_size_tokens = 4,
                     .is_eagle = pads_and_pairs,
                     .image_token_id = pads_and_pairs ? std::optional<TokenId>(9) : std::nullopt,
                     .has_replay = has_replay});
    std::vector<KvEvent> events;
    const std::string sequences[] = {std::string(8, '\0'), std::string(7, '\0') + '\1',
                                     std::string(8, '\xff')};
    feed.OnConnected(&events);
    for (const std::string& sequence : sequences) {
      const std::string_view live[] = {"", sequence, payload};
      feed.OnLiveMessage(live, &events);
      feed.TakeReplayRequest({});
      feed.OnReplayMessage(live, {}, &events);
    }
    const std::string_view as_sequence[] = {"", payload, payload};
    feed.OnReplayMessage(as_sequence, {}, &events);
    feed.OnTick(std::chrono::hours(1), &events);
    CheckEvents(events, kDpSize);
  }
}

}  // namespace
}  // namespace kvrouter

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kvrouter::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
