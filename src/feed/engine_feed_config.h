#ifndef KVROUTER_FEED_ENGINE_FEED_CONFIG_H_
#define KVROUTER_FEED_ENGINE_FEED_CONFIG_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "kvrouter/events.h"
#include "kvrouter/types.h"

namespace kvrouter {

struct EngineFeedConfig {
  Target target;  // worker, and the rank of this socket
  Incarnation incarnation{};
  uint32_t dp_start_rank = 0;
  uint32_t dp_size = 1;            // > 0
  uint32_t block_size_tokens = 0;  // > 0
  bool is_eagle = false;           // how blocks are named besides: BlockNaming
  std::optional<TokenId> image_token_id = std::nullopt;
  // kSet for engines that announce a block again without holding another copy of it.
  StoreCounting counting = StoreCounting::kCounted;
  bool has_replay = false;
  // Without progress of a running replay.
  MonotonicTime replay_timeout = std::chrono::seconds(5);
  // From the first request of a recovery to its end, however many requests it takes and whatever
  // progress they make: as long look-ups may be answered from what was known before.
  MonotonicTime recovery_limit = std::chrono::minutes(2);
  // Live batches kept while a replay runs; the oldest go first, since the replay is likeliest to
  // bring those.
  size_t max_buffered_batches = 4096;
  size_t max_buffered_bytes = 64u << 20;
  // How soon a degraded feed asks for its whole history again: doubles with each attempt, up to the
  // maximum. Up to a quarter is added, another part for each feed, attempt and `jitter_seed`, so
  // that neither ranks nor routers ask in step.
  MonotonicTime repair_backoff_min = std::chrono::seconds(30);
  MonotonicTime repair_backoff_max = std::chrono::hours(1);
  uint64_t jitter_seed = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_FEED_ENGINE_FEED_CONFIG_H_
