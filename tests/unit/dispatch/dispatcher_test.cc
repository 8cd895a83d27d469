#include <gtest/gtest.h>

#include <string>

#include "dispatch/request_headers.h"
#include "dispatch_fleet.h"

namespace kvrouter {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string Expected(const std::vector<TokenId>& ids) {
  return VirtualEngine::Answer(ids, VirtualEngine::kDefaultTokens);
}

TEST(DispatcherTest, ALocalStreamReachesTheClientByteForByte) {
  DispatchFleet fleet;
  fleet.AddEngine(1);
  const auto ids = Ids(40);
  const auto client = fleet.SendAndRun(CompletionBody(ids, true));
  EXPECT_EQ(client->status, 200);
  EXPECT_EQ(client->Header("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(TextOf(client->body), Expected(ids));
  EXPECT_TRUE(client->body.ends_with("data: [DONE]\n\n"));
  EXPECT_TRUE(client->ended);
  EXPECT_EQ(client->misuses, 0);
  ASSERT_EQ(fleet.link.calls().size(), 1u);
  EXPECT_EQ(*fleet.link.calls()[0].body, CompletionBody(ids, true));
  ASSERT_EQ(fleet.observer.ends.size(), 1u);
  EXPECT_EQ(fleet.observer.ends[0].outcome, DispatchOutcome::kSuccess);
  EXPECT_EQ(fleet.observer.ends[0].output_tokens, 5u);
  EXPECT_EQ(fleet.observer.first_tokens.size(), 1u);
  fleet.ExpectNothingLeft();
}

TEST(DispatcherTest, AnAnswerThatDoesNotStreamIsCompletedWhole) {
  DispatchFleet fleet;
  fleet.AddEngine(1).cached_tokens = 32;
  const auto ids = Ids(40);
  fleet.Cache(1, ids);
  const auto client = fleet.SendAndRun(CompletionBody(ids, false));
  EXPECT_EQ(client->status, 200);
  EXPECT_EQ(TextOf(client->body), Expected(ids));
  EXPECT_EQ(client->writes, 0);
  ASSERT_EQ(fleet.observer.overlaps.size(), 1u);
  EXPECT_EQ(fleet.observer.overlaps[0].predicted_tokens, 32u);
  EXPECT_EQ(fleet.observer.overlaps[0].delivered_tokens, 32u);
  fleet.ExpectNothingLeft();
}

TEST(DispatcherTest, LoadIsBookedWhileItRunsAndPrefillEndsAtTheFirstToken) {
  DispatchFleet fleet;
  fleet.AddEngine(1).token_time = milliseconds(100);
  fleet.Send(CompletionBody(Ids(40), true));
  const auto load = [&fleet] { return fleet.router.Snapshot()[0].loads[0]; };
  fleet.link.Run(milliseconds(50));
  EXPECT_EQ(load().active_requests, 1u);
  EXPECT_EQ(load().active_prefill_tokens, 40u);
  fleet.link.Run(milliseconds(100));
  EXPECT_EQ(load().active_requests, 1u);
  EXPECT_EQ(load().active_prefill_tokens, 0u);
  fleet.link.Run(seconds(2));
  fleet.ExpectNothingLeft();
}

TEST(DispatcherTest, TextIsTokenizedByTheEngineAndTheAnswerIsKept) {
  DispatchFleet fleet;
  VirtualEngine& engine = fleet.AddEngine(1);
  const std::string body = R"({"model":"m","prompt":"Hello, world, this is long enough."})";
  fleet.Cache(1, VirtualEngine::IdsOfText("Hello, world, this is long enough."));
  for (int i = 0; i < 3; ++i) {
    const auto client = fleet.SendAndRun(body, {{"x-route-explain", "1"}});
    EXPECT_EQ(client->status, 200);
    EXPECT_EQ(client->Header("x-kvrouter-prompt-tokens"), "34");
    EXPECT_EQ(client->Header("x-kvrouter-overlap-tokens"), "32");
    EXPECT_EQ(client->Header("x-kvrouter-worker"), "1/0");
    EXPECT_EQ(client->Header("x-kvrouter-plan"), "local");
  }
  EXPECT_EQ(engine.tokenized, 1);
  EXPECT_EQ(fleet.observer.tokenized[TokenizeOutcome::kEngine], 1);
  EXPECT_EQ(fleet.observer.tokenized[TokenizeOutcome::kCached], 2);
  EXPECT_EQ(*fleet.link.calls().back().body, body) << "the engine gets the client's own bytes";
  fleet.ExpectNothingLeft();
}

TEST(DispatcherTest, TheRoutersOwnCallsAreJsonWhateverTheClientCallsItsBody) {
  for (const HeaderList& headers :
       {HeaderList{}, HeaderList{{"content-type", "application/x-www-form-urlencoded"}}}) {
    DispatchFleet fleet;
    fleet.AddEngine(1);
    fleet.SendAndRun(R"({"model":"m","prompt":"a text"})", headers);
    EXPECT_EQ(fleet.observer.tokenized[TokenizeOutcome::kEngine], 1);
    // That of the client is the engine's to judge.
    const EngineCall& served = fleet.link.calls().back();
    EXPECT_EQ(served.path, "/v1/completions");
    EXPECT_EQ(FindHeader(served.headers, "content-type"), FindHeader(headers, "content-type"));
  }
}

TEST(DispatcherTest, ChatsAreTokenizedByMessagesOrRenderedWhereThatIsAllThereIs) {
  for (const bool tokenize : {true, false}) {
    SCOPED_TRACE(tokenize);
    DispatchFleet fleet;
    VirtualEngine& engine = fleet.AddEngine(1);
    engine.offers_tokenize = tokenize;
    const std::string body =
        R"({"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]})";
    const auto client = fleet.SendAndRun(body, {}, "/v1/chat/completions");
    EXPECT_EQ(client->status, 200);
    EXPECT_EQ(TextOf(client->body),
              Expected(engine.IdsOfChat(nlohmann::json::parse(body)["messages"])));
    EXPECT_EQ(fleet.observer.tokenized[TokenizeOutcome::kEngine], 1);
    fleet.ExpectNothingLeft();
  }
}

