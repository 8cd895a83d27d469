#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine_requests.h"
#include "sim/model/engine_model.h"

namespace kvrouter::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// 1 token a millisecond, blocks of 4, 10 ms more for a step with decodes.
struct Limits {
  uint64_t capacity_blocks = 0;
  uint32_t token_budget_per_step = 100;
  uint32_t max_running = 100;
};
EngineConfig SmallEngine(const Limits& limits) {
  return {.service = EngineConfig::Service::kContinuousBatching,
          .block_size_tokens = 4,
          .capacity_blocks = limits.capacity_blocks,
          .prefill_tokens_per_s = 1000,
          .inter_token = std::chrono::milliseconds(10),
          .token_budget_per_step = limits.token_budget_per_step,
          .max_running = limits.max_running};
}

TEST(ContinuousBatchingTest, AFreshEngineIsIdle) {
  EngineModel engine(SmallEngine({}));
  EXPECT_EQ(engine.NextEventTime(), MonotonicTime::max());
  EXPECT_THAT(Advance(engine, kForEver), IsEmpty());
}

TEST(ContinuousBatchingTest, PrefillGivesTheFirstTokenAndEachLaterStepOneMore) {
  EngineModel engine(SmallEngine({}));
  engine.Submit(ARequest(1, 10, 3, {1, 2}), Ms(5));
  EXPECT_EQ(engine.NextEventTime(), Ms(5));
  EXPECT_THAT(Advance(engine, kForEver),
              ElementsAre("5: prefill 1 hit 0", "5: stored 1 [0,2)", "15: first 1",
                          "15: tokens 1 1", "25: tokens 1 2", "35: tokens 1 3", "35: finished 1"));
  EXPECT_EQ(engine.Totals().computed_prefill_tokens, 10u);
  EXPECT_EQ(engine.Gauges().active_blocks, 0u);
  EXPECT_EQ(engine.Gauges().cached_blocks, 2u);
}

TEST(ContinuousBatchingTest, DecodesTakeTheBudgetFirstAndPrefillIsChunked) {
  EngineModel engine(SmallEngine({.token_budget_per_step = 5}));
  engine.Submit(ARequest(1, 4, 4, {1}), Ms(0));
  Advance(engine, Ms(4));  // 1 decodes from here
  engine.Submit(ARequest(2, 9, 1, {11, 12}), Ms(5));
  // Steps: one decode token (1) and four prefill tokens (2), until 1 has finished.
  EXPECT_THAT(Advance(engine, kForEver),
              ElementsAre("14: tokens 1 2",                                               //
                          "14: prefill 2 hit 0", "14: stored 2 [0,1)", "28: tokens 1 3",  //
                          "28: stored 2 [1,2)", "42: tokens 1 4", "42: finished 1",       //
                          "43: first 2", "43: tokens 2 1", "43: finished 2"));
}

TEST(ContinuousBatchingTest, ARequestOfTheSameStepHitsWhatTheFirstIsAboutToCompute) {
  EngineModel engine(SmallEngine({}));
  engine.Submit(ARequest(1, 9, 1, {1, 2}), Ms(0));
  engine.Submit(ARequest(2, 9, 1, {1, 2}), Ms(0));
  EXPECT_THAT(Advance(engine, Ms(0)),
              ElementsAre("0: prefill 1 hit 0", "0: stored 1 [0,2)", "0: prefill 2 hit 2"));
  EXPECT_EQ(engine.Gauges().active_blocks, 4u) << "two shared, two own partial ones";
}

TEST(ContinuousBatchingTest, ABlockComputedTwiceAtATimeIsStoredAndRemovedTwice) {
  EngineModel engine(SmallEngine({.capacity_blocks = 4, .token_budget_per_step = 4}));
  engine.Submit(ARequest(1, 8, 1, {1, 2}), Ms(0));
  Advance(engine, Ms(100));
  // The whole prompt is cached: the last block is computed again all the same.
  engine.Submit(ARequest(2, 8, 1, {1, 2}), Ms(100));
  EXPECT_THAT(Advance(engine, Ms(200)),
              ElementsAre("100: prefill 2 hit 1", "100: stored 2 [1,2)", "104: first 2",
                          "104: tokens 2 1", "104: finished 2"));
  EXPECT_EQ(engine.Gauges().cached_blocks, 3u);
  EXPECT_EQ(engine.Totals().prefix_cache_hit_tokens, 4u);
  engine.Submit(ARequest(3, 16, 1, {11, 12, 13, 14}), Ms(200));
  EXPECT_EQ(Advance(engine, Ms(200))[1], "200: removed 2 2 1");
}

