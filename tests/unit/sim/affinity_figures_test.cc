// What binding sessions by the beginning of their prompts is worth, and the traps of it: the real
// router over 8 engines of 20,000 blocks, in virtual time. One set of settings for all traces, none
// of which names a session to the router.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string_view>
#include <vector>

#include "sim/trace/trace.h"
#include "sim/virtual/router_settings.h"
#include "sim/virtual/simulation.h"
#include "sim/virtual/trace_blocks.h"
#include "support/sanitized.h"

namespace kvrouter::sim {
namespace {

struct Workload {
  std::string_view name;
  Trace trace;
  TraceBlocks blocks{trace};
  double ideal_full_block_hit = 0;  // one cache without a bound: tests/data/traces/README.md
  // Of the cost alone with its default weights, the row of docs/performance.md.
  double cost_only_ttft_p99_s = 0;
};

const Workload& SkewedIsl() {
  static const Workload workload{
      .name = "skewed_isl",
      .trace = ReadTrace("tests/data/traces/skewed_isl.jsonl.gz", 256).value(),
      .ideal_full_block_hit = 171'519.0 / 220'427,
      .cost_only_ttft_p99_s = 5.8};
  return workload;
}

const Workload& Conversation() {
  static const Workload workload{
      .name = "mooncake_conversation",
      .trace = ReadTrace("tests/data/traces/mooncake_conversation.jsonl.gz", 512).value(),
      .ideal_full_block_hit = 105'592.0 / 276'491,
      .cost_only_ttft_p99_s = 9.9};
  return workload;
}

const Workload& Agentic() {
  static const Workload workload{
      .name = "weka_agentic_b256",
      .trace = ReadTrace("tests/data/traces/weka_agentic_b256.jsonl.xz", 256).value(),
      .ideal_full_block_hit = 3'296'018.0 / 3'446'166,
      .cost_only_ttft_p99_s = 29};
  return workload;
}

// Those whose prompts are longest take minutes with a sanitizer.
std::vector<const Workload*> AllWorkloads() {
  if (kSanitized) return {&SkewedIsl()};
  return {&SkewedIsl(), &Conversation(), &Agentic()};
}

using Settings = std::initializer_list<std::string_view>;

PolicyFigures FiguresWith(const Workload& workload, Settings settings, Settings more = {}) {
  SimulationConfig config;
  for (const Settings& some : {settings, more}) {
    for (const std::string_view setting : some) {
      const absl::Status status = ApplySetting(setting, &config.router);
      EXPECT_TRUE(status.ok()) << status;
    }
  }
  const auto figures = SimulateMean(workload.blocks, config, /*runs=*/kSanitized ? 1 : 2);
  EXPECT_TRUE(figures.ok()) << figures.status();
  return figures.ok() ? *figures : PolicyFigures();
}

constexpr std::string_view kBound = "router_session_affinity_ttl_secs=3600";
constexpr std::string_view kFromPrefix = "session_from_prefix_tokens=2048";

TEST(AffinityFiguresTest, BoundSessionsFindNearlyAllThereIsAndStayEven) {
  for (const Workload* workload : AllWorkloads()) {
    SCOPED_TRACE(workload->name);
    const PolicyFigures figures = FiguresWith(*workload, {kBound, kFromPrefix});
    EXPECT_GE(figures.full_block_hit, 0.95 * workload->ideal_full_block_hit);
    EXPECT_LE(figures.full_block_hit, workload->ideal_full_block_hit + 1e-9);
    EXPECT_LE(figures.max_over_mean_prefill, 1.4);
    EXPECT_NEAR(figures.router_token_weighted, figures.engine_token_weighted, 0.02)
        << "the router predicts what the engines find";
  }
}

TEST(AffinityFiguresTest, SoftlyBoundSessionsKeepThatAndTheShortestTimeToFirstToken) {
  for (const Workload* workload : AllWorkloads()) {
    SCOPED_TRACE(workload->name);
    const PolicyFigures figures =
        FiguresWith(*workload, {kBound, kFromPrefix, "session_soft=true", "prefill_load_scale=16"});
    EXPECT_GE(figures.full_block_hit, 0.95 * workload->ideal_full_block_hit);
    EXPECT_LE(figures.max_over_mean_prefill, 1.4);
    EXPECT_LE(figures.ttft_p99_s, workload->cost_only_ttft_p99_s);
  }
}

// Every conversation begins with the same block of 512 tokens.
TEST(AffinityFiguresTest, AKeyWithinWhatAllPromptsShareDoesNotHerd) {
  if (kSanitized) GTEST_SKIP() << "takes minutes with a sanitizer";
  const Settings within = {kBound, "session_from_prefix_tokens=512"};
  const PolicyFigures figures = FiguresWith(Conversation(), within);
  EXPECT_LE(figures.max_over_mean_prefill, 1.15);
  EXPECT_LE(figures.max_over_mean_requests, 1.15);
  EXPECT_NEAR(figures.full_block_hit, 0.255, 0.02) << "as if sessions were not bound";

  const PolicyFigures herd = FiguresWith(Conversation(), within, {"session_hot_share_of_mean=1e9"});
  EXPECT_EQ(herd.max_over_mean_requests, 8) << "without the rule for hot keys";
}

// The system prompt of all conversations has 1,536 tokens; other prompts share nothing.
TEST(AffinityFiguresTest, ACommonSystemPromptAsLongAsTheKeyDoesNotHerd) {
  const Settings within = {kBound, "session_from_prefix_tokens=1536"};
  const PolicyFigures figures = FiguresWith(SkewedIsl(), within);
  EXPECT_LE(figures.max_over_mean_prefill, 1.25);
  EXPECT_NEAR(figures.full_block_hit, 0.61, 0.03) << "as if sessions were not bound";

  const PolicyFigures herd = FiguresWith(SkewedIsl(), within, {"session_hot_share_of_mean=1e9"});
  EXPECT_GE(herd.max_over_mean_prefill, 5) << "without the rule for hot keys";
}

// A key over all there is of a short prompt would change while a conversation grows.
TEST(AffinityFiguresTest, AKeyLongerThanMostPromptsCostsLittle) {
  if (kSanitized) GTEST_SKIP() << "takes minutes with a sanitizer";
  const Settings longer = {kBound, "session_from_prefix_tokens=8192"};
  EXPECT_GE(FiguresWith(Conversation(), longer).full_block_hit, 0.335)
      << "0.328 with a key over what there is, 0.255 without sessions";
  EXPECT_GE(FiguresWith(SkewedIsl(), longer).full_block_hit, 0.75);
  EXPECT_GE(FiguresWith(Agentic(), longer).full_block_hit, 0.95 * Agentic().ideal_full_block_hit);
}

// Credit without bounds draws new conversations to where the system prompt is.
TEST(AffinityFiguresTest, OverlapAloneHerdsAndBoundSessionsDoNotFollow) {
  const Settings overlap_alone = {"overlap_score_credit=100", "prefill_load_scale=1000"};
  EXPECT_GE(FiguresWith(SkewedIsl(), overlap_alone).max_over_mean_prefill, 1.5);
  for (const Workload* workload : AllWorkloads()) {
    SCOPED_TRACE(workload->name);
    EXPECT_LE(FiguresWith(*workload, {kBound, kFromPrefix}).max_over_mean_prefill, 1.25);
  }
}

// Routers that do not know of each other agree on the first target, too.
TEST(AffinityFiguresTest, RendezvousIsAsEvenAsItsHash) {
  for (const Workload* workload : AllWorkloads()) {
    SCOPED_TRACE(workload->name);
    const PolicyFigures figures =
        FiguresWith(*workload, {kBound, kFromPrefix, "session_rendezvous=true"});
    EXPECT_GE(figures.full_block_hit, 0.95 * workload->ideal_full_block_hit);
    EXPECT_LE(figures.max_over_mean_prefill, 1.4);
  }
}

}  // namespace
}  // namespace kvrouter::sim