TEST(DispatcherTest, WithoutTokensARequestIsRoutedByLoadAlone) {
  for (const Fault fault : {Fault::kRefuse, Fault::kStallBeforeHead, Fault::k500}) {
    SCOPED_TRACE(static_cast<int>(fault));
    DispatchFleet fleet;
    fleet.AddEngine(1).tokenize_fault = fault;
    const auto client = fleet.SendAndRun(R"({"model":"m","prompt":"Hello"})");
    EXPECT_EQ(client->status, 200);
    EXPECT_EQ(TextOf(client->body), Expected(VirtualEngine::IdsOfText("Hello")));
    EXPECT_EQ(fleet.observer.fallbacks[DispatchFallback::kNotTokenized], 1);
    fleet.ExpectNothingLeft();
  }
}

TEST(DispatcherTest, ErrorsOfTheRouterNameWhatIsWrongAsOpenAiDoes) {
  DispatchFleet fleet;
  fleet.AddEngine(1);
  struct Case {
    std::string body;
    int status;
    std::string words;
  };
  for (const Case& c : std::vector<Case>{
           {"{", 400, "not valid JSON"},
           {"[1]", 400, "must be a JSON object"},
           {R"({"model":"m","prompt":[1,-2]})", 400, "got -2 at position 1"},
           {R"({"model":"m","prompt":[4294967296]})", 400, "0..4294967295, got 4294967296"},
           {R"({"model":"other","prompt":[1]})", 404, "other"},
       }) {
    SCOPED_TRACE(c.body);
    const auto client = fleet.SendAndRun(c.body);
    EXPECT_EQ(client->status, c.status);
    const auto error = nlohmann::json::parse(client->body)["error"];
    EXPECT_NE(error["message"].get<std::string>().find(c.words), std::string::npos) << client->body;
    EXPECT_TRUE(error["code"].is_string());
  }
  EXPECT_TRUE(fleet.link.calls().empty());
  fleet.ExpectNothingLeft();
}

