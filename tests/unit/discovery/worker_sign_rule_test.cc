#include "adapters/discovery/worker_sign_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace kvrouter {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint32_t kBlock = 16;

WorkerSpec AWorkerWithEvents() {
  WorkerSpec spec;
  spec.id = WorkerId{1};
  spec.address = "http://10.0.0.1:8000";
  spec.block_size_tokens = kBlock;
  spec.events[0] = {.live = "tcp://10.0.0.1:5557", .replay = "tcp://10.0.0.1:5558"};
  return spec;
}

EngineFacts AWellEngine() {
  return {.answers = true,
          .models = {"m"},
          .block_size_tokens = kBlock,
          .total_kv_blocks = 1000,
          .prefix_caching = true,
          .queried_tokens = 0,
          .hit_tokens = 0,
          .finished_requests = 0};
}

std::vector<std::string_view> SignsOf(const WorkerSpec& spec, const EngineFacts& facts) {
  return NamesOf(WorkerSignRule().Weigh(spec, facts, 0, seconds(0)));
}

TEST(WorkerSignRuleTest, WellEngineHasNone) {
  EXPECT_THAT(SignsOf(AWorkerWithEvents(), AWellEngine()), IsEmpty());
}

TEST(WorkerSignRuleTest, WhatAnEngineDoesNotSayIsNoMismatch) {
  EngineFacts facts;
  facts.answers = true;
  EXPECT_THAT(SignsOf(AWorkerWithEvents(), facts), IsEmpty());
}

TEST(WorkerSignRuleTest, EachMismatchHasItsName) {
  EngineFacts facts = AWellEngine();
  facts.block_size_tokens = 32;
  EXPECT_THAT(SignsOf(AWorkerWithEvents(), facts), ElementsAre("block_size"));
  facts = AWellEngine();
  facts.prefix_caching = false;
  EXPECT_THAT(SignsOf(AWorkerWithEvents(), facts), ElementsAre("prefix_caching_off"));
  facts = AWellEngine();
  facts.answers = false;
  EXPECT_THAT(SignsOf(AWorkerWithEvents(), facts), ElementsAre("unreachable"));
  WorkerSpec spec = AWorkerWithEvents();
  spec.model_name = "other";
  EXPECT_THAT(SignsOf(spec, AWellEngine()), ElementsAre("model_name"));
  spec.model_name = "m";
  EXPECT_THAT(SignsOf(spec, AWellEngine()), IsEmpty());
}

// What is weighed at second `at`, with totals so far; `messages` of events.
struct Look {
  int at;
  double queried;
  double hits;
  double requests;
  uint64_t messages;
  bool silent;
  double live = 0;
};

void Expect(const std::vector<Look>& looks) {
  WorkerSignRule rule;
  for (const Look& look : looks) {
    EngineFacts facts = AWellEngine();
    facts.queried_tokens = look.queried;
    facts.hit_tokens = look.hits;
    facts.finished_requests = look.requests;
    facts.live_requests = look.live;
    const auto names =
        NamesOf(rule.Weigh(AWorkerWithEvents(), facts, look.messages, seconds(look.at)));
    EXPECT_EQ(names == std::vector<std::string_view>{"silent_publisher"}, look.silent)
        << "second " << look.at;
  }
}

TEST(WorkerSignRuleTest, EngineThatComputesBlocksWithoutEventsIsSilentAfterTheGrace) {
  Expect({{.at = 0, .queried = 1000, .hits = 0, .requests = 1, .messages = 0, .silent = false},
          {.at = 5, .queried = 2000, .hits = 0, .requests = 2, .messages = 0, .silent = false},
          {.at = 14, .queried = 2000, .hits = 0, .requests = 2, .messages = 0, .silent = false},
          {.at = 15, .queried = 2000, .hits = 0, .requests = 2, .messages = 0, .silent = true}});
}

TEST(WorkerSignRuleTest, GoodHitRateHidesNoSilence) {
  Expect(
      {{.at = 0, .queried = 0, .hits = 0, .requests = 0, .messages = 0, .silent = false},
       {.at = 5, .queried = 100000, .hits = 90000, .requests = 10, .messages = 0, .silent = false},
       {.at = 9, .queried = 900000, .hits = 880000, .requests = 90, .messages = 0, .silent = false},
       {.at = 15,
        .queried = 900000,
        .hits = 880000,
        .requests = 90,
        .messages = 0,
        .silent = true}});
}

