// Streamed answers, answers from other threads, clients that leave.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "adapters/http/http_server.h"
#include "base/mutex.h"
#include "blocking_client.h"

namespace kvrouter {
namespace {

using std::chrono::milliseconds;

// A server whose /held leaves the responder to the test.
class HttpStreamTest : public testing::Test {
 protected:
  void SetUp() override { Start({}); }
  void Start(HttpServerConfig config) {
    server_ = std::make_unique<HttpServer>(std::move(config));
    server_->RouteAsync("GET", "/held",
                        [this](const HttpRequest&, std::shared_ptr<HttpResponder> responder) {
                          MutexLock lock(mu_);
                          held_ = std::move(responder);
                        });
    ASSERT_TRUE(server_->Start().ok());
  }
  std::shared_ptr<HttpResponder> TakeResponder() {
    std::shared_ptr<HttpResponder> taken;
    EXPECT_TRUE(Eventually([&] {
      MutexLock lock(mu_);
      if (held_ != nullptr) taken = std::move(held_);
      return taken != nullptr;
    }));
    return taken;
  }
  static void Ask(BlockingClient* client, std::string_view version = "1.1",
                  std::string_view method = "GET") {
    client->Send(std::string(method) + " /held HTTP/" + std::string(version) +
                 "\r\nHost: t\r\n\r\n");
  }

