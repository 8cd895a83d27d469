#include "ctl/explain_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ctl/render.h"

namespace kvrouter::ctl {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

v1::ExplainResponse AnExplanation() {
  v1::ExplainResponse response;
  response.set_age_seconds(12.34);
  v1::RouteResponse& r = *response.mutable_decision();
  r.set_request_id("chat-17");
  r.mutable_target()->set_worker_id(4);
  r.set_address("http://h:1");
  r.set_reason(v1::DECISION_REASON_LOWEST_COST);
  r.set_block_size_tokens(16);
  r.set_isl_blocks(10);
  r.set_effective_overlap_blocks(2);
  r.set_best_available_overlap_blocks(6);
  r.mutable_best_available_overlap_target()->set_worker_id(3);
  r.set_regret_blocks(4);
  r.set_best_overlap_blocks(9);
  r.mutable_best_overlap_target()->set_worker_id(7);
  r.set_candidate_count(2);
  r.mutable_weights()->set_prefill_load_scale(1.5);
  v1::CandidateCost* rival = r.add_candidates();
  rival->mutable_target()->set_worker_id(3);
  rival->set_cost_blocks(20);
  v1::CandidateCost* chosen = r.add_candidates();
  chosen->mutable_target()->set_worker_id(4);
  chosen->set_effective_overlap_blocks(2);
  chosen->set_cost_blocks(18);
  r.mutable_filtered()->set_draining(1);
  r.mutable_filtered()->set_excluded(2);
  v1::FilteredTarget* filtered = r.add_filtered_targets();
  filtered->mutable_target()->set_worker_id(7);
  filtered->set_reason(v1::FILTER_REASON_DRAINING);
  filtered->set_device_overlap_blocks(9);
  return response;
}

TEST(ExplainTextTest, SaysWhoWhyWhatItGaveUpAndWhoWasOut) {
  const std::string text = ExplainText(AnExplanation());
  EXPECT_THAT(text, HasSubstr("Request chat-17 went to worker 4 rank 0 (http://h:1): it had the "
                              "lowest cost of 2 candidates."));
  EXPECT_THAT(text, HasSubstr("Decided 12.3 s ago; its booking has ended."));
  EXPECT_THAT(text, HasSubstr("it held 2 of the prompt's 10 blocks; 3/0 held 6, so 4 blocks were "
                              "given up for the sake of load."));
  EXPECT_THAT(text, HasSubstr("Out of reach: 7/0 held 9, but was no candidate."));
  EXPECT_THAT(text, HasSubstr("PREFILL = 1.5 x max(0, PENDING - CREDIT)"));
  EXPECT_THAT(text, HasSubstr("Filtered out: 2 excluded, 1 draining."));
  EXPECT_THAT(text, ContainsRegex("7/0 +9 +draining\nand 2 more\n"));
}

TEST(ExplainTextTest, TheChosenComesFirstEvenIfADearerOneWasDrawn) {
  v1::ExplainResponse response = AnExplanation();
  response.mutable_decision()->set_reason(v1::DECISION_REASON_SAMPLED);
  response.mutable_decision()->set_temperature(0.5);
  response.mutable_decision()->mutable_candidates(1)->set_cost_blocks(25);
  const std::string text = ExplainText(response);
  EXPECT_THAT(text, HasSubstr("drawn by cost among 2 candidates at temperature 0.5"));
  EXPECT_THAT(text, ContainsRegex("\\*  4/0 .* 25\n   3/0 .* 20\n"));
}

TEST(ExplainTextTest, NothingGivenUpAndNobodyFilteredIsSaidToo) {
  v1::ExplainResponse response = AnExplanation();
  v1::RouteResponse& r = *response.mutable_decision();
  response.set_live(true);
  r.set_regret_blocks(0);
  r.set_effective_overlap_blocks(6);
  r.set_best_overlap_blocks(6);
  r.clear_filtered();
  r.clear_filtered_targets();
  r.mutable_omitted()->set_count(40);
  const std::string text = ExplainText(response);
  EXPECT_THAT(text, HasSubstr("its booking is live"));
  EXPECT_THAT(text, HasSubstr("no other candidate held more."));
  EXPECT_THAT(text, Not(HasSubstr("Out of reach")));
  EXPECT_THAT(text, HasSubstr("Nobody was filtered out."));
  EXPECT_THAT(text, HasSubstr("and 40 more candidates"));
}

TEST(ExplainTextTest, JsonHoldsTheSame) {
  const auto json = nlohmann::json::parse(ExplainJson(AnExplanation()));
  EXPECT_EQ(json["live"], false);
  EXPECT_EQ(json["decision"]["regret_blocks"], 4);
  EXPECT_EQ(json["decision"]["filtered"]["excluded"], 2);
  EXPECT_EQ(json["decision"]["filtered_targets"][0]["reason"], "draining");
  EXPECT_EQ(json["decision"]["weights"]["prefill_load_scale"], 1.5);
}

}  // namespace
}  // namespace kvrouter::ctl
