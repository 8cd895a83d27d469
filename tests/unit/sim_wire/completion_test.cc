#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "sim/wire/completion_reply.h"
#include "sim/wire/completion_request.h"
#include "sim/wire/sim_tokenizer.h"

namespace kvrouter::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Problem(const std::string& body, const CompletionLimits& limits = {}) {
  const auto request = ParseCompletionRequest(body, limits);
  return request.ok()
             ? ""
             : std::string(request.status().message().data(), request.status().message().size());
}

TEST(CompletionRequestTest, MembersMayComeInAnyOrderAndUnknownOnesAreIgnored) {
  const auto request = ParseCompletionRequest(
      R"({"top_p": 0.5, "logit_bias": {"1": [2, {"a": "b"}]},
          "stream_options": {"x": 1, "include_usage": true},
          "max_tokens": 7, "prompt": [1, 2, 4294967295], "stream": true, "model": "m\u0061"})",
      {});
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_THAT(request->prompt_tokens, ElementsAre(1, 2, 4294967295));
  EXPECT_EQ(request->max_tokens, 7u);
  EXPECT_TRUE(request->stream);
  EXPECT_TRUE(request->include_usage);
  EXPECT_EQ(request->model, "ma");
}

TEST(CompletionRequestTest, NullMeansDefault) {
  const auto request = ParseCompletionRequest(
      R"({"prompt": "a", "max_tokens": null, "stream": null, "stream_options": null,)"
      R"( "cache_salt": null})",
      {});
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(request->max_tokens, 16u);
  EXPECT_FALSE(request->stream);
}

TEST(CompletionRequestTest, EveryByteOfATextIsOneToken) {
  const auto request = ParseCompletionRequest(R"({"prompt": "a\u00e9"})", {});
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_THAT(request->prompt_tokens, ElementsAre('a', 0xc3, 0xa9));
}

TEST(CompletionRequestTest, MoreOutputThanAllowedToGenerateIsRefused) {
  EXPECT_EQ(Problem(R"({"prompt": [1], "min_tokens": 2, "max_tokens": 2})"), "");
  EXPECT_THAT(Problem(R"({"min_tokens": 2, "prompt": [1], "max_tokens": 1})"),
              HasSubstr("min_tokens: 2"));
}

TEST(CompletionRequestTest, ChoicesAreBounded) {
  const auto request = ParseCompletionRequest(R"({"prompt": [1], "n": 3})", {});
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(request->choices, 3u);
  EXPECT_THAT(Problem(R"({"prompt": [1], "n": 129})"), HasSubstr("1..128"));
  EXPECT_THAT(Problem(R"({"prompt": [1], "n": 0})"), HasSubstr("1..128"));
}

TEST(ChatRequestTest, ConversationBecomesThePromptInAnyOrderOfMembers) {
  const auto request = ParseChatRequest(
      R"({"max_tokens": 5, "tools": [{"a": 1}], "messages": [{"role": "user", "content": "x"}],
          "max_completion_tokens": 3, "prompt": 7})",
      "", {});
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_TRUE(request->chat);
  EXPECT_EQ(request->max_tokens, 3u);
  EXPECT_EQ(TokensText(request->prompt_tokens),
            "<|tools|>[{\"a\":1}]<|end|>\n<|user|>x<|end|>\n<|assistant|>");
}

TEST(ChatRequestTest, ErrorsNameTheMember) {
  const auto problem = [](const std::string& body) {
    const auto request = ParseChatRequest(body, "", {.prompt_tokens = 40});
    return request.ok() ? "" : request.status().ToString();
  };
  EXPECT_EQ(problem(R"({"messages": [{"role": "user", "content": "x"}]})"), "");
  EXPECT_THAT(problem(R"({"prompt": [1]})"), HasSubstr("messages"));
  EXPECT_THAT(problem(R"({"messages": [{"role": "user", "content": "0123456789012345"}]})"),
              HasSubstr("the limit is 40"));
}

TEST(CompletionRequestTest, LimitsHoldAtTheirEdges) {
  const CompletionLimits limits{.prompt_tokens = 2, .max_tokens = 3};
  EXPECT_EQ(Problem(R"({"prompt": [1, 2], "max_tokens": 3})", limits), "");
  EXPECT_THAT(Problem(R"({"prompt": [1, 2, 3]})", limits), HasSubstr("more than 2 tokens"));
  EXPECT_THAT(Problem(R"({"prompt": "abc"})", limits), HasSubstr("the limit is 2"));
  EXPECT_THAT(Problem(R"({"prompt": [1], "max_tokens": 4})", limits), HasSubstr("1..3"));
}

TEST(CompletionRequestTest, ErrorsNameTheMember) {
  EXPECT_THAT(Problem(R"({"prompt": [1, 2, -3]})"), HasSubstr("prompt[2]"));
  EXPECT_THAT(Problem(R"({"prompt": [1], "cache_salt": "s"})"), HasSubstr("cache_salt"));
  EXPECT_THAT(Problem(R"({"max_tokens": 1})"), HasSubstr("prompt: missing"));
  EXPECT_THAT(Problem(R"({"prompt": [1], "stream_options": {"include_usage": 1}})"),
              HasSubstr("stream_options.include_usage"));
  EXPECT_THAT(Problem(R"({"prompt": [1], "stream_options": {}})"), HasSubstr("stream_options"));
}

TEST(CompletionRequestTest, TornBodiesAreRefused) {
  const std::string body = R"({"prompt": [1, 2], "max_tokens": 3, "stream": true, "model": "m"})";
  for (size_t length = 0; length < body.size(); ++length) {
    EXPECT_NE(Problem(body.substr(0, length)), "") << length;
  }
}

TEST(CompletionReplyTest, ErrorsQuoteBytesThatAreNotText) {
  const auto error =
      nlohmann::json::parse(ErrorBody("model '\xff' is \"not\" served", "not_found_error", 404));
  EXPECT_EQ(error["error"]["code"], 404);
}

}  // namespace
}  // namespace kvrouter::sim
