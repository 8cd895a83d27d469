#ifndef KVROUTER_SERVICE_PUBLISHED_FEEDS_H_
#define KVROUTER_SERVICE_PUBLISHED_FEEDS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "kvrouter/router.h"
#include "service/feed_monitor.h"
#include "service/published_feed.h"
#include "service/refusal_counts.h"
#include "service/worker_registry.h"

namespace kvrouter {

struct PublishedFeedsConfig {
  // False: nobody would read what is published, so streams are refused.
  bool uses_events = true;
  // As for feeds on sockets.
  StoreCounting store_counting = StoreCounting::kCounted;
  MonotonicTime replay_timeout = std::chrono::seconds(5);
  MonotonicTime recovery_limit = std::chrono::minutes(2);
  size_t max_batches_during_replay = 4096;
};

// What a publisher says of itself.
struct PublishStart {
  Target target;
  std::optional<Incarnation> incarnation = std::nullopt;  // absent: the worker's present life
  bool can_replay = false;
  std::optional<StoreCounting> counting = std::nullopt;  // absent: as configured
};

// Told which ranks have a published feed. Called under the feeds' lock: returns quickly, and does
// not call back.
class PublishedRankListener {
 public:
  virtual ~PublishedRankListener() = default;
  // Before the first event of the feed is applied. When it returns, nobody else feeds the rank.
  virtual void OnRankPublished(Target target, Incarnation incarnation) = 0;
  // The feed has ended, and its blocks are gone.
  virtual void OnRankGivenBack(Target target) = 0;
};

// The feeds of all ranks whose engines publish through a door instead of on a socket of their own,
// for the doors to open streams to. One rank has one feed, and a feed one stream: the latest.
//
// A feed is made by the first stream of its rank and lives until the worker leaves, changes in what
// the feed is built on, or gets a socket endpoint for the rank; or until a stream comes with other
// properties than the last. So there are at most as many as registered ranks.
//
// Thread-safe. Lock order: the registry's, ours, the feed's.
class PublishedFeeds final : public WorkerListener {
 public:
  // All outlive this object.
  PublishedFeeds(const PublishedFeedsConfig& config, Router* router, FeedMonitor* monitor,
                 const Clock* clock, ReplayTurns* turns = nullptr);

  // Not after the first Open. It outlives this object's use.
  void SetListener(PublishedRankListener* listener) { listener_ = listener; }

  // Gives the rank's feed to a new stream; the one that had it ends with kFeedConflict (ABORTED).
  // Errors: kUnknownWorker (NOT_FOUND), kInvalidRequest for a rank that is not the worker's,
  // kIncarnationConflict, kFeedConflict (FAILED_PRECONDITION) if the rank has a socket endpoint or
  // one that is still being given up, or if events are not used; kShuttingDown.
  absl::StatusOr<std::shared_ptr<PublishStream>> Open(const PublishStart& start,
                                                      std::function<void()> wake);

  // Time-outs and reports; call a few times per second.
  void Tick();

  // As ZmqEventSource: every feed that has a stream has left connecting and recovering.
  bool InitialRecoveryDone() const;

  // Streams that were refused, or ended by what their publisher sent, each counted once.
  RefusalCounts::ByReason Refused() const { return refused_.Read(); }
  // Nothing if `answer` is OK.
  void CountRefusal(const absl::Status& answer) { refused_.Count(answer); }

  // Ends all streams with kShuttingDown and opens no more. Blocks stay.
  void Stop();

  void OnWorkerChanged(const WorkerSpec& spec) override;
  void OnWorkerRemoved(WorkerId id, Incarnation incarnation) override;

 private:
  using FeedPtr = std::shared_ptr<PublishedFeed>;

  absl::Status Check(const PublishStart& start) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  EngineFeedConfig FeedConfig(const WorkerSpec& spec, const PublishStart& start) const;
  void EndFeeds(WorkerId id, const absl::Status& reason,
                const std::function<bool(uint32_t dp_rank)>& which)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const PublishedFeedsConfig config_;
  const PublishedFeed::Env env_;
  const uint64_t jitter_seed_;
  RefusalCounts refused_;
  PublishedRankListener* listener_ = nullptr;

  mutable Mutex mu_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::map<WorkerId, WorkerSpec> workers_ ABSL_GUARDED_BY(mu_);
  std::map<Target, FeedPtr> feeds_ ABSL_GUARDED_BY(mu_);
  // Ended by a change of their worker: woken by the next Tick, not under the registry's lock.
  std::vector<std::shared_ptr<PublishStream>> to_wake_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_PUBLISHED_FEEDS_H_
