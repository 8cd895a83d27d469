#include "dispatch/body_edit.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "base/json_text.h"
#include "dispatch/leg_bodies.h"

namespace kvrouter {
namespace {

using Json = nlohmann::json;

std::string Edited(const std::string& text, const BodyEdit& edit) {
  const auto object = JsonObject::Of(text);
  return object ? edit.Apply(*object) : "no object";
}
std::string Set(const std::string& text, std::string_view key, std::string value) {
  BodyEdit edit;
  edit.Set(key, std::move(value));
  return Edited(text, edit);
}
std::string Remove(const std::string& text, std::string_view key) {
  BodyEdit edit;
  edit.Remove(key);
  return Edited(text, edit);
}

TEST(BodyEditTest, OnlyTheBytesOfTheMemberChange) {
  const std::string text = "\n{ \"a\" : 1.50e+0 ,\t\"b\":[1,{\"a\":\"x\\\"}\"}], \"c\":null }\n";
  EXPECT_EQ(Set(text, "b", "7"), "\n{ \"a\" : 1.50e+0 ,\t\"b\":7, \"c\":null }\n");
  EXPECT_EQ(Set(text, "d", "\"new\""),
            "\n{ \"a\" : 1.50e+0 ,\t\"b\":[1,{\"a\":\"x\\\"}\"}], \"c\":null,\"d\":\"new\" }\n");
  EXPECT_EQ(Remove(text, "a"), "\n{ \"b\":[1,{\"a\":\"x\\\"}\"}], \"c\":null }\n");
  EXPECT_EQ(Remove(text, "b"), "\n{ \"a\" : 1.50e+0, \"c\":null }\n");
  EXPECT_EQ(Remove(text, "c"), "\n{ \"a\" : 1.50e+0 ,\t\"b\":[1,{\"a\":\"x\\\"}\"}] }\n");
  EXPECT_EQ(Remove(text, "z"), text);
}

TEST(BodyEditTest, EmptyObjectsAndLastMembers) {
  EXPECT_EQ(Set("{}", "a", "1"), "{\"a\":1}");
  EXPECT_EQ(Set("{ }", "a", "1"), "{\"a\":1 }");
  EXPECT_EQ(Remove("{\"a\":1}", "a"), "{}");
  EXPECT_EQ(Remove("{\"a\":1,\"a\":2}", "a"), "{}");
}

TEST(BodyEditTest, OfAKeyThatIsThereTwiceTheLastCountsAndOneStays) {
  const std::string text = R"({"a":1,"b":2,"a":3})";
  EXPECT_EQ(JsonObject::Of(text)->Find("a"), "3");
  EXPECT_EQ(Set(text, "a", "9"), R"({"b":2,"a":9})");
}

TEST(BodyEditTest, EscapedKeysAreTheKeysTheyMean) {
  EXPECT_EQ(Set(R"({"\u0070rompt":"x"})", "prompt", "[1]"), R"({"\u0070rompt":[1]})");
  EXPECT_EQ(Remove(R"({"str\u0065am":true,"n\/a":1})", "stream"), R"({"n\/a":1})");
}

TEST(BodyEditTest, WhatIsNoObjectIsNone) {
  for (const std::string text : {"", "[]", "7", "{", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,",
                                 "{\"a\":\"x", "{\"a\":[1", "{a:1}", "{\"a\" 1}", "{\"a\":}"}) {
    SCOPED_TRACE(text);
    EXPECT_FALSE(JsonObject::Of(text));
  }
}

std::string RandomJson(std::mt19937_64& random, int depth) {
  const auto space = [&random] { return std::string(random() % 3, " \n\t"[random() % 3]); };
  switch (random() % (depth > 3 ? 5 : 7)) {
    case 0:
      return std::to_string(static_cast<int64_t>(random()));
    case 1:
      return "-1.5E+3";
    case 2:
      return "null";
    case 3:
      return "true";
    case 4:
      return R"("a\"b\\\u00fc}]{[,: )" + std::string(random() % 5, 'x') + "\"";
    case 5: {
      std::string text = "[" + space();
      const auto count = random() % 4;
      for (uint64_t i = 0; i < count; ++i)
        text += (i > 0 ? "," + space() : "") + RandomJson(random, depth + 1) + space();
      return text + "]";
    }
    default: {
      std::string text = "{" + space();
      const auto count = random() % 5;
      for (uint64_t i = 0; i < count; ++i) {
        text += (i > 0 ? "," + space() : "") + "\"k" + std::to_string(i) + "\"" + space() + ":" +
                space() + RandomJson(random, depth + 1) + space();
      }
      return text + "}";
    }
  }
}

TEST(BodyEditTest, AgreesWithAnEditOfTheParsedTree) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    std::mt19937_64 random(seed);
    std::string text = RandomJson(random, 0);
    SCOPED_TRACE(fmt::format("seed={} text={}", seed, text));
    const auto object = JsonObject::Of(text);
    Json tree = Json::parse(text);
    ASSERT_EQ(object.has_value(), tree.is_object());
    if (!object) continue;
    BodyEdit edit;
    for (int i = 0; i < 3; ++i) {
      const std::string key = "k" + std::to_string(random() % 6);
      if (random() % 2 == 0) {
        const std::string value = RandomJson(random, 2);
        edit.Set(key, value);
        tree[key] = Json::parse(value);
      } else {
        edit.Remove(key);
        tree.erase(key);
      }
    }
    ASSERT_EQ(Json::parse(edit.Apply(*object)), tree);
    ASSERT_EQ(BodyEdit().Apply(*object), text);
  }
}

TEST(LegBodiesTest, TheProducersBodyKeepsWhatDecidesThePrompt) {
  const std::string body =
      R"({"model":"m","prompt":"text","stream":true,"stream_options":{"include_usage":true},"n":4,)"
      R"("best_of":4,"min_tokens":9,"max_completion_tokens":100,"temperature":0.70,)"
      R"("x_unknown":[1e2]})";
  const auto object = JsonObject::Of(body);
  const std::vector<TokenId> ids = {1, 22, 4294967295};
  EXPECT_EQ(
      ProducerBody(*object, {.prompt_ids = ids, .cache_salt = "s\""}),
      R"({"model":"m","prompt":[1,22,4294967295],"stream":false,"n":1,"max_completion_tokens":1,)"
      R"("temperature":0.70,"x_unknown":[1e2],"cache_salt":"s\"","max_tokens":1,)"
      R"("kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,)"
      R"("remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}})");
}

TEST(LegBodiesTest, TheConsumersBodyIsTheClientsWithTheHandshakeAsItCame) {
  const auto object = JsonObject::Of(R"({"prompt":[1, 2],"stream":true})");
  EXPECT_EQ(ConsumerBody(*object, {}, R"({"remote_block_ids" : [[1],[ ]],"new":1.0})"),
            R"({"prompt":[1, 2],"stream":true,)"
            R"("kv_transfer_params":{"remote_block_ids" : [[1],[ ]],"new":1.0}})");
}

TEST(LegBodiesTest, SelectedMembersAreAsTheyWere) {
  const auto object = JsonObject::Of(R"({"a":1.0,"m":[ {"x":"y"} ],"b":2})");
  EXPECT_EQ(SelectMembers(*object, {"m", "missing", "a"}), R"({"m":[ {"x":"y"} ],"a":1.0})");
}

TEST(JsonTextTest, StringsAreEscapedAndValid) {
  std::string out;
  AppendJsonString("a\"\\\n\x01\xff", &out);
  EXPECT_EQ(out, "\"a\\\"\\\\\\u000a\\u0001\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace kvrouter
