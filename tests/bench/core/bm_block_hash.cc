// Token hashing beside plain XXH3 over the same bytes: what block identities cost beyond the hash
// function itself. Arguments: tokens of the prompt, tokens per block. Compare bytes per second.
//
//   Xxh3WholeBuffer   one call over all tokens: the speed of the hash function where it is fastest
//   Xxh3PerBlock      one call per block, results stored: the least that block hashes can cost
//   Local             AppendLocalBlockHashes (plain; with LoRA and salt in the seed; EAGLE windows;
//                     an image in every fourth block)
//   LocalAndSequence  what Route does with a token prompt
#define XXH_INLINE_ALL
#include <benchmark/benchmark.h>
#include <xxhash.h>

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "kvrouter/block_hash.h"

namespace kvrouter {
namespace {

std::vector<TokenId> Tokens(const benchmark::State& state) {
  std::vector<TokenId> tokens(static_cast<size_t>(state.range(0)));
  std::iota(tokens.begin(), tokens.end(), 1000);
  return tokens;
}

uint32_t BlockTokens(const benchmark::State& state) {
  return static_cast<uint32_t>(state.range(1));
}

void SetBytes(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * state.range(0) *
                          static_cast<int64_t>(sizeof(TokenId)));
}

void BM_Xxh3WholeBuffer(benchmark::State& state) {
  const auto tokens = Tokens(state);
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        XXH3_64bits_withSeed(tokens.data(), tokens.size() * sizeof(TokenId), 1337));
  }
  SetBytes(state);
}

void BM_Xxh3PerBlock(benchmark::State& state) {
  const auto tokens = Tokens(state);
  const size_t block_tokens = BlockTokens(state);
  std::vector<uint64_t> hashes(tokens.size() / block_tokens);
  for (auto _ : state) {
    for (size_t i = 0; i < hashes.size(); ++i) {
      hashes[i] = XXH3_64bits_withSeed(tokens.data() + i * block_tokens,
                                       block_tokens * sizeof(TokenId), 1337);
    }
    benchmark::DoNotOptimize(hashes.data());
    benchmark::ClobberMemory();
  }
  SetBytes(state);
}

void BM_Local(benchmark::State& state, BlockIdentity identity) {
  const auto tokens = Tokens(state);
  std::vector<LocalBlockHash> local;
  for (auto _ : state) {
    local.clear();
    AppendLocalBlockHashes(tokens, BlockTokens(state), BlockSeed(identity), &local);
    benchmark::DoNotOptimize(local.data());
  }
  SetBytes(state);
}

void Local(benchmark::State& state, const BlockHashing& how) {
  const auto tokens = Tokens(state);
  std::vector<LocalBlockHash> local;
  for (auto _ : state) {
    local.clear();
    AppendLocalBlockHashes(tokens, how, &local);
    benchmark::DoNotOptimize(local.data());
  }
  SetBytes(state);
}

void BM_LocalEagle(benchmark::State& state) {
  Local(state,
        {.block_size_tokens = BlockTokens(state), .block_seed = BlockSeed({}), .is_eagle = true});
}

void BM_LocalImages(benchmark::State& state) {
  std::vector<std::vector<MultimodalHash>> items(
      static_cast<size_t>(state.range(0) / state.range(1)));
  for (size_t block = 0; block < items.size(); block += 4) {
    items[block] = {MultimodalHash{block + 1}};
  }
  Local(state, {.block_size_tokens = BlockTokens(state),
                .block_seed = BlockSeed({}),
                .is_eagle = false,
                .multimodal = items});
}

void BM_LocalAndSequence(benchmark::State& state) {
  const auto tokens = Tokens(state);
  std::vector<LocalBlockHash> local;
  std::vector<SequenceHash> sequence;
  for (auto _ : state) {
    local.clear();
    sequence.clear();
    AppendLocalBlockHashes(tokens, BlockTokens(state), BlockSeed({}), &local);
    AppendSequenceHashes(local, &sequence);
    benchmark::DoNotOptimize(sequence.data());
  }
  SetBytes(state);
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgsProduct({{8192}, {16, 64}});
}
BENCHMARK(BM_Xxh3WholeBuffer)->Apply(Sizes);
BENCHMARK(BM_Xxh3PerBlock)->Apply(Sizes);
BENCHMARK_CAPTURE(BM_Local, plain, BlockIdentity{})->Apply(Sizes);
BENCHMARK_CAPTURE(BM_Local, lora_and_salt,
                  BlockIdentity{.lora_name = "adapter-7", .cache_salt = "tenant-42"})
    ->Apply(Sizes);
BENCHMARK(BM_LocalEagle)->Apply(Sizes);
BENCHMARK(BM_LocalImages)->Apply(Sizes);
BENCHMARK(BM_LocalAndSequence)->Apply(Sizes);

}  // namespace
}  // namespace kvrouter

BENCHMARK_MAIN();
