#ifndef KVROUTER_SERVICE_REPLAY_TURNS_H_
#define KVROUTER_SERVICE_REPLAY_TURNS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "base/mutex.h"
#include "kvrouter/types.h"

namespace kvrouter {

struct ReplayTurnsConfig {
  // Replays under way together, of all workers. What an engine sends waits in our memory without a
  // bound of its own, or its socket would drop the end of it.
  uint32_t max_at_once = 32;  // > 0
  // A replay begins up to this much after it is wanted, at random: when a network hiccup makes
  // every router want one of every engine, they do not all ask at the same moment. An engine
  // replays on the thread that publishes.
  std::chrono::milliseconds jitter{200};
  // A replay that brought nothing for this long lends its place to others, so that mute engines
  // hold nobody up. It keeps its socket, and counts again with its next message.
  std::chrono::milliseconds stalled_after{1000};
};

// In which order, and how many at once, engines are asked for their history: first wanted, first
// begun.
//
// Thread-safe. Time comes with the calls.
class ReplayTurns {
 public:
  explicit ReplayTurns(const ReplayTurnsConfig& config, uint64_t seed = std::random_device()())
      : config_(config), random_(seed) {}
  ReplayTurns(const ReplayTurns&) = delete;
  ReplayTurns& operator=(const ReplayTurns&) = delete;

  // One feed's place in the line. Thread-compatible; without turns it is always its turn.
  class Turn {
   public:
    explicit Turn(ReplayTurns* turns) : turns_(turns) {}
    ~Turn() { End(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    // A replay is wanted: true when it may begin, and then it has begun. Ask again and again.
    bool MayBegin(MonotonicTime now);
    bool Begun() const { return begun_; }
    // Something came of it.
    void Moved(MonotonicTime now);
    // It is over, or no longer wanted.
    void End();

   private:
    ReplayTurns* const turns_;
    bool begun_ = false;
    std::optional<uint64_t> ticket_;
    MonotonicTime ask_at_{};
    MonotonicTime noted_at_{};
  };

  struct Counts {
    uint64_t waiting = 0;
    uint64_t running = 0;  // stalled ones included
  };
  Counts Read() const;

 private:
  using Place = std::pair<MonotonicTime, uint64_t>;  // not before, ticket

  Place Enqueue(MonotonicTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  size_t FreePlaces(MonotonicTime now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const ReplayTurnsConfig config_;
  mutable Mutex mu_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mu_);
  uint64_t last_ticket_ ABSL_GUARDED_BY(mu_) = 0;
  std::set<Place> waiting_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, MonotonicTime> due_ ABSL_GUARDED_BY(mu_);      // of those that wait
  std::map<uint64_t, MonotonicTime> running_ ABSL_GUARDED_BY(mu_);  // ticket -> last message
};

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_REPLAY_TURNS_H_