  Mutex mu_;
  std::shared_ptr<HttpResponder> held_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpStreamTest, ChunksArriveAsTheyAreWrittenAndTheConnectionStays) {
  BlockingClient client(server_->Address());
  Ask(&client);
  auto responder = TakeResponder();
  responder->Begin({.content_type = "text/event-stream", .headers = {}, .body = ""});
  EXPECT_NE(client.ReadUntil("\r\n\r\n").find("Transfer-Encoding: chunked"), std::string::npos);
  responder->Write("data: 1\n\n");
  EXPECT_EQ(client.ReadUntil("\n\n\r\n"), "9\r\ndata: 1\n\n\r\n");
  responder->Write("data: 2\n\n");
  EXPECT_EQ(client.ReadUntil("\n\n\r\n"), "9\r\ndata: 2\n\n\r\n") << "not held back until the end";
  responder->End();
  EXPECT_EQ(client.ReadUntil("0\r\n\r\n"), "0\r\n\r\n");
  EXPECT_EQ(client.Get("/other").status, 404);
}

TEST_F(HttpStreamTest, OldClientGetsThePlainBytesUntilClose) {
  BlockingClient client(server_->Address());
  Ask(&client, "1.0");
  auto responder = TakeResponder();
  responder->Begin({.headers = {}, .body = "a"});
  responder->Write("b");
  responder->End();
  const std::string all = client.ReadAll();
  EXPECT_EQ(all.substr(all.find("\r\n\r\n") + 4), "ab");
}

TEST_F(HttpStreamTest, HeadOfAStreamHasNoBody) {
  BlockingClient client(server_->Address());
  Ask(&client, "1.1", "HEAD");
  auto responder = TakeResponder();
  responder->Begin({.headers = {}, .body = "a"});
  responder->Write("b");
  responder->End();
  client.ReadUntil("\r\n\r\n");
  EXPECT_EQ(client.Get("/other").status, 404);
}

TEST_F(HttpStreamTest, ClientThatLeavesBeforeTheAnswerCancels) {
  BlockingClient client(server_->Address());
  Ask(&client);
  auto responder = TakeResponder();
  EXPECT_FALSE(responder->Cancelled());
  client.Close();
  EXPECT_TRUE(Eventually([&] { return responder->Cancelled(); }));
  responder->Complete({});  // does nothing
}

TEST_F(HttpStreamTest, ClientThatLeavesInAStreamCancels) {
  BlockingClient client(server_->Address());
  Ask(&client);
  auto responder = TakeResponder();
  responder->Begin({.headers = {}, .body = "first"});
  client.ReadUntil("first");
  client.Close();
  EXPECT_TRUE(Eventually([&] { return responder->Cancelled(); }));
  responder->Write("second");
  responder->End();
}

TEST_F(HttpStreamTest, DroppedUnansweredIs500) {
  BlockingClient client(server_->Address());
  Ask(&client);
  TakeResponder().reset();
  EXPECT_EQ(client.ReadAnswer().status, 500);
}

TEST_F(HttpStreamTest, DroppedInTheMiddleOfAStreamCutsTheConnection) {
  BlockingClient client(server_->Address());
  Ask(&client);
  auto responder = TakeResponder();
  responder->Begin({.headers = {}, .body = "first"});
  client.ReadUntil("first\r\n");
  responder.reset();
  EXPECT_EQ(client.ReadAll(), "") << "no closing chunk: the client sees that the answer is cut";
}

TEST_F(HttpStreamTest, CallsOutOfOrderAreIgnored) {
  BlockingClient client(server_->Address());
  Ask(&client);
  auto responder = TakeResponder();
  responder->Write("too early");
  responder->End();
  responder->Complete({.headers = {}, .body = "answer"});
  responder->Complete({.headers = {}, .body = "twice"});
  responder->Begin({});
  EXPECT_EQ(client.ReadAnswer().body, "answer");
  EXPECT_EQ(client.Get("/other").status, 404);
}

TEST_F(HttpStreamTest, PipelinedRequestWaitsForTheHeldAnswer) {
  BlockingClient client(server_->Address());
  Ask(&client);
  client.Send("GET /other HTTP/1.1\r\nHost: t\r\n\r\n");
  TakeResponder()->Complete({.headers = {}, .body = "held"});
  EXPECT_EQ(client.ReadAnswer().body, "held");
  EXPECT_EQ(client.ReadAnswer().status, 404);
}

TEST_F(HttpStreamTest, PipelinedRequestThatArrivesInPartsIsReadWhole) {
  BlockingClient client(server_->Address());
  Ask(&client);
  auto responder = TakeResponder();
  client.Send("GET /oth");
  responder->Complete({.headers = {}, .body = "held"});
  EXPECT_EQ(client.ReadAnswer().body, "held");
  client.Send("er HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_EQ(client.ReadAnswer().status, 404);
}

TEST_F(HttpStreamTest, StreamNobodyReadsIsCutAtItsBound) {
  Start({.max_unsent_bytes = 1u << 20});
  BlockingClient client(server_->Address(), /*receive_buffer_bytes=*/4096);
  Ask(&client);
  auto responder = TakeResponder();
  responder->Begin({});
  for (int i = 0; i < 1000 && !responder->Cancelled(); ++i)
    responder->Write(std::string(64u << 10, 'x'));
  EXPECT_TRUE(Eventually([&] { return responder->Cancelled(); }));
  EXPECT_EQ(server_->Counters().streams_overflowed, 1u);
}

TEST_F(HttpStreamTest, ManyStreamsFromOtherThreadsAreWhole) {
  server_ = std::make_unique<HttpServer>(HttpServerConfig{.threads = 2});
  std::vector<std::jthread> writers;
  Mutex mu;
  server_->RouteAsync("GET", "/count",
                      [&](const HttpRequest&, std::shared_ptr<HttpResponder> responder) {
                        MutexLock lock(mu);
                        writers.emplace_back([responder] {
                          responder->Begin({});
                          for (int i = 0; i < 200; ++i) responder->Write(std::to_string(i) + ";");
                          responder->End();
                        });
                      });
  ASSERT_TRUE(server_->Start().ok());
  std::string want;
  for (int i = 0; i < 200; ++i) want += std::to_string(i) + ";";
  std::vector<std::jthread> clients;
  std::atomic<int> whole{0};
  for (int c = 0; c < 8; ++c) {
    clients.emplace_back([&] {
      BlockingClient client(server_->Address());
      client.Send("GET /count HTTP/1.1\r\nHost: t\r\n\r\n");
      client.ReadUntil("\r\n\r\n");
      std::string got;
      for (;;) {
        const size_t size = std::stoul(client.ReadUntil("\r\n"), nullptr, 16);
        got += client.ReadBytes(size);
        client.ReadUntil("\r\n");
        if (size == 0) break;
      }
      if (got == want) ++whole;
    });
  }
  clients.clear();
  EXPECT_EQ(whole, 8);
  MutexLock lock(mu);
  writers.clear();
}

}  // namespace
}  // namespace kvrouter
