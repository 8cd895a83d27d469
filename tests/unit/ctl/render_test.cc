#include "ctl/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kvrouter::ctl {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

constexpr uint64_t kBigId = 7587890043311737930u;  // not exact as a double

v1::RouteResponse AResponse() {
  v1::RouteResponse response;
  response.set_request_id("r1");
  response.mutable_target()->set_worker_id(kBigId);
  response.set_address("http://h:1");
  response.set_incarnation(3);
  response.set_plan(v1::PLAN_LOCAL);
  response.set_reason(v1::DECISION_REASON_TIE_BREAK);
  response.set_tie_size(2);
  response.set_booked(true);
  response.set_effective_overlap_blocks(2.75);
  response.set_isl_blocks(10);
  response.set_candidate_count(3);
  v1::CandidateCost* dear = response.add_candidates();
  dear->mutable_target()->set_worker_id(1);
  dear->set_cost_blocks(9);
  v1::CandidateCost* chosen = response.add_candidates();
  chosen->mutable_target()->set_worker_id(kBigId);
  chosen->set_cost_blocks(4.5);
  return response;
}

TEST(RenderTest, RouteMarksTheChosenAndPutsTheCheapestFirst) {
  const std::string text = RouteText(AResponse());
  EXPECT_THAT(text, HasSubstr("worker 7587890043311737930 rank 0  http://h:1  (incarnation 3)"));
  EXPECT_THAT(text, HasSubstr("plan local, reason tie_break of 2, booked as r1"));
  EXPECT_THAT(text, HasSubstr("overlap 2.75 of 10 blocks"));
  EXPECT_THAT(text, ContainsRegex("\\*  7587890043311737930/0 .* 4.5\n   1/0 .* 9\n"));
  EXPECT_THAT(text, HasSubstr("2 of 3 candidates shown"));
}

TEST(RenderTest, IdsAreExactInJson) {
  const auto json = nlohmann::json::parse(RouteJson(AResponse()));
  EXPECT_EQ(json["target"]["worker_id"].get<uint64_t>(), kBigId);
  EXPECT_EQ(json["reason"], "tie_break");
  EXPECT_EQ(json["candidates"][0]["cost_blocks"], 4.5);
}

TEST(RenderTest, EmptyAnswersSaySo) {
  EXPECT_EQ(WorkersText({}), "no workers\n");
  EXPECT_EQ(LoadsText({}), "no workers\n");
  EXPECT_TRUE(nlohmann::json::parse(WorkersJson({}))["workers"].empty());
  EXPECT_TRUE(nlohmann::json::parse(LoadsJson({}))["partitions"].empty());
}

TEST(RenderTest, WorkersHaveOneRowPerRank) {
  v1::ListResponse response;
  v1::Worker* worker = response.add_workers();
  worker->mutable_spec()->set_worker_id(kBigId);
  worker->mutable_spec()->set_role(v1::WORKER_ROLE_PREFILL);
  worker->set_draining(true);
  worker->add_feeds()->set_state("live");
  v1::FeedStatus* second = worker->add_feeds();
  second->set_dp_rank(1);
  second->set_state("degraded");
  second->set_detail("gap 5..9");
  worker->add_signs("block_size");
  worker->add_signs("replay_missing");
  const std::string text = WorkersText(response);
  EXPECT_THAT(text, ContainsRegex("7587890043311737930 +0 .*prefill +draining .*live"));
  EXPECT_THAT(
      text,
      ContainsRegex("7587890043311737930 +1 .*degraded .*block_size,replay_missing +gap 5..9\n"));
  const auto json = nlohmann::json::parse(WorkersJson(response))["workers"][0];
  EXPECT_EQ(json["signs"], nlohmann::json({"block_size", "replay_missing"}));
}

TEST(RenderTest, LoadsNamePartitionAndTarget) {
  v1::LoadsResponse response;
  v1::PartitionLoads* partition = response.add_partitions();
  partition->set_model_name("m");
  partition->set_routing_group("g");
  partition->set_block_size_tokens(16);
  partition->set_bookings(2);
  v1::TargetLoad* load = partition->add_targets();
  load->mutable_target()->set_worker_id(5);
  load->set_active_requests(2);
  load->set_active_prefill_tokens(320);
  load->mutable_lower_tier_blocks()->set_host(4);
  load->mutable_lower_tier_blocks()->set_disk(2);
  load->mutable_lower_tier_blocks()->set_external(1);
  const std::string text = LoadsText(response);
  EXPECT_THAT(text, HasSubstr("m / g: block size 16, 2 bookings"));
  EXPECT_THAT(text, ContainsRegex("5/0 +active +2 +320 +0 +0 +7\n"));
  EXPECT_EQ(nlohmann::json::parse(
                LoadsJson(response))["partitions"][0]["targets"][0]["active_prefill_tokens"],
            320);
}

TEST(RenderTest, OverlapNamesTargets) {
  v1::OverlapScoresResponse response;
  v1::TargetOverlap* overlap = response.add_overlaps();
  overlap->mutable_target()->set_worker_id(kBigId);
  overlap->mutable_target()->set_dp_rank(3);
  overlap->set_device_blocks(12);
  overlap->set_host_blocks(3);
  overlap->set_disk_blocks(2);
  EXPECT_THAT(OverlapText(response), ContainsRegex("7587890043311737930/3 +12 +3 +2 +0\n"));
  const auto json = nlohmann::json::parse(OverlapJson(response));
  EXPECT_EQ(json["overlaps"][0]["target"]["worker_id"].get<uint64_t>(), kBigId);
  EXPECT_EQ(json["overlaps"][0]["device_blocks"], 12);
  EXPECT_EQ(json["overlaps"][0]["host_blocks"], 3);
}

}  // namespace
}  // namespace kvrouter::ctl
