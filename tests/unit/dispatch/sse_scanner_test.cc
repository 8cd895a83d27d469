#include "dispatch/sse_scanner.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "dispatch/openai_reply.h"

namespace kvrouter {
namespace {

const std::string kRole =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
    "\"finish_reason\":null}]}\n\n";
const std::string kToken =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":null}]}\n\n";
const std::string kFinish =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const std::string kUsage =
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":40,\"completion_tokens\":7,"
    "\"prompt_tokens_details\":{\"cached_tokens\":32}}}\n\n";
const std::string kDone = "data: [DONE]\n\n";

TEST(SseScannerTest, KnowsRoleTokenFinishUsageAndEnd) {
  SseScanner scanner;
  EXPECT_EQ(scanner.Feed(": ping\n\n" + kRole), ": ping\n\n" + kRole);
  EXPECT_FALSE(scanner.output_begun());
  EXPECT_EQ(scanner.output_tokens(), 0u);
  scanner.Feed(kToken);
  EXPECT_TRUE(scanner.output_begun());
  EXPECT_EQ(scanner.output_tokens(), 1u);
  EXPECT_FALSE(scanner.finished());
  scanner.Feed(kFinish);
  EXPECT_TRUE(scanner.finished());
  scanner.Feed(kUsage);
  EXPECT_EQ(scanner.usage().cached_tokens, 32u);
  EXPECT_EQ(scanner.usage().prompt_tokens, 40u);
  EXPECT_EQ(scanner.output_tokens(), 7u) << "the engine's own count";
  EXPECT_FALSE(scanner.done());
  scanner.Feed(kDone);
  EXPECT_TRUE(scanner.done());
  EXPECT_TRUE(scanner.Rest().empty());
}

TEST(SseScannerTest, GivesOutWholeEventsWhateverThePieces) {
  const std::string all = kRole + ": note\r\n\r\n" + kToken + "data: a\r\ndata: b\r\n\r\n" +
                          kFinish + kUsage + kDone + "data: the rest";
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    SseScanner scanner;
    std::string passed;
    for (size_t at = 0; at < all.size();) {
      const size_t size =
          std::min<size_t>(1 + random() % (seed % 2 == 0 ? 5 : 200), all.size() - at);
      const std::string piece = all.substr(at, size);
      passed += scanner.Feed(piece);
      at += size;
      ASSERT_TRUE(passed.empty() || passed.ends_with("\n\n") || passed.ends_with("\n\r\n"));
    }
    EXPECT_EQ(passed + std::string(scanner.Rest()), all);
    EXPECT_EQ(scanner.Rest(), "data: the rest");
    EXPECT_TRUE(scanner.done());
    EXPECT_EQ(scanner.output_tokens(), 7u);
  }
}

TEST(SseScannerTest, ErrorsAreEventsObjectsOrFinishes) {
  for (const std::string event :
       {"data: {\"error\":{\"message\":\"x\"}}\n\n",
        "data: {\"object\":\"error\",\"message\":\"x\"}\n\n",
        "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"error\"}]}\n\n"}) {
    SCOPED_TRACE(event);
    SseScanner scanner;
    scanner.Feed(event);
    EXPECT_TRUE(scanner.error());
    EXPECT_FALSE(scanner.output_begun());
  }
  SseScanner scanner;
  scanner.Feed("data: {\"error\":null,\"choices\":[]}\n\n");
  EXPECT_FALSE(scanner.error());
}

TEST(SseScannerTest, WhatItCannotReadTheClientShallHave) {
  SseScanner scanner;
  scanner.Feed("data: not json\n\n");
  EXPECT_TRUE(scanner.output_begun());
}

TEST(SseScannerTest, AnEventOverTheBoundIsPassedOnUnread) {
  SseScanner scanner;
  const std::string piece(100'000, 'x');
  std::string passed;
  size_t sent = 0;
  for (int i = 0; i < 20; ++i) {
    passed += scanner.Feed(piece);
    sent += piece.size();
    ASSERT_LE(scanner.Rest().size(), SseScanner::kMaxEventBytes);
  }
  EXPECT_EQ(passed.size() + scanner.Rest().size(), sent);
  EXPECT_TRUE(scanner.output_begun());
  EXPECT_TRUE(scanner.in_long_event());
}

TEST(SseScannerTest, BehindALongEventItReadsOn) {
  const std::string longest(SseScanner::kMaxEventBytes + 10, 'x');
  for (const std::string_view end : {"\n\n", "\r\n\r\n", "\n\r\n"}) {
    for (const size_t step : {1, 2, 7, 1000}) {
      SCOPED_TRACE(testing::Message() << end.size() << " step " << step);
      SseScanner scanner;
      scanner.WithholdUsage();
      std::string passed(scanner.Feed(kToken + "data: " + longest));
      const std::string tail = std::string(end) + kUsage + kFinish + kUsage + kDone;
      for (size_t at = 0; at < tail.size(); at += step)
        passed += scanner.Feed(std::string_view(tail).substr(at, step));
      EXPECT_TRUE(passed == kToken + "data: " + longest + std::string(end) + kFinish + kDone);
      EXPECT_FALSE(scanner.in_long_event());
      EXPECT_TRUE(scanner.done());
      EXPECT_EQ(scanner.usage().cached_tokens, 32u);
    }
  }
}

TEST(SseScannerTest, WithheldUsageIsReadAndLeftOutWhateverThePieces) {
  const std::string before = kRole + ": note\r\n\r\n" + kToken + kFinish;
  const std::string crlf_usage =
      ": of the end\r\n" + kUsage.substr(0, kUsage.size() - 2) + "\r\n\r\n";
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const std::string all = before + (seed % 3 == 0 ? crlf_usage : kUsage) + kDone + "data: rest";
    SseScanner scanner;
    scanner.WithholdUsage();
    std::string passed;
    for (size_t at = 0; at < all.size();) {
      const size_t size =
          std::min<size_t>(1 + random() % (seed % 2 == 0 ? 5 : 300), all.size() - at);
      passed += scanner.Feed(all.substr(at, size));
      at += size;
    }
    EXPECT_EQ(passed, before + kDone);
    EXPECT_EQ(scanner.TakeRest(), "data: rest");
    EXPECT_EQ(scanner.usage().cached_tokens, 32u);
    EXPECT_EQ(scanner.output_tokens(), 7u);
  }
}

TEST(SseScannerTest, OnlyAnEventOfUsageAloneIsWithheld) {
  for (const std::string& event : {
           kToken.substr(0, kToken.size() - 3) + ",\"usage\":{\"prompt_tokens\":4}}\n\n",
           std::string("data: {\"choices\":[],\"usage\":null}\n\n"),
           std::string("data: {\"choices\":[]}\n\n"),
           std::string("data: {\"usage\":{\"prompt_tokens\":4}}\n\n"),
           std::string("data: {\"choices\":[],\"usage\":{},\"error\":{\"message\":\"x\"}}\n\n"),
           std::string("data: {\"choices\":[],\"usage\":{}\n\n"),
       }) {
    SCOPED_TRACE(event);
    SseScanner scanner;
    scanner.WithholdUsage();
    EXPECT_EQ(scanner.Feed(event), event);
  }
}

TEST(SseScannerTest, WithheldUsageStaysSoWithoutItsLastLineEnd) {
  SseScanner scanner;
  scanner.WithholdUsage();
  EXPECT_EQ(scanner.Feed(kFinish + kUsage.substr(0, kUsage.size() - 1)), kFinish);
  EXPECT_EQ(scanner.TakeRest(), "");
  EXPECT_EQ(scanner.usage().cached_tokens, 32u);
}

TEST(OpenAiReplyTest, CountsChoicesAndIds) {
  EXPECT_EQ(ReadOpenAiReply(R"({"choices":[{"text":"a"},{"text":"b"}]})").output_tokens, 2u);
  EXPECT_EQ(ReadOpenAiReply(R"({"choices":[{"text":"a","token_ids":[1,2,3]}]})").output_tokens, 3u);
  EXPECT_TRUE(
      ReadOpenAiReply(R"({"choices":[{"delta":{"tool_calls":[{"index":0}]}}]})").has_output);
  EXPECT_TRUE(ReadOpenAiReply(R"({"choices":[{"delta":{"reasoning":"hm"}}]})").has_output);
  EXPECT_FALSE(ReadOpenAiReply(R"({"choices":[{"delta":{"tool_calls":[]}}]})").has_output);
  EXPECT_FALSE(ReadOpenAiReply("[1]").is_json);
}

}  // namespace
}  // namespace kvrouter
