// What explanations cost: Route and Free through the service (no network) in three ways,
//
//   winner   decision_detail=winner and no ring of recent decisions
//   kept     decision_detail=full and the ring, the defaults; nobody looks at the explanation
//   read     the same, and every term of every candidate kept is read from the answer
//
// on three fleets that take turns, a batch each, so that whatever else the machine does hits all
// alike. Counters are medians over the batches, in CPU time of the thread: microseconds per request
// and the ratios to `winner`. The rings are full before anything is measured: each decision also
// pays for one that leaves.
//
// What a request costs on the Router alone, with many targets (BM_Targets), and with many threads
// that call (BM_Callers).
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "bench_router.h"
#include "kvrouter/router.h"
#include "service/routing_service.h"
#include "service/worker_registry.h"

namespace kvrouter {
namespace {

using bench::Batches;
using bench::BenchPrompt;

enum class Form { kHashes, kTokens };

// Workers that hold different lengths of one prompt.
struct Fleet {
  Router router;
  WorkerRegistry registry{&router};
  RoutingService service;
  BenchPrompt prompt;
  uint64_t requests = 0;

  Fleet(int workers, size_t isl_tokens, bool explained)
      : router(RouterOf(explained), nullptr),
        service(ServiceOf(explained), &router, &SteadyClock()),
        prompt(isl_tokens) {
    const auto count = static_cast<size_t>(workers);
    for (size_t id = 1; id <= count; ++id) {
      const auto registered = registry.Register(bench::BenchWorker(id));
      KVR_CHECK(registered.ok(), "worker refused");
      bench::HoldPrompt(prompt, prompt.local.size() * id / (2 * count), {.worker = WorkerId{id}},
                        registered->incarnation, &router);
    }
  }

  static RouterConfig RouterOf(bool explained) {
    RouterConfig config;
    config.decision_detail = explained ? DecisionDetail::kFull : DecisionDetail::kWinner;
    return config;
  }
  static ServiceConfig ServiceOf(bool explained) {
    ServiceConfig config;
    if (!explained) config.decision_ring_entries = 0;
    return config;
  }

  void RouteAndFree(Form form, bool read) {
    RouteRequest request;
    request.request_id = fmt::format("request-{}", ++requests);
    if (form == Form::kTokens) {
      request.prompt = TokenPrompt{prompt.tokens};
    } else {
      request.prompt = prompt.AsHashes();
    }
    std::string id;
    const auto decision = service.Route(std::move(request), &id);
    KVR_CHECK(decision.ok(), "not routed");
    benchmark::DoNotOptimize(decision->target);
    if (read) {
      for (const CandidateCost& candidate : decision->candidates) {
        benchmark::DoNotOptimize(candidate);
      }
    }
    service.Free(id);
  }
};

// One way of routing, and what its batches took.
struct Way {
  Fleet fleet;
  Form form;
  bool read;
  Batches batches = {};