TEST(DispatcherTest, TheEnginesOwnRefusalIsPassedOnAndIsNoFailureOfTheWorker) {
  DispatchFleet fleet;
  fleet.AddEngine(1).Break(EngineLegKind::kServe, Fault::k400);
  fleet.AddEngine(2).Break(EngineLegKind::kServe, Fault::k400);
  const auto client = fleet.SendAndRun(CompletionBody(Ids(8), true));
  EXPECT_EQ(client->status, 400);
  EXPECT_NE(client->body.find("the engine's own words"), std::string::npos);
  EXPECT_EQ(fleet.link.calls().size(), 1u);
  EXPECT_EQ(fleet.service.Counters().legs_failed, 0u);
  EXPECT_EQ(fleet.observer.ends[0].outcome, DispatchOutcome::kEngineRefused);
  fleet.ExpectNothingLeft();
}

TEST(DispatcherTest, AStreamThatSpeaksAgainstTheRequestIsTriedElsewhereAndBlamesNobody) {
  DispatchFleet fleet;
  fleet.AddEngine(1).Break(EngineLegKind::kServe, Fault::kRefusalEvent, 10);
  fleet.AddEngine(2).Break(EngineLegKind::kServe, Fault::kRefusalEvent, 10);
  const auto client = fleet.SendAndRun(CompletionBody(Ids(8), true));
  EXPECT_EQ(client->status, 200) << "as the engine began it";
  EXPECT_EQ(client->answers, 1);
  EXPECT_TRUE(client->Header("content-type").starts_with("text/event-stream"));
  EXPECT_NE(client->body.find("no such grammar"), std::string::npos) << client->body;
  EXPECT_TRUE(client->body.ends_with("data: [DONE]\n\n")) << client->body;
  EXPECT_EQ(fleet.link.calls().size(), 2u);
  EXPECT_EQ(fleet.service.Counters().legs_failed, 0u);
  EXPECT_EQ(fleet.observer.ends[0].outcome, DispatchOutcome::kEngineRefused);
  for (const auto& leg : fleet.observer.legs) EXPECT_EQ(leg.result, LegResult::kRefused);
  fleet.AddEngine(3);  // which alone is not broken
  EXPECT_NE(fleet.SendAndRun(CompletionBody(Ids(8), true))->body.find("\"choices\""),
            std::string::npos);
  EXPECT_EQ(fleet.service.Counters().legs_failed, 0u);
  fleet.ExpectNothingLeft();
}

TEST(DispatcherTest, AClientThatLeavesCancelsItsLegAtOnce) {
  DispatchFleet fleet;
  fleet.AddEngine(1);
  const auto client = fleet.Send(CompletionBody(Ids(8), true));
  fleet.link.Run(milliseconds(12));
  EXPECT_EQ(fleet.link.open(), 1);
  client->Leave();
  EXPECT_EQ(fleet.link.cancelled(), 1);
  EXPECT_EQ(fleet.observer.ends[0].outcome, DispatchOutcome::kClientGone);
  fleet.ExpectNothingLeft();
}

TEST(DispatcherTest, ASlowClientPausesItsEngine) {
  DispatchFleet fleet;
  fleet.AddEngine(1);
  const auto ids = Ids(8);
  const auto client = fleet.Send(CompletionBody(ids, true));
  client->keeps_up = false;
  fleet.link.Run(seconds(5));
  EXPECT_EQ(client->writes, 1) << "the engine waits";
  EXPECT_FALSE(client->ended);
  client->Drain();
  fleet.link.Run(seconds(5));
  EXPECT_TRUE(client->ended);
  EXPECT_EQ(TextOf(client->body), Expected(ids));
  fleet.ExpectNothingLeft();
}

