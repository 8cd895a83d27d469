#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kvrouter/decision_record.h"

namespace kvrouter {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(std::string_view text) {
  const auto change = ParsePolicyChange(text);
  return change.ok() ? "none" : std::string(change.status().message());
}

TEST(PolicyChangeTest, ReadsSettingsByTheirNamesInTheFileOrAsFlags) {
  const auto change = ParsePolicyChange(
      std::string_view(" router_temperature=0.5, router-kv-overlap-score-credit = 2 ,"));
  ASSERT_TRUE(change.ok()) << change.status();
  EXPECT_EQ(change->router_temperature, 0.5);
  EXPECT_EQ(change->overlap_score_credit, 2);
  EXPECT_FALSE(change->prefill_load_scale);
  const CostWeights weights{.prefill_load_scale = 7};
  const ShadowPolicy policy = ApplyPolicyChange(*change, weights, 0.1);
  EXPECT_EQ(policy.router_temperature, 0.5);
  EXPECT_EQ(policy.weights.overlap_score_credit, 2);
  EXPECT_EQ(policy.weights.prefill_load_scale, 7);
}

TEST(PolicyChangeTest, RefusesWhatItCannotTryOut) {
  EXPECT_THAT(ErrorOf("max_bookings=3"), HasSubstr("'max_bookings' is no setting of the choice"));
  EXPECT_THAT(ErrorOf("router_temperature"), HasSubstr("want key=value"));
  EXPECT_THAT(ErrorOf("router_temperature=0.1,router-temperature=0.2"),
              HasSubstr("router_temperature is given twice"));
  EXPECT_THAT(ErrorOf("router_temperature=-1"), HasSubstr("bad value '-1': want a finite number"));
  EXPECT_THAT(ErrorOf("router_temperature=nan"), HasSubstr("bad value 'nan'"));
  EXPECT_THAT(ErrorOf("router_host_cache_hit_weight=1.5"), HasSubstr("want a number in 0..1"));
  const std::vector<std::string> list = {"shared_cache_multiplier=0.5", "router_temperature=x"};
  EXPECT_FALSE(ParsePolicyChange(list).ok());
}

TEST(PolicyChangeTest, WhatTheRequestAskedForItselfIsNotChanged) {
  DecisionRecord record;
  record.block_size_tokens = 16;
  record.isl_tokens = 160;
  record.target = {WorkerId{1}, 0};
  // Worker 1 holds the prompt and is busier by 4 blocks.
  record.candidates = {
      {.target = {WorkerId{1}, 0}, .device_overlap_blocks = 10, .active_prefill_tokens = 64},
      {.target = {WorkerId{2}, 0}}};
  const PolicyChange no_credit{.overlap_score_credit = 0};
  const auto changed = Redecide(record, no_credit, 0);
  ASSERT_TRUE(changed.ok());
  EXPECT_TRUE(changed->moves);
  EXPECT_EQ(changed->cost_blocks, 10);
  EXPECT_EQ(changed->recorded_cost_blocks, 14);
  EXPECT_EQ(changed->recorded_overlap_blocks, 10);
  EXPECT_EQ(changed->overlap_blocks, 0);
  record.overridden.overlap_score_credit = true;
  EXPECT_FALSE(Redecide(record, no_credit, 0)->moves);
}

TEST(PolicyChangeTest, ARecordWhoseTargetIsNoCandidateIsRefused) {
  DecisionRecord record;
  record.target = {WorkerId{3}, 0};
  record.candidates = {{.target = {WorkerId{1}, 0}}};
  EXPECT_THAT(std::string(Redecide(record, {}, 0).status().message()),
              HasSubstr("not among its candidates"));
}

}  // namespace
}  // namespace kvrouter