  void Batch() {
    batches.Batch(200, [this] { fleet.RouteAndFree(form, read); });
  }
};

void BM_Explained(benchmark::State& state, Form form) {
  const auto isl_tokens = static_cast<size_t>(state.range(0));
  const auto workers = static_cast<int>(state.range(1));
  Way winner{Fleet(workers, isl_tokens, false), form, false};
  Way kept{Fleet(workers, isl_tokens, true), form, false};
  Way read{Fleet(workers, isl_tokens, true), form, true};
  const std::array<Way*, 3> ways = {&winner, &kept, &read};
  for (Way* way : ways) {
    for (uint32_t i = 0; i < 4500; ++i) way->fleet.RouteAndFree(form, way->read);
  }
  for (auto _ : state) {
    for (Way* way : ways) way->Batch();
  }
  const double winner_us = winner.batches.MedianMicros();
  const double kept_us = kept.batches.MedianMicros();
  const double read_us = read.batches.MedianMicros();
  state.counters["winner_us"] = winner_us;
  state.counters["kept_us"] = kept_us;
  state.counters["read_us"] = read_us;
  state.counters["kept_ratio"] = kept_us / winner_us;
  state.counters["read_ratio"] = read_us / winner_us;
}

BENCHMARK_CAPTURE(BM_Explained, hashes, Form::kHashes)->ArgsProduct({{2048, 8192}, {8, 64, 512}});
BENCHMARK_CAPTURE(BM_Explained, tokens, Form::kTokens)
    ->ArgsProduct({{2048, 8192, 14'000}, {8, 64, 512}});

// ---- The Router alone ----

// Sessions that come back, as a caller names them.
constexpr uint64_t kSessions = 1000;

RouterConfig WithQueueAndAffinity(DecisionDetail detail = DecisionDetail::kFull) {
  RouterConfig config;
  config.decision_detail = detail;
  config.scheduler.queue.busy.tokens = 1'000'000'000;  // looked at, and nobody waits
  config.sessions.affinity_ttl = std::chrono::hours(1);
  config.sessions.prefix_tokens = 512;
  config.sessions.soft = true;
  return config;
}

void SubmitAndFinish(Router* router, const BenchPrompt& prompt, std::string session_id) {
  RouteRequest request;
  request.request_id = "request-of-usual-length-0123456789abcdef";
  request.session_id = std::move(session_id);
  request.prompt = prompt.AsHashes();
  const auto submission = router->Submit(request, {});
  KVR_CHECK(submission.ok(), "not routed");
  router->Finish(std::get<RouteDecision>(*submission).booking, {});
}

// Decisions alone, with nothing on, and with a queue and sessions: a caller's, and derived ones;
// the caller's without explanations, too.
void BM_Targets(benchmark::State& state) {
  constexpr uint32_t kRanks = 8;
  const auto workers = static_cast<uint64_t>(state.range(0)) / kRanks;
  const BenchPrompt prompt(2048);
  Router plain(RouterConfig{}, nullptr);
  Router full(WithQueueAndAffinity(), nullptr);
  Router winner(WithQueueAndAffinity(DecisionDetail::kWinner), nullptr);
  for (Router* router : {&plain, &full, &winner})
    bench::AddHolders(prompt, workers, kRanks, router);
  Batches plain_batches;
  Batches named_batches;
  Batches winner_batches;
  Batches derived_batches;
  uint64_t number = 0;
  const int requests = state.range(0) > 1000 ? 20 : 200;
  for (auto _ : state) {
    plain_batches.Batch(requests, [&] { SubmitAndFinish(&plain, prompt, {}); });
    const auto next_session = [&] { return fmt::format("session-{}", ++number % kSessions); };
    named_batches.Batch(requests, [&] { SubmitAndFinish(&full, prompt, next_session()); });
    winner_batches.Batch(requests, [&] { SubmitAndFinish(&winner, prompt, next_session()); });
    derived_batches.Batch(requests, [&] { SubmitAndFinish(&full, prompt, {}); });
  }
  state.counters["plain_us"] = plain_batches.MedianMicros();
  state.counters["named_us"] = named_batches.MedianMicros();
  state.counters["derived_us"] = derived_batches.MedianMicros();
  state.counters["named_ratio"] = named_batches.MedianMicros() / plain_batches.MedianMicros();
  state.counters["explained_ratio"] = named_batches.MedianMicros() / winner_batches.MedianMicros();
  state.counters["plain_ns_per_target"] =
      1000 * plain_batches.MedianMicros() / static_cast<double>(workers * kRanks);
}
BENCHMARK(BM_Targets)->Arg(64)->Arg(1024)->Arg(10'000);

// Threads that decide on one partition: all but the pick is outside its mutex.
void BM_Callers(benchmark::State& state) {
  static std::unique_ptr<Router> router;
  const BenchPrompt prompt(2048);
  if (state.thread_index() == 0) {
    router = std::make_unique<Router>(WithQueueAndAffinity(), nullptr);
    bench::AddHolders(prompt, /*workers=*/8, /*ranks=*/8, router.get());
  }
  uint64_t number = 0;
  double cpu_micros = 0;
  for (auto _ : state) {
    const double start = bench::ThreadCpuMicros();
    for (int i = 0; i < 100; ++i) {
      SubmitAndFinish(router.get(), prompt,
                      fmt::format("session-{}-{}", state.thread_index(), ++number % kSessions));
    }
    cpu_micros += bench::ThreadCpuMicros() - start;
  }
  const auto requests = static_cast<double>(state.iterations()) * 100;
  state.counters["cpu_us"] =
      benchmark::Counter(cpu_micros / requests, benchmark::Counter::kAvgThreads);
  state.counters["requests_per_s"] = benchmark::Counter(requests, benchmark::Counter::kIsRate);
  if (state.thread_index() == 0) router.reset();
}
BENCHMARK(BM_Callers)->Threads(1)->Threads(2)->Threads(4)->UseRealTime();

}  // namespace
}  // namespace kvrouter

BENCHMARK_MAIN();
