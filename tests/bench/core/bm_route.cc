// What explanations cost: Route and Free through the service with everything behind a decision kept
// (decision_detail=full and the ring of recent decisions, the defaults) beside the winner alone and
// no ring. The claim is the ratio of the two in one run; compare CPU times of
// --benchmark_repetitions with --benchmark_enable_random_interleaving.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdint>
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

enum class Form { kHashes2Kb, kTokens56Kb };

// Workers that hold different lengths of one prompt.
struct Fleet {
  Router router;
  WorkerRegistry registry{&router};
  RoutingService service;
  std::vector<TokenId> tokens;
  std::vector<LocalBlockHash> local;
  std::vector<SequenceHash> sequence;

  Fleet(int workers, bool explained, Form form)
      : router(RouterOf(explained), nullptr),
        service(ServiceOf(explained), &router, &SteadyClock()),
        tokens(form == Form::kTokens56Kb ? 14'000 : 2048) {
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
};

void Route(benchmark::State& state, Form form, bool explained) {
  Fleet fleet(static_cast<int>(state.range(0)), explained, form);
  uint64_t n = 0;
  for (auto _ : state) {
    RouteRequest request;
    request.request_id = fmt::format("request-{}", ++n);
    if (form == Form::kTokens56Kb) {
      request.prompt = TokenPrompt{fleet.tokens};
    } else {
      request.prompt = HashPrompt{.local_hashes = fleet.local,
                                  .sequence_hashes = fleet.sequence,
                                  .isl_tokens = fleet.tokens.size()};
    }
    std::string id;
    const auto decision = fleet.service.Route(std::move(request), &id);
    KVR_CHECK(decision.ok(), "not routed");
    benchmark::DoNotOptimize(decision->target);
    fleet.service.Free(id);
  }
}

void BM_RouteHashes2KbWinner(benchmark::State& state) { Route(state, Form::kHashes2Kb, false); }
void BM_RouteHashes2KbFull(benchmark::State& state) { Route(state, Form::kHashes2Kb, true); }
void BM_RouteTokens56KbWinner(benchmark::State& state) { Route(state, Form::kTokens56Kb, false); }
void BM_RouteTokens56KbFull(benchmark::State& state) { Route(state, Form::kTokens56Kb, true); }

BENCHMARK(BM_RouteHashes2KbWinner)->Arg(8)->Arg(64);
BENCHMARK(BM_RouteHashes2KbFull)->Arg(8)->Arg(64);
BENCHMARK(BM_RouteTokens56KbWinner)->Arg(8)->Arg(64);
BENCHMARK(BM_RouteTokens56KbFull)->Arg(8)->Arg(64);

}  // namespace
}  // namespace kvrouter

BENCHMARK_MAIN();
