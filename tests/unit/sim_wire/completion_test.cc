#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "sim/wire/completion_reply.h"
#include "sim/wire/completion_request.h"

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
      R"({"top_p": 0.5, "logit_bias": {"1": [2, {"a": "b"}]}, "stream_options": {"x": 1, "include_usage": true},
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
      R"({"prompt": "a", "max_tokens": null, "stream": null, "stream_options": null, "cache_salt": null})",
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
