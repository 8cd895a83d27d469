#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine_requests.h"
#include "sim/model/engine_model.h"

namespace kvrouter::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// 1 token a millisecond, blocks of 4, 10 ms per output token.
EngineConfig SmallEngine(uint64_t capacity_blocks = 0) {
  return {.service = EngineConfig::Service::kFifoPrefill,
          .block_size_tokens = 4,
          .capacity_blocks = capacity_blocks,
          .prefill_tokens_per_s = 1000,
          .inter_token = std::chrono::milliseconds(10)};
}

TEST(FifoPrefillTest, AFreshEngineIsIdle) {
  EngineModel engine(SmallEngine());
  EXPECT_EQ(engine.NextEventTime(), MonotonicTime::max());
  EXPECT_THAT(Advance(engine, kForEver), IsEmpty());
}

TEST(FifoPrefillTest, ARequestQueuesPrefillsAndDecodes) {
  EngineModel engine(SmallEngine());
  engine.Submit(ARequest(1, 10, 3, {1, 2}), Ms(5));
  EXPECT_EQ(engine.NextEventTime(), Ms(5));
  EXPECT_THAT(Advance(engine, Ms(5)), ElementsAre("5: prefill 1 hit 0"));
  engine.Submit(ARequest(2, 10, 1, {1, 2}), Ms(6));
  EXPECT_EQ(engine.Gauges().running, 1u);
  EXPECT_EQ(engine.Gauges().waiting, 1u);
  EXPECT_EQ(engine.Gauges().active_blocks, 2u) << "both requests name the same two blocks";
  EXPECT_EQ(engine.Gauges().cached_blocks, 0u) << "cached when prefill ends, not before";
  EXPECT_THAT(Advance(engine, kForEver),
              ElementsAre("15: stored 1 [0,2)", "15: first 1", "15: prefill 2 hit 2", "17: first 2",
                          "27: tokens 2 1", "27: finished 2", "45: tokens 1 3", "45: finished 1"));
  EXPECT_EQ(engine.Totals().prefix_cache_query_tokens, 20u);
  EXPECT_EQ(engine.Totals().prefix_cache_hit_tokens, 8u);
  EXPECT_EQ(engine.Totals().computed_prefill_tokens, 12u);
  EXPECT_EQ(engine.Totals().requests_finished, 2u);
  EXPECT_EQ(engine.Gauges().active_blocks, 0u);
  EXPECT_EQ(engine.Gauges().cached_blocks, 2u);
}

TEST(FifoPrefillTest, EventsKeepTheirTimesWhenTheCallerSleepsLong) {
  EngineModel engine(SmallEngine());
  engine.Submit(ARequest(1, 2, 1, {}), Ms(0));
  engine.Submit(ARequest(2, 2, 1, {}), Ms(1));
  EXPECT_THAT(Advance(engine, Ms(1000)),
              ElementsAre("0: prefill 1 hit 0", "2: first 1", "2: prefill 2 hit 0", "4: first 2",
                          "12: tokens 1 1", "12: finished 1", "14: tokens 2 1", "14: finished 2"));
}

TEST(FifoPrefillTest, HitsAreCountedWhenPrefillStartsNotAtArrival) {
  EngineModel engine(SmallEngine(/*capacity_blocks=*/2));
  engine.Submit(ARequest(1, 8, 0, {1, 2}), Ms(0));
  Advance(engine, Ms(100));
  engine.Submit(ARequest(2, 8, 0, {11, 12}), Ms(100));  // will evict 1 and 2
  engine.Submit(ARequest(3, 8, 0, {1, 2}),
                Ms(100));  // whole in the cache now, but not when its turn comes
  EXPECT_THAT(
      Advance(engine, kForEver),
      ElementsAre("100: prefill 2 hit 0", "108: stored 2 [0,2)", "108: removed 2 1", "108: first 2",
                  "108: finished 2", "108: prefill 3 hit 0", "116: stored 3 [0,2)",
                  "116: removed 12 11", "116: first 3", "116: finished 3"));
}

