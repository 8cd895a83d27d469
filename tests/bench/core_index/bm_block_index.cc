// The block index against a flat table and a trie with a node per block, in one run: compare within
// one run only. Arguments: conversations (about 290 new blocks each), then 0 = workers hash alike,
// 1 = each with a seed of its own.
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "baseline_indexes.h"
#include "workload.h"

namespace kvrouter {
namespace {

const Workload& TheWorkload(const benchmark::State& state) {
  static std::unique_ptr<Workload> workload;
  static std::pair<int64_t, int64_t> made_for{-1, -1};
  const std::pair<int64_t, int64_t> wanted{state.range(0), state.range(1)};
  if (made_for != wanted) {
    workload = std::make_unique<Workload>(static_cast<size_t>(state.range(0)), state.range(1) != 0);
    made_for = wanted;
  }
  return *workload;
}

double HeapInUse() {
  const auto info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}

BenchQuery QueryFor(const Workload& workload, size_t conversation) {
  const auto& c = workload.conversations[conversation];
  return {c.contents, c.sequence};
}

// Stores everything into an empty index. interleaved: round robin over all sequences, one block per
// event.
template <typename Index>
void Store(benchmark::State& state, bool interleaved) {
  const Workload& workload = TheWorkload(state);
  int64_t blocks = 0;
  double bytes_per_block = 0;
  for (auto _ : state) {
    const double before = HeapInUse();
    auto index = std::make_unique<Index>();
    const uint64_t stored = workload.StoreAll(interleaved, interleaved ? 1 : 64, index.get());
    state.PauseTiming();
    blocks += static_cast<int64_t>(stored);
    bytes_per_block = (HeapInUse() - before) / static_cast<double>(workload.holder_blocks);
    if constexpr (std::is_same_v<Index, Tree>) {
      const BlockIndexStats stats = index->index().Stats();
      state.counters["stats_B/holder_block"] =
          static_cast<double>(stats.bytes) / static_cast<double>(stats.holder_blocks);
      state.counters["nodes"] = static_cast<double>(stats.nodes);
    }
    index.reset();
    state.ResumeTiming();
  }
  state.SetItemsProcessed(blocks);
  state.counters["heap_B/holder_block"] = bytes_per_block;
}

template <typename Index>
void BM_StoreInSequence(benchmark::State& state) {
  Store<Index>(state, false);
}
template <typename Index>
void BM_StoreInterleaved1(benchmark::State& state) {
  Store<Index>(state, true);
}

// Looks up whole conversations at random after they were stored.
template <typename Index>
void Lookup(benchmark::State& state, bool interleaved) {
  const Workload& workload = TheWorkload(state);
  Index index;
  workload.StoreAll(interleaved, interleaved ? 1 : 64, &index);
  std::mt19937_64 random(7);
  std::vector<OverlapMatch> matches;
  for (auto _ : state) {
    index.FindOverlap(QueryFor(workload, random() % workload.conversations.size()), &matches);
    benchmark::DoNotOptimize(matches.data());
  }
}

template <typename Index>
void BM_LookupInSequence(benchmark::State& state) {
  Lookup<Index>(state, false);
}
template <typename Index>
void BM_LookupInterleaved1(benchmark::State& state) {
  Lookup<Index>(state, true);
}

// Steady state of full caches: a random holding loses its last 64 blocks, one event, and gets them
// back, one event.
template <typename Index>
void BM_Churn(benchmark::State& state) {
  const Workload& workload = TheWorkload(state);
  Index index;
  workload.StoreAll(true, 1, &index);
  std::mt19937_64 random(7);
  KvEvent removed;
  KvEvent stored;
  for (auto _ : state) {
    const auto& holding = workload.holdings[random() % workload.holdings.size()];
    const uint32_t blocks = std::min<uint32_t>(64, holding.blocks - 1);
    workload.RemovedEvent(holding, blocks, &removed);
    workload.StoredEvent(holding, holding.blocks - blocks, holding.blocks, &stored);
    index.Apply(removed);
    index.Apply(stored);
  }
  state.SetItemsProcessed(state.iterations() * 128);
}

// Latency of single lookups while another thread removes and stores without a pause, 64 blocks per
// event.
void BM_LookupWhileEventsPourIn(benchmark::State& state) {
  const Workload& workload = TheWorkload(state);
  Tree index;
  workload.StoreAll(false, 64, &index);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> events{0};
  std::thread writer([&] {
    std::mt19937_64 random(8);
    KvEvent event;
    while (!stop) {
      const auto& holding = workload.holdings[random() % workload.holdings.size()];
      const uint32_t blocks = std::min<uint32_t>(64, holding.blocks - 1);
      workload.RemovedEvent(holding, blocks, &event);
      index.Apply(event);
      workload.StoredEvent(holding, holding.blocks - blocks, holding.blocks, &event);
      index.Apply(event);
      events += 2;
    }
  });
  std::mt19937_64 random(7);
  std::vector<OverlapMatch> matches;
  std::vector<double> micros;
  const auto start = std::chrono::steady_clock::now();
  for (auto _ : state) {
    const auto before = std::chrono::steady_clock::now();
    index.FindOverlap(QueryFor(workload, random() % workload.conversations.size()), &matches);
    micros.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - before)
            .count());
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  stop = true;
  writer.join();
  std::sort(micros.begin(), micros.end());
  state.counters["p50_us"] = micros[micros.size() / 2];
  state.counters["p99_us"] = micros[micros.size() * 99 / 100];
  state.counters["p99.9_us"] = micros[micros.size() * 999 / 1000];
  state.counters["event_blocks/s"] = static_cast<double>(events) * 64 / seconds;
}

void Sizes(benchmark::internal::Benchmark* b) {
  b->Args({350, 0})->Args({350, 1})->Args({3500, 0})->Args({3500, 1});
}
void SharedNames(benchmark::internal::Benchmark* b) { b->Args({350, 0})->Args({3500, 0}); }

#define KVR_BENCH_ALL(name, args, unit)                         \
  BENCHMARK_TEMPLATE(name, Tree)->Apply(args)->Unit(unit);      \
  BENCHMARK_TEMPLATE(name, FlatIndex)->Apply(args)->Unit(unit); \
  BENCHMARK_TEMPLATE(name, BlockTrie)->Apply(args)->Unit(unit)

KVR_BENCH_ALL(BM_StoreInSequence, Sizes, benchmark::kMillisecond);
KVR_BENCH_ALL(BM_StoreInterleaved1, Sizes, benchmark::kMillisecond);
KVR_BENCH_ALL(BM_LookupInSequence, SharedNames, benchmark::kNanosecond);
KVR_BENCH_ALL(BM_LookupInterleaved1, SharedNames, benchmark::kNanosecond);
KVR_BENCH_ALL(BM_Churn, Sizes, benchmark::kMicrosecond);
BENCHMARK(BM_LookupWhileEventsPourIn)
    ->Apply(SharedNames)
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

}  // namespace
}  // namespace kvrouter

BENCHMARK_MAIN();