TEST(DispatcherTest, AClientThatTurnsOutToBeGoneWhenItIsWrittenToIsNoTrouble) {
  DispatchFleet fleet;
  fleet.AddEngine(1);
  const auto client = fleet.Send(CompletionBody(Ids(8), true));
  client->on_write = [&client] { client->Leave(); };
  fleet.link.Run(seconds(5));
  EXPECT_EQ(client->writes, 1);
  EXPECT_EQ(fleet.observer.ends.size(), 1u);
  fleet.ExpectNothingLeft();
  client->on_write = nullptr;
}

TEST(DispatcherTest, ATakenRequestIdIsReplaced) {
  DispatchFleet fleet;
  fleet.AddEngine(1);
  const auto first = fleet.Send(CompletionBody(Ids(8), true), {{"x-request-id", "same"}});
  const auto second = fleet.Send(CompletionBody(Ids(8), true), {{"x-request-id", "same"}});
  fleet.link.Run(seconds(5));
  EXPECT_EQ(first->status, 200);
  EXPECT_EQ(second->status, 200);
  const auto id_of = [](const EngineCall& call) {
    for (const auto& [name, value] : call.headers) {
      if (name == "x-request-id") return value;
    }
    return std::string();
  };
  EXPECT_EQ(id_of(fleet.link.calls()[0]), "same");
  EXPECT_TRUE(id_of(fleet.link.calls()[1]).starts_with("kvr-"));
  fleet.ExpectNothingLeft();
}

TEST(DispatcherTest, HeadersOfTheClientReachTheEngineExceptThoseOfTheConnection) {
  DispatchFleet fleet;
  WorkerSpec spec = DispatchFleet::Spec(1);
  spec.dp_start_rank = 4;
  spec.dp_size = 2;
  fleet.AddEngine(spec);
  fleet.SendAndRun(CompletionBody(Ids(8), true), {{"traceparent", "00-1-2-01"},
                                                  {"authorization", "Bearer k"},
                                                  {"host", "front"},
                                                  {"accept-encoding", "gzip"},
                                                  {"connection", "close, X-Hop"},
                                                  {"x-hop", "1"},
                                                  {"x-dynamo-dp-rank", "5"},
                                                  {"x-dynamo-worker-instance-id", "1"}});
  std::map<std::string, std::string> sent;
  for (const auto& [name, value] : fleet.link.calls().at(0).headers) sent[name] = value;
  EXPECT_EQ(sent["traceparent"], "00-1-2-01");
  EXPECT_EQ(sent["authorization"], "Bearer k");
  EXPECT_EQ(sent["x-data-parallel-rank"], "5") << "the global rank";
  EXPECT_FALSE(sent.contains("host"));
  EXPECT_FALSE(sent.contains("accept-encoding"));
  EXPECT_FALSE(sent.contains("x-hop")) << "the connection header names it";
  fleet.ExpectNothingLeft();
}

TEST(DispatcherTest, AQueryThatCannotBeSentIsTheClientsFaultAndNoWorkers) {
  DispatchFleet fleet;
  fleet.AddEngine(1);
  for (const std::string path : {"/v1/completions", "/v1/embeddings"}) {
    auto client = std::make_shared<RecordingClient>();
    DispatchRequest request;
    request.path = path;
    request.query = "user=\xc3\xa9";
    request.body = CompletionBody(Ids(8), true);
    fleet.dispatcher.Serve(std::move(request), client);
    fleet.link.Run(seconds(30));
    EXPECT_EQ(client->status, 400) << path;
    EXPECT_NE(client->body.find("invalid_request"), std::string::npos) << client->body;
  }
  EXPECT_TRUE(fleet.link.calls().empty());
  fleet.ExpectNothingLeft();
}

