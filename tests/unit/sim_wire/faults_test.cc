#include "sim/wire/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvrouter::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kCompletions = "/v1/completions";

FaultRule Rule(const std::string& json) {
  const auto rule = ParseFaultRule(nlohmann::ordered_json::parse(json));
  EXPECT_TRUE(rule.ok()) << rule.status().ToString();
  return rule.value_or(FaultRule{});
}

std::string Problem(const std::string& json) {
  const auto rule = ParseFaultRule(nlohmann::ordered_json::parse(json));
  return rule.ok() ? "" : rule.status().ToString();
}

std::vector<bool> Hits(Faults& faults, int requests) {
  std::vector<bool> hits;
  for (int i = 0; i < requests; ++i) {
    hits.push_back(faults.Take(kCompletions, FaultLeg::kPlain).has_value());
  }
  return hits;
}

TEST(FaultsTest, NextHitsThatManyAndThenNoMore) {
  Faults faults;
  ASSERT_TRUE(faults.Add(Rule(R"({"kind": "http_500", "next": 2})")));
  EXPECT_THAT(Hits(faults, 4), ElementsAre(true, true, false, false));
  EXPECT_EQ(faults.taken(), 2u);
}

TEST(FaultsTest, EveryHitsTheLastOfSoMany) {
  Faults faults;
  ASSERT_TRUE(faults.Add(Rule(R"({"kind": "http_500", "every": 3})")));
  EXPECT_THAT(Hits(faults, 7), ElementsAre(false, false, true, false, false, true, false));
}

TEST(FaultsTest, WithoutACountEveryRequestIsHitUntilCleared) {
  Faults faults;
  ASSERT_TRUE(faults.Add(Rule(R"({"kind": "stall_before_head"})")));
  EXPECT_THAT(Hits(faults, 3), ElementsAre(true, true, true));
  faults.Clear();
  EXPECT_THAT(Hits(faults, 1), ElementsAre(false));
}

TEST(FaultsTest, PathAndLegChooseTheRequests) {
  Faults faults;
  ASSERT_TRUE(faults.Add(Rule(R"({"kind": "cut_before_head", "leg": "consumer"})")));
  ASSERT_TRUE(faults.Add(Rule(R"({"kind": "http_429", "path": "/tokenize"})")));
  EXPECT_FALSE(faults.Take(kCompletions, FaultLeg::kPlain).has_value());
  EXPECT_FALSE(faults.Take("/v1/models", FaultLeg::kAny).has_value());
  EXPECT_EQ(faults.Take("/v1/chat/completions", FaultLeg::kConsumer)->kind,
            FaultKind::kCutBeforeHead);
  EXPECT_EQ(faults.Take("/tokenize", FaultLeg::kAny)->kind, FaultKind::kHttp429);
}

TEST(FaultsTest, HandshakeKindsChooseTheirRequestsThemselves) {
  EXPECT_EQ(Rule(R"({"kind": "no_handshake"})").leg, FaultLeg::kProducer);
  EXPECT_EQ(Rule(R"({"kind": "wrong_handshake"})").leg, FaultLeg::kProducer);
  EXPECT_EQ(Rule(R"({"kind": "slow_handshake", "delay_ms": 5})").path, "/kv_pull");
}

TEST(FaultsTest, RulesAreBounded) {
  Faults faults;
  const FaultRule rule = Rule(R"({"kind": "http_500"})");
  for (size_t i = 0; i < Faults::kMaxRules; ++i) ASSERT_TRUE(faults.Add(rule));
  EXPECT_FALSE(faults.Add(rule));
}

TEST(FaultsTest, ErrorsNameTheMember) {
  EXPECT_THAT(Problem("[]"), HasSubstr("JSON object"));
  EXPECT_THAT(Problem("{}"), HasSubstr("kind"));
  EXPECT_THAT(Problem(R"({"kind": "explode"})"), HasSubstr("'explode'"));
  EXPECT_THAT(Problem(R"({"kind": "http_500", "leg": "third"})"), HasSubstr("leg"));
  EXPECT_THAT(Problem(R"({"kind": "http_500", "next": 0})"), HasSubstr("next"));
  EXPECT_THAT(Problem(R"({"kind": "http_500", "path": 3})"), HasSubstr("path"));
}

}  // namespace
}  // namespace kvrouter::sim
