#include "sim/report/policy_row.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvrouter::sim {
namespace {

PolicyRow ARow() {
  PolicyRow row;
  row.trace = "skewed";
  row.policy = "kv";
  row.mode = "live";
  row.router_token_weighted = 0.61234;
  row.ttft_p99_s = 6.789;
  row.details = {{"requests", 4000}};
  return row;
}

TEST(PolicyRowTest, TableAlignsColumnsAndMarksAbsentFigures) {
  EXPECT_EQ(FormatPolicyTable({ARow()}),
            "                       router_   engine_   router_                       max_over_\n"
            "                        token_    token_    block_      full_  request_      mean_\n"
            "trace   policy  mode  weighted  weighted  weighted  block_hit  weighted    prefill  "
            "ttft_p50_s  ttft_p99_s\n"
            "skewed  kv      live    0.6123         -         -          -         -          -    "
            "       -        6.79\n");
}

TEST(PolicyRowTest, JsonKeepsEverythingAndAbsenceIsNull) {
  const std::string json = PolicyRowsToJson({ARow(), PolicyRow{}});
  EXPECT_NE(json.find("\"engine_token_weighted\": null"), std::string::npos) << json;
  const auto rows = PolicyRowsFromJson(json);
  ASSERT_TRUE(rows.ok()) << rows.status().ToString();
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ(PolicyRowsToJson(*rows), json);
  EXPECT_EQ(rows->front().details.at("requests"), 4000);
}

TEST(PolicyRowTest, OtherJsonIsAnError) {
  EXPECT_FALSE(PolicyRowsFromJson("").ok());
  EXPECT_FALSE(PolicyRowsFromJson("{}").ok());
  EXPECT_FALSE(PolicyRowsFromJson(R"([{"trace": 1}])").ok());
}

TEST(NearestRankTest, IsAValueThatWasSeen) {
  std::vector<double> none;
  EXPECT_FALSE(NearestRank(none, 0.5).has_value());
  std::vector<double> one = {3};
  EXPECT_EQ(NearestRank(one, 0), 3);
  EXPECT_EQ(NearestRank(one, 1), 3);
  std::vector<double> ten = {10, 9, 8, 7, 6, 5, 4, 3, 2, 1};
  EXPECT_EQ(NearestRank(ten, 0.5), 5);
  EXPECT_EQ(NearestRank(ten, 0.51), 6);
  EXPECT_EQ(NearestRank(ten, 0.99), 10);
}

}  // namespace
}  // namespace kvrouter::sim
