#include "sim/wire/kv_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace kvrouter::sim {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Json = nlohmann::ordered_json;

KvTransferConfig BothRoles() {
  return {.producer = true,
          .consumer = true,
          .lease = seconds(30),
          .compatibility = "a",
          .host = "10.0.0.1",
          .port = 8000};
}

Json HoldOne(KvTransfer& engine, uint64_t model_id, MonotonicTime now) {
  const std::vector<uint32_t> blocks = {4, 7};
  return engine.Hold(
      {.request_id = "cmpl-1", .model_id = model_id, .block_ids = blocks, .tokens = 9}, now);
}

KvTransfer::PullAnswer Pull(KvTransfer& engine, const Json& handshake, const std::string& step,
                            MonotonicTime now, const std::string& compatibility = "a") {
  const Json question = {{"engine_id", handshake["remote_engine_id"]},
                         {"request_id", handshake["remote_request_id"]},
                         {"compatibility", compatibility},
                         {"step", step}};
  return engine.AnswerPull(question.dump(), now);
}

TEST(KvParamsTest, RoleIsReadFromTheTwoFlags) {
  EXPECT_EQ(WhatIsAsked(Json()), KvAsk::kNothing);
  EXPECT_EQ(WhatIsAsked(Json::parse("[1]")), KvAsk::kNothing);
  EXPECT_EQ(WhatIsAsked(Json::parse(R"({"do_remote_decode": "yes"})")), KvAsk::kNothing);
  EXPECT_EQ(WhatIsAsked(Json::parse(R"({"do_remote_decode": true})")), KvAsk::kProduce);
  EXPECT_EQ(WhatIsAsked(Json::parse(R"({"do_remote_decode": false, "do_remote_prefill": true})")),
            KvAsk::kConsume);
}

TEST(KvParamsTest, HandshakeIsReadBackInBothFormsOfBlockIds) {
  for (const bool nested : {false, true}) {
    KvTransferConfig config = BothRoles();
    config.nested_block_ids = nested;
    KvTransfer engine(config, "engine");
    const Json handshake = HoldOne(engine, 1, seconds(0));
    EXPECT_EQ(WhatIsAsked(handshake), KvAsk::kConsume);
    const auto source = ReadSource(handshake);
    ASSERT_TRUE(source.has_value());
    EXPECT_EQ(source->blocks, 2u);
    EXPECT_EQ(source->engine_id, "engine");
    EXPECT_EQ(source->host, "10.0.0.1");
    EXPECT_EQ(source->port, 8000);
  }
}

TEST(KvParamsTest, HandshakeWithoutOneOfItsPartsIsIncomplete) {
  KvTransfer engine(BothRoles(), "engine");
  const Json whole = HoldOne(engine, 1, seconds(0));
  for (const char* name : {"remote_engine_id", "remote_request_id", "remote_host", "remote_port",
                           "remote_block_ids"}) {
    Json broken = whole;
    broken[name] = nullptr;
    EXPECT_FALSE(ReadSource(broken).has_value()) << name;
    broken.erase(name);
    EXPECT_FALSE(ReadSource(broken).has_value()) << name;
  }
  Json no_blocks = whole;
  no_blocks["remote_block_ids"] = Json::parse("[[]]");
  EXPECT_FALSE(ReadSource(no_blocks).has_value());
}

TEST(KvTransferTest, RolesThatAnEngineLacksAreNotHeeded) {
  KvTransferConfig producer = BothRoles();
  producer.consumer = false;
  const KvTransfer engine(producer, "engine");
  EXPECT_EQ(engine.Asked(Json::parse(R"({"do_remote_decode": true})")), KvAsk::kProduce);
  EXPECT_EQ(engine.Asked(Json::parse(R"({"do_remote_prefill": true})")), KvAsk::kNothing);
}

TEST(KvTransferTest, FetchedBlocksAreGivenBackOnce) {
  KvTransfer engine(BothRoles(), "engine");
  const Json handshake = HoldOne(engine, 5, seconds(0));
  EXPECT_EQ(Pull(engine, handshake, "begin", seconds(1)).status, 200);
  EXPECT_EQ(engine.pins().blocks(), 2u);
  EXPECT_EQ(Pull(engine, handshake, "end", seconds(2)).released_model_id, 5u);
  EXPECT_EQ(Pull(engine, handshake, "end", seconds(2)).status, 404);
  EXPECT_EQ(engine.pins().blocks(), 0u);
  EXPECT_EQ(engine.pins().totals().fetched, 1u);
  EXPECT_EQ(engine.NextExpiry(), MonotonicTime::max());
}

TEST(KvTransferTest, LeaseEndsUnlessAPullBegins) {
  KvTransfer engine(BothRoles(), "engine");
  const Json pulled = HoldOne(engine, 1, seconds(0));
  HoldOne(engine, 2, seconds(0));
  EXPECT_EQ(engine.NextExpiry(), seconds(30));
  EXPECT_EQ(Pull(engine, pulled, "begin", seconds(10)).status, 200);
  EXPECT_THAT(engine.TakeExpired(MonotonicTime(seconds(30)) - MonotonicTime(1)), IsEmpty());
  EXPECT_THAT(engine.TakeExpired(seconds(30)), ElementsAre(2));
  EXPECT_THAT(engine.TakeExpired(seconds(40)), ElementsAre(1));
  EXPECT_EQ(Pull(engine, pulled, "begin", seconds(40)).status, 404);
  EXPECT_EQ(engine.pins().totals().expired, 2u);
}

TEST(KvTransferTest, RestartedEngineKnowsNothingOfItsFormerLife) {
  KvTransfer engine(BothRoles(), "engine");
  const Json handshake = HoldOne(engine, 1, seconds(0));
  engine.Restart("another");
  EXPECT_EQ(engine.pins().blocks(), 0u);
  const auto answer = Pull(engine, handshake, "begin", seconds(1));
  EXPECT_EQ(answer.status, 409);
  EXPECT_THAT(answer.body, HasSubstr("engine_id"));
}

TEST(KvTransferTest, OtherVersionsAndNonsenseAreRefused) {
  KvTransfer engine(BothRoles(), "engine");
  const Json handshake = HoldOne(engine, 1, seconds(0));
  EXPECT_EQ(Pull(engine, handshake, "begin", seconds(1), "b").status, 409);
  EXPECT_EQ(engine.AnswerPull("", seconds(1)).status, 400);
  EXPECT_EQ(engine.AnswerPull("{}", seconds(1)).status, 409);
  EXPECT_EQ(engine.pins().size(), 1u);
}

}  // namespace
}  // namespace kvrouter::sim