TEST(ContinuousBatchingTest, ARequestWaitsUntilBlocksAreFree) {
  EngineModel engine(SmallEngine({.capacity_blocks = 5}));
  engine.Submit(ARequest(1, 12, 2, {1, 2, 3}), Ms(0));  // 4 blocks with its answer
  engine.Submit(ARequest(2, 8, 1, {11, 12}), Ms(1));    // 2 blocks: not yet
  EXPECT_THAT(Advance(engine, Ms(12)), ElementsAre("0: prefill 1 hit 0", "0: stored 1 [0,3)",
                                                   "12: first 1", "12: tokens 1 1"));
  EXPECT_EQ(engine.Gauges().waiting, 1u);
  EXPECT_EQ(engine.Gauges().running, 1u);
  EXPECT_FALSE(engine.ResetPrefixCache()) << "blocks are pinned";
  EXPECT_THAT(Advance(engine, Ms(22)), ElementsAre("22: tokens 1 2", "22: finished 1",
                                                   "22: prefill 2 hit 0", "22: stored 2 [0,2)"));
  Advance(engine, kForEver);
  EXPECT_TRUE(engine.ResetPrefixCache());
  EXPECT_EQ(engine.Gauges().cached_blocks, 0u);
}

TEST(ContinuousBatchingTest, NoMoreThanMaxRunningRun) {
  EngineModel engine(SmallEngine({.max_running = 2}));
  for (uint64_t id = 1; id <= 3; ++id) engine.Submit(ARequest(id, 1, 2, {}), Ms(0));
  Advance(engine, Ms(0));
  EXPECT_EQ(engine.Gauges().running, 2u);
  EXPECT_EQ(engine.Gauges().waiting, 1u);
  Advance(engine, kForEver);
  EXPECT_EQ(engine.Totals().requests_finished, 3u);
}

TEST(ContinuousBatchingTest, ARequestLargerThanThePoolRunsAloneAndCachesWhatFits) {
  EngineModel engine(SmallEngine({.capacity_blocks = 2}));
  engine.Submit(ARequest(1, 16, 3, {1, 2, 3, 4}), Ms(0));
  EXPECT_THAT(Advance(engine, Ms(16)), ElementsAre("0: prefill 1 hit 0", "0: stored 1 [0,2)",
                                                   "16: first 1", "16: tokens 1 1"));
  EXPECT_EQ(engine.Gauges().active_blocks, 2u);
  Advance(engine, kForEver);
  EXPECT_EQ(engine.Totals().requests_finished, 1u);
}

TEST(ContinuousBatchingTest, AbortReleasesBlocksInEveryState) {
  EngineModel engine(SmallEngine({.capacity_blocks = 3}));
  engine.Submit(ARequest(1, 8, 9, {1, 2}), Ms(0));
  engine.Submit(ARequest(2, 8, 9, {11, 12}), Ms(0));
  Advance(engine, Ms(2));
  engine.Abort(2, Ms(2));  // waiting
  engine.Abort(1, Ms(2));  // in its prefill step
  engine.Abort(99, Ms(2));
  EXPECT_EQ(engine.Gauges().active_blocks, 0u);
  EXPECT_THAT(Advance(engine, kForEver), IsEmpty());
  EXPECT_EQ(engine.NextEventTime(), MonotonicTime::max());
  EXPECT_EQ(engine.Totals().requests_aborted, 2u);
  engine.Submit(ARequest(1, 9, 1, {1, 2}), Ms(50));
  EXPECT_EQ(Advance(engine, Ms(50)).front(), "50: prefill 1 hit 2") << "cached blocks stay";
}

TEST(ContinuousBatchingTest, PromptsAndAnswersOfNothingStillFinish) {
  EngineModel engine(SmallEngine({}));
  engine.Submit(ARequest(1, 0, 0, {}), Ms(0));
  EXPECT_THAT(Advance(engine, kForEver),
              ElementsAre("0: prefill 1 hit 0", "1: first 1", "1: finished 1"));
}

// KV from another engine comes at 2 ms a block.
EngineConfig LoadingEngine(const Limits& limits) {
  EngineConfig config = SmallEngine(limits);
  config.transfer_per_block = std::chrono::milliseconds(2);
  return config;
}
EngineRequest ALoad(EngineRequest request, uint64_t external_tokens) {
  request.external_tokens = external_tokens;
  return request;
}

