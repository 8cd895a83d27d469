#include "adapters/http/http_format.h"

#include <gtest/gtest.h>

namespace kvrouter {
namespace {

TEST(HttpFormatTest, HeadNamesLengthAndOmitsConnectionWhenKept) {
  EXPECT_EQ(FormatHead({.content_type = "text/plain", .headers = {}, .body = "hello"}, {}),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\n");
}

TEST(HttpFormatTest, ChunkedHeadHasNoLength) {
  const std::string head = FormatHead({.status = 503, .headers = {}, .body = ""},
                                      {.framing = BodyFraming::kChunked, .keep_alive = false});
  EXPECT_EQ(head,
            "HTTP/1.1 503 Service Unavailable\r\nContent-Type: "
            "application/json\r\nTransfer-Encoding: chunked\r\n"
            "Connection: close\r\n\r\n");
}

TEST(HttpFormatTest, OldClientIsToldThatTheConnectionStays) {
  EXPECT_NE(FormatHead({}, {.http_1_0 = true}).find("Connection: keep-alive\r\n"),
            std::string::npos);
}

TEST(HttpFormatTest, HeaderValueCannotSmuggleAnotherHeader) {
  const std::string head =
      FormatHead({.headers = {{"X-Id", "a\r\nSet-Cookie: b"}, {"X-Ok", "c"}}, .body = ""}, {});
  EXPECT_EQ(head.find("Set-Cookie"), std::string::npos);
  EXPECT_NE(head.find("X-Ok: c\r\n"), std::string::npos);
}

TEST(HttpFormatTest, ChunkSizeIsHexadecimalAndEmptyChunkIsNothing) {
  EXPECT_EQ(FormatChunk(std::string(26, 'x')), "1a\r\n" + std::string(26, 'x') + "\r\n");
  EXPECT_EQ(FormatChunk(""), "");
}

TEST(HttpFormatTest, ErrorMessageIsEscaped) {
  EXPECT_EQ(ErrorResponse(400, "a \"b\" \\ \n").body, R"({"error":"a \"b\" \\ \u000a"})");
}

TEST(HttpFormatTest, ErrorMessageIsUtf8WhateverItQuotes) {
  const auto body_with = [](const std::string& quoted) { return ErrorResponse(404, quoted).body; };
  EXPECT_EQ(body_with("\u00e9 \u20ac \U0001f600"), "{\"error\":\"\u00e9 \u20ac \U0001f600\"}");
  for (const char* bad : {"\xff", "\x80", "\xc0", "\xe2", "\xed", "\xf5"})
    EXPECT_EQ(body_with(bad), "{\"error\":\"\uFFFD\"}");
  EXPECT_EQ(body_with("\xe2\x82"), "{\"error\":\"\uFFFD\uFFFD\"}") << "cut short";
  EXPECT_EQ(body_with("\xc0\xaf"), "{\"error\":\"\uFFFD\uFFFD\"}") << "overlong";
  EXPECT_EQ(body_with("\xed\xa0\x80"), "{\"error\":\"\uFFFD\uFFFD\uFFFD\"}") << "surrogate";
}

TEST(HttpFormatTest, TargetSplitsQueryAndAbsoluteForm) {
  EXPECT_EQ(SplitTarget("/a/b?c=d?e").path, "/a/b");
  EXPECT_EQ(SplitTarget("/a/b?c=d?e").query, "c=d?e");
  EXPECT_EQ(SplitTarget("http://host:80/live").path, "/live");
  EXPECT_EQ(SplitTarget("http://host").path, "/");
}

TEST(HttpFormatTest, HostPortAcceptsNamesAndBracketedIpv6) {
  const auto v4 = ParseHostPort("127.0.0.1:8092");
  ASSERT_TRUE(v4.ok());
  EXPECT_EQ(v4->host, "127.0.0.1");
  EXPECT_EQ(v4->port, 8092);
  const auto v6 = ParseHostPort("[::1]:0");
  ASSERT_TRUE(v6.ok());
  EXPECT_EQ(v6->host, "::1");
  EXPECT_EQ(v6->port, 0);
}

TEST(HttpFormatTest, HostPortRefusesWhatIsNoAddress) {
  for (const char* bad : {"", "localhost", ":8092", "::1:8092", "host:", "host:-1", "host:65536",
                          "host:80x", "host: 80"}) {
    EXPECT_FALSE(ParseHostPort(bad).ok()) << "'" << bad << "'";
  }
}

}  // namespace
}  // namespace kvrouter
