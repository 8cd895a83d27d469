#include <gtest/gtest.h>

#include <string>

#include "plan_fleets.h"

namespace kvrouter {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

const std::string kRight = VirtualEngine::Answer(Ids(kPromptTokens), VirtualEngine::kDefaultTokens);

// Calls of the engines' completion endpoints, without those for tokens.
std::vector<EngineCall> Legs(const DispatchFleet& fleet) {
  std::vector<EngineCall> legs;
  for (const EngineCall& call : fleet.link.calls()) {
    if (call.path.ends_with("completions")) legs.push_back(call);
  }
  return legs;
}
std::string IdOf(const EngineCall& call) {
  for (const auto& [name, value] : call.headers) {
    if (name == "x-request-id") return value;
  }
  return "";
}

TEST(TwoLegTest, TheProducerGetsOneTokenAndTheConsumerItsHandshakeWhole) {
  const auto fleet = PrefillFleet();
  const std::string body =
      CompletionBody(Ids(kPromptTokens), true,
                     R"(,"stream_options":{"include_usage":true},"min_tokens":3,"n":1,"seed":1.0)");
  const auto client = fleet->Send(body, {{"x-request-id", "r"}});
  fleet->link.Run(seconds(5));
  EXPECT_EQ(TextOf(client->body), kRight);
  const auto legs = Legs(*fleet);
  ASSERT_EQ(legs.size(), 2u);
  const Json producer = Json::parse(*legs[0].body);
  EXPECT_EQ(producer["stream"], false);
  EXPECT_EQ(producer["max_tokens"], 1);
  EXPECT_FALSE(producer.contains("stream_options"));
  EXPECT_FALSE(producer.contains("min_tokens"));
  EXPECT_EQ(producer["kv_transfer_params"]["do_remote_decode"], true);
  EXPECT_TRUE(producer["kv_transfer_params"]["remote_host"].is_null());
  const Json consumer = Json::parse(*legs[1].body);
  EXPECT_EQ(consumer["kv_transfer_params"]["field_of_a_later_version"], 1);
  EXPECT_EQ(consumer["prompt"], Json(Ids(kPromptTokens)));
  EXPECT_TRUE(legs[1].body->starts_with(body.substr(0, body.size() - 1)))
      << "the rest is untouched";
  EXPECT_EQ(IdOf(legs[0]), "r");
  EXPECT_EQ(IdOf(legs[1]), "r");
  EXPECT_EQ(fleet->observer.ends[0].plan, Plan::kRemotePrefill);
  EXPECT_TRUE(fleet->observer.overlaps.empty()) << "all came from elsewhere, that is no forecast";
  fleet->ExpectNothingLeft();
}

// The decode leg is a decision of its own, and its gate had nothing to say.
TEST(TwoLegTest, WhoAsksIsToldWhyThePromptWasComputedElsewhere) {
  const auto fleet = PrefillFleet();
  const auto client =
      fleet->Send(CompletionBody(Ids(kPromptTokens), true), {{"x-route-explain", "1"}});
  fleet->link.Run(seconds(5));
  const auto legs = Legs(*fleet);
  ASSERT_EQ(legs.size(), 2u);
  EXPECT_EQ(client->Header("x-kvrouter-plan"), "remote_prefill");
  EXPECT_TRUE(std::string(client->Header("x-kvrouter-explanation")).starts_with("remote "))
      << client->Header("x-kvrouter-explanation");
  const auto url_of = [&](std::string_view header) {
    return DispatchFleet::Url(std::stoull(std::string(client->Header(header))));
  };
  EXPECT_EQ(url_of("x-kvrouter-prefill-worker"), legs[0].base_url);
  EXPECT_EQ(url_of("x-kvrouter-worker"), legs[1].base_url);
  fleet->ExpectNothingLeft();
}

TEST(TwoLegTest, AMigrationIsReportedSoThatTheForksMarkersAreLogged) {
  const auto fleet = MigrationFleet();
  const auto client =
      fleet->Send(CompletionBody(Ids(kPromptTokens), true), {{"x-request-id", "r"}});
  fleet->link.Run(seconds(5));
  EXPECT_EQ(TextOf(client->body), kRight);
  const auto legs = Legs(*fleet);
  ASSERT_EQ(legs.size(), 2u);
  EXPECT_EQ(legs[0].base_url, DispatchFleet::Url(1));
  EXPECT_EQ(IdOf(legs[0]), "r-kvmig");
  EXPECT_NE(legs[1].base_url, DispatchFleet::Url(1));
  EXPECT_EQ(fleet->reports.handshakes, 1);
  EXPECT_EQ(fleet->reports.decoding_pulled, 1);
  EXPECT_EQ(fleet->reports.sources_failed, 0);
  EXPECT_FALSE(fleet->observer.Logged("producer dispatch failed"));
  EndLoad(fleet.get());
  fleet->ExpectNothingLeft();
}

TEST(TwoLegTest, AFailedSourceIsMarkedOnceAndTheTargetComputes) {
  for (const Fault fault : {Fault::k500, Fault::kMissingHandshake, Fault::k400, Fault::kRefuse}) {
    SCOPED_TRACE(static_cast<int>(fault));
    const auto fleet = MigrationFleet();
    fleet->side.Break(EngineLegKind::kProduce, fault);
    const auto client = fleet->Send(CompletionBody(Ids(kPromptTokens), true));
    fleet->link.Run(seconds(5));
    EXPECT_EQ(TextOf(client->body), kRight);
    EXPECT_EQ(fleet->reports.sources_failed +
                  (fleet->observer.Logged("KVMIGRATE: producer dispatch failed") ? 1 : 0),
              1);
    EXPECT_EQ(fleet->reports.handshakes, 0);
    EXPECT_EQ(fleet->reports.decoding_pulled, 0);
    EXPECT_EQ(fleet->observer.fallbacks[DispatchFallback::kSourceFailed], 1);
    EndLoad(fleet.get());
    fleet->ExpectNothingLeft();
  }
}

TEST(TwoLegTest, AHandshakeThatCameTooLateIsNoMigration) {
  const auto fleet = MigrationFleet();
  fleet->side.Break(EngineLegKind::kProduce, Fault::kLateHandshake);
  const auto client = fleet->Send(CompletionBody(Ids(kPromptTokens), true));
  fleet->link.Run(seconds(20));
  EXPECT_EQ(TextOf(client->body), kRight);
  EXPECT_EQ(fleet->reports.decoding_pulled, 0);
  EXPECT_EQ(fleet->observer.fallbacks[DispatchFallback::kLeaseOver], 1);
  EndLoad(fleet.get());
  fleet->ExpectNothingLeft();
}

TEST(TwoLegTest, WhyTheHandshakeWasNotUsedIsCounted) {
  const std::vector<std::pair<Fault, DispatchFallback>> reasons = {
      {Fault::kMissingHandshake, DispatchFallback::kHandshakeMissing},
      {Fault::kWrongHandshake, DispatchFallback::kHandshakeInvalid},
      {Fault::kLocalHandshake, DispatchFallback::kHandshakeLocal},
      {Fault::kLateHandshake, DispatchFallback::kLeaseOver}};
  for (const auto& [fault, reason] : reasons) {
    SCOPED_TRACE(DispatchFallbackName(reason));
    const auto fleet = PrefillFleet();
    fleet->side.Break(EngineLegKind::kProduce, fault);
    const auto client = fleet->Send(CompletionBody(Ids(kPromptTokens), false));
    fleet->link.Run(seconds(30));
    EXPECT_EQ(TextOf(client->body), kRight);
    EXPECT_EQ(fleet->observer.fallbacks[reason], 1);
    for (const EngineCall& call : Legs(*fleet)) {
      EXPECT_EQ(call.body->find("\"do_remote_prefill\":true"), std::string::npos)
          << "nothing unusable reaches an engine";
    }
    EXPECT_EQ(fleet->observer.leases_left, fault == Fault::kLateHandshake ? 1 : 0);
    fleet->ExpectNothingLeft();
  }
}

TEST(TwoLegTest, ARefusedPullIsRetriedOnTheSameWorkerIfThereIsNoOther) {
  FleetOptions options = QuickOptions();
  DispatchFleet fleet(options);
  fleet.AddEngine(1, WorkerRole::kPrefill);
  VirtualEngine& decode = fleet.AddEngine(11, WorkerRole::kDecode);
  fleet.side.Break(EngineLegKind::kConsume, Fault::k500);
  const auto client = fleet.Send(CompletionBody(Ids(kPromptTokens), true));
  fleet.link.Run(seconds(30));
  EXPECT_EQ(TextOf(client->body), kRight);
  EXPECT_EQ(decode.served, 1);
  fleet.ExpectNothingLeft();
}

TEST(TwoLegTest, WithoutRetriesABrokenWorkerIsTheRequestsErrorButAPullIsNot) {
  FleetOptions options = QuickOptions();
  options.dispatch.max_retries = 0;
  for (const bool pull : {true, false}) {
    const auto fleet = PrefillFleet(options);
    fleet->side.Break(pull ? EngineLegKind::kConsume : EngineLegKind::kServe, Fault::k500);
    if (!pull) fleet->side.Break(EngineLegKind::kProduce, Fault::k500);
    const auto client = fleet->Send(CompletionBody(Ids(kPromptTokens), true));
    fleet->link.Run(seconds(30));
    EXPECT_EQ(client->status, pull ? 200 : 500);
    if (!pull) {
      EXPECT_NE(client->body.find("broken"), std::string::npos) << "the engine's words";
    }
    fleet->ExpectNothingLeft();
  }
}

TEST(TwoLegTest, OneAnswerOfOnePromptOnlyMayHaveTwoLegs) {
  for (const std::string more :
       {R"(,"n":2)", R"(,"best_of":3)", R"(,"echo":true)", R"(,"prompt_logprobs":1)",
        R"(,"kv_transfer_params":{"do_remote_prefill":false})", R"(,"suffix":"x")"}) {
    SCOPED_TRACE(more);
    const auto fleet = PrefillFleet();
    const std::string body = CompletionBody(Ids(kPromptTokens), true, more);
    fleet->Send(body);
    fleet->link.Run(seconds(5));
    const auto legs = Legs(*fleet);
    ASSERT_EQ(legs.size(), 1u);
    EXPECT_EQ(*legs[0].body, body);
    fleet->ExpectNothingLeft();
  }
}

TEST(TwoLegTest, BothLegsOfATextGetItsTokens) {
  const auto fleet = PrefillFleet();
  std::string text = "Once upon a time there was a router. ";
  for (int i = 0; i < 3; ++i) text += text;
  const Json body = {{"model", "m"}, {"prompt", text}, {"stream", true}};
  const auto client = fleet->Send(body.dump());
  fleet->link.Run(seconds(5));
  const auto ids = VirtualEngine::IdsOfText(text);
  EXPECT_EQ(TextOf(client->body), VirtualEngine::Answer(ids, VirtualEngine::kDefaultTokens));
  const auto legs = Legs(*fleet);
  ASSERT_EQ(legs.size(), 2u);
  for (const EngineCall& leg : legs) EXPECT_EQ(Json::parse(*leg.body)["prompt"], Json(ids));
  fleet->ExpectNothingLeft();
}

std::string ChatBody() {
  return R"({"model":"m","stream":true,"messages":[{"role":"user","content":"Tell me a story, )"
         R"(as long as it takes to fill a few blocks."}]})";
}

