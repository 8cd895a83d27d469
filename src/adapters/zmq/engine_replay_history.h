#ifndef KVROUTER_ADAPTERS_ZMQ_ENGINE_REPLAY_HISTORY_H_
#define KVROUTER_ADAPTERS_ZMQ_ENGINE_REPLAY_HISTORY_H_

#include <chrono>
#include <cstddef>
#include <memory>

#include "kvrouter/events.h"
#include "service/rank_history.h"
#include "service/replay_turns.h"

namespace kvrouter {

struct EngineReplayHistoryConfig {
  // Without any progress, and altogether since the first request went out.
  std::chrono::milliseconds timeout{5000};
  std::chrono::milliseconds total_timeout{30000};
  StoreCounting store_counting = StoreCounting::kCounted;
  size_t max_bytes = 512u << 20;  // of a history in memory; a larger one is refused
};

// The replay socket of a rank's engine, for ranks that are fed from elsewhere: those that have
// EventEndpoints with `replay` and without `live`. The engine's history through EngineFeed is the
// rank's picture; a history without its beginning makes it a partial one.
//
// Engines serve replays on the thread that publishes, so what a rank's publisher said before Fetch
// began is in the picture. Therefore they are not all asked at once, either: each replay waits for
// its turn among those of all feeds.
class EngineReplayHistory final : public RankHistory {
 public:
  // `turns` outlive this object; null: none are taken.
  explicit EngineReplayHistory(const EngineReplayHistoryConfig& config,
                               ReplayTurns* turns = nullptr);
  ~EngineReplayHistory() override;

  bool Knows(const WorkerSpec& spec, uint32_t dp_rank) const override;
  absl::StatusOr<RankPicture> Fetch(const WorkerSpec& spec, uint32_t dp_rank,
                                    const std::function<bool()>& cancelled) const override;

 private:
  struct Impl;
  const EngineReplayHistoryConfig config_;
  ReplayTurns* const turns_;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_ZMQ_ENGINE_REPLAY_HISTORY_H_
