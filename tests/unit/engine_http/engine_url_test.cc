#include "adapters/engine_http/engine_url.h"

#include <gtest/gtest.h>

#include <string>

#include "adapters/engine_http/engine_request.h"

namespace kvrouter {
namespace {

TEST(EngineUrlTest, PartsAndDefaults) {
  const auto plain = ParseEngineUrl("http://10.0.0.1:8000");
  ASSERT_TRUE(plain.ok());
  EXPECT_FALSE(plain->tls);
  EXPECT_EQ(plain->host, "10.0.0.1");
  EXPECT_EQ(plain->port, 8000);
  EXPECT_EQ(plain->prefix, "");
  EXPECT_EQ(plain->Authority(), "10.0.0.1:8000");

  const auto tls = ParseEngineUrl("HTTPS://Gpu-3.Example/engines/7//");
  ASSERT_TRUE(tls.ok());
  EXPECT_TRUE(tls->tls);
  EXPECT_EQ(tls->host, "gpu-3.example");
  EXPECT_EQ(tls->port, 443);
  EXPECT_EQ(tls->prefix, "/engines/7");
  EXPECT_EQ(tls->Authority(), "gpu-3.example");

  EXPECT_EQ(ParseEngineUrl("http://engine")->port, 80);
  EXPECT_EQ(ParseEngineUrl("http://engine:443")->Authority(), "engine:443");
  EXPECT_EQ(ParseEngineUrl("https://engine:80/")->Authority(), "engine:80");
}

TEST(EngineUrlTest, Ipv6AddressesAreInBrackets) {
  const auto url = ParseEngineUrl("http://[FD00::1]:8000/x");
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url->host, "fd00::1");
  EXPECT_EQ(url->port, 8000);
  EXPECT_EQ(url->prefix, "/x");
  EXPECT_EQ(url->Authority(), "[fd00::1]:8000");
  EXPECT_EQ(ParseEngineUrl("http://[::1]")->Authority(), "[::1]");
}

TEST(EngineUrlTest, WhatIsNoEngineAddressIsRefusedWithItsCause) {
  const struct {
    std::string url;
    std::string_view cause;
  } kCases[] = {
      {"", "neither http:// nor https://"},
      {"10.0.0.1:8000", "neither http:// nor https://"},
      {"ftp://engine", "neither http:// nor https://"},
      {"http:/engine", "neither http:// nor https://"},
      {"http://", "no host"},
      {"http://:8000", "no host"},
      {"http:///v1", "no host"},
      {"http://[]", "no host"},
      {"http://[::1", "a [ without its ]"},
      {"http://[::1]8000", "something between ] and the port"},
      {"http://fe80::1", "the port"},
      {"http://[fe80::1%25eth0]", "a byte that no host has"},
      {"http://engine:", "the port"},
      {"http://engine:0", "the port"},
      {"http://engine:65536", "the port"},
      {"http://engine:80x", "the port"},
      {"http://engine:-1", "the port"},
      {"http://engine:+80", "the port"},
      {"http://user@engine", "a user name"},
      {"http://engine/v1?x=1", "a query or fragment"},
      {"http://engine#x", "a query or fragment"},
      {"http://eng ine", "printable"},
      {"http://engine/\r\nx: y", "printable"},
      {"http://engine\xc3\xa4", "printable"},
      {"http://engine,other", "a byte that no host has"},
      {"http://" + std::string(300, 'a'), "host of 300 bytes"},
      {"http://engine/" + std::string(3000, 'a'), "3014 bytes"},
  };
  for (const auto& [url, cause] : kCases) {
    const auto parsed = ParseEngineUrl(url);
    ASSERT_FALSE(parsed.ok()) << url;
    const std::string message(parsed.status().message());
    EXPECT_NE(message.find(cause), std::string::npos) << message;
    EXPECT_LT(message.size(), 250u);
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

EngineCall ACall(std::string method, std::string path) {
  EngineCall call;
  call.method = std::move(method);
  call.path = std::move(path);
  return call;
}

TEST(EngineRequestTest, LengthIsSaidWhereABodyIsExpected) {
  const EngineUrl url = *ParseEngineUrl("http://engine:8000");
  EXPECT_EQ(*FormatRequestHead(url, ACall("GET", "/v1/models")),
            "GET /v1/models HTTP/1.1\r\nhost: engine:8000\r\n\r\n");
  EXPECT_EQ(*FormatRequestHead(url, ACall("POST", "/reset")),
            "POST /reset HTTP/1.1\r\nhost: engine:8000\r\ncontent-length: 0\r\n\r\n");
}

TEST(EngineRequestTest, MethodAndPathMustStayOneLine) {
  const EngineUrl url = *ParseEngineUrl("http://engine");
  for (const char* method : {"", "GET /x", "GE\r\nT"}) {
    EXPECT_FALSE(FormatRequestHead(url, ACall(method, "/")).ok());
  }
  for (const char* path : {"", "x", "/a b", "/a\r\n", "/\xc3\xa4"}) {
    EXPECT_FALSE(FormatRequestHead(url, ACall("GET", path)).ok());
  }
}

}  // namespace
}  // namespace kvrouter
