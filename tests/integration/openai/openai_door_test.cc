// The door on real sockets, with the test in the dispatcher's place: what comes in reaches it as it
// is, what it says reaches the client byte for byte.

#include <algorithm>
#include <atomic>

#include "door_fixture.h"

namespace kvrouter {
namespace {

using OpenAiDoorTest = DoorFixture;

std::string HeaderOf(const DispatchRequest& request, std::string_view name) {
  for (const auto& [key, value] : request.headers) {
    if (key == name) return value;
  }
  return "(none)";
}

TEST_F(OpenAiDoorTest, EveryRouteReachesTheDispatcherAsItIs) {
  BlockingClient client(door_->Address());
  const std::string body = "{\"model\": \"m\",\n \"prompt\": \"\xc3\xa4\", \"unknown\": [1, 2]}";
  for (const char* path :
       {"/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/tokenize", "/detokenize"}) {
    client.Send(
        Post(std::string(path) + "?a=b", body, "X-Request-Id: r-1\r\nTraceparent: 00-t\r\n"));
    const Served served = Take();
    EXPECT_EQ(served.request.method, "POST") << path;
    EXPECT_EQ(served.request.path, path);
    EXPECT_EQ(served.request.query, "a=b");
    EXPECT_EQ(served.request.body, body);
    EXPECT_GE(served.request.body.capacity(), body.size() + kBodyPaddingBytes);
    EXPECT_EQ(HeaderOf(served.request, "x-request-id"), "r-1");
    EXPECT_EQ(HeaderOf(served.request, "traceparent"), "00-t");
    served.reply->Complete(200, {{"content-type", "application/json"}}, "{}");
    EXPECT_EQ(client.ReadAnswer().body, "{}") << path;
  }
}

TEST_F(OpenAiDoorTest, ListOfModelsIsAGetAndAHeadAsksLikeOne) {
  BlockingClient client(door_->Address());
  client.Send("GET /v1/models HTTP/1.1\r\nHost: door\r\n\r\n");
  Served served = Take();
  EXPECT_EQ(served.request.method, "GET");
  EXPECT_EQ(served.request.path, "/v1/models");
  served.reply->Complete(200, {{"content-type", "application/json"}}, "{\"data\":[]}");
  EXPECT_EQ(client.ReadAnswer().body, "{\"data\":[]}");
  client.Send("HEAD /v1/models HTTP/1.1\r\nHost: door\r\n\r\n");
  served = Take();
  EXPECT_EQ(served.request.method, "GET");
  served.reply->Complete(200, {}, "{\"data\":[]}");
  EXPECT_EQ(client.ReadAnswer(/*head_only=*/true).status, 200);
}

TEST_F(OpenAiDoorTest, HeadersOfTheAnswerPassButThoseOfItsFraming) {
  BlockingClient client(door_->Address());
  client.Send(Post("/v1/completions", "{}"));
  Take().reply->Complete(429,
                         {{"content-type", "text/plain; charset=utf-8"},
                          {"content-length", "999"},
                          {"transfer-encoding", "chunked"},
                          {"connection", "close"},
                          {"retry-after", "7"},
                          {"x-kvrouter-worker", "12"}},
                         "slow down");
  const BlockingClient::Answer answer = client.ReadAnswer();
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.body, "slow down");
  EXPECT_NE(answer.head.find("Content-Type: text/plain; charset=utf-8\r\n"), std::string::npos);
  EXPECT_NE(answer.head.find("retry-after: 7\r\n"), std::string::npos);
  EXPECT_NE(answer.head.find("x-kvrouter-worker: 12\r\n"), std::string::npos);
  EXPECT_EQ(answer.head.find("999"), std::string::npos);
  EXPECT_EQ(answer.head.find("chunked"), std::string::npos);
  EXPECT_EQ(answer.head.find("close"), std::string::npos);
}

TEST_F(OpenAiDoorTest, StreamArrivesPieceByPiece) {
  BlockingClient client(door_->Address());
  client.Send(Post("/v1/completions", "{\"stream\":true}"));
  const Served served = Take();
  served.reply->Begin(200, {{"content-type", "text/event-stream"}});
  EXPECT_NE(client.ReadUntil("\r\n\r\n").find("Content-Type: text/event-stream\r\n"),
            std::string::npos);
  EXPECT_TRUE(served.reply->Write("data: {\"a\""));
  EXPECT_EQ(client.ReadUntil("\"a\"\r\n"), "a\r\ndata: {\"a\"\r\n");
  EXPECT_TRUE(served.reply->Write(": 1}\n\n"));
  EXPECT_EQ(client.ReadUntil("}\n\n\r\n"), "6\r\n: 1}\n\n\r\n");
  served.reply->End();
  EXPECT_EQ(client.ReadUntil("0\r\n\r\n"), "0\r\n\r\n");
  client.Send(Post("/tokenize", "{}"));
  Take().reply->Complete(200, {}, "kept open");
  EXPECT_EQ(client.ReadAnswer().body, "kept open");
}

TEST_F(OpenAiDoorTest, CutStreamEndsBehindWhatWasWrittenAndIsSeenToBeCut) {
  BlockingClient client(door_->Address());
  client.Send(Post("/v1/completions", "{\"stream\":true}"));
  const Served served = Take();
  served.reply->Begin(200, {});
  served.reply->Write(std::string(200'000, 'x'));
  served.reply->Cut();
  served.reply->Write("nobody reads this");
  served.reply->End();
  client.ReadUntil("\r\n\r\n");
  const std::string rest = client.ReadAll();
  EXPECT_EQ(std::count(rest.begin(), rest.end(), 'x'), 200'000);
  EXPECT_EQ(rest.find("\r\n0\r\n"), std::string::npos) << "no last chunk";
}

TEST_F(OpenAiDoorTest, ClientThatLeavesIsGoneBeforeAndInTheMiddleOfItsAnswer) {
  for (const bool streaming : {false, true}) {
    BlockingClient client(door_->Address());
    client.Send(Post("/v1/completions", "{}"));
    const Served served = Take();
    std::atomic<int> gone{0};
    served.reply->OnGone([&] { ++gone; });
    if (streaming) {
      served.reply->Begin(200, {});
      served.reply->Write("data: 1\n\n");
      client.ReadUntil("1\n\n");
    }
    EXPECT_EQ(gone, 0);
    client.Close();
    EXPECT_TRUE(Eventually([&] { return gone == 1; })) << streaming;
    served.reply->Write("nobody");
    served.reply->End();
  }
}

TEST_F(OpenAiDoorTest, SlowClientIsToldOfAndTakesItsStreamWholeLater) {
  constexpr size_t kPieceBytes = 64 * 1024;
  constexpr size_t kBytes =
      32u << 20;  // more than the kernel takes for a client that does not read
  Start({.max_unsent_bytes = 2 * kBytes});
  BlockingClient client(door_->Address(), /*receive_buffer_bytes=*/4096);
  client.Send(Post("/v1/completions", "{\"stream\":true}"));
  const Served served = Take();
  std::atomic<int> drained{0}, gone{0};
  served.reply->OnDrained([&] { ++drained; });
  served.reply->OnGone([&] { ++gone; });
  served.reply->Begin(200, {});
  bool keeps_up = true;
  for (size_t written = 0; written < kBytes; written += kPieceBytes)
    keeps_up = served.reply->Write(std::string(kPieceBytes, 'x'));
  EXPECT_FALSE(keeps_up);
  const int drained_before = drained;
  client.ReadUntil("\r\n\r\n");
  size_t got = 0;
  while (got < kBytes) {
    const std::string line = client.ReadUntil("\r\n");
    ASSERT_FALSE(line.empty()) << got;
    got += client.ReadBytes(std::stoul(line, nullptr, 16)).size();
    client.ReadUntil("\r\n");
  }
  EXPECT_TRUE(Eventually([&] { return drained == drained_before + 1; }));
  EXPECT_TRUE(served.reply->Write("the end"));
  served.reply->End();
  EXPECT_NE(client.ReadUntil("0\r\n\r\n").find("the end"), std::string::npos);
  EXPECT_EQ(gone, 0);
}

TEST_F(OpenAiDoorTest, ReplyThatIsDroppedIs500InOpenAisShape) {
  BlockingClient client(door_->Address());
  client.Send(Post("/v1/completions", "{}"));
  Take().reply.reset();
  const BlockingClient::Answer answer = client.ReadAnswer();
  EXPECT_EQ(answer.status, 500);
  EXPECT_EQ(answer.body,
            R"({"error":{"message":"the request was not answered","type":"server_error",)"
            R"("param":null,"code":"internal_error"}})");
}

TEST_F(OpenAiDoorTest, StopLetsAnAnswerEndAndTakesNothingNew) {
  BlockingClient client(door_->Address());
  client.Send(Post("/v1/completions", "{\"stream\":true}"));
  const Served served = Take();
  served.reply->Begin(200, {});
  served.reply->Write("one");
  client.ReadUntil("one\r\n");
  std::jthread stopping([&] { door_->Stop(std::chrono::seconds(30)); });
  EXPECT_TRUE(Eventually([&] { return !BlockingClient(door_->Address()).Connected(); }));
  served.reply->Write("two");
  served.reply->End();
  EXPECT_NE(client.ReadAll().find("two\r\n0\r\n\r\n"), std::string::npos);
}

}  // namespace
}  // namespace kvrouter
