#ifndef KVROUTER_SERVICE_PUBLISHED_FEED_H_
#define KVROUTER_SERVICE_PUBLISHED_FEED_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "feed/engine_feed.h"
#include "kvrouter/router.h"
#include "service/feed_monitor.h"
#include "service/replay_turns.h"

namespace kvrouter {

// Where a published feed stands: all that its publisher is ever told.
struct PublishStatus {
  struct Replay {
    uint64_t id = 0;
    uint64_t from_sequence = 0;
    friend bool operator==(const Replay&, const Replay&) = default;
  };

  std::optional<uint64_t> acknowledged_sequence;
  std::optional<Replay> replay;  // to be sent now; told once
  FeedState state = FeedState::kConnecting;
  std::string detail;
  uint64_t skipped = 0;

  friend bool operator==(const PublishStatus&, const PublishStatus&) = default;
};

class PublishedFeed;

// One publisher's hold on a feed. It loses the feed when another publisher takes over or the feed
// ends; then its messages have no effect and Ended() says why.
//
// Thread-safe, but messages must come one at a time. Close, or destruction, is the connection's
// end.
class PublishStream : public std::enable_shared_from_this<PublishStream> {
 public:
  // `wake` is called without a lock, on any thread, when there may be news in TakeStatus or Ended
  // that no message of this publisher brought.
  PublishStream(std::shared_ptr<PublishedFeed> feed, std::function<void()> wake)
      : feed_(std::move(feed)), wake_(std::move(wake)) {}
  ~PublishStream() { Close(); }
  PublishStream(const PublishStream&) = delete;
  PublishStream& operator=(const PublishStream&) = delete;

  void OnLive(const FeedBatch& batch);
  void OnReplayed(uint64_t replay_id, const FeedBatch& batch);
  void OnReplayEnd(uint64_t replay_id);
  void OnBadMessage();

  // Where the feed stands, if that is not what was told last.
  std::optional<PublishStatus> TakeStatus();
  // Not OK: the feed is no longer this publisher's.
  absl::Status Ended() const;
  void Close();
  void Wake() const { wake_(); }

 private:
  friend class PublishedFeed;

  const std::shared_ptr<PublishedFeed> feed_;
  const std::function<void()> wake_;
  // Guarded by the feed's mutex.
  absl::Status ended_;
  std::optional<PublishStatus> told_;
  std::optional<PublishStatus::Replay> replay_to_tell_;
};

// The feed of one rank whose engine publishes through us instead of on a socket: an EngineFeed, the
// stream that has it, if any, and what comes out of it applied to the router at once.
//
// It outlives its streams: what was applied stays, and the next stream goes on from there.
//
// Thread-safe. Lock order: this feed's mutex, then those of the router and the monitor. Streams to
// be woken are returned, so that nobody is called under a lock.
class PublishedFeed {
 public:
  struct Env {  // all outlive the feed
    Router* router = nullptr;
    FeedMonitor* monitor = nullptr;
    const Clock* clock = nullptr;
    ReplayTurns* turns = nullptr;  // null: replays are asked for at once
  };
  using StreamPtr = std::shared_ptr<PublishStream>;

  PublishedFeed(const Env& env, const EngineFeedConfig& config)
      : env_(env), config_(config), feed_(config), turn_(env.turns) {}

  const EngineFeedConfig& config() const { return config_; }

  // `stream` has the feed from here on. Returns the one that had it, ended by `reason`.
  StreamPtr Attach(PublishStream* stream, const absl::Status& reason);
  // The stream's connection is over. Nothing if it no longer has the feed.
  void Detach(const PublishStream* stream);
  // For good, with its blocks taken out of the index. Returns the stream that had it.
  StreamPtr End(const absl::Status& reason);
  // As a lost connection, with a reason for the publisher.
  StreamPtr Disconnect(const absl::Status& reason);

  // Time-outs, repairs, reports. Returns the stream if it has news.
  StreamPtr Tick();

  // Nobody publishes, or the feed has left connecting and recovering once.
  bool InitialRecoveryDone() const { return settled_.load(std::memory_order_relaxed); }

 private:
  friend class PublishStream;

  // Runs `input` under the lock if `stream` has the feed, and `replay_id` is that of the latest
  // replay or none; applies what comes out.
  template <typename Input>
  void Take(const PublishStream* stream, const Input& input,
            std::optional<uint64_t> replay_id = std::nullopt);
  void ApplyEvents(MonotonicTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Report(MonotonicTime now, bool at_once) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Settle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  StreamPtr LetGo(const absl::Status& reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnLetGo() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::optional<PublishStatus> TakeStatus(PublishStream* stream);
  absl::Status Ended(const PublishStream* stream) const;
  PublishStatus StatusLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Env env_;
  const EngineFeedConfig config_;

  mutable Mutex mu_;
  EngineFeed feed_ ABSL_GUARDED_BY(mu_);
  ReplayTurns::Turn turn_ ABSL_GUARDED_BY(mu_);
  PublishStream* stream_ ABSL_GUARDED_BY(mu_) = nullptr;  // leaves before it is gone
  uint64_t last_replay_id_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<KvEvent> events_ ABSL_GUARDED_BY(mu_);  // reused
  bool changed_ ABSL_GUARDED_BY(mu_) = true;          // since the last report
  std::optional<MonotonicTime> reported_at_ ABSL_GUARDED_BY(mu_);
  FeedState reported_state_ ABSL_GUARDED_BY(mu_) = FeedState::kNone;
  bool over_ ABSL_GUARDED_BY(mu_) = false;
  std::atomic<bool> settled_{false};
};

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_PUBLISHED_FEED_H_
