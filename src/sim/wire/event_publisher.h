#ifndef KVROUTER_SIM_WIRE_EVENT_PUBLISHER_H_
#define KVROUTER_SIM_WIRE_EVENT_PUBLISHER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sim/wire/event_encoder.h"

namespace kvrouter::sim {

// How a replay is answered: two frames after the delimiter (vLLM up to 0.25, SGLang), or three with
// the topic first (vLLM since 0.26).
enum class ReplayForm : uint8_t { kWithoutTopic, kWithTopic };

struct PublisherConfig {
  std::string live = "tcp://127.0.0.1:*";    // PUB, bound; `*` as port takes a free one
  std::string replay = "tcp://127.0.0.1:*";  // ROUTER, bound; empty: no replay
  std::string topic;
  EventForm event_form = EventForm::kMap;
  ReplayForm replay_form = ReplayForm::kWithTopic;
  uint32_t buffer_batches = 10'000;       // kept for replay, vLLM's buffer_steps
  uint64_t buffer_bytes = 256ull << 20;   // and not more than this
  int live_high_water_batches = 100'000;  // PUB drops in silence beyond it, as in vLLM
  int replay_high_water_batches = 1'000;  // ROUTER drops in silence beyond it, as in vLLM
  // Fault injection: every Nth batch is only kept for replay, not sent; 0 = none. A subscriber sees
  // a gap.
  uint32_t lose_live_every = 0;
};

struct PublisherCounters {
  uint64_t batches = 0;  // sequence numbers given out
  // The queue to the socket thread was full: a gap that no replay can fill.
  uint64_t batches_refused = 0;
  uint64_t batches_lost = 0;         // by lose_live_every
  uint64_t replays = 0;              // answered requests
  uint64_t replay_requests_bad = 0;  // not [identity, empty, 8 bytes]: no answer, as in vLLM
  uint64_t subscriptions = 0;        // now; whoever sees its own counted misses no batch
};

// The event sockets of all engines of a process: per engine a PUB socket (three frames: topic,
// sequence, batch) and a ROUTER socket that repeats kept batches. One thread owns every socket; a
// long replay of one engine delays the others.
//
// Thread safety: AddEngine before Start, from one thread. Publish for one engine from one thread at
// a time (its sequence numbers are the order of calls). Counters and endpoints are thread-safe.
class EventPublisher {
 public:
  EventPublisher();
  ~EventPublisher();  // stops

  // Binds the sockets. Returns the engine's index. An endpoint that is taken or malformed is named
  // in the error.
  absl::StatusOr<size_t> AddEngine(const PublisherConfig& config);
  // As bound, e.g. "tcp://127.0.0.1:40123"; replay is empty without a replay socket.
  const std::string& LiveEndpoint(size_t engine) const;
  const std::string& ReplayEndpoint(size_t engine) const;

  void Start();
  void Stop();

  // Takes the engine's next sequence number (from 0) and sends the batch from the socket thread, in
  // the order of calls.
  void Publish(size_t engine, WireBatch batch);

  // The engine's process starts anew: numbers from 0, nothing kept for replay. From the engine's
  // publishing thread.
  void Restart(size_t engine);

  PublisherCounters Counters(size_t engine) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_WIRE_EVENT_PUBLISHER_H_
