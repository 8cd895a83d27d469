#ifndef KVROUTER_ADAPTERS_ZMQ_ZMQ_EVENT_SOURCE_H_
#define KVROUTER_ADAPTERS_ZMQ_ZMQ_EVENT_SOURCE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "base/clock.h"
#include "feed/saved_feed.h"
#include "kvrouter/events.h"
#include "kvrouter/router.h"
#include "service/feed_monitor.h"
#include "service/peer_blocks.h"
#include "service/replay_turns.h"
#include "service/saved_feeds.h"
#include "service/worker_registry.h"

namespace kvrouter {

struct ZmqEventSourceConfig {
  // Event threads; one worker always lives on the same one. Parity: router_event_threads.
  uint32_t threads = 4;  // 1..64
  // Without any progress of a replay.
  std::chrono::milliseconds replay_timeout{5000};
  // Of a whole recovery, with all its replays (EngineFeedConfig).
  std::chrono::milliseconds recovery_limit{120'000};
  // ZMQ's own reconnect, exponential between these two.
  std::chrono::milliseconds reconnect_min{100};
  std::chrono::milliseconds reconnect_max{5000};
  // ZMTP ping: a dead peer is noticed within the time-out. Interval 0: none.
  std::chrono::milliseconds heartbeat_interval{5000};
  std::chrono::milliseconds heartbeat_timeout{15000};
  // Live batches kept while a replay of the same rank runs. Beyond it the oldest are dropped,
  // counted, and replayed again if the running replay does not bring them.
  uint32_t max_live_batches_during_replay = 4096;
  // What a repeated store of a block means: another copy, or nothing new.
  StoreCounting store_counting = StoreCounting::kCounted;
};

// Sockets around src/feed: a SUB socket per rank for live events and a DEALER socket for replay,
// both owned by one event thread. Decoded events go straight to Router::Apply on that thread; what
// the feed learned goes to the monitor.
//
// Thread safety: OnWorkerChanged / OnWorkerRemoved may come from any one thread at a time; they
// queue and return. Stop() joins the threads within a second; no event is applied after it.
class ZmqEventSource final : public WorkerListener {
 public:
  // All pointers outlive this object. Without `turns` it has its own, with their defaults.
  // Feeds that wait in `saved` are claimed by the connections of their ranks. `peers` are asked for
  // the blocks of ranks whose engines cannot tell what they held before; they answer everything
  // before this object is gone. Both may be null.
  ZmqEventSource(ZmqEventSourceConfig config, Router* router, FeedMonitor* monitor,
                 const Clock* clock, ReplayTurns* turns = nullptr, SavedFeeds* saved = nullptr,
                 PeerBlockSource* peers = nullptr);
  ~ZmqEventSource() override;

  // Sockets that the library can have at all; as many are asked for.
  static uint64_t MaxSockets();

  absl::Status Start();
  void Stop();

  void OnWorkerChanged(const WorkerSpec& spec) override;
  void OnWorkerRemoved(WorkerId id, Incarnation incarnation) override;

  // True once every feed known now has left kConnecting and kRecovering, or never had an endpoint.
  bool InitialRecoveryDone() const;

  // Hands every feed that a later process could continue to `take`, one after the other, each as it
  // is between two events; its event thread stands still while it is read (a few milliseconds for
  // 20,000 blocks), look-ups do not. False: `take` said so, or an event thread did not answer by
  // `deadline` or for a second. From one thread at a time, not after Stop.
  bool SaveFeeds(MonotonicTime deadline, const std::function<bool(const SavedFeed&)>& take);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_ZMQ_ZMQ_EVENT_SOURCE_H_
