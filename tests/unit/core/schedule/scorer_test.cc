#include "core/schedule/scorer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/schedule/effective_weights.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

// Block size 16, a prompt of 64 tokens, all defaults: the setting of the worked checks of the
// specification (§4.2).
ScoreContext AContext() { return {.weights = {}, .isl_tokens = 64, .block_size_tokens = 16}; }

CandidateInput Idle(double device_overlap_blocks) {
  return {.device_overlap_blocks = device_overlap_blocks, .additional_decode_blocks = 4};
}

// 64 prefill tokens, 4 active blocks, 2 of them a prefix of the request.
CandidateInput Busy(double device_overlap_blocks) {
  return {.device_overlap_blocks = device_overlap_blocks,
          .active_prefill_tokens = 64,
          .active_decode_blocks = 4,
          .additional_decode_blocks = 2,
          .active_requests = 1};
}

TEST(ScorerTest, WorkedCheckAIdleHolderWins) {
  const auto holder = ScoreCandidate(Idle(2), AContext());
  EXPECT_EQ(holder.raw_prefill_blocks, 4);
  EXPECT_EQ(holder.credit_blocks, 2);
  EXPECT_EQ(holder.prefill_cost_blocks, 2);
  EXPECT_EQ(holder.decode_blocks, 4);
  EXPECT_EQ(holder.cost_blocks, 6);
  EXPECT_EQ(ScoreCandidate(Idle(0), AContext()).cost_blocks, 8);
}

TEST(ScorerTest, WorkedCheckBBusyHolderLoses) {
  EXPECT_EQ(ScoreCandidate(Busy(2), AContext()).cost_blocks, 12);
  EXPECT_EQ(ScoreCandidate(Idle(0), AContext()).cost_blocks, 8);
}

TEST(ScorerTest, WorkedCheckCDecayHalvesTheCreditOfABusyHolder) {
  ScoreContext context = AContext();
  context.weights.cost.overlap_score_credit_decay = 1;
  context.least_active_prefill_tokens = 0;
  const auto cost = ScoreCandidate(Busy(2), context);
  EXPECT_EQ(cost.credit_blocks, 1);
  EXPECT_EQ(cost.cost_blocks, 13);
}

TEST(ScorerTest, WorkedCheckDDecodeLoadOnlyWithoutPrefillTrackingAndCredit) {
  ScoreContext context = AContext();
  context.decode_pool = true;
  context.weights.track_prefill_tokens = false;
  context.weights.cost.overlap_score_credit = 0;
  EXPECT_EQ(ScoreCandidate(Busy(2), context).cost_blocks, 6);
}

TEST(ScorerTest, DecodeBranchTakesTheCreditFromDecodeLoad) {
  ScoreContext context = AContext();
  context.decode_pool = true;
  context.weights.track_prefill_tokens = false;
  context.weights.cost.decode_active_request_weight = 0.5;
  const auto cost = ScoreCandidate(Busy(2), context);
  EXPECT_EQ(cost.decode_blocks, 4);  // 6 - 2
  EXPECT_EQ(cost.prefill_cost_blocks, 0);
  EXPECT_EQ(cost.cost_blocks, 4.5);
  EXPECT_EQ(ScoreCandidate(Busy(9), context).decode_blocks, 0) << "the credit is clamped";
}

TEST(ScorerTest, DecodeBranchIsForDecodePoolsOnly) {
  ScoreContext context = AContext();
  context.weights.track_prefill_tokens = false;
  EXPECT_EQ(ScoreCandidate(Busy(2), context).cost_blocks, 6) << "no prefill, and no credit either";
  context.decode_pool = true;
  context.weights.track_prefill_tokens = true;
  EXPECT_EQ(ScoreCandidate(Busy(2), context).cost_blocks, 12);
}

TEST(ScorerTest, DecayCountsTheExcessOverTheLeastBusyTarget) {
  ScoreContext context = AContext();
  context.weights.cost.overlap_score_credit_decay = 1;
  context.least_active_prefill_tokens = 64;
  EXPECT_EQ(ScoreCandidate(Busy(2), context).credit_blocks, 2);
  context.least_active_prefill_tokens = 1000;  // saturates
  EXPECT_EQ(ScoreCandidate(Busy(2), context).credit_blocks, 2);
}

TEST(ScorerTest, DecayNeedsPrefillTracking) {
  ScoreContext context = AContext();
  context.weights.cost.overlap_score_credit_decay = 1;
  context.weights.track_prefill_tokens = false;
  EXPECT_EQ(ScoreCandidate(Busy(2), context).credit_blocks, 2);
}

