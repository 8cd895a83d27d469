#include "sim/player/play_figures.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

namespace kvrouter::sim {
namespace {

std::string RouterText() {
  return "# HELP kvrouter_overlap_tokens_total x\n"
         "kvrouter_overlap_tokens_total{model=\"a\"} 30\n"
         "kvrouter_overlap_tokens_total{model=\"b\"} 10\n"
         "kvrouter_isl_tokens_total 100\n"
         "dynamo_component_router_kv_overlap_blocks_total 4\n"
         "dynamo_component_router_kv_isl_blocks_total 11\n"
         "dynamo_component_router_kv_hit_rate_bucket{le=\"+Inf\"} 5\n"
         "dynamo_component_router_kv_hit_rate_sum 1.5\n"
         "dynamo_component_router_kv_hit_rate_count 5\n";
}

std::string EngineText(int queries, int hits) {
  return fmt::format(
      "vllm:prefix_cache_queries_total{{engine=\"0\"}} {}\nvllm:prefix_cache_hits_total 0\n"
      "vllm:prefix_cache_hits_total{{engine=\"1\"}} {}\n",
      queries, hits);
}

TEST(PlayFiguresTest, SeriesOfAFamilyAreAddedUp) {
  const auto sums = ReadCounters(RouterText(), {EngineText(70, 20), EngineText(30, 5)});
  ASSERT_TRUE(sums.ok()) << sums.status().ToString();
  EXPECT_EQ(sums->overlap_tokens, 40);
  EXPECT_EQ(sums->hit_ratio_count, 5);
  ASSERT_EQ(sums->engines.size(), 2u);
  EXPECT_EQ(sums->engines[1].hit_tokens, 5);
}

TEST(PlayFiguresTest, AMissingFamilyIsAnErrorThatNamesIt) {
  const auto sums = ReadCounters("kvrouter_overlap_tokens_total 1\n", {});
  ASSERT_FALSE(sums.ok());
  EXPECT_NE(sums.status().ToString().find("kvrouter_isl_tokens_total"), std::string::npos);
}

TEST(PlayFiguresTest, ARowIsWhatHappenedBetweenTwoScrapes) {
  const CounterSums before{.overlap_tokens = 100,
                           .isl_tokens = 200,
                           .overlap_blocks = 10,
                           .isl_blocks = 20,
                           .hit_ratio_sum = 5,
                           .hit_ratio_count = 10,
                           .engines = {{.query_tokens = 1000, .hit_tokens = 0}, {}}};
  CounterSums after = before;
  after.overlap_tokens += 60;
  after.isl_tokens += 100;
  after.overlap_blocks += 6;
  after.isl_blocks += 12;
  after.hit_ratio_sum += 1;
  after.hit_ratio_count += 4;
  after.engines[0].query_tokens += 80;
  after.engines[0].hit_tokens += 50;  // computed 30
  after.engines[1].query_tokens += 20;
  after.engines[1].hit_tokens += 10;  // computed 10
  PlayOutcome outcome;
  outcome.full_block_tokens = 80;
  outcome.ttft_s = {0.1, 0.3, 0.2};
  outcome.late_s = {0.001, 0.002};
  outcome.failed = 1;
  outcome.plans = {{"local: no_gain", 5},
                   {"migrate: planned migrate", 2},
                   {"migrate: default, planned migrate", 1}};

  const PolicyRow row = MakeRow(before, after, outcome, 10);
  EXPECT_DOUBLE_EQ(row.router_token_weighted.value(), 0.6);
  EXPECT_DOUBLE_EQ(row.engine_token_weighted.value(), 0.6);
  EXPECT_DOUBLE_EQ(row.router_block_weighted.value(), 0.5);
  EXPECT_DOUBLE_EQ(row.full_block_hit.value(), 0.75);
  EXPECT_DOUBLE_EQ(row.request_weighted.value(), 0.25);
  EXPECT_DOUBLE_EQ(row.max_over_mean_prefill.value(), 1.5);
  EXPECT_DOUBLE_EQ(row.ttft_p50_s.value(), 2);
  EXPECT_DOUBLE_EQ(row.ttft_p99_s.value(), 3);
  EXPECT_DOUBLE_EQ(row.details.at("late_p50_model_s"), 0.01);
  EXPECT_DOUBLE_EQ(row.details.at("failed"), 1);
  EXPECT_DOUBLE_EQ(row.details.at("planned_migrations"), 3);
}

TEST(PlayFiguresTest, WithoutTrafficRatiosAreAbsent) {
  CounterSums idle;
  idle.engines.resize(2);
  const PolicyRow row = MakeRow(idle, idle, PlayOutcome{}, 1);
  EXPECT_FALSE(row.router_token_weighted.has_value());
  EXPECT_FALSE(row.max_over_mean_prefill.has_value());
  EXPECT_FALSE(row.ttft_p50_s.has_value());
}

}  // namespace
}  // namespace kvrouter::sim