TEST(TwoLegTest, AChatHasTwoLegsOnceAllWorkersAreKnownToRenderAlike) {
  const auto fleet = PrefillFleet();
  const auto first = fleet->SendAndRun(ChatBody(), {}, "/v1/chat/completions");
  EXPECT_EQ(Legs(*fleet).size(), 1u) << "nobody was asked yet";
  EXPECT_EQ(fleet->observer.fallbacks[DispatchFallback::kPromptsMayDiffer], 1);
  fleet->link.ForgetCalls();
  const auto second = fleet->SendAndRun(ChatBody(), {}, "/v1/chat/completions");
  const auto legs = Legs(*fleet);
  ASSERT_EQ(legs.size(), 2u);
  EXPECT_EQ(Json::parse(*legs[0].body)["messages"], Json::parse(ChatBody())["messages"]);
  EXPECT_EQ(TextOf(second->body), TextOf(first->body));
  fleet->ExpectNothingLeft();
}

TEST(TwoLegTest, AChatIsServedPlainlyWhereTemplatesDiffer) {
  const auto fleet = PrefillFleet();
  fleet->engines[12]->chat_template = "v2";
  for (int i = 0; i < 3; ++i) {
    fleet->link.ForgetCalls();
    const auto client = fleet->SendAndRun(ChatBody(), {}, "/v1/chat/completions");
    EXPECT_EQ(client->status, 200);
    EXPECT_EQ(Legs(*fleet).size(), 1u);
  }
  fleet->ExpectNothingLeft();
}

