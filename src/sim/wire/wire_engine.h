#ifndef KVROUTER_SIM_WIRE_WIRE_ENGINE_H_
#define KVROUTER_SIM_WIRE_WIRE_ENGINE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "adapters/http/http_server.h"
#include "base/mutex.h"
#include "sim/model/engine_model.h"
#include "sim/wire/completion_request.h"
#include "sim/wire/engine_metrics.h"
#include "sim/wire/event_publisher.h"
#include "sim/wire/kv_side_channel.h"
#include "sim/wire/kv_transfer.h"
#include "sim/wire/live_answer.h"

namespace kvrouter::sim {

// One simulated engine behind its wires: the model decides what happens and when, this class tells
// it to the subscribers of events, to the clients that wait for tokens and to the engines it
// exchanges KV with.
//
// Thread safety: everything is called by the one thread that drives the fleet, except Snapshot.
class WireEngine {
 public:
  struct Config {
    EngineConfig model;
    std::string model_name = "sim";
    uint32_t dp_rank = 0;
    std::optional<uint64_t> hash_seed;  // random in every life of the engine unless set
    uint32_t max_live_requests = 4096;  // more are answered 503 and counted
    bool early_stream_head = false;     // a stream's head goes out before its first token
    KvTransferConfig kv;
  };
  // What the engine works with; all outlive it.
  struct Wires {
    EventPublisher* publisher = nullptr;
    size_t channel = 0;  // this engine's in the publisher
    KvSideChannel* side_channel = nullptr;
    // Runs a task on the fleet's thread, with this engine.
    std::function<void(std::function<void(WireEngine&, MonotonicTime now)>)> post;
  };

  WireEngine(Config config, Wires wires);
  // Known when the server has bound; before the first request.
  void SetSideChannelPort(uint16_t port) { kv_.SetPort(port); }

  // Answers through `responder`, now (refused) or when the model says so.
  void Submit(CompletionRequest request, std::shared_ptr<HttpResponder> responder,
              MonotonicTime now);
  // Drops the prefix cache unless blocks are in use; says AllBlocksCleared only if it did.
  void ResetPrefixCache(MonotonicTime now);
  // Another engine asks for blocks held here.
  KvTransfer::PullAnswer AnswerPull(std::string_view body, MonotonicTime now);

  // As if the process had died and come back: live requests are cut, caches, held blocks, identity
  // and counters are gone.
  void Restart();

  // Leading blocks of each prompt that are cached now: what a router ought to believe. For tests.
  std::vector<uint64_t> CachedPrefixBlocks(const std::vector<std::vector<TokenId>>& prompts) const;

  MonotonicTime NextEventTime() const { return std::min(model_.NextEventTime(), kv_.NextExpiry()); }
  void AdvanceTo(MonotonicTime now);
  // Aborts the requests whose clients left.
  void AbortDeserted(MonotonicTime now);

  EngineSnapshot Snapshot() const;

 private:
  struct Live {
    std::vector<TokenId> prompt_tokens;
    std::vector<EngineHash> block_hashes;
    LiveAnswer answer;
    std::string answer_id;
    EngineRequest to_model;          // until the model has it
    bool in_model = false;           // not yet: its source is asked, or never answers
    std::optional<KvSource> source;  // holds blocks for it, to be told when they are fetched
  };

  // What the model said, one overload a kind.
  void Handle(const PrefillStarted& event);
  void Handle(const ExternalLoaded& event);
  void Handle(const BlocksStored& event);
  void Handle(const BlocksRemoved& event);
  void Handle(const FirstToken& event);
  void Handle(const TokensGenerated& event);
  void Handle(const RequestFinished& event);

  CompletionHead NewHead(const CompletionRequest& request, uint64_t id) const;
  void ToModel(Live& live, MonotonicTime now);
  // A consumer's request: its source is asked before the model gets it.
  void AskSource(uint64_t id, Live& live, const nlohmann::ordered_json& params);
  void SourceAnswered(uint64_t id, const KvSource& source, const std::string& error,
                      MonotonicTime now);
  void Refuse(HttpResponder& responder);
  // All events of one step make one batch.
  void PublishStep();
  void PublishSnapshot();

  const Config config_;
  const Wires wires_;
  uint64_t hash_seed_;
  EngineModel model_;
  KvTransfer kv_;
  std::unordered_map<uint64_t, Live> live_;  // at most max_live_requests
  uint64_t next_request_id_ = 1;
  uint64_t requests_refused_ = 0;
  uint64_t outside_model_ = 0;         // live ones that the model does not have yet
  uint64_t aborts_outside_model_ = 0;  // of them, so far
  KvConsumerTotals consumed_;
  MonotonicTime now_{};                 // of the last AdvanceTo
  std::vector<EngineEvent> events_;     // scratch of AdvanceTo
  std::vector<WireEvent> step_events_;  // of the step being told

  mutable Mutex snapshot_mu_;
  EngineSnapshot snapshot_ ABSL_GUARDED_BY(snapshot_mu_);
};

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_WIRE_WIRE_ENGINE_H_
