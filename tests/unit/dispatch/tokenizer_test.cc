#include "dispatch/tokenizer.h"

#include <gtest/gtest.h>

#include <string>

#include "dispatch_fleet.h"

namespace kvrouter {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TokenIds Some(size_t count) { return std::make_shared<const std::vector<TokenId>>(count, 7); }

TEST(TokenCacheTest, TheLongestUnusedGoesFirstAndBytesAreBounded) {
  TokenCache cache(2000);
  for (int i = 0; i < 3; ++i) cache.Insert(std::string(1, static_cast<char>('a' + i)), Some(100));
  EXPECT_TRUE(cache.Find("a"));
  cache.Insert("d", Some(100));
  EXPECT_TRUE(cache.Find("a")) << "used lately";
  EXPECT_FALSE(cache.Find("b"));
  EXPECT_LE(cache.Read().bytes, 2000u);
  EXPECT_EQ(cache.Read().evicted_total, 1u);
  cache.Insert("too large", Some(1000));
  EXPECT_FALSE(cache.Find("too large"));
  EXPECT_EQ(cache.Read().entries, 3u);
}

struct Fixture {
  explicit Fixture(const TokenizeConfig& config = {}) {
    FleetOptions options;
    options.dispatch.tokenize = config;
    fleet = std::make_unique<DispatchFleet>(options);
    fleet->AddEngine(1);
    fleet->AddEngine(2);
  }
  int TokenizeCalls() const {
    int calls = 0;
    for (const EngineCall& call : fleet->link.calls()) calls += call.path == "/tokenize" ? 1 : 0;
    return calls;
  }
  void Fail(Fault fault) {
    for (auto& [id, engine] : fleet->engines) engine->tokenize_fault = fault;
  }
  int Count(TokenizeOutcome outcome) { return fleet->observer.tokenized[outcome]; }