TEST(TwoLegTest, ARestartedWorkerIsAskedAnewHowItRenders) {
  const auto fleet = PrefillFleet();
  fleet->SendAndRun(ChatBody(), {}, "/v1/chat/completions");
  WorkerSpec spec = *fleet->registry.Find(WorkerId{11});
  spec.incarnation = Incarnation{static_cast<uint64_t>(spec.incarnation) + 1};
  ASSERT_TRUE(fleet->registry.Register(spec).ok());
  fleet->engines[11]->chat_template = "v2";
  for (int i = 0; i < 2; ++i) {
    fleet->link.ForgetCalls();
    fleet->SendAndRun(ChatBody(), {}, "/v1/chat/completions");
    EXPECT_EQ(Legs(*fleet).size(), 1u);
  }
  fleet->ExpectNothingLeft();
}

// B42: a session is not pinned to a worker that failed its first turn, nor to one that is gone.
TEST(TwoLegTest, B42AFirstTurnThatFailsAtDispatchPinsNothing) {
  FleetOptions options = QuickOptions();
  options.router.sessions.affinity_ttl = seconds(600);
  const auto fleet = LocalFleet(options);
  const HeaderList session = {{"x-dynamo-session-id", "s"}, {"x-route-explain", "1"}};
  fleet->side.Break(EngineLegKind::kServe, Fault::kRefuse);
  const auto first = fleet->SendAndRun(CompletionBody(Ids(8), true), session);
  ASSERT_EQ(first->status, 200);
  const std::string failed = fleet->link.calls()[0].base_url;
  const std::string home = first->Header("x-kvrouter-worker");
  EXPECT_NE(fleet->link.calls()[1].base_url, failed);
  for (int i = 0; i < 5; ++i) {
    const auto next = fleet->SendAndRun(CompletionBody(Ids(8), true), session);
    EXPECT_EQ(next->Header("x-kvrouter-worker"), home) << "where a turn succeeded";
  }
  const WorkerId gone{std::stoull(home.substr(0, home.find('/')))};
  const WorkerSpec spec = *fleet->registry.Find(gone);
  ASSERT_TRUE(fleet->registry.Remove(gone).ok());
  const auto moved = fleet->SendAndRun(CompletionBody(Ids(8), true), session);
  EXPECT_EQ(moved->status, 200);
  EXPECT_NE(moved->Header("x-kvrouter-worker"), home);
  ASSERT_TRUE(fleet->registry.Register(spec).ok());
  const auto after = fleet->SendAndRun(CompletionBody(Ids(8), true), session);
  EXPECT_EQ(after->Header("x-kvrouter-worker"), moved->Header("x-kvrouter-worker"));
  fleet->ExpectNothingLeft();
}

