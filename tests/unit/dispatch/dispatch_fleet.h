#ifndef KVROUTER_TESTS_UNIT_DISPATCH_DISPATCH_FLEET_H_
#define KVROUTER_TESTS_UNIT_DISPATCH_DISPATCH_FLEET_H_

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "dispatch/dispatcher.h"
#include "kvrouter/block_hash.h"
#include "kvrouter/events.h"
#include "kvrouter/router.h"
#include "service/routing_service.h"
#include "service/worker_registry.h"
#include "virtual_engine.h"
#include "virtual_link.h"

namespace kvrouter {

class RecordingObserver final : public DispatchObserver {
 public:
  void OnFirstToken(std::string_view, std::chrono::nanoseconds since) override {
    first_tokens.push_back(since);
  }
  void OnLeg(LegKind kind, const Target& target, LegResult result,
             std::chrono::nanoseconds) override {
    legs.push_back({kind, static_cast<uint64_t>(target.worker), result});
  }
  void OnFallback(DispatchFallback fallback) override { ++fallbacks[fallback]; }
  void OnOutgrown(OutgrownHold hold) override { ++outgrown[hold]; }
  void OnTokenize(TokenizeOutcome outcome, std::chrono::nanoseconds) override {
    ++tokenized[outcome];
  }
  void OnOverlap(const DeliveredOverlap& overlap) override { overlaps.push_back(overlap); }
  void OnLeaseLeft(const Target&) override { ++leases_left; }
  void OnEnd(const DispatchEnd& end) override {
    ends.push_back(end);
    ends.back().path = ends.back().model = {};  // borrowed
  }
  void OnLog(LogLevel, const std::string& line) override { log.push_back(line); }

  bool Logged(std::string_view what) const {
    for (const std::string& line : log) {
      if (line.find(what) != std::string::npos) return true;
    }
    return false;
  }

  struct Leg {
    LegKind kind;
    uint64_t worker;
    LegResult result;
  };
  std::vector<Leg> legs;
  std::map<DispatchFallback, int> fallbacks;
  std::map<OutgrownHold, int> outgrown;
  std::map<TokenizeOutcome, int> tokenized;
  std::vector<DeliveredOverlap> overlaps;
  std::vector<std::chrono::nanoseconds> first_tokens;
  std::vector<DispatchEnd> ends;
  std::vector<std::string> log;
  int leases_left = 0;
};

// What the router is reported of migrations, as the daemon logs it.
class MigrationReports final : public RequestObserver {
 public:
  void OnFirstToken(const ServedBy&, std::chrono::nanoseconds) override {}
  void OnOutputBlock(const ServedBy&, std::chrono::nanoseconds) override { ++output_blocks; }
  void OnEnd(const ServedBy&, uint64_t tokens) override { output_tokens += tokens; }
  void OnLeg(const EndedLeg& leg) override {
    if (leg.kind == LegKind::kKvSource) ++(leg.succeeded ? handshakes : sources_failed);
  }
  void OnDecodingPulled(std::string_view, const ServedBy&) override { ++decoding_pulled; }

  int handshakes = 0;
  int sources_failed = 0;
  int decoding_pulled = 0;
  int output_blocks = 0;
  uint64_t output_tokens = 0;
};

struct FleetOptions {
  RouterConfig router = {};
  ServiceConfig service = {};
  DispatchConfig dispatch = {};
};

// A dispatcher over a real router, with engines and clients in virtual time.
struct DispatchFleet {
  using Options = FleetOptions;

  DispatchFleet() : DispatchFleet(Options()) {}
  explicit DispatchFleet(const Options& options)
      : router(options.router, nullptr),
        registry(&router),
        service(options.service, &router, &clock, &reports),
        link(&clock),
        dispatcher(options.dispatch, {.routing = &service,
                                      .workers = &registry,
                                      .link = &link,
                                      .clock = &clock,
                                      .observer = &observer}) {
    clock.Set(std::chrono::hours(1));
  }

  static WorkerSpec Spec(uint64_t id, WorkerRole role = WorkerRole::kAggregated) {
    WorkerSpec spec;
    spec.id = WorkerId{id};
    spec.model_name = "m";
    spec.address = Url(id);
    spec.block_size_tokens = 16;
    spec.role = role;
    spec.kv_role = KvRole::kBoth;
    return spec;
  }
  static std::string Url(uint64_t id) { return fmt::format("http://10.0.0.{}:8000", id); }

