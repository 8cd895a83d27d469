// What a booking costs where decisions say which blocks are held (router_kv_events false, or
// router_predicted_ttl_secs). Each iteration is one booking of a prompt:
//
//   New/N        N blocks that nobody has yet, on a fleet that holds 1,000,000; as many expire
//   Again/N      N blocks that the target holds already: their end is moved
//   StoreOnly/N  the baseline of New: the same blocks stored and removed in the index alone, as
//                events would do it
//
// Counters: nanoseconds per block; bytes per remembered block, with and without the index's.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <vector>

#include "core/index/block_index.h"
#include "core/index/routed_blocks.h"
#include "kvrouter/block_hash.h"

namespace kvrouter {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kHeldBlocks = 1'000'000;
constexpr uint64_t kWorkers = 16;

struct Prompt {
  std::vector<LocalBlockHash> local;
  std::vector<SequenceHash> sequence;
};

// The n-th prompt: a quarter of its blocks is one of 64 shared beginnings, the rest is its own.
Prompt MakePrompt(uint64_t n, size_t blocks) {
  Prompt prompt;
  for (size_t i = 0; i < blocks; ++i) {
    const uint64_t whose = i < blocks / 4 ? n % 64 : 1'000'000 + n;
    prompt.local.push_back(LocalBlockHash{whose * 0x9e3779b97f4a7c15 + i * 0xbf58476d1ce4e5b9});
  }
  AppendSequenceHashes(prompt.local, &prompt.sequence);
  return prompt;
}

Target TargetOf(uint64_t n) { return {WorkerId{n % kWorkers}, 0}; }

void Report(benchmark::State& state, size_t blocks, const BlockIndex& index,
            const RoutedBlocks* routed) {
  state.counters["ns_per_block"] =
      benchmark::Counter(static_cast<double>(state.iterations() * blocks) * 1e-9,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  const auto index_bytes = static_cast<double>(index.Stats().bytes);
  const double held = static_cast<double>(index.Stats().holder_blocks);
  state.counters["index_bytes_per_block"] = index_bytes / held;
  if (routed == nullptr) return;
  const RoutedBlocksFigures figures = routed->Read();
  state.counters["time_bytes_per_block"] =
      static_cast<double>(figures.bytes) / static_cast<double>(figures.blocks);
}

// Prompts made ahead, so that hashing is not measured.
class Prompts {
 public:
  explicit Prompts(size_t blocks) : blocks_(blocks) {}
  const Prompt& Next(benchmark::State& state) {
    if (at_ == made_.size()) {
      state.PauseTiming();
      made_.clear();
      for (at_ = 0; made_.size() < 256; ++next_) made_.push_back(MakePrompt(next_, blocks_));
      state.ResumeTiming();
    }
    return made_[at_++];
  }

 private:
  const size_t blocks_;
  uint64_t next_ = 1'000'000;
  size_t at_ = 0;
  std::vector<Prompt> made_;
};

void BM_RoutedBlocksRecord_New(benchmark::State& state) {
  const auto blocks = static_cast<size_t>(state.range(0));
  // One booking per 10 ms; they stay for as long as it takes to hold so many.
  const milliseconds ttl(10 * kHeldBlocks / blocks);
  BlockIndex index;
  RoutedBlocks routed({.ttl = ttl, .max_blocks = 2 * kHeldBlocks}, &index);
  uint64_t n = 0;
  for (; n < kHeldBlocks / blocks; ++n) {
    const Prompt prompt = MakePrompt(n, blocks);
    routed.Record(TargetOf(n), prompt.local, prompt.sequence, milliseconds(10 * n));
  }
  Prompts prompts(blocks);
  for (auto _ : state) {
    const Prompt& prompt = prompts.Next(state);
    routed.ExpireSome(milliseconds(10 * n));
    routed.Record(TargetOf(n), prompt.local, prompt.sequence, milliseconds(10 * n));
    ++n;
  }
  Report(state, blocks, index, &routed);
}
BENCHMARK(BM_RoutedBlocksRecord_New)->Arg(64)->Arg(512)->Arg(4096);

void BM_RoutedBlocksRecord_Again(benchmark::State& state) {
  const auto blocks = static_cast<size_t>(state.range(0));
  BlockIndex index;
  RoutedBlocks routed({.ttl = std::chrono::hours(10), .max_blocks = 2 * kHeldBlocks}, &index);
  std::vector<Prompt> prompts;
  for (uint64_t n = 0; n < kHeldBlocks / blocks; ++n) {
    prompts.push_back(MakePrompt(n, blocks));
    routed.Record(TargetOf(n), prompts[n].local, prompts[n].sequence, milliseconds(10 * n));
  }
  uint64_t n = 0;
  for (auto _ : state) {
    const Prompt& prompt = prompts[n % prompts.size()];
    routed.Record(TargetOf(n % prompts.size()), prompt.local, prompt.sequence,
                  milliseconds(1'000'000 + 10 * n));
    ++n;
  }
  Report(state, blocks, index, &routed);
}
BENCHMARK(BM_RoutedBlocksRecord_Again)->Arg(64)->Arg(512)->Arg(4096);

void BM_RoutedBlocksRecord_StoreOnly(benchmark::State& state) {
  const auto blocks = static_cast<size_t>(state.range(0));
  BlockIndex index;
  const auto store = [&](const Prompt& prompt, Target target) {
    Stored stored;
    stored.blocks.reserve(prompt.local.size());
    for (size_t i = 0; i < prompt.local.size(); ++i) {
      stored.blocks.push_back(
          {EngineHash{static_cast<uint64_t>(prompt.sequence[i])}, prompt.local[i]});
    }
    index.Apply({.target = target, .counting = StoreCounting::kSet, .data = std::move(stored)});
  };
  std::deque<std::pair<Target, std::vector<EngineHash>>> held;
  const auto remember = [&](const Prompt& prompt, Target target) {
    // The shared beginning stays, as it would for being used again.
    std::vector<EngineHash> own;
    for (size_t i = blocks / 4; i < prompt.sequence.size(); ++i)
      own.push_back(EngineHash{static_cast<uint64_t>(prompt.sequence[i])});
    held.emplace_back(target, std::move(own));
  };
  uint64_t n = 0;
  for (; n < kHeldBlocks / blocks; ++n) {
    const Prompt prompt = MakePrompt(n, blocks);
    store(prompt, TargetOf(n));
    remember(prompt, TargetOf(n));
  }
  Prompts prompts(blocks);
  for (auto _ : state) {
    const Prompt& prompt = prompts.Next(state);
    index.Apply({.target = held.front().first,
                 .counting = StoreCounting::kSet,
                 .data = Removed{std::move(held.front().second)}});
    held.pop_front();
    store(prompt, TargetOf(n));
    remember(prompt, TargetOf(n));
    ++n;
  }
  Report(state, blocks, index, nullptr);
}
BENCHMARK(BM_RoutedBlocksRecord_StoreOnly)->Arg(64)->Arg(512)->Arg(4096);

}  // namespace
}  // namespace kvrouter

BENCHMARK_MAIN();
