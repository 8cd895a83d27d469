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
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "kvrouter/block_hash.h"
#include "kvrouter/router.h"
#include "service/routing_service.h"
#include "service/worker_registry.h"

namespace kvrouter {
namespace {

constexpr uint32_t kBlockTokens = 16;

enum class Form { kHashes, kTokens };

// Workers that hold different lengths of one prompt.
struct Fleet {
  Router router;
  WorkerRegistry registry{&router};
  RoutingService service;
  std::vector<TokenId> tokens;
  std::vector<LocalBlockHash> local;
  std::vector<SequenceHash> sequence;
  uint64_t requests = 0;

  Fleet(int workers, size_t isl_tokens, bool explained)
      : router(RouterOf(explained), nullptr),
        service(ServiceOf(explained), &router, &SteadyClock()),
        tokens(isl_tokens) {
    std::iota(tokens.begin(), tokens.end(), 1);
    AppendLocalBlockHashes(tokens, kBlockTokens, BlockSeed({}), &local);
    AppendSequenceHashes(local, &sequence);
    const auto count = static_cast<size_t>(workers);
    for (size_t id = 1; id <= count; ++id) AddWorker(id, local.size() * id / (2 * count));
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

  void AddWorker(uint64_t id, size_t held_blocks) {
    WorkerSpec spec;
    spec.id = WorkerId{id};
    spec.address = fmt::format("http://10.0.0.{}:8000", id);
    spec.block_size_tokens = kBlockTokens;
    const auto registered = registry.Register(spec);
    KVR_CHECK(registered.ok(), "worker refused");
    Stored stored;
    for (size_t i = 0; i < held_blocks; ++i) {
      stored.blocks.push_back({.engine_hash = EngineHash{i + 1}, .local_hash = local[i]});
    }
    KvEvent event;
    event.target.worker = spec.id;
    event.incarnation = registered->incarnation;
    event.data = std::move(stored);
    KVR_CHECK(router.Apply(event).status == ApplyStatus::kOk, "blocks refused");
  }

  void RouteAndFree(Form form, bool read) {
    RouteRequest request;
    request.request_id = fmt::format("request-{}", ++requests);
    if (form == Form::kTokens) {
      request.prompt = TokenPrompt{tokens};
    } else {
      request.prompt = HashPrompt{
          .local_hashes = local, .sequence_hashes = sequence, .isl_tokens = tokens.size()};
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

double ThreadCpuMicros() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

double Median(std::vector<double>* values) {
  const auto middle = values->begin() + static_cast<ptrdiff_t>(values->size() / 2);
  std::nth_element(values->begin(), middle, values->end());
  return *middle;
}

// One way of routing, and what its batches took.
struct Way {
  Fleet fleet;
  Form form;
  bool read;
  std::vector<double> micros_per_request;

  void Batch() {
    constexpr int kRequests = 200;
    const double start = ThreadCpuMicros();
    for (int i = 0; i < kRequests; ++i) fleet.RouteAndFree(form, read);
    micros_per_request.push_back((ThreadCpuMicros() - start) / kRequests);
  }
};

void BM_Explained(benchmark::State& state, Form form) {
  const auto isl_tokens = static_cast<size_t>(state.range(0));
  const auto workers = static_cast<int>(state.range(1));
  Way winner{Fleet(workers, isl_tokens, false), form, false, {}};
  Way kept{Fleet(workers, isl_tokens, true), form, false, {}};
  Way read{Fleet(workers, isl_tokens, true), form, true, {}};
  const std::array<Way*, 3> ways = {&winner, &kept, &read};
  for (Way* way : ways) {
    for (uint32_t i = 0; i < 4500; ++i) way->fleet.RouteAndFree(form, way->read);
  }
  for (auto _ : state) {
    for (Way* way : ways) way->Batch();
  }
  const double winner_us = Median(&winner.micros_per_request);
  const double kept_us = Median(&kept.micros_per_request);
  const double read_us = Median(&read.micros_per_request);
  state.counters["winner_us"] = winner_us;
  state.counters["kept_us"] = kept_us;
  state.counters["read_us"] = read_us;
  state.counters["kept_ratio"] = kept_us / winner_us;
  state.counters["read_ratio"] = read_us / winner_us;
}

BENCHMARK_CAPTURE(BM_Explained, hashes, Form::kHashes)->ArgsProduct({{2048, 8192}, {8, 64, 512}});
BENCHMARK_CAPTURE(BM_Explained, tokens, Form::kTokens)
    ->ArgsProduct({{2048, 8192, 14'000}, {8, 64, 512}});

}  // namespace
}  // namespace kvrouter

BENCHMARK_MAIN();
