#include "sim/virtual/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "sim/virtual/trace_blocks.h"

namespace kvrouter::sim {
namespace {

using ::testing::HasSubstr;

struct Row {
  int64_t arrival_ms = 0;
  uint64_t isl_tokens = 0;
  std::vector<uint32_t> block_ids;
};

Trace ATrace(const std::vector<Row>& rows) {
  Trace trace{.name = "test", .block_size_tokens = 4, .rows = {}};
  for (const Row& row : rows) {
    trace.rows.push_back({.arrival = std::chrono::milliseconds(row.arrival_ms),
                          .isl_tokens = row.isl_tokens,
                          .osl_tokens = 1,
                          .block_ids = row.block_ids,
                          .session_id = ""});
  }
  return trace;
}

// 1 token a millisecond.
SimulationConfig AConfig(Policy policy, uint32_t workers) {
  SimulationConfig config;
  config.policy = policy;
  config.workers = workers;
  config.engine.prefill_tokens_per_s = 1000;
  return config;
}

PolicyFigures FiguresOf(const Trace& trace, const SimulationConfig& config) {
  const auto figures = Simulate(TraceBlocks(trace), config);
  EXPECT_TRUE(figures.ok()) << figures.status();
  return *figures;
}

TEST(SimulationTest, BlocksAreVisibleToTheRouterWhenPrefillEnds) {
  // The second arrives while the first is in prefill: nothing to see at its decision, but the
  // engine hits when its turn comes. The third sees both blocks.
  const Trace trace = ATrace({{0, 8, {1, 2}}, {4, 8, {1, 2}}, {100, 8, {1, 2}}});
  const PolicyFigures figures = FiguresOf(trace, AConfig(Policy::kKv, 1));
  EXPECT_EQ(figures.sums.overlap_blocks, 2u);
  EXPECT_EQ(figures.sums.hit_blocks, 4u);
  EXPECT_EQ(figures.sums.engine_hit_tokens, 8u) << "the engine's counter leaves the last block";
  EXPECT_EQ(figures.sums.engine_query_tokens, 24u);
}

TEST(SimulationTest, SequentialDecidesAfterTheBlocksBeforeAreVisible) {
  const Trace trace = ATrace({{0, 9, {1, 2}}, {4, 9, {1, 2}}, {4, 9, {1, 3}}});
  SimulationConfig config = AConfig(Policy::kKv, 1);
  config.sequential = true;
  const PolicyFigures figures = FiguresOf(trace, config);
  EXPECT_EQ(figures.sums.overlap_blocks, 3u);
  EXPECT_EQ(figures.sums.hit_blocks, 3u);
  EXPECT_DOUBLE_EQ(figures.router_token_weighted, 12.0 / 27);
  EXPECT_DOUBLE_EQ(figures.router_block_weighted, 3.0 / 9);
  EXPECT_DOUBLE_EQ(figures.full_block_hit, 3.0 / 6);
  EXPECT_DOUBLE_EQ(figures.request_weighted, (0.0 + 2.0 / 3 + 1.0 / 3) / 3);
  EXPECT_DOUBLE_EQ(figures.full_block_request_hit, (0.0 + 1.0 + 0.5) / 3);
}

TEST(SimulationTest, PromptsWithoutAFullBlockCountAsZeroAndEmptyOnesAreNoObservation) {
  const Trace trace = ATrace({{0, 3, {}}, {10, 0, {}}, {20, 4, {1}}, {40, 4, {1}}});
  const PolicyFigures figures = FiguresOf(trace, AConfig(Policy::kKv, 1));
  EXPECT_EQ(figures.sums.requests, 4u);
  EXPECT_EQ(figures.sums.observations, 3u);
  EXPECT_EQ(figures.sums.isl_blocks, 3u);
  EXPECT_EQ(figures.sums.full_blocks, 2u);
  EXPECT_DOUBLE_EQ(figures.request_weighted, 1.0 / 3);
  EXPECT_DOUBLE_EQ(figures.full_block_request_hit, 1.0 / 4);
}

TEST(SimulationTest, EvictedBlocksAreForgottenByTheRouter) {
  const Trace trace = ATrace({{0, 8, {1, 2}}, {100, 8, {3, 4}}, {200, 8, {1, 2}}});
  SimulationConfig config = AConfig(Policy::kKv, 1);
  config.engine.capacity_blocks = 2;
  const PolicyFigures figures = FiguresOf(trace, config);
  EXPECT_EQ(figures.sums.overlap_blocks, 0u);
  EXPECT_EQ(figures.sums.hit_blocks, 0u);
}

TEST(SimulationTest, KvFollowsThePrefixWhereItIs) {
  // Two conversations with turns far apart: each stays where it began.
  std::vector<Row> rows;
  std::vector<uint32_t> a;
  std::vector<uint32_t> b;
  for (uint32_t turn = 0; turn < 6; ++turn) {
    a.push_back(10 + turn);
    b.push_back(20 + turn);
    rows.push_back({.arrival_ms = turn * 1000, .isl_tokens = a.size() * 4, .block_ids = a});
    rows.push_back({.arrival_ms = turn * 1000 + 500, .isl_tokens = b.size() * 4, .block_ids = b});
  }
  const PolicyFigures figures = FiguresOf(ATrace(rows), AConfig(Policy::kKv, 4));
  EXPECT_EQ(figures.sums.overlap_blocks, 2u * (1 + 2 + 3 + 4 + 5));
}

TEST(SimulationTest, RoundRobinIsEvenAndLeastLoadedAvoidsTheBusyWorker) {
  const Trace trace = ATrace({{0, 400, std::vector<uint32_t>(100)}, {1, 4, {200}}, {2, 4, {201}}});
  Trace distinct = trace;
  for (uint32_t i = 0; i < 100; ++i) distinct.rows[0].block_ids[i] = i;
  const PolicyFigures round_robin = FiguresOf(distinct, AConfig(Policy::kRoundRobin, 2));
  EXPECT_DOUBLE_EQ(round_robin.max_over_mean_requests, 2 / 1.5);
  EXPECT_GT(round_robin.ttft_p99_s, 0.39);
  const PolicyFigures least_loaded = FiguresOf(distinct, AConfig(Policy::kLeastLoaded, 2));
  EXPECT_DOUBLE_EQ(least_loaded.ttft_p50_s, 0.007) << "both short ones on the other worker";
  EXPECT_DOUBLE_EQ(least_loaded.ttft_p99_s, 0.4);
}

TEST(SimulationTest, SpeedupBringsRequestsCloser) {
  const Trace trace = ATrace({{0, 10, {1, 2}}, {100, 10, {3, 4}}});
  SimulationConfig config = AConfig(Policy::kRoundRobin, 1);
  EXPECT_DOUBLE_EQ(FiguresOf(trace, config).ttft_p99_s, 0.010);
  config.speedup = 20;  // the second arrives at 5 ms and waits 5
  EXPECT_DOUBLE_EQ(FiguresOf(trace, config).ttft_p99_s, 0.015);
}

TEST(SimulationTest, TheSameSeedGivesTheSameFiguresAndMeansAreMeans) {
  std::vector<Row> rows;
  for (uint32_t i = 0; i < 200; ++i) {
    rows.push_back({.arrival_ms = i, .isl_tokens = 8, .block_ids = {i % 17, 100 + i % 31}});
  }
  // Ids are prefix-chained: make the second depend on the first.
  for (Row& row : rows) row.block_ids[1] = row.block_ids[1] * 100 + row.block_ids[0];
  const Trace trace = ATrace(rows);
  for (const Policy policy : {Policy::kKv, Policy::kRandom, Policy::kLeastLoaded}) {
    SCOPED_TRACE(PolicyName(policy));
    SimulationConfig config = AConfig(policy, 5);
    std::set<uint64_t> hits;
    double sum = 0;
    for (config.seed = 1; config.seed <= 4; ++config.seed) {
      const PolicyFigures once = FiguresOf(trace, config);
      EXPECT_EQ(once.sums.hit_blocks, FiguresOf(trace, config).sums.hit_blocks);
      EXPECT_EQ(once.ttft_p99_s, FiguresOf(trace, config).ttft_p99_s);
      hits.insert(once.sums.hit_blocks);
      sum += once.full_block_hit;
    }
    EXPECT_GT(hits.size(), 1u) << "seeds matter";
    config.seed = 1;
    const auto mean = SimulateMean(TraceBlocks(trace), config, 4);
    ASSERT_TRUE(mean.ok()) << mean.status();
    EXPECT_NEAR(mean->full_block_hit, sum / 4, 1e-12);
  }
}

TEST(SimulationTest, ContinuousBatchingServesTheWholeTraceToo) {
  std::vector<Row> rows;
  for (uint32_t i = 0; i < 300; ++i) {
    rows.push_back({.arrival_ms = i, .isl_tokens = 6, .block_ids = {i % 7}});
  }
  SimulationConfig config = AConfig(Policy::kKv, 3);
  config.engine.service = EngineConfig::Service::kContinuousBatching;
  config.engine.capacity_blocks = 8;
  const PolicyFigures figures = FiguresOf(ATrace(rows), config);
  EXPECT_EQ(figures.sums.engine_query_tokens, 1800u) << "every request was admitted";
  EXPECT_GT(figures.sums.hit_blocks, 150u);
}

TEST(SimulationTest, AnEmptyTraceGivesZeros) {
  const PolicyFigures figures = FiguresOf(ATrace({}), AConfig(Policy::kKv, 2));
  EXPECT_EQ(figures.sums.requests, 0u);
  EXPECT_EQ(figures.full_block_hit, 0);
  EXPECT_EQ(figures.ttft_p99_s, 0);
}

TEST(SimulationTest, ImpossibleConfigurationsAreErrors) {
  const Trace trace = ATrace({{0, 4, {1}}});
  EXPECT_FALSE(Simulate(TraceBlocks(trace), AConfig(Policy::kKv, 0)).ok());
  SimulationConfig config = AConfig(Policy::kKv, 1);
  config.speedup = 0;
  EXPECT_FALSE(Simulate(TraceBlocks(trace), config).ok());
  config.speedup = 1;
  config.router.scheduler.router_temperature = -1;
  EXPECT_THAT(Simulate(TraceBlocks(trace), config).status().ToString(),
              HasSubstr("router_temperature"));
  EXPECT_FALSE(SimulateMean(TraceBlocks(trace), AConfig(Policy::kKv, 1), 0).ok());
}

TEST(TraceBlocksTest, EngineHashesDifferBetweenWorkersAndBlocks) {
  std::set<EngineHash> hashes;
  for (uint32_t worker = 0; worker < 50; ++worker) {
    for (uint32_t id = 0; id < 50; ++id) hashes.insert(TraceBlocks::EngineHashOf(worker, id));
  }
  EXPECT_EQ(hashes.size(), 2500u);
}

}  // namespace
}  // namespace kvrouter::sim
