// The usage of streams, asked for on the router's account: it is noted, and no client sees it.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plan_fleets.h"

namespace kvrouter {
namespace {

using std::chrono::seconds;

constexpr std::string_view kAsked = R"("stream_options":{"include_usage":true})";

FleetOptions Asking(bool ask) {
  FleetOptions options = QuickOptions();
  options.dispatch.ask_usage = ask;
  return options;
}

using MakeFleet = std::unique_ptr<DispatchFleet> (*)(bool ask);
struct PlanCase {
  const char* name;
  MakeFleet make;
};
const PlanCase kPlans[] = {
    {"local", [](bool ask) { return LocalFleet(Asking(ask)); }},
    {"remote prefill", [](bool ask) { return PrefillFleet(Asking(ask)); }},
    {"migration", [](bool ask) { return MigrationFleet(Asking(ask)); }},
};

struct Seen {
  int status = 0;
  std::string body;
  bool ended = false;
  bool cut = false;
  friend bool operator==(const Seen&, const Seen&) = default;
  friend void PrintTo(const Seen& seen, std::ostream* out) {
    *out << seen.status << (seen.ended ? " ended " : " ") << (seen.cut ? "cut " : "") << seen.body;
  }
};

// What a client of a fresh fleet sees when legs of the kind fail so.
Seen WhatAClientSees(DispatchFleet* fleet, EngineLegKind kind, Fault fault, int times) {
  fleet->side.Break(kind, fault, times);
  for (auto& [id, engine] : fleet->engines) engine->cached_tokens = 48;
  const auto client = fleet->SendAndRun(CompletionBody(Ids(kPromptTokens), true));
  fleet->link.Run(seconds(30));
  EndLoad(fleet);
  fleet->ExpectNothingLeft();
  return {client->status, client->body, client->ended, client->cut};
}

TEST(AskedUsageTest, ClientsSeeTheSameBytesWhateverThePlanAndWhateverFails) {
  for (const PlanCase& plan : kPlans) {
    for (const EngineLegKind kind :
         {EngineLegKind::kServe, EngineLegKind::kProduce, EngineLegKind::kConsume}) {
      for (const Fault fault :
           {Fault::kNone, Fault::kRefuse, Fault::kStallBeforeHead, Fault::kStallMidStream,
            Fault::kCutBeforeFirstByte, Fault::kCutMidStream, Fault::k500, Fault::k429,
            Fault::kErrorEvent, Fault::kWrongHandshake, Fault::kRestart}) {
        for (const int times : {1, 9}) {
          SCOPED_TRACE(testing::Message() << plan.name << " leg " << static_cast<int>(kind)
                                          << " fault " << static_cast<int>(fault) << " x" << times);
          const auto silent = plan.make(false);
          const auto asking = plan.make(true);
          const Seen expected = WhatAClientSees(silent.get(), kind, fault, times);
          EXPECT_EQ(WhatAClientSees(asking.get(), kind, fault, times), expected);
          EXPECT_EQ(expected.body.find("usage"), std::string::npos);
          EXPECT_EQ(asking->observer.fallbacks, silent->observer.fallbacks);
          EXPECT_TRUE(silent->observer.overlaps.empty());
        }
      }
    }
  }
}

TEST(AskedUsageTest, WhatTheEngineFoundInItsCacheIsNoted) {
  const auto fleet = LocalFleet(Asking(true));
  for (auto& [id, engine] : fleet->engines) engine->cached_tokens = 48;
  fleet->SendAndRun(CompletionBody(Ids(kPromptTokens), true));
  fleet->SendAndRun(R"({"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]})",
                    {}, "/v1/chat/completions");
  ASSERT_EQ(fleet->observer.overlaps.size(), 2u);
  EXPECT_EQ(fleet->observer.overlaps[0].delivered_tokens, 48u);
  EXPECT_EQ(fleet->observer.overlaps[0].prompt_tokens, kPromptTokens);
  fleet->ExpectNothingLeft();
}

TEST(AskedUsageTest, IsNotedAlsoIfTheStreamEndsInsideOfItsEvent) {
  const auto fleet = LocalFleet(Asking(true));
  for (auto& [id, engine] : fleet->engines) {
    engine->cached_tokens = 48;
    engine->stops_inside_usage = true;
  }
  const auto client = fleet->SendAndRun(CompletionBody(Ids(kPromptTokens), true));
  EXPECT_TRUE(client->ended);
  EXPECT_EQ(client->body.find("usage"), std::string::npos);
  ASSERT_EQ(fleet->observer.overlaps.size(), 1u);
  EXPECT_EQ(fleet->observer.overlaps[0].delivered_tokens, 48u);
  fleet->ExpectNothingLeft();
}