TEST(FifoPrefillTest, EvictionTakesTheTailOfTheOldestChainFirst) {
  EngineModel engine(SmallEngine(/*capacity_blocks=*/5));
  engine.Submit(ARequest(1, 12, 0, {1, 2, 3}), Ms(0));
  engine.Submit(ARequest(2, 8, 0, {11, 12}), Ms(100));
  Advance(engine, Ms(200));
  engine.Submit(ARequest(3, 8, 0, {1, 9}), Ms(200));  // touches 1: only 3, then 2 are old
  EXPECT_THAT(Advance(engine, kForEver),
              ElementsAre("200: prefill 3 hit 1", "204: stored 3 [1,2)", "204: removed 3",
                          "204: first 3", "204: finished 3"));
  EXPECT_EQ(engine.CachedPrefixBlocks(std::vector{EngineHash{1}, EngineHash{2}, EngineHash{3}}),
            2u);
}

TEST(FifoPrefillTest, APromptLongerThanTheCacheKeepsItsHead) {
  EngineModel engine(SmallEngine(/*capacity_blocks=*/2));
  engine.Submit(ARequest(1, 16, 0, {1, 2, 3, 4}), Ms(0));
  EXPECT_THAT(Advance(engine, kForEver),
              ElementsAre("0: prefill 1 hit 0", "16: stored 1 [0,4)", "16: removed 4 3",
                          "16: first 1", "16: finished 1"));
}

TEST(FifoPrefillTest, AWholePromptInTheCacheIsAFullHitButTheCounterLeavesTheLastBlock) {
  EngineModel engine(SmallEngine());
  engine.Submit(ARequest(1, 8, 0, {1, 2}), Ms(0));
  Advance(engine, Ms(50));
  engine.Submit(ARequest(2, 8, 0, {1, 2}), Ms(100));
  EXPECT_THAT(Advance(engine, Ms(200)),
              ElementsAre("100: prefill 2 hit 2", "101: first 2", "101: finished 2"));
  EXPECT_EQ(engine.Totals().prefix_cache_hit_tokens, 4u);
  EXPECT_EQ(engine.Totals().computed_prefill_tokens, 9u) << "one token is always computed";
}

TEST(FifoPrefillTest, AbortFreesTheServerAndLeavesTheCache) {
  EngineModel engine(SmallEngine());
  engine.Submit(ARequest(1, 8, 5, {1, 2}), Ms(0));
  engine.Submit(ARequest(2, 8, 5, {1, 9}), Ms(0));
  engine.Submit(ARequest(3, 8, 5, {7, 8}), Ms(0));
  Advance(engine, Ms(3));
  engine.Abort(1, Ms(3));  // in prefill: its blocks never arrive
  engine.Abort(3, Ms(3));  // in the queue
  engine.Abort(99, Ms(3));
  EXPECT_THAT(Advance(engine, Ms(11)),
              ElementsAre("3: prefill 2 hit 0", "11: stored 2 [0,2)", "11: first 2"));
  engine.Abort(2, Ms(11));  // in decode
  EXPECT_EQ(engine.NextEventTime(), MonotonicTime::max());
  engine.Submit(ARequest(2, 8, 1, {1, 9}), Ms(12));  // the id is free again
  EXPECT_THAT(Advance(engine, kForEver), ElementsAre("12: prefill 2 hit 2", "13: first 2",
                                                     "23: tokens 2 1", "23: finished 2"));
  EXPECT_EQ(engine.Totals().requests_aborted, 3u);
  EXPECT_EQ(engine.Totals().requests_finished, 1u);
  EXPECT_EQ(engine.Gauges().active_blocks, 0u);
  EXPECT_EQ(engine.Gauges().running, 0u);
}

TEST(FifoPrefillTest, ResetDropsTheCacheAlsoDuringAPrefill) {
  EngineModel engine(SmallEngine());
  engine.Submit(ARequest(1, 8, 0, {1, 2}), Ms(0));
  Advance(engine, Ms(50));
  engine.Submit(ARequest(2, 12, 0, {1, 2, 3}), Ms(50));
  EXPECT_THAT(Advance(engine, Ms(50)), ElementsAre("50: prefill 2 hit 2"));
  EXPECT_TRUE(engine.ResetPrefixCache());
  EXPECT_EQ(engine.Gauges().cached_blocks, 0u);
  EXPECT_THAT(Advance(engine, kForEver),
              ElementsAre("54: stored 2 [0,3)", "54: first 2", "54: finished 2"));
}

TEST(FifoPrefillTest, AnEmptyPromptCostsOneToken) {
  EngineModel engine(SmallEngine());
  engine.Submit(ARequest(1, 0, 0, {}), Ms(0));
  EXPECT_THAT(Advance(engine, kForEver),
              ElementsAre("0: prefill 1 hit 0", "1: first 1", "1: finished 1"));
}

}  // namespace
}  // namespace kvrouter::sim
