#ifndef KVROUTER_SIM_WIRE_WIRE_ENGINE_H_
#define KVROUTER_SIM_WIRE_WIRE_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "adapters/http/http_server.h"
#include "base/mutex.h"
#include "sim/model/engine_model.h"
#include "sim/wire/completion_request.h"
#include "sim/wire/engine_metrics.h"
#include "sim/wire/event_publisher.h"
#include "sim/wire/live_answer.h"

namespace kvrouter::sim {

// One simulated engine behind its wires: the model decides what happens and when, this class tells
// it to the subscribers of events and to the clients that wait for tokens.
//
// Thread safety: everything is called by the one thread that drives the fleet, except Snapshot.
class WireEngine {
 public:
  struct Config {
    EngineConfig model;
    std::string model_name = "sim";
    uint32_t dp_rank = 0;
    uint64_t hash_seed = 0;
    uint32_t max_live_requests = 4096;  // more are answered 503 and counted
  };

  // `publisher` outlives the engine; `channel` is this engine's index there.
  WireEngine(Config config, EventPublisher* publisher, size_t channel);

  // Answers through `responder`, now (refused) or when the model says so.
  void Submit(CompletionRequest request, std::shared_ptr<HttpResponder> responder,
              MonotonicTime now);
  // Drops the prefix cache unless blocks are in use; says AllBlocksCleared only if it did.
  void ResetPrefixCache(MonotonicTime now);

  // Leading blocks of each prompt that are cached now: what a router ought to believe. For tests.
  std::vector<uint64_t> CachedPrefixBlocks(const std::vector<std::vector<TokenId>>& prompts) const;

  MonotonicTime NextEventTime() const { return model_.NextEventTime(); }
  void AdvanceTo(MonotonicTime now);
  // Aborts the requests whose clients left.
  void AbortDeserted(MonotonicTime now);

  EngineSnapshot Snapshot() const;

 private:
  struct Live {
    std::vector<TokenId> prompt_tokens;
    std::vector<EngineHash> block_hashes;
    LiveAnswer answer;
  };

  // What the model said, one overload a kind.
  void Handle(const PrefillStarted& event);
  void Handle(const BlocksStored& event);
  void Handle(const BlocksRemoved& event);
  void Handle(const FirstToken& event);
  void Handle(const TokensGenerated& event);
  void Handle(const RequestFinished& event);

  CompletionHead NewHead(const CompletionRequest& request, uint64_t id) const;
  // All events of one step make one batch.
  void PublishStep();
  void PublishSnapshot();

  const Config config_;
  EventPublisher* const publisher_;
  const size_t channel_;
  EngineModel model_;
  std::unordered_map<uint64_t, Live> live_;  // at most max_live_requests
  uint64_t next_request_id_ = 1;
  uint64_t requests_refused_ = 0;
  std::vector<EngineEvent> events_;     // scratch of AdvanceTo
  std::vector<WireEvent> step_events_;  // of the step being told

  mutable Mutex snapshot_mu_;
  EngineSnapshot snapshot_ ABSL_GUARDED_BY(snapshot_mu_);
};

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_WIRE_WIRE_ENGINE_H_