TEST(ScorerTest, LowerTiersCreditByTheirWeights) {
  CandidateInput input = Idle(1);
  input.host_overlap_blocks = 2;
  input.disk_overlap_blocks = 4;
  input.shared_overlap_blocks = 8;
  ScoreContext context = AContext();
  context.isl_tokens = 1024;
  context.weights.cost.shared_cache_multiplier = 0.5;
  const auto cost = ScoreCandidate(input, context);
  EXPECT_EQ(cost.effective_overlap_blocks, 1 + 0.75 * 2 + 0.25 * 4);
  EXPECT_EQ(cost.credit_blocks, 1 + 1.5 + 1 + 4);
  EXPECT_EQ(cost.raw_prefill_blocks, 64);
  EXPECT_EQ(cost.prefill_cost_blocks, 64 - 7.5);
}

TEST(ScorerTest, CreditBeyondPrefillIsClamped) {
  ScoreContext context = AContext();
  context.weights.cost.overlap_score_credit = 100;
  EXPECT_EQ(ScoreCandidate(Idle(4), context).prefill_cost_blocks, 0);
}

TEST(ScorerTest, PrefillScaleWeighsPrefillOnly) {
  ScoreContext context = AContext();
  context.weights.cost.prefill_load_scale = 16;
  EXPECT_EQ(ScoreCandidate(Idle(2), context).cost_blocks, 16 * 2 + 4);
}

TEST(ScorerTest, OddPromptsKeepTheirFraction) {
  ScoreContext context = AContext();
  context.isl_tokens = 40;
  const auto cost = ScoreCandidate({.additional_decode_blocks = 2}, context);
  EXPECT_EQ(cost.raw_prefill_blocks, 2.5);
  EXPECT_EQ(cost.cost_blocks, 4.5);
}

TEST(ScorerTest, EmptyPromptCostsItsTargetsLoad) {
  ScoreContext context = AContext();
  context.isl_tokens = 0;
  context.weights.cost.overlap_score_credit_decay = 1;
  CandidateInput busy = Busy(0);
  busy.additional_decode_blocks = 0;
  EXPECT_EQ(ScoreCandidate(busy, context).cost_blocks, 4 + 4);
  EXPECT_EQ(ScoreCandidate({}, context).cost_blocks, 0);
}

TEST(ScorerTest, TaintMultiplierScalesTheCost) {
  CandidateInput input = Idle(2);
  input.taint_multiplier = 0.5;
  EXPECT_EQ(ScoreCandidate(input, AContext()).cost_blocks, 3);
}

TEST(ScorerTest, TaintMultiplierStaysBetweenOneOverEAndE) {
  EXPECT_EQ(TaintMultiplier(0), 1);
  EXPECT_DOUBLE_EQ(TaintMultiplier(1e9), std::exp(-1.0));
  EXPECT_DOUBLE_EQ(TaintMultiplier(-1e9), std::exp(1.0));
  EXPECT_DOUBLE_EQ(TaintMultiplier(0.5), std::exp(-std::tanh(0.5)));
}

TEST(ScorerTest, HugeLegalWeightsStayFinite) {
  ScoreContext context = AContext();
  const double huge = std::numeric_limits<double>::max();
  context.weights.cost = {.overlap_score_credit = huge,
                          .overlap_score_credit_decay = huge,
                          .prefill_load_scale = huge,
                          .decode_active_request_weight = huge};
  for (const auto& input : {Idle(0), Idle(2), Busy(0), Busy(2)}) {
    CandidateInput tainted = input;
    tainted.taint_multiplier = TaintMultiplier(-5);
    EXPECT_TRUE(std::isfinite(ScoreCandidate(tainted, context).cost_blocks));
  }
}

SeenCandidate SeenAs(const CandidateInput& input) {
  SeenCandidate seen;
  seen.device_overlap_blocks = static_cast<uint32_t>(input.device_overlap_blocks);
  seen.additional_decode_blocks = static_cast<uint32_t>(input.additional_decode_blocks);
  seen.active_decode_blocks = static_cast<uint32_t>(input.active_decode_blocks);
  seen.packed_load = SeenCandidate::PackLoad(input.active_prefill_tokens, input.active_requests);
  return seen;
}

