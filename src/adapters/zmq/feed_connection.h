#ifndef KVROUTER_ADAPTERS_ZMQ_FEED_CONNECTION_H_
#define KVROUTER_ADAPTERS_ZMQ_FEED_CONNECTION_H_

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include <zmq.hpp>

#include "adapters/zmq/zmq_event_source.h"
#include "feed/engine_feed.h"
#include "feed/peer_merge.h"
#include "kvrouter/router.h"
#include "service/feed_monitor.h"
#include "service/peer_blocks.h"
#include "service/replay_turns.h"
#include "service/saved_feeds.h"

namespace kvrouter {

// The sockets of one rank around its EngineFeed: SUB for live messages, a PAIR that hears of the
// SUB's connection, and, while a replay runs, a DEALER. Each replay has a DEALER of its own, so
// that late replies of an abandoned one cannot be taken for an answer.
//
// Everything that happens to the connection is applied to the router at once and reported to the
// monitor by Report().
//
// Thread-compatible; all calls on the thread that made it. No ZMQ exception leaves it.
class FeedConnection {
 public:
  struct Env {  // all outlive the connection
    zmq::context_t* context = nullptr;
    Router* router = nullptr;
    FeedMonitor* monitor = nullptr;
    const ZmqEventSourceConfig* config = nullptr;
    ReplayTurns* turns = nullptr;
    uint64_t jitter_seed = 0;
    SavedFeeds* saved = nullptr;       // feeds of an earlier process; may be null
    PeerBlockSource* peers = nullptr;  // other routers to ask; may be null
  };

  // Connects; what is wrong with the live endpoint shows in the report,
  // and is tried again with a growing wait.
  FeedConnection(const Env& env, const EngineFeedConfig& feed_config, EventEndpoints endpoints);
  ~FeedConnection();
  FeedConnection(const FeedConnection&) = delete;
  FeedConnection& operator=(const FeedConnection&) = delete;

  const EventEndpoints& endpoints() const { return endpoints_; }

  // Appends what to poll: nothing, or 2 or 3 items. `items` of the same poll go to OnPolled.
  void AppendPollItems(std::vector<zmq::pollitem_t>* items) const;
  size_t PollItemCount() const;

  // Reads what is there, up to a bound that keeps other connections of the thread alive.
  void OnPolled(const zmq::pollitem_t* items, MonotonicTime now);

  // Time-outs, repairs, and another try for a live socket that failed.
  void OnTick(MonotonicTime now);

  // Starts the replay that is wanted, if any, when its turn has come.
  void StartReplay(MonotonicTime now);

  // Goes on from what an earlier process saved of this feed. REQUIRES: nothing was read yet.
  void Restore(SavedProgress saved);
  // The feed with the blocks it put into the index, between two events; nothing if it could not be
  // continued.
  std::optional<SavedProgress> Save() const;

  // Once in its life, when the engine cannot tell what it held before we listened: whether other
  // routers are to be asked. From BeginPeerRequest to the answer to that very request the first
  // recovery is not over.
  bool WantsPeerBlocks() const;
  void BeginPeerRequest(uint64_t request);
  void OnPeerAnswer(uint64_t request, const absl::StatusOr<PeerRankBlocks>& answer);

  // The worker lives on without this connection: takes its blocks out of the index.
  void DropBlocks();

  // Tells the monitor if anything changed since the last report.
  void Report(MonotonicTime now);
  // Tells it in any case, so that nothing counted is lost with the connection.
  void ReportLast();

  // Left connecting and recovering at least once, or failed to open its socket.
  bool InitialRecoveryDone() const { return initial_recovery_done_; }

 private:
  using Frames = std::vector<std::string_view>;

  void TryOpenLive();
  void OpenLive();
  void CloseLive();
  void ApplyCommon(zmq::socket_t* socket) const;
  void OpenReplay(uint64_t from_sequence);
  void CloseReplay();
  void Fail(std::string_view what, const zmq::error_t& error);
  void ReadLive();
  void ReadMonitor();
  void ReadReplay(MonotonicTime now);
  // The next whole message into frames_; false if there is none.
  bool Receive(zmq::socket_t* socket);
  void ApplyEvents();
  void SettleRestoration(uint64_t blocks);
  FeedState State() const;

  const Env env_;
  const Target target_;
  const EventEndpoints endpoints_;
  EngineFeed feed_;
  ReplayTurns::Turn turn_;
  std::optional<zmq::socket_t> live_;
  std::optional<zmq::socket_t> monitor_;
  std::optional<zmq::socket_t> replay_;
  std::string failure_;  // why there is no live socket
  MonotonicTime retry_wait_;
  std::optional<MonotonicTime> retry_at_;

  std::array<zmq::message_t, 8> parts_;  // more than any message has
  Frames frames_;
  std::vector<KvEvent> events_;
  uint64_t saved_blocks_ = 0;  // of what was restored; nobody has heard what became of it yet
  bool restoration_open_ = false;
  bool peers_asked_ = false;
  uint64_t peer_request_ = 0;
  std::optional<PeerMerge> peer_merge_;  // while an answer is awaited
  bool initial_recovery_done_ = false;
  bool changed_ = true;
  FeedState reported_state_ = FeedState::kNone;
  std::optional<MonotonicTime> reported_at_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_ZMQ_FEED_CONNECTION_H_