TEST(WorkerSignRuleTest, IdleEngineIsNotSilent) {
  Expect({{.at = 0, .queried = 1000, .hits = 0, .requests = 9, .messages = 3, .silent = false},
          {.at = 3600, .queried = 1000, .hits = 0, .requests = 9, .messages = 3, .silent = false}});
}

// Short prompts fill no block; of a prompt that is cached whole the last block is computed again.
TEST(WorkerSignRuleTest, RequestsThatMakeNoBlocksAreNoSilence) {
  Expect({{.at = 0, .queried = 0, .hits = 0, .requests = 0, .messages = 3, .silent = false},
          {.at = 5, .queried = 15000, .hits = 0, .requests = 1000, .messages = 3, .silent = false},
          {.at = 60,
           .queried = 175000,
           .hits = 144000,
           .requests = 2000,
           .messages = 3,
           .silent = false}});
}

TEST(WorkerSignRuleTest, LiveRequestsMayNotHaveMadeTheirBlocksYet) {
  Expect({{.at = 0, .queried = 0, .hits = 0, .requests = 0, .messages = 0, .silent = false},
          {.at = 5,
           .queried = 1600,
           .hits = 0,
           .requests = 0,
           .messages = 0,
           .silent = false,
           .live = 100},
          {.at = 60, .queried = 1600, .hits = 0, .requests = 100, .messages = 0, .silent = false}});
}

TEST(WorkerSignRuleTest, MessageEndsTheSilence) {
  Expect({{.at = 0, .queried = 0, .hits = 0, .requests = 0, .messages = 0, .silent = false},
          {.at = 5, .queried = 1000, .hits = 0, .requests = 1, .messages = 0, .silent = false},
          {.at = 20, .queried = 2000, .hits = 0, .requests = 2, .messages = 0, .silent = true},
          {.at = 25, .queried = 3000, .hits = 0, .requests = 3, .messages = 1, .silent = false},
          {.at = 60, .queried = 3000, .hits = 0, .requests = 3, .messages = 1, .silent = false},
          {.at = 65, .queried = 4000, .hits = 0, .requests = 4, .messages = 1, .silent = false},
          {.at = 75, .queried = 4000, .hits = 0, .requests = 4, .messages = 1, .silent = true}});
}

TEST(WorkerSignRuleTest, CountersThatFallBackBeginAgain) {
  Expect({{.at = 0, .queried = 0, .hits = 0, .requests = 0, .messages = 0, .silent = false},
          {.at = 5, .queried = 5000, .hits = 0, .requests = 5, .messages = 0, .silent = false},
          {.at = 20, .queried = 100, .hits = 0, .requests = 1, .messages = 0, .silent = false},
          {.at = 21, .queried = 2000, .hits = 0, .requests = 2, .messages = 0, .silent = false}});
}

TEST(WorkerSignRuleTest, AnEngineThatDoesNotCountIsNotCalledSilent) {
  WorkerSignRule rule;
  EngineFacts facts = AWellEngine();
  facts.finished_requests.reset();
  for (int at = 0; at < 100; at += 5) {
    facts.queried_tokens = 1000 * at;
    EXPECT_THAT(NamesOf(rule.Weigh(AWorkerWithEvents(), facts, 0, seconds(at))), IsEmpty());
  }
}

TEST(WorkerSignRuleTest, NumbersThatAreNoneAreNoSilence) {
  Expect({{.at = 0, .queried = 0, .hits = 0, .requests = 0, .messages = 0, .silent = false},
          {.at = 5,
           .queried = std::numeric_limits<double>::quiet_NaN(),
           .hits = 0,
           .requests = 1,
           .messages = 0,
           .silent = false},
          {.at = 60,
           .queried = std::numeric_limits<double>::quiet_NaN(),
           .hits = 0,
           .requests = 1,
           .messages = 0,
           .silent = false}});
}

TEST(WorkerSignRuleTest, WorkerWithoutEventsOwesNone) {
  WorkerSpec spec = AWorkerWithEvents();
  spec.events.clear();
  WorkerSignRule rule;
  EngineFacts facts = AWellEngine();
  for (int at = 0; at < 100; at += 5) {
    facts.queried_tokens = 1000 * at;
    facts.finished_requests = at / 5;
    EXPECT_THAT(NamesOf(rule.Weigh(spec, facts, 0, seconds(at))), IsEmpty());
  }
}

}  // namespace
}  // namespace kvrouter