TEST(DispatcherTest, OtherPathsGoToOneWorkerAsTheyAre) {
  DispatchFleet fleet;
  fleet.AddEngine(1);
  fleet.AddEngine(2, WorkerRole::kPrefill);
  for (const std::string path : {"/v1/embeddings", "/detokenize"}) {
    const auto client = fleet.SendAndRun(R"({"model":"m","input":"x"})", {}, path);
    EXPECT_EQ(client->status, 200);
    EXPECT_EQ(client->body, R"({"path":")" + path + R"("})");
  }
  const auto models = fleet.Send("", {}, "/v1/models", "GET");
  fleet.link.Run(seconds(1));
  EXPECT_EQ(models->body, R"({"path":"/v1/models"})");
  for (const EngineCall& call : fleet.link.calls()) EXPECT_EQ(call.base_url, DispatchFleet::Url(1));
  fleet.ExpectNothingLeft();
}

TEST(DispatcherTest, RouteTextAnswersWithDecisionAndTokens) {
  DispatchFleet fleet;
  fleet.AddEngine(1);
  std::optional<absl::StatusOr<RouteTextAnswer>> answer;
  RouteTextRequest request;
  request.body = R"({"model":"m","prompt":"Hello"})";
  request.request_id = "r";
  fleet.dispatcher.RouteText(request, [&answer](auto a) { answer = std::move(a); });
  fleet.link.Run(seconds(1));
  ASSERT_TRUE(answer && answer->ok());
  EXPECT_EQ((*answer)->request_id, "r");
  EXPECT_EQ((*answer)->decision.target.worker, WorkerId{1});
  EXPECT_EQ(*(*answer)->token_ids, VirtualEngine::IdsOfText("Hello"));
  EXPECT_EQ(fleet.service.LiveRequests(), 1u);
  EXPECT_EQ(fleet.service.Free("r"), LifecycleResult::kDone);
  fleet.ExpectNothingLeft();
}

TEST(DispatcherTest, WhoeverLeavesRouteTextGetsNoAnswerAndNothingStaysBooked) {
  DispatchFleet fleet;
  fleet.AddEngine(1);
  int answers = 0;
  RouteTextRequest request;
  request.body = R"({"model":"m","prompt":"Hello"})";
  const auto leave = fleet.dispatcher.RouteText(request, [&answers](const auto&) { ++answers; });
  leave();
  leave();
  fleet.link.Run(seconds(1));
  EXPECT_EQ(answers, 0);
  fleet.ExpectNothingLeft();
}

// One worker, and a queue in front of it that lets one request of 40 tokens go at a time.
FleetOptions Queueing() {
  FleetOptions options;
  options.router.scheduler.queue.busy.tokens = 30;
  options.dispatch.total_timeout = seconds(20);
  return options;
}

TEST(DispatcherTest, ARequestWaitsInTheRoutersQueueForItsTurn) {
  DispatchFleet fleet(Queueing());
  fleet.AddEngine(1).token_time = milliseconds(100);
  const auto first = fleet.Send(CompletionBody(Ids(40), true));
  const auto second = fleet.Send(CompletionBody(Ids(40, 100), true));
  fleet.link.Run(milliseconds(50));
  EXPECT_EQ(fleet.service.Counters().waiting, 1u);
  EXPECT_EQ(fleet.link.calls().size(), 1u);
  fleet.link.Run(seconds(5));
  EXPECT_EQ(TextOf(first->body), Expected(Ids(40)));
  EXPECT_EQ(TextOf(second->body), Expected(Ids(40, 100)));
  fleet.ExpectNothingLeft();
}

TEST(DispatcherTest, WhoeverLeavesTheQueueIsForgotten) {
  DispatchFleet fleet(Queueing());
  fleet.AddEngine(1).token_time = milliseconds(100);
  fleet.Send(CompletionBody(Ids(40), true));
  const auto second = fleet.Send(CompletionBody(Ids(40, 100), true));
  second->Leave();
  EXPECT_EQ(fleet.service.Counters().waiting, 0u);
  fleet.link.Run(seconds(5));
  EXPECT_EQ(fleet.link.calls().size(), 1u);
  fleet.ExpectNothingLeft();
}

