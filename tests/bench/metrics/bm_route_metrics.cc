// What being measured costs a decision: the Router alone, with the metrics as its sink, and with
// its steps timed as well. The claim is the ratio in one run; compare CPU times of
// --benchmark_repetitions with --benchmark_enable_random_interleaving.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "adapters/metrics/router_metrics.h"
#include "base/check.h"
#include "base/clock.h"
#include "kvrouter/block_hash.h"
#include "kvrouter/router.h"

namespace kvrouter {
namespace {

enum class Measured { kNot, kCounted, kTimed };

void Route(benchmark::State& state, Measured measured, bool hashed) {
  constexpr uint32_t kBlockTokens = 16;
  RouterMetrics metrics({});
  Router router({}, measured == Measured::kNot ? nullptr : &metrics,
                measured == Measured::kTimed ? &metrics : nullptr);
  for (uint64_t id = 1; id <= 8; ++id) {
    WorkerSpec spec;
    spec.id = WorkerId{id};
    spec.incarnation = Incarnation{1};
    spec.address = fmt::format("http://10.0.0.{}:8000", id);
    spec.block_size_tokens = kBlockTokens;
    KVR_CHECK(router.UpsertWorker(spec).ok(), "worker refused");
  }
  std::vector<TokenId> tokens(2048);
  std::iota(tokens.begin(), tokens.end(), 1);
  std::vector<LocalBlockHash> local;
  std::vector<SequenceHash> sequence;
  AppendLocalBlockHashes(tokens, kBlockTokens, BlockSeed({}), &local);
  AppendSequenceHashes(local, &sequence);
  RouteRequest request;
  if (hashed) {
    request.prompt =
        HashPrompt{.local_hashes = local, .sequence_hashes = sequence, .isl_tokens = tokens.size()};
  } else {
    request.prompt = TokenPrompt{tokens};
  }
  for (auto _ : state) {
    const MonotonicTime now = SteadyClock().Now();
    const auto submission = router.Submit(request, now);
    KVR_CHECK(submission.ok(), "not routed");
    router.Finish(std::get<RouteDecision>(*submission).booking, now);
  }
}

void BM_RouteHashesUnmeasured(benchmark::State& state) { Route(state, Measured::kNot, true); }
void BM_RouteHashesCounted(benchmark::State& state) { Route(state, Measured::kCounted, true); }
void BM_RouteHashesTimed(benchmark::State& state) { Route(state, Measured::kTimed, true); }
void BM_RouteTokensUnmeasured(benchmark::State& state) { Route(state, Measured::kNot, false); }
void BM_RouteTokensCounted(benchmark::State& state) { Route(state, Measured::kCounted, false); }
void BM_RouteTokensTimed(benchmark::State& state) { Route(state, Measured::kTimed, false); }

BENCHMARK(BM_RouteHashesUnmeasured);
BENCHMARK(BM_RouteHashesCounted);
BENCHMARK(BM_RouteHashesTimed);
BENCHMARK(BM_RouteTokensUnmeasured);
BENCHMARK(BM_RouteTokensCounted);
BENCHMARK(BM_RouteTokensTimed);

}  // namespace
}  // namespace kvrouter

BENCHMARK_MAIN();
