#include "adapters/metrics/dispatch_figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace kvrouter {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

class DispatchFiguresTest : public testing::Test {
 protected:
  std::string Text(const DispatchState& state = {}) {
    MetricFamilies out(&labels_);
    figures_.Show(state, partitions_, &out);
    return out.Text();
  }
  void Register(uint64_t worker) {
    if (partitions_.empty()) partitions_.emplace_back();
    TargetLoad load;
    load.target = {.worker = WorkerId{worker}, .dp_rank = 0};
    partitions_.front().loads.push_back(load);
  }

  MetricFamilies::LabelSets labels_{};
  std::vector<PartitionSnapshot> partitions_;
  DispatchFigures figures_;
};

TEST_F(DispatchFiguresTest, EndOfARequestCountsByEndpointAndOutcome) {
  figures_.OnEnd({.path = "/v1/chat/completions",
                  .model = "m",
                  .outcome = DispatchOutcome::kSuccess,
                  .since_arrival = milliseconds(700),
                  .retries = 2});
  figures_.OnEnd({.path = "/somebody/elses", .model = "", .outcome = DispatchOutcome::kClientGone});
  figures_.OnFirstToken("/v1/chat/completions", milliseconds(50));
  const std::string text = Text({.counters = {.live = 3}, .engines = {}});
  EXPECT_THAT(text, HasSubstr("kvrouter_dispatch_requests_total{endpoint=\"/v1/chat/completions\","
                              "outcome=\"success\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("kvrouter_dispatch_requests_total{endpoint=\"other\","
                              "outcome=\"client_gone\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("kvrouter_dispatch_live_requests 3\n"));
  EXPECT_THAT(text, HasSubstr("kvrouter_dispatch_retries_total 2\n"));
  EXPECT_THAT(text, HasSubstr("kvrouter_dispatch_request_seconds_sum{endpoint="
                              "\"/v1/chat/completions\"} 0.7\n"));
  EXPECT_THAT(text, HasSubstr("kvrouter_dispatch_time_to_first_token_seconds_bucket{endpoint="
                              "\"/v1/chat/completions\",le=\"0.1\"} 1\n"));
}

TEST_F(DispatchFiguresTest, LegsFallbacksAndTextsCountByName) {
  figures_.OnLeg(LegKind::kPrefill, {}, LegResult::kTimedOut, milliseconds(10));
  figures_.OnFallback(DispatchFallback::kPrefillFailed);
  figures_.OnOutgrown(OutgrownHold::kStreamHead);
  figures_.OnLeaseLeft({});
  figures_.OnTokenize(TokenizeOutcome::kCached, milliseconds(1));
  figures_.OnTokenize(TokenizeOutcome::kEngine, milliseconds(4));
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("kvrouter_dispatch_legs_total{kind=\"" +
                              std::string(LegKindName(LegKind::kPrefill)) +
                              "\",result=\"timed_out\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("kvrouter_dispatch_fallbacks_total{reason=\"prefill_failed\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("kvrouter_dispatch_outgrown_answers_total{what=\"stream_head\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("kvrouter_dispatch_leases_left_total 1\n"));
  EXPECT_THAT(text, HasSubstr("kvrouter_tokenize_texts_total{outcome=\"cached\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("kvrouter_tokenize_seconds_count 1\n")) << "cached ones left out";
}

TEST_F(DispatchFiguresTest, DeliveredStandsBesidePredictedPerWorkerAndModel) {
  Register(7);
  figures_.OnOverlap({.target = {.worker = WorkerId{7}, .dp_rank = 0},
                      .prompt_tokens = 1000,
                      .predicted_tokens = 512,
                      .delivered_tokens = 496,
                      .model = "m"});
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("kvrouter_delivered_prompt_tokens_total 1000\n"));
  EXPECT_THAT(text, HasSubstr("kvrouter_delivered_predicted_tokens_total 512\n"));
  EXPECT_THAT(text, HasSubstr("kvrouter_delivered_overlap_tokens_total 496\n"));
  EXPECT_THAT(text, HasSubstr("kvrouter_overlap_calibration_error_sum{worker_id=\"7\","
                              "dp_rank=\"0\"} -0.016\n"));
  EXPECT_THAT(text, HasSubstr("dynamo_frontend_cached_tokens_sum{model=\"m\"} 496\n"));
  EXPECT_EQ(figures_.Delivered().delivered_tokens, 496);
}

TEST_F(DispatchFiguresTest, CalibrationOfAWorkerGoesWithIt) {
  Register(7);
  figures_.OnOverlap({.target = {.worker = WorkerId{7}, .dp_rank = 0}, .prompt_tokens = 10});
  EXPECT_THAT(Text(), HasSubstr("kvrouter_overlap_calibration_error_count{worker_id=\"7\""));
  partitions_.clear();
  EXPECT_THAT(Text(), Not(HasSubstr("worker_id=\"7\"")));
  Register(7);
  EXPECT_THAT(Text(), Not(HasSubstr("worker_id=\"7\""))) << "forgotten, not hidden";
}

}  // namespace
}  // namespace kvrouter