// B43: a prefill set that is empty for a moment, or fails in any way but for being full, costs
// nobody a request.
TEST(TwoLegTest, B43APrefillPoolThatBlinksFailsNoRequest) {
  const auto fleet = PrefillFleet();
  std::vector<std::shared_ptr<RecordingClient>> clients;
  std::vector<WorkerSpec> pool;
  for (const uint64_t id : {1, 2}) pool.push_back(*fleet->registry.Find(WorkerId{id}));
  for (int i = 0; i < 120; ++i) {
    clients.push_back(fleet->Send(CompletionBody(Ids(kPromptTokens), i % 2 == 0)));
    fleet->link.Run(milliseconds(3));
    if (i % 20 == 10) {
      for (const WorkerSpec& spec : pool) ASSERT_TRUE(fleet->registry.Remove(spec.id).ok());
    }
    if (i % 20 == 15) {
      for (WorkerSpec spec : pool) {
        spec.incarnation = {};
        ASSERT_TRUE(fleet->registry.Register(spec).ok());
      }
    }
    if (i % 20 == 3) fleet->side.Break(EngineLegKind::kProduce, Fault::kRefuse, 2);
  }
  fleet->link.Run(seconds(60));
  fleet->service.Tick();
  for (const auto& client : clients) {
    EXPECT_EQ(client->status, 200);
    EXPECT_EQ(TextOf(client->body), kRight);
  }
  fleet->ExpectNothingLeft();
}

TEST(TwoLegTest, B43AFullPrefillPoolIsPassedOn) {
  const auto fleet = PrefillFleet();
  fleet->side.Break(EngineLegKind::kProduce, Fault::k429);
  const auto client = fleet->SendAndRun(CompletionBody(Ids(kPromptTokens), true));
  EXPECT_EQ(client->status, 429);
  EXPECT_NE(client->body.find("full"), std::string::npos);
  fleet->ExpectNothingLeft();
}

TEST(TwoLegTest, ALeaseThatNobodyWillUseIsCounted) {
  const auto fleet = PrefillFleet();
  for (auto& [id, engine] : fleet->engines) engine->token_time = milliseconds(100);
  const auto client = fleet->Send(CompletionBody(Ids(kPromptTokens), true));
  fleet->link.Run(milliseconds(150));  // the producer has answered, the consumer not yet
  EXPECT_EQ(Legs(*fleet).size(), 2u);
  client->Leave();
  EXPECT_EQ(fleet->observer.leases_left, 1);
  fleet->ExpectNothingLeft();
}

}  // namespace
}  // namespace kvrouter