  std::unique_ptr<DispatchFleet> fleet;
};

std::string Text(int i) { return fmt::format(R"({{"model":"m","prompt":"text {}"}})", i); }

TEST(TokenizerTest, OneCallServesAllWhoWantTheSameText) {
  Fixture f;
  for (int i = 0; i < 5; ++i) f.fleet->Send(Text(0));
  f.fleet->link.Run(seconds(1));
  EXPECT_EQ(f.TokenizeCalls(), 1);
  EXPECT_EQ(f.Count(TokenizeOutcome::kEngine), 1);
  EXPECT_EQ(f.Count(TokenizeOutcome::kShared), 4);
  f.fleet->ExpectNothingLeft();
}

TEST(TokenizerTest, TextsThatDifferInWhatDecidesTheirTokensAreNotShared) {
  Fixture f;
  f.fleet->SendAndRun(R"({"model":"m","prompt":"x"})");
  f.fleet->SendAndRun(R"({"model":"m","prompt":"x","add_special_tokens":false})");
  f.fleet->SendAndRun(R"({"model":"m","prompt":"x","temperature":1})");
  EXPECT_EQ(f.TokenizeCalls(), 2);
}

TEST(TokenizerTest, AnotherEngineIsAskedIfOneCannotBeReached) {
  Fixture f;
  f.fleet->engines[1]->tokenize_fault = Fault::kRefuse;
  for (int i = 0; i < 4; ++i) f.fleet->SendAndRun(Text(i));
  EXPECT_EQ(f.Count(TokenizeOutcome::kEngine), 4);
  f.fleet->ExpectNothingLeft();
}

TEST(TokenizerTest, TheBreakerSparesEnginesThatFailAndClosesWhenTheyWorkAgain) {
  Fixture f({.breaker_failures = 3, .breaker_open = seconds(10)});
  f.Fail(Fault::k500);
  for (int i = 0; i < 8; ++i) {
    const auto client = f.fleet->Send(Text(i));
    f.fleet->link.Run(milliseconds(100));
    EXPECT_EQ(client->status, 200) << "served all the same";
  }
  EXPECT_EQ(f.Count(TokenizeOutcome::kFailed), 3);
  EXPECT_EQ(f.Count(TokenizeOutcome::kBreakerOpen), 5);
  EXPECT_EQ(f.fleet->dispatcher.Counters().breakers_open, 1u);
  f.Fail(Fault::kNone);
  f.fleet->link.Run(seconds(10));
  f.fleet->SendAndRun(Text(0));
  EXPECT_EQ(f.Count(TokenizeOutcome::kEngine), 1);
  EXPECT_EQ(f.fleet->dispatcher.Counters().breakers_open, 0u);
}

TEST(TokenizerTest, AnEndpointThatIsNotThereIsNotAskedForEveryText) {
  Fixture f;
  for (auto& [id, engine] : f.fleet->engines) engine->offers_tokenize = false;
  for (int i = 0; i < 5; ++i) {
    f.fleet->Send(Text(i));
    f.fleet->link.Run(milliseconds(200));
  }
  EXPECT_EQ(f.Count(TokenizeOutcome::kRefused), 1);
  EXPECT_EQ(f.Count(TokenizeOutcome::kBreakerOpen), 4);
}

TEST(TokenizerTest, AnAdapterThatAnEngineHasNotStopsNobodysTokenisation) {
  DispatchFleet fleet;
  WorkerSpec spec = DispatchFleet::Spec(1);
  spec.lora_adapters = {"a"};
  VirtualEngine& engine = fleet.AddEngine(spec);
  engine.offers_tokenize = false;  // 404, as for a model it does not have
  EXPECT_EQ(fleet.SendAndRun(R"({"model":"a","prompt":"x"})")->status, 200);
  EXPECT_EQ(fleet.observer.tokenized[TokenizeOutcome::kRefused], 1);
  engine.offers_tokenize = true;
  fleet.SendAndRun(Text(0));
  EXPECT_EQ(fleet.observer.tokenized[TokenizeOutcome::kEngine], 1);
  EXPECT_EQ(fleet.observer.tokenized[TokenizeOutcome::kBreakerOpen], 0);
  fleet.ExpectNothingLeft();
}

TEST(TokenizerTest, ASilentEngineCostsTheTimeOutOnce) {
  Fixture f({.timeout = milliseconds(300)});
  f.Fail(Fault::kStallBeforeHead);
  const auto client = f.fleet->Send(Text(0));
  f.fleet->link.Run(milliseconds(299));
  EXPECT_EQ(client->status, 0);
  f.fleet->link.Run(milliseconds(100));
  EXPECT_EQ(client->status, 200);
  EXPECT_EQ(f.Count(TokenizeOutcome::kTimedOut), 1);
  f.fleet->ExpectNothingLeft();
}

TEST(TokenizerTest, HugeTextsThatTimeOutLeaveTheOthersTheirTokens) {
  Fixture f({.timeout = milliseconds(300), .breaker_failures = 3});
  f.Fail(Fault::kStallBeforeHead);
  const auto huge = [](int i) {
    return fmt::format(R"({{"model":"m","prompt":"{} {}"}})", i, std::string(2'000'000, 'x'));
  };
  for (int i = 0; i < 3; ++i) f.fleet->Send(huge(i));
  f.fleet->link.Run(milliseconds(400));
  EXPECT_EQ(f.Count(TokenizeOutcome::kTimedOut), 3);
  EXPECT_EQ(f.fleet->dispatcher.Counters().breakers_open, 1u);
  f.Fail(Fault::kNone);
  f.fleet->Send(huge(4));
  f.fleet->Send(Text(0));
  f.fleet->link.Run(milliseconds(400));
  EXPECT_EQ(f.Count(TokenizeOutcome::kBreakerOpen), 1);
  EXPECT_EQ(f.Count(TokenizeOutcome::kEngine), 1);
  f.fleet->link.Run(seconds(30));
  f.fleet->ExpectNothingLeft();
}

TEST(TokenizerTest, WhatIsOnItsWayIsBounded) {
  Fixture f({.max_in_flight = 2});
  for (int i = 0; i < 5; ++i) f.fleet->Send(Text(i));
  EXPECT_EQ(f.fleet->dispatcher.Counters().tokenize_in_flight, 2u);
  EXPECT_EQ(f.Count(TokenizeOutcome::kOverLimit), 3);
  f.fleet->link.Run(seconds(5));
  EXPECT_EQ(f.fleet->observer.ends.size(), 5u);
  f.fleet->ExpectNothingLeft();
}

TEST(TokenizeCallTest, AnswersOfBothEndpointsAreRead) {
  const auto read = [](std::string body, int status = 200) {
    CollectedAnswer answer;
    answer.status = status;
    answer.body = std::move(body);
    return ReadTokenizeAnswer(answer, 100);
  };
  EXPECT_EQ(*read(R"({"count":2,"tokens":[1,2]})").ids, (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(*read(R"({"token_ids":[3],"x":1})").ids, (std::vector<TokenId>{3}));
  EXPECT_EQ(*read(R"([{"token_ids":[3]}])").ids, (std::vector<TokenId>{3}));
  EXPECT_TRUE(read(R"({"tokens":[]})").ids->empty());
  for (const std::string bad : {R"([{"token_ids":[3]},{"token_ids":[4]}])", R"({"tokens":[-1]})",
                                R"({"tokens":["a"]})", "{}", "x", ""}) {
    SCOPED_TRACE(bad);
    EXPECT_EQ(read(bad).outcome, TokenizeOutcome::kBadAnswer);
    EXPECT_FALSE(read(bad).ids);
  }
  EXPECT_TRUE(read("", 404).not_offered);
  EXPECT_EQ(read("", 422).outcome, TokenizeOutcome::kRefused);
  EXPECT_EQ(read("", 503).outcome, TokenizeOutcome::kFailed);
}

}  // namespace
}  // namespace kvrouter