TEST(AskedUsageTest, AllElseInTheBodyStaysAsItCame) {
  const auto fleet = LocalFleet(Asking(true));
  const std::string body = CompletionBody(Ids(8), true, R"( , "seed" : 1.0 )");
  fleet->SendAndRun(body);
  const std::string& sent = *fleet->link.calls().at(0).body;
  const size_t at = sent.find(kAsked);
  ASSERT_NE(at, std::string::npos) << sent;
  EXPECT_EQ(sent.substr(0, at - 1) + sent.substr(at + kAsked.size()), body);
  fleet->SendAndRun(CompletionBody(Ids(8), true, R"(,"stream_options":null,"seed":2)"));
  EXPECT_NE(fleet->link.calls().at(1).body->find(std::string(kAsked) + R"(,"seed":2)"),
            std::string::npos);
}

// Where the client's stream could not be kept as it is, or the usage says nothing of one prompt.
TEST(AskedUsageTest, IsNotAskedForWhereItIsNotSafe) {
  const std::string prompt = R"({"model":"m","prompt":[1,2,3],"stream":true)";
  for (const std::string& body :
       {prompt + R"(,"stream_options":{"include_usage":false}})",
        prompt + R"(,"stream_options":{"include_usage":true}})",
        prompt + R"(,"stream_options":{"continuous_usage_stats":true}})",
        prompt + R"(,"stream_options":{}})", prompt + R"(,"n":2})", prompt + R"(,"best_of":"2"})",
        prompt + R"(,"echo":true})", prompt + R"(,"prompt_logprobs":1})",
        std::string(R"({"model":"m","prompt":[1,2,3]})"),
        std::string(R"({"model":"m","prompt":[1,2,3],"stream":false})")}) {
    SCOPED_TRACE(body);
    const auto fleet = LocalFleet(Asking(true));
    fleet->SendAndRun(body);
    EXPECT_EQ(*fleet->link.calls().at(0).body, body);
  }
}

TEST(AskedUsageTest, AnEngineThatRefusesTheRequestGetsItAsItCame) {
  for (const auto& [name, make] : kPlans) {
    SCOPED_TRACE(name);
    const auto fleet = make(true);
    fleet->side.Break(
        std::string_view(name) == "local" ? EngineLegKind::kServe : EngineLegKind::kConsume,
        Fault::k400);
    const auto client = fleet->SendAndRun(CompletionBody(Ids(kPromptTokens), true));
    EXPECT_EQ(TextOf(client->body),
              VirtualEngine::Answer(Ids(kPromptTokens), VirtualEngine::kDefaultTokens));
    EXPECT_EQ(fleet->link.calls().back().body->find("stream_options"), std::string::npos);
    EXPECT_EQ(fleet->observer.fallbacks,
              (std::map<DispatchFallback, int>{{DispatchFallback::kUsageRefused, 1}}))
        << "the handshake is used all the same";
    EXPECT_EQ(fleet->observer.leases_left, 0);
    EXPECT_LE(fleet->reports.handshakes, 1);
    EXPECT_TRUE(fleet->observer.overlaps.empty());
    EXPECT_EQ(fleet->observer.ends.at(0).outcome, DispatchOutcome::kSuccess);
    EndLoad(fleet.get());
    fleet->ExpectNothingLeft();
  }
}

TEST(AskedUsageTest, StrictDisaggregationDoesNotFailForIt) {
  FleetOptions options = Asking(true);
  options.router.strict_disaggregation = true;
  const auto fleet = PrefillFleet(options);
  fleet->side.Break(EngineLegKind::kConsume, Fault::k400);
  const auto client = fleet->SendAndRun(CompletionBody(Ids(kPromptTokens), true));
  EXPECT_EQ(client->status, 200);
  EXPECT_NE(fleet->link.calls().back().body->find("\"do_remote_prefill\":true"), std::string::npos);
  EXPECT_EQ(fleet->observer.ends.at(0).outcome, DispatchOutcome::kSuccess);
  fleet->ExpectNothingLeft();
}

TEST(AskedUsageTest, WhatAnEngineSaysAgainstTheClientsOwnBodyReachesTheClient) {
  const auto fleet = LocalFleet(Asking(true));
  fleet->side.Break(EngineLegKind::kServe, Fault::k400, 2);
  const auto client = fleet->SendAndRun(CompletionBody(Ids(8), true));
  EXPECT_EQ(client->status, 400);
  EXPECT_NE(client->body.find("of the engine's own words"), std::string::npos);
  ASSERT_EQ(fleet->link.calls().size(), 2u);
  EXPECT_EQ(fleet->link.calls()[0].base_url, fleet->link.calls()[1].base_url);
  EXPECT_EQ(fleet->observer.fallbacks[DispatchFallback::kUsageRefused], 1);
  EXPECT_EQ(fleet->observer.ends.at(0).outcome, DispatchOutcome::kEngineRefused);
  fleet->ExpectNothingLeft();
}

}  // namespace
}  // namespace kvrouter
