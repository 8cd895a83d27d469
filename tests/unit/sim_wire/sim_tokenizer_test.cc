#include "sim/wire/sim_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace kvrouter::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using Json = nlohmann::ordered_json;

std::string Rendered(const std::string& conversation, std::string_view template_name = "") {
  const auto text = RenderChat(Json::parse(conversation), template_name);
  return text.ok() ? *text
                   : "error: " + std::string(text.status().message().data(),
                                             text.status().message().size());
}

TEST(SimTokenizerTest, TextsComeBackFromTheirTokens) {
  EXPECT_THAT(TextTokens("a\xc3\xa9"), ElementsAre('a', 0xc3, 0xa9));
  EXPECT_EQ(TokensText(TextTokens("a\xc3\xa9 b")), "a\xc3\xa9 b");
  EXPECT_EQ(TokensText(std::vector<TokenId>{'a', 256}), "a<|256|>");
}

TEST(SimTokenizerTest, AnswerDependsOnPromptChoiceAndPlaceOnly) {
  const uint64_t prompt = PromptHash(std::vector<TokenId>{1, 2, 3});
  const std::string whole = OutputText(prompt, {.tokens = 40});
  EXPECT_EQ(whole.size(), 40u);
  EXPECT_EQ(
      OutputText(prompt, {.tokens = 15}) + OutputText(prompt, {.first_token = 15, .tokens = 25}),
      whole);
  std::set<std::string> others = {whole, OutputText(prompt, {.choice = 1, .tokens = 40})};
  for (const std::vector<TokenId>& tokens :
       {std::vector<TokenId>{1, 2}, {1, 2, 4}, {3, 2, 1}, {1, 2, 3, 0}}) {
    others.insert(OutputText(PromptHash(tokens), {.tokens = 40}));
  }
  EXPECT_EQ(others.size(), 6u);
}

TEST(SimTokenizerTest, NextTurnBeginsWithTheTokensOfTheTurnBefore) {
  const std::string first = Rendered(R"({"messages": [{"role": "user", "content": "hi"}]})");
  const std::string next = Rendered(
      R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"},
          {"role": "user", "content": "and"}]})");
  EXPECT_THAT(next, StartsWith(first + "yes"));
}

TEST(SimTokenizerTest, EverythingTheModelWouldSeeChangesTheText) {
  const std::set<std::string> texts = {
      Rendered(R"({"messages": [{"role": "user", "content": "hi"}]})"),
      Rendered(R"({"messages": [{"role": "user", "content": "hi"}]})", "other"),
      Rendered(R"({"messages": [{"role": "system", "content": "hi"}]})"),
      Rendered(
          R"({"messages": [{"role": "user", "content": "hi"}], "add_generation_prompt": false})"),
      Rendered(
          R"({"messages": [{"role": "user", "content": "hi"}], "tools": [{"type": "function"}]})"),
      Rendered(
          R"({"messages": [{"role": "user", "content": "hi"}], "chat_template_kwargs": {"a": 1}})"),
      Rendered(R"({"messages": [{"role": "user", "content": "hi", "name": "n"}]})"),
      Rendered(R"({"messages": [{"role": "user", "content": )"
               R"([{"type": "image_url", "image_url": {}}]}]})"),
  };
  EXPECT_EQ(texts.size(), 8u);
  EXPECT_EQ(
      Rendered(R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]})"),
      Rendered(R"({"messages": [{"content": "hi", "role": "user"}], "temperature": 1})"));
}

TEST(SimTokenizerTest, BadConversationsAreNamed) {
  EXPECT_THAT(Rendered("{}"), HasSubstr("messages"));
  EXPECT_THAT(Rendered(R"({"messages": []})"), HasSubstr("messages"));
  EXPECT_THAT(Rendered(R"({"messages": [{"role": "user"}, 3]})"), HasSubstr("messages[1]"));
  EXPECT_THAT(Rendered(R"({"messages": [{"role": "user", "content": 3}]})"),
              HasSubstr("messages[0].content"));
  EXPECT_THAT(Rendered(R"({"messages": [{"role": "user"}], "add_generation_prompt": 1})"),
              HasSubstr("add_generation_prompt"));
}

}  // namespace
}  // namespace kvrouter::sim
