#include "sim/player/prompt_body.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace kvrouter::sim {
namespace {

TEST(PromptBodyTest, IsTheJsonOfItsTokens) {
  const std::vector<TokenId> tokens = {0, 7, 7, 4294967295, 7, 0, 0};
  const auto body = nlohmann::json::parse(CompletionRequestBody(tokens, 3, ""));
  EXPECT_EQ(body.at("prompt").get<std::vector<TokenId>>(), tokens);
  EXPECT_EQ(body.at("max_tokens"), 3);
  EXPECT_EQ(body.at("stream"), true);
  EXPECT_FALSE(body.contains("model"));
}

TEST(PromptBodyTest, ModelNamesAreEscaped) {
  const auto body =
      nlohmann::json::parse(CompletionRequestBody(std::vector<TokenId>{1}, 1, "a\"b\\c"));
  EXPECT_EQ(body.at("model"), "a\"b\\c");
}

TEST(PromptBodyTest, NoTokensIsAnEmptyArray) {
  const auto body = nlohmann::json::parse(CompletionRequestBody({}, 1, ""));
  EXPECT_TRUE(body.at("prompt").empty());
}

}  // namespace
}  // namespace kvrouter::sim