TEST(DispatcherTest, TheTotalTimeEndsAWaitInTheQueue) {
  DispatchFleet fleet(Queueing());
  fleet.AddEngine(1).Break(EngineLegKind::kServe, Fault::kStallBeforeHead);
  const auto first = fleet.Send(CompletionBody(Ids(40), false));
  const auto second = fleet.Send(CompletionBody(Ids(40, 100), true));
  fleet.link.Run(seconds(21));
  EXPECT_EQ(first->status, 504);
  EXPECT_EQ(second->status, 504);
  fleet.ExpectNothingLeft();
}

TEST(DispatcherTest, ALargeAnswerThatDoesNotStreamIsPassedOnAsItComes) {
  FleetOptions options;
  options.dispatch.max_held_reply_bytes = 64;
  for (const Fault fault : {Fault::kNone, Fault::kCutMidStream}) {
    DispatchFleet fleet(options);
    fleet.AddEngine(1).Break(EngineLegKind::kServe, fault);
    fleet.AddEngine(2);
    const auto client = fleet.SendAndRun(CompletionBody(Ids(40), false));
    EXPECT_GT(client->writes, 0);
    EXPECT_EQ(client->status, 200);
    if (!client->cut) {
      EXPECT_EQ(TextOf(client->body), Expected(Ids(40)));
    }
    EXPECT_EQ(client->misuses, 0);
    EXPECT_EQ(fleet.observer.outgrown, (std::map<OutgrownHold, int>{{OutgrownHold::kReply, 1}}));
    fleet.ExpectNothingLeft();
  }
}

TEST(DispatcherTest, AnErrorTooLongToHoldIsCutAndCounted) {
  FleetOptions options;
  options.dispatch.max_held_reply_bytes = 16;
  options.dispatch.max_retries = 0;
  DispatchFleet fleet(options);
  fleet.AddEngine(1).Break(EngineLegKind::kServe, Fault::k500);
  const auto client = fleet.SendAndRun(CompletionBody(Ids(40), false));
  EXPECT_EQ(client->status, 500);
  EXPECT_EQ(client->body.size(), 16u);
  EXPECT_EQ(fleet.observer.outgrown, (std::map<OutgrownHold, int>{{OutgrownHold::kError, 1}}));
  fleet.ExpectNothingLeft();
}

// Serves one raw event stream.
int OutgrownBy(const std::vector<std::string>& pieces, OutgrownHold hold) {
  DispatchFleet fleet;
  fleet.AddEngine(1);
  std::string sent;
  fleet.link.SetEngine(DispatchFleet::Url(1), [&](const auto& exchange) {
    exchange->Head(200, {{"content-type", "text/event-stream"}});
    for (const std::string& piece : pieces) exchange->Body(piece);
    exchange->End(EngineEnd::kComplete);
  });
  for (const std::string& piece : pieces) sent += piece;
  const auto client = fleet.SendAndRun(CompletionBody(Ids(8), true));
  EXPECT_TRUE(client->body == sent) << client->body.size() << " bytes of " << sent.size();
  fleet.ExpectNothingLeft();
  return fleet.observer.outgrown[hold];
}

TEST(DispatcherTest, WhatOfAStreamIsTooLongToHoldIsCounted) {
  const std::string token = R"(data: {"choices":[{"text":"a","finish_reason":"stop"}]})"
                            "\n\n";
  const std::string comment = ": " + std::string(1000, 'x') + "\n\n";
  std::vector<std::string> pieces(60, comment);
  pieces.push_back(token);
  EXPECT_EQ(OutgrownBy(pieces, OutgrownHold::kStreamHead), 0);
  pieces.insert(pieces.begin(), 10, comment);
  EXPECT_EQ(OutgrownBy(pieces, OutgrownHold::kStreamHead), 1);
  const std::string half_a_megabyte(1 << 19, 'x');
  pieces = {"data: ", half_a_megabyte, half_a_megabyte, half_a_megabyte, "\n\n", token};
  EXPECT_EQ(OutgrownBy(pieces, OutgrownHold::kFirstEvent), 1);
  pieces.insert(pieces.begin(), token);
  EXPECT_EQ(OutgrownBy(pieces, OutgrownHold::kFirstEvent), 0) << "it had begun";
}