TEST(ContinuousBatchingTest, ExternalBlocksArriveInsteadOfBeingComputed) {
  EngineModel engine(LoadingEngine({}));
  engine.Submit(ALoad(ARequest(1, 10, 2, {1, 2}), 10), Ms(0));
  // Three blocks, the last one partial, then the last token.
  EXPECT_THAT(Advance(engine, kForEver),
              ElementsAre("0: prefill 1 hit 0 load 10", "6: stored 1 [0,2)", "6: loaded 1 3",
                          "7: first 1", "7: tokens 1 1", "17: tokens 1 2", "17: finished 1"));
  EXPECT_EQ(engine.Totals().computed_prefill_tokens, 1u);
  EXPECT_EQ(engine.Totals().external_tokens, 10u);
  EXPECT_EQ(engine.Gauges().active_blocks, 0u);
  // Once here they are as good as computed ones.
  engine.Submit(ALoad(ARequest(2, 10, 1, {1, 2}), 8), Ms(100));
  EXPECT_THAT(Advance(engine, kForEver),
              ElementsAre("100: prefill 2 hit 2", "100: loaded 2 0", "102: first 2",
                          "102: tokens 2 1", "102: finished 2"));
}

TEST(ContinuousBatchingTest, APromptOfFullBlocksLoadsThemAllAndComputesItsLastToken) {
  EngineModel engine(LoadingEngine({}));
  engine.Submit(ALoad(ARequest(1, 8, 1, {1, 2}), 8), Ms(0));
  EXPECT_THAT(Advance(engine, kForEver),
              ElementsAre("0: prefill 1 hit 0 load 8", "4: stored 1 [0,2)", "4: loaded 1 2",
                          "5: first 1", "5: tokens 1 1", "5: finished 1"));
}

TEST(ContinuousBatchingTest, OthersRunWhileARequestLoadsAndTheRestOfAShortLoadIsComputed) {
  EngineModel engine(LoadingEngine({}));
  engine.Submit(ALoad(ARequest(1, 12, 1, {1, 2, 3}), 8), Ms(0));
  engine.Submit(ARequest(2, 8, 1, {11, 12}), Ms(0));
  EXPECT_THAT(Advance(engine, kForEver),
              ElementsAre("0: prefill 1 hit 0 load 8", "0: prefill 2 hit 0", "0: stored 2 [0,2)",
                          "4: stored 1 [0,2)", "4: loaded 1 2",                  //
                          "8: first 2", "8: tokens 2 1", "8: finished 2",        //
                          "8: stored 1 [2,3)", "12: first 1", "12: tokens 1 1",  //
                          "12: finished 1"));
}

TEST(ContinuousBatchingTest, HeldBlocksStayPinnedAfterTheEndAndBlockOthersUntilReleased) {
  EngineModel engine(LoadingEngine({.capacity_blocks = 4}));
  EngineRequest producer = ARequest(1, 10, 1, {1, 2});
  producer.hold_blocks = true;
  engine.Submit(std::move(producer), Ms(0));
  Advance(engine, Ms(50));
  EXPECT_EQ(engine.HeldBlocks(1).size(), 3u);
  EXPECT_EQ(engine.Gauges().active_blocks, 3u);
  EXPECT_EQ(engine.Gauges().held_requests, 1u);
  EXPECT_FALSE(engine.ResetPrefixCache());
  engine.Submit(ARequest(2, 8, 1, {11, 12}), Ms(60));
  EXPECT_THAT(Advance(engine, Ms(70)), IsEmpty());
  EXPECT_EQ(engine.NextEventTime(), MonotonicTime::max());
  engine.ReleaseHeld(1, Ms(80));
  EXPECT_THAT(engine.HeldBlocks(1), IsEmpty());
  EXPECT_EQ(Advance(engine, kForEver).back(), "88: finished 2");
  EXPECT_EQ(engine.Gauges().active_blocks, 0u);
}

TEST(ContinuousBatchingTest, ALoadWaitsBehindHeldBlocksAndItsAbortFreesItsPlace) {
  EngineModel engine(LoadingEngine({.capacity_blocks = 3}));
  engine.Submit(ALoad(ARequest(1, 8, 1, {1, 2}), 8), Ms(0));
  engine.Submit(ARequest(2, 8, 1, {11, 12}), Ms(0));
  Advance(engine, Ms(1));
  EXPECT_EQ(engine.Gauges().waiting, 2u);
  engine.Abort(1, Ms(1));
  EXPECT_EQ(engine.Gauges().active_blocks, 0u);
  EXPECT_EQ(Advance(engine, kForEver).back(), "9: finished 2");
  EXPECT_EQ(engine.NextEventTime(), MonotonicTime::max());
}

TEST(ContinuousBatchingTest, ARequestBlockedByALoadRunsWhenThatHasFinished) {
  EngineModel engine(LoadingEngine({.capacity_blocks = 3}));
  engine.Submit(ALoad(ARequest(1, 8, 1, {1, 2}), 8), Ms(0));
  engine.Submit(ARequest(2, 8, 1, {11, 12}), Ms(0));
  EXPECT_EQ(Advance(engine, kForEver).back(), "13: finished 2");
}

}  // namespace
}  // namespace kvrouter::sim