TEST(SeenCandidateTest, CostsWhatTheInputsWrittenOutCost) {
  ScoreContext context = AContext();
  context.weights.cost.overlap_score_credit_decay = 0.3;
  context.weights.cost.decode_active_request_weight = 0.7;
  const std::vector<CandidateInput> inputs = {Idle(0), Busy(2), Idle(2), Busy(9), Busy(0)};
  std::vector<SeenCandidate> seen;
  for (const CandidateInput& input : inputs) seen.push_back(SeenAs(input));
  std::vector<double> costs(seen.size());
  const CostsSummary summary = ScoreAll(seen, context, costs);
  EXPECT_EQ(summary.most_overlap_index, 3u);
  EXPECT_EQ(summary.most_overlap_blocks, 9);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const CandidateCost expected = ScoreCandidate(inputs[i], context);
    EXPECT_EQ(costs[i], expected.cost_blocks) << i;
    EXPECT_EQ(ScoreSeen(seen[i], context).cost_blocks, expected.cost_blocks) << i;
    EXPECT_EQ(ScoreSeen(seen[i], context).credit_blocks, expected.credit_blocks) << i;
  }
}

TEST(SeenCandidateTest, AStatedOverlapCountsWithItsFraction) {
  ScoreContext context = AContext();
  context.stated_overlap_blocks = 1.5;
  EXPECT_EQ(ScoreSeen(SeenAs(Idle(4)), context).device_overlap_blocks, 1.5);
}

TEST(SeenCandidateTest, LoadsBeyondItsRoomCountAsTheMost) {
  SeenCandidate seen;
  seen.packed_load = SeenCandidate::PackLoad(7, 9);
  EXPECT_EQ(seen.active_prefill_tokens(), 7u);
  EXPECT_EQ(seen.active_requests(), 9u);
  seen.packed_load = SeenCandidate::PackLoad(std::numeric_limits<uint64_t>::max(), 9);
  EXPECT_EQ(seen.active_prefill_tokens(), SeenCandidate::kMaxPrefillTokens);
  EXPECT_EQ(seen.active_requests(), 9u);
  seen.packed_load = SeenCandidate::PackLoad(7, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(seen.active_prefill_tokens(), 7u);
  EXPECT_EQ(seen.active_requests(), SeenCandidate::kMaxRequests);
}

TEST(EffectiveWeightsTest, OverridesReplaceWhatTheyMayReplace) {
  SchedulerConfig config;
  config.weights.host_cache_hit_weight = 0.5;
  const auto plain = ResolveWeights(config, {});
  EXPECT_EQ(plain.cost.overlap_score_credit, 1);
  EXPECT_EQ(plain.cost.host_cache_hit_weight, 0.5);
  EXPECT_TRUE(plain.track_prefill_tokens);
  EXPECT_TRUE(plain.assume_kv_reuse);
  const auto replaced = ResolveWeights(config, {.overlap_score_credit = 0,
                                                .prefill_load_scale = 2,
                                                .router_temperature = 0.25,
                                                .assume_kv_reuse = false,
                                                .track_prefill_tokens = false,
                                                .shared_cache_multiplier = 1});
  EXPECT_EQ(replaced.cost.overlap_score_credit, 0);
  EXPECT_EQ(replaced.cost.prefill_load_scale, 2);
  EXPECT_EQ(replaced.cost.shared_cache_multiplier, 1);
  EXPECT_EQ(replaced.cost.host_cache_hit_weight, 0.5);
  EXPECT_EQ(replaced.temperature, 0.25);
  EXPECT_FALSE(replaced.track_prefill_tokens);
  EXPECT_FALSE(replaced.assume_kv_reuse);
}

TEST(EffectiveWeightsTest, OverridesOutOfRangeAreInvalidRequests) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(ValidateOverrides({}).ok());
  EXPECT_TRUE(ValidateOverrides({.overlap_score_credit = 0, .shared_cache_multiplier = 1}).ok());
  for (const double bad : {-1.0, nan, inf, -inf}) {
    for (const ConfigOverride& overrides :
         {ConfigOverride{.overlap_score_credit = bad}, ConfigOverride{.prefill_load_scale = bad},
          ConfigOverride{.router_temperature = bad},
          ConfigOverride{.shared_cache_multiplier = bad}}) {
      const auto status = ValidateOverrides(overrides);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
      EXPECT_EQ(ErrorReasonOf(status), ErrorReason::kInvalidRequest) << bad;
    }
  }
  EXPECT_FALSE(ValidateOverrides({.shared_cache_multiplier = 1.01}).ok());
}

}  // namespace
}  // namespace kvrouter
