// Clients that do what they should not: each is bounded, is told why where it may still listen, and
// harms nobody else.

#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "door_fixture.h"

namespace kvrouter {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;

class OpenAiDoorAbuseTest : public DoorFixture {
 protected:
  // The code of an error in OpenAI's shape.
  static std::string CodeOf(const BlockingClient::Answer& answer) {
    const Json body = Json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
    if (!body.is_object() || !body.contains("error")) return "not OpenAI's shape: " + answer.body;
    const Json& error = body["error"];
    EXPECT_TRUE(error["message"].is_string() && error["type"].is_string()) << answer.body;
    return error["code"];
  }
  void ExpectServesOthers() {
    BlockingClient other(door_->Address());
    ASSERT_TRUE(other.Send(Post("/v1/completions", "{\"prompt\":\"other\"}")));
    Take().reply->Complete(200, {}, "fine");
    EXPECT_EQ(other.ReadAnswer().body, "fine");
  }
};

TEST_F(OpenAiDoorAbuseTest, WhatIsRefusedIsSaidInOpenAisShape) {
  Start({.max_body_bytes = 1000, .max_header_bytes = 2048, .max_header_fields = 20});
  struct Case {
    const char* name;
    std::string request;
    int status;
    const char* code;
  };
  std::string many_fields = "POST /v1/completions HTTP/1.1\r\nHost: d\r\n";
  for (int i = 0; i < 30; ++i) many_fields += "a: b\r\n";
  const std::vector<Case> cases = {
      {"body", Post("/v1/completions", std::string(1001, 'x')), 413, "body_too_large"},
      {"chunked body",
       "POST /v1/completions HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" +
           std::string(2000, 'x') + "\r\n0\r\n\r\n",
       413, "body_too_large"},
      {"header", Post("/v1/completions", "{}", "X-Long: " + std::string(4000, 'x') + "\r\n"), 431,
       "headers_too_large"},
      {"fields", many_fields + "\r\n", 431, "headers_too_large"},
      {"no HTTP", "\x16\x03\x01 hello\r\n\r\n", 400, "malformed_request"},
      {"two lengths", Post("/v1/completions", "{}", "Content-Length: 9\r\n"), 400,
       "malformed_request"},
      {"length and chunks", Post("/v1/completions", "{}", "Transfer-Encoding: chunked\r\n"), 400,
       "malformed_request"},
      {"no host", "POST /v1/completions HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 400,
       "malformed_request"},
      {"coding", "POST /v1/completions HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: gzip\r\n\r\n", 501,
       "not_implemented"},
      {"unknown route", Post("/v1/images/generations", "{}"), 404, "route_not_found"},
      {"other method", "GET /v1/completions HTTP/1.1\r\nHost: d\r\n\r\n", 405,
       "method_not_allowed"},
  };
  for (const Case& c : cases) {
    BlockingClient client(door_->Address());
    client.Send(c.request);
    const BlockingClient::Answer answer = client.ReadAnswer();
    EXPECT_EQ(answer.status, c.status) << c.name;
    EXPECT_EQ(CodeOf(answer), c.code) << c.name;
  }
  ExpectServesOthers();
}

TEST_F(OpenAiDoorAbuseTest, BodiesThatTogetherHoldTooMuchAreRefusedUntilOneIsAnswered) {
  Start({.max_buffered_bytes = 3000});
  BlockingClient first(door_->Address()), second(door_->Address());
  first.Send(Post("/v1/completions", std::string(2000, 'x')));
  const Served held = Take();
  second.Send(Post("/v1/completions", std::string(2000, 'x')));
  const BlockingClient::Answer refused = second.ReadAnswer();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(CodeOf(refused), "overloaded");
  held.reply->Complete(200, {}, "done");
  EXPECT_EQ(first.ReadAnswer().body, "done");
  EXPECT_TRUE(Eventually([&] { return door_->Counters().buffered_bytes == 0; }));
  BlockingClient third(door_->Address());
  third.Send(Post("/v1/completions", std::string(2000, 'x')));
  Take().reply->Complete(200, {}, "done");
  EXPECT_EQ(third.ReadAnswer().body, "done");
}

TEST_F(OpenAiDoorAbuseTest, SlowLorisOfHeadOrBodyIsSentAwayAndHarmsNobody) {
  Start({.read_timeout = milliseconds(300)});
  std::vector<std::unique_ptr<BlockingClient>> heads, bodies;
  for (int i = 0; i < 20; ++i) {
    heads.push_back(std::make_unique<BlockingClient>(door_->Address()));
    heads.back()->Send("POST /v1/completions HTTP/1.1\r\nHost: d\r\nX-Slow: ");
    bodies.push_back(std::make_unique<BlockingClient>(door_->Address()));
    bodies.back()->Send(
        "POST /v1/completions HTTP/1.1\r\nHost: d\r\nContent-Length: 5000\r\n\r\n{");
  }
  ExpectServesOthers();
  for (const auto* slow : {&heads, &bodies}) {
    for (const auto& client : *slow) {
      const BlockingClient::Answer answer = client->ReadAnswer();
      EXPECT_EQ(answer.status, 408);
      EXPECT_EQ(CodeOf(answer), "request_timeout");
    }
  }
  EXPECT_TRUE(Eventually([&] { return door_->Counters().buffered_bytes == 0; }));
  EXPECT_EQ(door_->Counters().head_timeouts, 20u);
  EXPECT_EQ(door_->Counters().body_timeouts, 20u);
}

TEST_F(OpenAiDoorAbuseTest, CrowdThatConnectsAndAsksNothingMakesRoomForThoseWhoAsk) {
  Start({.max_connections = 8});
  std::vector<std::unique_ptr<BlockingClient>> crowd;
  for (int i = 0; i < 40; ++i) crowd.push_back(std::make_unique<BlockingClient>(door_->Address()));
  ExpectServesOthers();
  EXPECT_TRUE(Eventually([&] { return door_->Counters().connections <= 8; }));
}

TEST_F(OpenAiDoorAbuseTest, ClientThatClosesItsSendingSideWhileItWaitsIsGone) {
  BlockingClient client(door_->Address());
  client.Send(Post("/v1/completions", "{\"stream\":true}"));
  const Served served = Take();
  std::atomic<int> gone{0};
  served.reply->OnGone([&] { ++gone; });
  served.reply->Begin(200, {});
  client.CloseSending();
  EXPECT_TRUE(Eventually([&] { return gone == 1; }));
  ExpectServesOthers();
}

TEST_F(OpenAiDoorAbuseTest, ClientThatTakesNothingIsClosedAfterTheWriteTimeout) {
  Start({.write_timeout = milliseconds(300), .max_unsent_bytes = 32u << 20});
  BlockingClient client(door_->Address(), /*receive_buffer_bytes=*/4096);
  client.Send(Post("/v1/completions", "{\"stream\":true}"));
  const Served served = Take();
  std::atomic<int> gone{0};
  served.reply->OnGone([&] { ++gone; });
  served.reply->Begin(200, {});
  for (int i = 0; i < 256 && gone == 0; ++i)  // more than the kernel takes
    served.reply->Write(std::string(64 * 1024, 'x'));
  EXPECT_TRUE(Eventually([&] { return gone == 1; }));
  EXPECT_EQ(door_->Counters().write_timeouts, 1u);
  ExpectServesOthers();
}

// Whatever bytes come, the door answers or closes, and goes on.
TEST_F(OpenAiDoorAbuseTest, DamagedRequestsAreAnsweredOrClosed) {
  constexpr uint64_t kSeeds = 300;
  OpenAiDoor door({.max_body_bytes = 4096, .read_timeout = milliseconds(50)},
                  [](const DispatchRequest&, const std::shared_ptr<ClientReply>& reply) {
                    reply->Complete(200, {}, "served");
                  });
  ASSERT_TRUE(door.Start().ok());
  const std::string whole = Post("/v1/completions", R"({"model":"m","prompt":"hello"})",
                                 "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n");
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::mt19937_64 random(seed);
    std::string bytes = whole;
    for (uint64_t i = 0; i <= random() % 6; ++i) {
      const size_t at = random() % bytes.size();
      switch (random() % 3) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, random() % 8);
          break;
        default:
          bytes.insert(at, std::string(random() % 8, static_cast<char>(random())));
      }
      if (bytes.empty()) bytes = "x";
    }
    BlockingClient client(door.Address());
    client.Send(bytes);
    client.CloseSending();
    const std::string answer = client.ReadAll();
    EXPECT_TRUE(answer.empty() || answer.starts_with("HTTP/1.1 ")) << "seed=" << seed;
  }
  BlockingClient other(door.Address());
  other.Send(Post("/v1/completions", "{}"));
  EXPECT_EQ(other.ReadAnswer().body, "served");
}

}  // namespace
}  // namespace kvrouter
