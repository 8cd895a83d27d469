// The published figures of two traces, from the real router over 8 engines of 20,000 blocks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string_view>

#include "sim/trace/trace.h"
#include "sim/virtual/router_settings.h"
#include "sim/virtual/simulation.h"
#include "sim/virtual/trace_blocks.h"

namespace kvrouter::sim {
namespace {

// Means over seeds: a single run of skewed_isl has a standard deviation of 0.008 in block hit.
constexpr uint32_t kRuns = 4;

const TraceBlocks& SkewedIsl() {
  static const Trace trace = ReadTrace("tests/data/traces/skewed_isl.jsonl.gz", 256).value();
  static const TraceBlocks blocks(trace);
  return blocks;
}

const TraceBlocks& MooncakeConversation() {
  static const Trace trace =
      ReadTrace("tests/data/traces/mooncake_conversation.jsonl.gz", 512).value();
  static const TraceBlocks blocks(trace);
  return blocks;
}

PolicyFigures Figures(const TraceBlocks& blocks, const SimulationConfig& config) {
  const auto figures = SimulateMean(blocks, config, kRuns);
  EXPECT_TRUE(figures.ok()) << figures.status();
  return *figures;
}

PolicyFigures Figures(const TraceBlocks& blocks, Policy policy) {
  SimulationConfig config;
  config.policy = policy;
  return Figures(blocks, config);
}

PolicyFigures FiguresOfKvWith(const TraceBlocks& blocks, std::string_view setting) {
  SimulationConfig config;
  EXPECT_TRUE(ApplySetting(setting, &config.router).ok());
  return Figures(blocks, config);
}

// Computed once: three tests look at them.
const PolicyFigures& DefaultKv(const TraceBlocks& blocks) {
  static std::map<const TraceBlocks*, PolicyFigures> cache;
  const auto entry = cache.find(&blocks);
  if (entry != cache.end()) return entry->second;
  return cache[&blocks] = Figures(blocks, Policy::kKv);
}

TEST(PolicyFiguresTest, KvWithDefaultWeightsOnSkewedIsl) {
  const PolicyFigures& kv = DefaultKv(SkewedIsl());
  EXPECT_NEAR(kv.full_block_hit, 0.609, 0.02);
  EXPECT_NEAR(kv.full_block_request_hit, 0.232, 0.02);
  EXPECT_NEAR(kv.request_weighted, 0.232, 0.02);
  EXPECT_LE(kv.max_over_mean_prefill, 1.15);
  EXPECT_NEAR(kv.ttft_p50_s, 0.40, 0.1);
  EXPECT_NEAR(kv.prefill_util, 0.35, 0.03);
  EXPECT_NEAR(kv.router_token_weighted, kv.engine_token_weighted, 0.02)
      << "the router predicts what the engines find";
}

TEST(PolicyFiguresTest, KvWithDefaultWeightsOnMooncakeConversation) {
  const PolicyFigures& kv = DefaultKv(MooncakeConversation());
  EXPECT_NEAR(kv.full_block_hit, 0.255, 0.02);
  EXPECT_NEAR(kv.full_block_request_hit, 0.339, 0.02);
  EXPECT_LE(kv.max_over_mean_prefill, 1.15);
  EXPECT_NEAR(kv.ttft_p50_s, 1.14, 0.1);
  EXPECT_NEAR(kv.ttft_p99_s, 10.2, 1.0);
  EXPECT_NEAR(kv.router_token_weighted, kv.engine_token_weighted, 0.02);
}

TEST(PolicyFiguresTest, KvWithPrefillLoadScale16ReusesMore) {
  EXPECT_NEAR(FiguresOfKvWith(SkewedIsl(), "prefill_load_scale=16").full_block_hit, 0.756, 0.02);
  EXPECT_NEAR(FiguresOfKvWith(MooncakeConversation(), "prefill_load_scale=16").full_block_hit,
              0.323, 0.02);
}

TEST(PolicyFiguresTest, KvWithScale4IsInBetween) {
  EXPECT_NEAR(FiguresOfKvWith(SkewedIsl(), "prefill_load_scale=4").full_block_hit, 0.7193, 0.02);
}

TEST(PolicyFiguresTest, RoundRobinHasNothingRandomAndGivesThePublishedRows) {
  const PolicyFigures skewed = Figures(SkewedIsl(), Policy::kRoundRobin);
  EXPECT_NEAR(skewed.full_block_hit, 0.3707, 0.0002);
  EXPECT_NEAR(skewed.full_block_request_hit, 0.1539, 0.0002);
  EXPECT_NEAR(skewed.ttft_p50_s, 1.20, 0.01);
  EXPECT_NEAR(skewed.ttft_p99_s, 16.09, 0.01);
  EXPECT_NEAR(skewed.max_over_mean_prefill, 1.06, 0.01);
  EXPECT_NEAR(skewed.prefill_util, 0.55, 0.01);

  const PolicyFigures mooncake = Figures(MooncakeConversation(), Policy::kRoundRobin);
  EXPECT_NEAR(mooncake.full_block_hit, 0.1417, 0.0002);
  EXPECT_NEAR(mooncake.full_block_request_hit, 0.2842, 0.0002);
  EXPECT_NEAR(mooncake.ttft_p50_s, 1.56, 0.01);
  EXPECT_NEAR(mooncake.ttft_p99_s, 17.21, 0.01);
}

TEST(PolicyFiguresTest, RandomGivesThePublishedRows) {
  const PolicyFigures skewed = Figures(SkewedIsl(), Policy::kRandom);
  EXPECT_NEAR(skewed.full_block_hit, 0.3551, 0.02);
  EXPECT_NEAR(skewed.full_block_request_hit, 0.1512, 0.02);
  const PolicyFigures mooncake = Figures(MooncakeConversation(), Policy::kRandom);
  EXPECT_NEAR(mooncake.full_block_hit, 0.1377, 0.02);
  EXPECT_NEAR(mooncake.full_block_request_hit, 0.2854, 0.02);
}

TEST(PolicyFiguresTest, LeastLoadedGivesThePublishedRows) {
  const PolicyFigures skewed = Figures(SkewedIsl(), Policy::kLeastLoaded);
  EXPECT_NEAR(skewed.full_block_hit, 0.3494, 0.02);
  EXPECT_NEAR(skewed.full_block_request_hit, 0.1480, 0.02);
  EXPECT_NEAR(skewed.ttft_p50_s, 0.75, 0.1);
  const PolicyFigures mooncake = Figures(MooncakeConversation(), Policy::kLeastLoaded);
  EXPECT_NEAR(mooncake.full_block_hit, 0.1346, 0.02);
  EXPECT_NEAR(mooncake.full_block_request_hit, 0.2839, 0.02);
  EXPECT_NEAR(mooncake.ttft_p50_s, 1.36, 0.1);
}

TEST(PolicyFiguresTest, KvBeatsRoundRobinByAWideMargin) {
  EXPECT_GE(DefaultKv(SkewedIsl()).full_block_hit,
            1.5 * Figures(SkewedIsl(), Policy::kRoundRobin).full_block_hit);
  EXPECT_GE(DefaultKv(MooncakeConversation()).full_block_hit,
            1.6 * Figures(MooncakeConversation(), Policy::kRoundRobin).full_block_hit);
}

TEST(PolicyFiguresTest, OneWorkerWithUnlimitedCacheInSequenceGivesTheExactCounts) {
  SimulationConfig config;
  config.workers = 1;
  config.engine.capacity_blocks = 0;
  config.sequential = true;
  for (const auto service :
       {EngineConfig::Service::kFifoPrefill, EngineConfig::Service::kContinuousBatching}) {
    SCOPED_TRACE(fmt::format("service={}", static_cast<int>(service)));
    config.engine.service = service;
    const PolicyFigures skewed = Figures(SkewedIsl(), config);
    EXPECT_EQ(skewed.sums.overlap_blocks, 171'519u);
    EXPECT_EQ(skewed.sums.isl_blocks, 224'355u);
    EXPECT_NEAR(skewed.request_weighted, 0.312332, 5e-7);
    EXPECT_EQ(skewed.sums.hit_blocks, 171'519u);
    EXPECT_EQ(skewed.sums.full_blocks, 220'427u);
    EXPECT_NEAR(skewed.full_block_request_hit, 0.319112, 5e-7);
    EXPECT_NEAR(skewed.engine_token_weighted, 0.7713, 5e-5);
    EXPECT_EQ(skewed.router_token_weighted, skewed.engine_token_weighted);

    const PolicyFigures mooncake = Figures(MooncakeConversation(), config);
    EXPECT_EQ(mooncake.sums.overlap_blocks, 105'592u);
    EXPECT_EQ(mooncake.sums.isl_blocks, 288'500u);
    EXPECT_NEAR(mooncake.request_weighted, 0.382089, 5e-7);
    EXPECT_EQ(mooncake.sums.full_blocks, 276'491u);
    EXPECT_NEAR(mooncake.router_token_weighted, 0.3734, 5e-5);
    EXPECT_NEAR(mooncake.engine_token_weighted, 0.3734, 5e-5);
    if (service == EngineConfig::Service::kContinuousBatching) continue;
    EXPECT_EQ(mooncake.sums.hit_blocks, 105'592u);
    EXPECT_NEAR(mooncake.full_block_request_hit, 0.479420, 5e-7);
  }
}

}  // namespace
}  // namespace kvrouter::sim