TEST(DispatcherTest, ATenantsSaltReachesRouterAndEngineAlike) {
  DispatchFleet fleet;
  fleet.AddEngine(1);
  fleet.SendAndRun(CompletionBody(Ids(8), true), {{"x-tenant-id", "t"}});
  EXPECT_TRUE(fleet.link.calls()[0].body->ends_with(R"(,"cache_salt":"t"})"));
  fleet.SendAndRun(CompletionBody(Ids(8), true, R"(,"cache_salt":"own")"), {{"x-tenant-id", "t"}});
  EXPECT_EQ(fleet.link.calls()[1].body->find("\"t\""), std::string::npos);
  fleet.ExpectNothingLeft();
}

TEST(DispatcherTest, AnAdaptersNameLeadsToTheWorkersOfItsModel) {
  DispatchFleet fleet;
  WorkerSpec with = DispatchFleet::Spec(1);
  with.lora_adapters = std::vector<std::string>{"tuned"};
  WorkerSpec without = DispatchFleet::Spec(2);
  without.lora_adapters = std::vector<std::string>{};
  fleet.AddEngine(with);
  fleet.AddEngine(without);
  for (int i = 0; i < 4; ++i) {
    const auto client =
        fleet.SendAndRun(R"({"model":"tuned","prompt":[1,2,3]})", {{"x-route-explain", "1"}});
    EXPECT_EQ(client->Header("x-kvrouter-worker"), "1/0");
  }
  fleet.ExpectNothingLeft();
}

