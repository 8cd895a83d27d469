// What a dispatched request costs beside one that is passed on unread. Both go through the same
// link, which answers at once with the same short stream, so the difference is what the dispatcher
// adds: reading the body, hashing and deciding, accounting and reading of the stream. Budget:
// 300 µs at 14,000 tokens.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "dispatch/dispatcher.h"
#include "kvrouter/router.h"
#include "service/routing_service.h"
#include "service/worker_registry.h"

namespace kvrouter {
namespace {

constexpr int kWorkers = 8;
constexpr int kEvents = 16;

class Exchange final : public EngineExchange {
 public:
  void Cancel() override {}
  void Pause() override {}
  void Resume() override {}
};

// Answers when told, never inside of Send.
class ReadyLink final : public EngineLink {
 public:
  std::shared_ptr<EngineExchange> Send(EngineCall, std::shared_ptr<EngineReply> reply) override {
    reply_ = std::move(reply);
    return exchange_;
  }
  std::function<void()> After(std::chrono::nanoseconds, std::function<void()>) override {
    return [] {};
  }
  void Forget(std::string_view) override {}
  void Answer() {
    const auto reply = std::move(reply_);
    reply->OnHead({.status = 200, .headers = {{"content-type", "text/event-stream"}}});
    for (int i = 0; i < kEvents; ++i) reply->OnBody(event_);
    reply->OnBody("data: [DONE]\n\n");
    reply->OnEnd(EngineEnd::kComplete, "");
  }

 private:
  const std::string event_ =
      R"(data: {"id":"cmpl-0123456789abcdef","object":"text_completion","created":1764500000,)"
      R"("model":"m","choices":[{"index":0,"text":" token","logprobs":null,"finish_reason":null,)"
      R"("stop_reason":null}],"usage":null})"
      "\n\n";
  const std::shared_ptr<Exchange> exchange_ = std::make_shared<Exchange>();
  std::shared_ptr<EngineReply> reply_;
};

class Client final : public ClientReply {
 public:
  void Complete(int, HeaderList, std::string) override { KVR_CHECK(false, "no stream"); }
  void Begin(int, HeaderList) override {}
  bool Write(std::string_view piece) override {
    bytes_ += piece.size();
    return true;
  }
  void End() override { benchmark::DoNotOptimize(bytes_); }
  void Cut() override { KVR_CHECK(false, "cut"); }
  void OnGone(std::function<void()>) override {}
  void OnDrained(std::function<void()>) override {}

 private:
  size_t bytes_ = 0;
};

// A new prompt each time, of which a part is the same.
std::string Body(uint64_t tokens) {
  std::vector<uint32_t> ids(tokens);
  std::iota(ids.begin(), ids.end(), 10'000u);
  return fmt::format(R"({{"model":"m","stream":true,"max_tokens":16,"prompt":[{}]}})",
                     fmt::join(ids, ","));
}

struct Fleet {
  Fleet() {
    for (uint64_t id = 1; id <= kWorkers; ++id) {
      WorkerSpec spec;
      spec.id = WorkerId{id};
      spec.model_name = "m";
      spec.address = fmt::format("http://10.0.0.{}:8000", id);
      spec.block_size_tokens = 16;
      KVR_CHECK(registry.Register(spec).ok(), "worker");
    }
  }
  void Serve(const char* path, std::string body) {
    DispatchRequest request;
    request.path = path;
    request.body = std::move(body);
    dispatcher.Serve(std::move(request), std::make_shared<Client>());
    link.Answer();
  }

  Router router{RouterConfig(), nullptr};
  WorkerRegistry registry{&router};
  RoutingService service{ServiceConfig(), &router, &SteadyClock()};
  ReadyLink link;
  Dispatcher dispatcher{
      DispatchConfig(),
      {.routing = &service, .workers = &registry, .link = &link, .clock = &SteadyClock()}};
};

std::string WithRoom(const std::string& body) {
  std::string copy;
  copy.reserve(body.size() + 64);
  copy = body;
  return copy;
}

void BM_DispatchCompletion(benchmark::State& state) {
  Fleet fleet;
  const std::string body = Body(static_cast<uint64_t>(state.range(0)));
  for (auto _ : state) fleet.Serve("/v1/completions", WithRoom(body));
}
BENCHMARK(BM_DispatchCompletion)->Name("BM_Dispatch/completion_ids")->Arg(1'000)->Arg(14'000);

// The baseline: the model is looked up, all else is passed on.
void BM_DispatchUnread(benchmark::State& state) {
  Fleet fleet;
  const std::string body = Body(static_cast<uint64_t>(state.range(0)));
  for (auto _ : state) fleet.Serve("/v1/embeddings", WithRoom(body));
}
BENCHMARK(BM_DispatchUnread)->Name("BM_Dispatch/pass_through")->Arg(1'000)->Arg(14'000);

}  // namespace
}  // namespace kvrouter

BENCHMARK_MAIN();
