#include "sim/player/door_explanation.h"

#include <gtest/gtest.h>

namespace kvrouter::sim {
namespace {

TEST(DoorExplanationTest, PlansAreNamedByTheirRulesWithoutNumbers) {
  const DoorExplanation read =
      ReadExplanation({{"content-type", "text/event-stream"},
                       {"x-kvrouter-plan", "local"},
                       {"x-kvrouter-overlap-tokens", "512"},
                       {"x-kvrouter-explanation",
                        "local short_prompt (prompt 691 < 2048); below_min_tokens, 0 < 16"}});
  EXPECT_EQ(read.plan, "local: local short_prompt, below_min_tokens");
  EXPECT_EQ(read.overlap_tokens, 512u);
}

TEST(DoorExplanationTest, TwoRequestsWithTheSameReasonAreCountedTogether) {
  const auto plan = [](const char* explanation) {
    return ReadExplanation(
               {{"x-kvrouter-plan", "migrate"}, {"x-kvrouter-explanation", explanation}})
        .plan;
  };
  EXPECT_EQ(plan("planned migrate from worker 3 rank 0, 4096 >= 1024"),
            plan("planned migrate from worker 5 rank 0, 2048 >= 1024"));
}

TEST(DoorExplanationTest, AnswersWithoutExplanationAreCountedAsSuch) {
  EXPECT_EQ(ReadExplanation({{"x-kvrouter-plan", "local"}}).plan, "local");
  EXPECT_EQ(ReadExplanation({}).plan, "unexplained");
  EXPECT_EQ(ReadExplanation({{"x-kvrouter-overlap-tokens", "many"}}).overlap_tokens, 0u);
}

}  // namespace
}  // namespace kvrouter::sim