TEST(DispatcherTest, WhatIsAnsweredBeforeItIsLiveIsCountedToo) {
  FleetOptions options;
  options.dispatch.max_live_requests = 1;
  DispatchFleet fleet(options);
  fleet.AddEngine(1);
  const std::string body = R"({"model":"m","prompt":[1,2,3]})";
  const auto running = fleet.Send(body);
  for (const std::string path : {"/v1/completions", "/v1/embeddings"}) {
    const auto refused = fleet.Send(body, {}, path);
    EXPECT_EQ(refused->status, 429);
    EXPECT_NE(refused->body.find("limit_reached"), std::string::npos) << refused->body;
    ASSERT_FALSE(fleet.observer.ends.empty());
    EXPECT_EQ(fleet.observer.ends.back().outcome, DispatchOutcome::kRejected);
    EXPECT_EQ(fleet.observer.ends.back().status, 429);
  }
  const auto limited = static_cast<size_t>(ErrorReason::kLimitReached);
  EXPECT_EQ(fleet.service.Counters().refused[limited], 0u) << "the router was not asked";
  std::optional<absl::Status> text;
  fleet.dispatcher.RouteText({.headers = {}, .body = body, .request_id = ""},
                             [&text](const auto& answer) { text = answer.status(); });
  ASSERT_TRUE(text);
  EXPECT_EQ(text->code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(fleet.service.Counters().refused[limited], 1u);
  fleet.link.Run(std::chrono::seconds(1));
  EXPECT_EQ(running->status, 200);
  fleet.dispatcher.Stop({});
  EXPECT_EQ(fleet.Send(body)->status, 503);
  EXPECT_EQ(fleet.observer.ends.back().outcome, DispatchOutcome::kShuttingDown);
  EXPECT_EQ(fleet.observer.ends.size(), 4u);
  fleet.ExpectNothingLeft();
}

TEST(DispatcherTest, WhereNoModelIsServedTheListIsEmpty) {
  DispatchFleet fleet;
  const auto models = fleet.Send("", {}, "/v1/models", "GET");
  EXPECT_EQ(models->status, 200);
  EXPECT_EQ(fleet.observer.ends.size(), 1u);
  EXPECT_EQ(models->body, R"({"object":"list","data":[]})");
  fleet.ExpectNothingLeft();
}

TEST(DispatcherTest, SeveralModelsAreListedByTheRouterAndOneIsNamed) {
  DispatchFleet fleet;
  fleet.AddEngine(1);
  WorkerSpec other = DispatchFleet::Spec(2);
  other.model_name = "other";
  fleet.AddEngine(other);
  const auto models = fleet.Send("", {}, "/v1/models", "GET");
  const auto list = nlohmann::json::parse(models->body);
  ASSERT_EQ(list["data"].size(), 2u);
  EXPECT_EQ(list["data"][0]["id"], "m");
  EXPECT_EQ(fleet.SendAndRun(R"({"prompt":[1]})")->status, 400) << "which of the two?";
  EXPECT_EQ(fleet.SendAndRun(R"({"model":"other","prompt":[1]})")->status, 200);
  fleet.ExpectNothingLeft();
}

TEST(DispatcherTest, AModelWhoseWorkersAllLeftIsUnavailableAndNotUnknown) {
  DispatchFleet fleet;
  fleet.AddEngine(1);
  ASSERT_TRUE(fleet.registry.Remove(WorkerId{1}).ok());
  EXPECT_EQ(fleet.SendAndRun(CompletionBody(Ids(8), true))->status, 503);
  EXPECT_EQ(fleet.SendAndRun(R"({"model":"never","prompt":[1]})")->status, 404);
  fleet.ExpectNothingLeft();
}

// To wait and try again, as after 429, would not make it shorter.
TEST(DispatcherTest, APromptOverTheRoutersLimitIsTooLargeAndNoMatterOfLoad) {
  FleetOptions options;
  options.service.max_prompt_tokens = 8;
  DispatchFleet fleet(options);
  fleet.AddEngine(1);
  const auto client = fleet.SendAndRun(CompletionBody(Ids(9), true));
  EXPECT_EQ(client->status, 413);
  EXPECT_NE(client->body.find("\"too_large\""), std::string::npos) << client->body;
  fleet.ExpectNothingLeft();
}

TEST(DispatcherTest, ALongRequestShowsSignsOfLife) {
  FleetOptions options;
  options.router.scheduler.active_request_expiry = seconds(30);
  options.dispatch.keep_alive_period = seconds(10);
  DispatchFleet fleet(options);
  fleet.AddEngine(1).token_time = seconds(50);
  const auto client = fleet.Send(CompletionBody(Ids(8), true));
  for (int i = 0; i < 80; ++i) {
    fleet.link.Run(seconds(5));
    fleet.service.Tick();
  }
  EXPECT_TRUE(client->ended);
  EXPECT_EQ(fleet.service.Counters().bookings_expired, 0u);
  fleet.ExpectNothingLeft();
}

TEST(DispatcherTest, StopEndsWhatRunsWithAnErrorAndTakesNoMore) {
  DispatchFleet fleet;
  fleet.AddEngine(1);
  const auto streaming = fleet.Send(CompletionBody(Ids(8), true));
  fleet.link.Run(milliseconds(12));
  const auto waiting = fleet.Send(CompletionBody(Ids(8), false));
  fleet.dispatcher.Stop({});
  EXPECT_NE(streaming->body.find("shutting down"), std::string::npos);
  EXPECT_TRUE(streaming->ended);
  EXPECT_EQ(waiting->status, 503);
  EXPECT_EQ(fleet.Send(CompletionBody(Ids(8), false))->status, 503);
  fleet.ExpectNothingLeft();
}

}  // namespace
}  // namespace kvrouter
