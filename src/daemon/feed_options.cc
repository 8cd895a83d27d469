#include <cstdint>
#include <vector>

#include "daemon/option_areas.h"
#include "daemon/option_builders.h"
#include "daemon/option_ranges.h"

namespace kvrouter {

void AddFeedOptions(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(Whole("router-event-threads", "DYN_ROUTER_EVENT_THREADS", KVR_SETTING(zmq.threads), 1,
                    64, "Threads that apply KV events; a worker stays on one."));
  t.push_back(Whole("replay-timeout-ms", "KVROUTER_REPLAY_TIMEOUT_MS",
                    KVR_SETTING(zmq.replay_timeout), 1, kDayMs,
                    "A replay without progress for this long has failed, in ms."));
  t.push_back(Whole("recovery-limit-ms", "KVROUTER_RECOVERY_LIMIT_MS",
                    KVR_SETTING(zmq.recovery_limit), 1, kDayMs,
                    "A rank's whole recovery, with all its replays and whatever their progress, in "
                    "ms; then what is not proved is dropped."));
  t.push_back(Whole("replay-jitter-ms", "KVROUTER_REPLAY_JITTER_MS",
                    KVR_SETTING(replay_turns.jitter), 0, 60'000,
                    "A replay begins up to this much later than it is wanted, at random, so that "
                    "routers do not ask an engine at the same moment, in ms."));
  t.push_back(Whole("max-replays-at-once", "KVROUTER_MAX_REPLAYS_AT_ONCE",
                    KVR_SETTING(replay_turns.max_at_once), 1, 4096,
                    "Replays under way together; one that brings nothing for a second does not "
                    "count."));
  t.push_back(
      Whole("zmq-reconnect-min-ms", "KVROUTER_ZMQ_RECONNECT_MIN_MS", KVR_SETTING(zmq.reconnect_min),
            1, kDayMs,
            "First wait before an event socket reconnects, in ms; it doubles up to the maximum."));
  t.push_back(Whole("zmq-reconnect-max-ms", "KVROUTER_ZMQ_RECONNECT_MAX_MS",
                    KVR_SETTING(zmq.reconnect_max), 1, kDayMs,
                    "Longest wait before an event socket reconnects, in ms."));
  t.push_back(Whole("zmq-heartbeat-interval-ms", "KVROUTER_ZMQ_HEARTBEAT_INTERVAL_MS",
                    KVR_SETTING(zmq.heartbeat_interval), 0, kDayMs,
                    "Period of pings on event sockets, in ms; 0: none."));
  t.push_back(Whole("zmq-heartbeat-timeout-ms", "KVROUTER_ZMQ_HEARTBEAT_TIMEOUT_MS",
                    KVR_SETTING(zmq.heartbeat_timeout), 0, kDayMs,
                    "An event socket whose pings stay unanswered for this long is closed, in ms."));
  t.push_back(Whole("max-live-batches-during-replay", "KVROUTER_MAX_LIVE_BATCHES_DURING_REPLAY",
                    KVR_SETTING(zmq.max_live_batches_during_replay), 1, 1'000'000,
                    "Live event batches kept per rank while its replay runs."));
  t.push_back(OneOf<StoreCounting>(
      "feed-store-counting", "KVROUTER_FEED_STORE_COUNTING", KVR_SETTING(zmq.store_counting),
      {{"counted", StoreCounting::kCounted}, {"set", StoreCounting::kSet}}, {},
      "What a block stored again by a rank means: counted (another copy, which needs a removal of "
      "its own) or set (nothing new, for engines that announce prefixes they already hold)."));
}

void AddWarmRestartOptions(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(Words("snapshot-path", "KVROUTER_SNAPSHOT_PATH", KVR_SETTING(snapshot.path),
                    "a path, or empty", Anything,
                    "File that keeps the index and the feeds' cursors for the next process; read "
                    "at the start. Empty: none."));
  t.push_back(Whole("snapshot-interval-secs", "KVROUTER_SNAPSHOT_INTERVAL_SECS",
                    KVR_SETTING(snapshot.interval), 0, 24 * 3600,
                    "Time between two snapshots, in s; 0: only when the process ends."));
  t.push_back(Whole("snapshot-worker-wait-secs", "KVROUTER_SNAPSHOT_WORKER_WAIT_SECS",
                    KVR_SETTING(snapshot.worker_wait), 0, 24 * 3600,
                    "How long what the snapshot says of a worker waits for the worker to be "
                    "registered, in s."));
  t.push_back(Whole("snapshot-final-bound-ms", "KVROUTER_SNAPSHOT_FINAL_BOUND_MS",
                    KVR_SETTING(snapshot.final_bound), 0, kMaxShutdownGraceMs,
                    "Longest time for the last snapshot, while running calls finish, in ms; 0: "
                    "none is written at the end."));
  t.push_back(Whole("snapshot-max-bytes", "KVROUTER_SNAPSHOT_MAX_BYTES",
                    KVR_SETTING(snapshot.max_bytes), 1 << 20, uint64_t{1} << 40,
                    "Largest snapshot that is written or read, in bytes."));
  t.push_back(WordList("indexer-peers", "KVROUTER_INDEXER_PEERS", KVR_SETTING(peers.peers),
                       "[http://]HOST:PORT[,...], or empty",
                       "Other routers, ours or Dynamo's, whose /dump tells of ranks whose engines "
                       "cannot tell what they held before."));
  t.push_back(Whole("peer-timeout-ms", "KVROUTER_PEER_TIMEOUT_MS", KVR_SETTING(peers.timeout), 1,
                    kHourMs, "For one round through these peers together, in ms."));
  t.push_back(Whole("peer-max-dump-bytes", "KVROUTER_PEER_MAX_DUMP_BYTES",
                    KVR_SETTING(peers.max_dump_bytes), 1 << 20, uint64_t{1} << 32,
                    "Largest dump of a peer that is read, in bytes."));
}

}  // namespace kvrouter