  VirtualEngine& AddEngine(uint64_t id, WorkerRole role = WorkerRole::kAggregated) {
    return AddEngine(Spec(id, role));
  }
  VirtualEngine& AddEngine(const WorkerSpec& spec) {
    EXPECT_TRUE(registry.Register(spec).ok());
    const auto id = static_cast<uint64_t>(spec.id);
    auto& engine = engines[id];
    engine = std::make_unique<VirtualEngine>(&link, &side, spec.address);
    engine->engine_id = fmt::format("engine-{}", id);
    return *engine;
  }

  // The worker's engine holds all full blocks of the prompt.
  void Cache(uint64_t worker, const std::vector<TokenId>& ids) {
    std::vector<LocalBlockHash> local;
    std::vector<SequenceHash> sequence;
    AppendLocalBlockHashes(ids, 16, BlockSeed({}), &local);
    AppendSequenceHashes(local, &sequence);
    Stored stored;
    for (size_t i = 0; i < local.size(); ++i) {
      stored.blocks.push_back(
          {.engine_hash = EngineHash{static_cast<uint64_t>(sequence[i])}, .local_hash = local[i]});
    }
    KvEvent event;
    event.target = {.worker = WorkerId{worker}};
    event.incarnation = registry.Find(WorkerId{worker})->incarnation;
    event.data = std::move(stored);
    router.Apply(event);
  }

  std::shared_ptr<RecordingClient> Send(const std::string& body, HeaderList headers = {},
                                        const std::string& path = "/v1/completions",
                                        const std::string& method = "POST") {
    auto client = std::make_shared<RecordingClient>();
    DispatchRequest request;
    request.method = method;
    request.path = path;
    request.headers = std::move(headers);
    request.body = body;
    dispatcher.Serve(std::move(request), client);
    return client;
  }
  std::shared_ptr<RecordingClient> SendAndRun(const std::string& body, HeaderList headers = {},
                                              const std::string& path = "/v1/completions") {
    auto client = Send(body, std::move(headers), path);
    link.Run(std::chrono::seconds(30));
    return client;
  }

  void ExpectNothingLeft() {
    EXPECT_EQ(service.LiveRequests(), 0u);
    EXPECT_EQ(service.Counters().waiting, 0u);
    EXPECT_EQ(dispatcher.Counters().live, 0u);
    EXPECT_EQ(link.open(), 0) << "exchanges that run for nobody";
    for (const PartitionSnapshot& partition : router.Snapshot()) {
      EXPECT_EQ(partition.bookings, 0u);
      for (const TargetLoad& load : partition.loads) {
        EXPECT_EQ(load.active_requests, 0u);
        EXPECT_EQ(load.active_prefill_tokens, 0u);
        EXPECT_EQ(load.active_decode_blocks, 0.0);
      }
    }
  }

  ManualClock clock;
  MigrationReports reports;
  Router router;
  WorkerRegistry registry;
  RoutingService service;
  VirtualLink link;
  RecordingObserver observer;
  VirtualEngine::Side side;
  std::map<uint64_t, std::unique_ptr<VirtualEngine>> engines;
  Dispatcher dispatcher;
};

inline std::vector<TokenId> Ids(size_t count, TokenId first = 1) {
  std::vector<TokenId> ids(count);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}
inline std::string CompletionBody(const std::vector<TokenId>& ids, bool stream,
                                  const std::string& more = "") {
  return fmt::format(R"({{"model":"m", "prompt": [{}],"stream":{}{}}})", fmt::join(ids, ", "),
                     stream ? "true" : "false", more);
}

// The text of an event stream's choices, or of a whole answer.
inline std::string TextOf(const std::string& body) {
  using Json = nlohmann::json;
  const auto text_of = [](const Json& json) {
    std::string text;
    for (const Json& choice : json.value("choices", Json::array())) {
      if (choice.contains("text")) text += choice["text"].get<std::string>();
      if (choice.contains("delta")) text += choice["delta"].value("content", "");
      if (choice.contains("message")) text += choice["message"].value("content", "");
    }
    return text;
  };
  if (!body.starts_with("data:")) return text_of(Json::parse(body));
  std::string text;
  size_t at = 0;
  while (at < body.size()) {
    const size_t end = body.find("\n\n", at);
    if (end == std::string::npos) return text + "<torn event>";
    const std::string data = body.substr(at + 6, end - at - 6);
    if (data != "[DONE]") text += text_of(Json::parse(data));
    at = end + 2;
  }
  return text;
}

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_UNIT_DISPATCH_DISPATCH_FLEET_H_
