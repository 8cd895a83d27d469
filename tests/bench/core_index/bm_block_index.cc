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
#include <stop_token>
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

// The same with the last quarter of each holding in host memory and, of every other holding, a copy
// of it on disk.
void BM_LookupAcrossTiers(benchmark::State& state) {
  const Workload& workload = TheWorkload(state);
  Tree index;
  KvEvent event;
  for (size_t i = 0; i < workload.holdings.size(); ++i) {
    const auto& holding = workload.holdings[i];
    const uint32_t on_device = holding.blocks - holding.blocks / 4;
    event.tier = StorageTier::kDevice;
    workload.StoredEvent(holding, 0, on_device, &event);
    index.Apply(event);
    workload.StoredEvent(holding, on_device, holding.blocks, &event);
    event.tier = StorageTier::kHostPinned;
    index.Apply(event);
    event.tier = StorageTier::kDisk;
    if (i % 2 == 0) index.Apply(event);
  }
  std::mt19937_64 random(7);
  std::vector<OverlapMatch> matches;
  uint64_t extended = 0;
  for (auto _ : state) {
    index.FindOverlap(QueryFor(workload, random() % workload.conversations.size()), &matches);
    extended += index.lower().size();
    benchmark::DoNotOptimize(matches.data());
  }
  state.counters["extended/lookup"] =
      static_cast<double>(extended) / static_cast<double>(state.iterations());
  const BlockIndexStats stats = index.index().Stats();
  uint64_t held_blocks = 0;
  for (const uint64_t blocks : stats.tier_blocks) held_blocks += blocks;
  state.counters["stats_B/held_block"] =
      static_cast<double>(stats.bytes) / static_cast<double>(held_blocks);
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

// A thread that removes the last 64 blocks of random holdings and stores them again,
// one event each.
class EventPump {
 public:
  // blocks_per_second 0: without a pause.
  EventPump(const Workload& workload, uint64_t blocks_per_second, Tree* index)
      : workload_(workload), blocks_per_second_(blocks_per_second), index_(index) {}

  void Start() {
    start_ = std::chrono::steady_clock::now();
    thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
  }
  void Stop(benchmark::State* state) {
    const auto end = std::chrono::steady_clock::now();
    thread_.request_stop();
    thread_.join();
    const double seconds = std::chrono::duration<double>(end - start_).count();
    const auto blocks = static_cast<double>(blocks_);
    state->counters["event_blocks/s"] = blocks / seconds;
    if (blocks_per_second_ == 0) return;  // closed loop: nothing to keep up with
    const double due = seconds * static_cast<double>(blocks_per_second_);
    state->counters["kept_up"] = blocks >= 0.99 * due ? 1 : 0;
  }

 private:
  void Run(const std::stop_token& stop) {
    std::mt19937_64 random(8);
    KvEvent event;
    while (!stop.stop_requested()) {
      if (blocks_per_second_ > 0) {
        std::this_thread::sleep_until(
            start_ + std::chrono::nanoseconds(blocks_ * 1'000'000'000 / blocks_per_second_));
      }
      const auto& holding = workload_.holdings[random() % workload_.holdings.size()];
      const uint32_t blocks = std::min<uint32_t>(64, holding.blocks - 1);
      workload_.RemovedEvent(holding, blocks, &event);
      index_->Apply(event);
      workload_.StoredEvent(holding, holding.blocks - blocks, holding.blocks, &event);
      index_->Apply(event);
      blocks_ += 2 * uint64_t{blocks};
    }
  }

  const Workload& workload_;
  const uint64_t blocks_per_second_;
  Tree* const index_;
  std::chrono::steady_clock::time_point start_;
  std::atomic<uint64_t> blocks_{0};
  std::jthread thread_;
};

// Latency of single lookups while another thread applies events.
void LookUpDuringEvents(benchmark::State& state, uint64_t blocks_per_second) {
  const Workload& workload = TheWorkload(state);
  Tree index;
  workload.StoreAll(false, 64, &index);
  EventPump pump(workload, blocks_per_second, &index);
  std::mt19937_64 random(7);
  std::vector<OverlapMatch> matches;
  std::vector<double> micros;
  pump.Start();
  for (auto _ : state) {
    const auto before = std::chrono::steady_clock::now();
    index.FindOverlap(QueryFor(workload, random() % workload.conversations.size()), &matches);
    micros.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - before)
            .count());
  }
  pump.Stop(&state);
  std::sort(micros.begin(), micros.end());
  state.counters["p50_us"] = micros[micros.size() / 2];
  state.counters["p99_us"] = micros[micros.size() * 99 / 100];
  state.counters["p99.9_us"] = micros[micros.size() * 999 / 1000];
}

void BM_LookupWhileEventsPourIn(benchmark::State& state) { LookUpDuringEvents(state, 0); }
void BM_LookupAtEventRate(benchmark::State& state) {
  LookUpDuringEvents(state, static_cast<uint64_t>(state.range(2)));
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
BENCHMARK(BM_LookupAcrossTiers)->Apply(SharedNames)->Unit(benchmark::kNanosecond);
KVR_BENCH_ALL(BM_Churn, Sizes, benchmark::kMicrosecond);
BENCHMARK(BM_LookupWhileEventsPourIn)
    ->Apply(SharedNames)
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();
// Blocks per second; kept_up says whether they were applied when they were due.
BENCHMARK(BM_LookupAtEventRate)
    ->ArgsProduct({{350, 3500}, {0}, {50'000, 200'000}})
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

}  // namespace
}  // namespace kvrouter

BENCHMARK_MAIN();
