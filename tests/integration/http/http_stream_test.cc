// Streamed answers, answers from other threads, clients that leave.

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <deque>
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

// As some clients send it behind a body; what follows must not be hidden by it.
TEST_F(HttpStreamTest, EmptyLineBehindARequestIsNoNextOne) {
  BlockingClient client(server_->Address());
  Ask(&client);
  client.Send("\r\n");
  TakeResponder()->Complete({.headers = {}, .body = "held"});
  EXPECT_EQ(client.ReadAnswer().body, "held");
  client.Send("\r\n");
  EXPECT_EQ(client.Get("/other").status, 404);
  Ask(&client);
  client.Send("\r\n");
  auto responder = TakeResponder();
  client.Close();
  EXPECT_TRUE(Eventually([&] { return responder->Cancelled(); }));
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

TEST_F(HttpStreamTest, WriterThatHeedsAPauseHoldsLittleMoreThanTheMark) {
  constexpr uint64_t kMarkBytes = 64 * 1024;
  constexpr size_t kPieceBytes = 8 * 1024;
  constexpr int kPieces = 2000;  // more than the kernel takes from a client that does not read
  Start({.max_buffered_bytes = 1u << 20,
         .max_unsent_bytes = kMarkBytes + 2 * kPieceBytes,  // closed if it held more
         .pause_unsent_bytes = kMarkBytes});
  BlockingClient client(server_->Address(), /*receive_buffer_bytes=*/4096);
  Ask(&client);
  const auto responder = TakeResponder();
  Mutex mu;
  CondVar wake;
  bool drained = false;
  responder->OnDrained([&] {
    MutexLock lock(mu);
    drained = true;
    wake.NotifyAll();
  });
  responder->Begin({});
  std::atomic<int> written{0}, pauses{0};
  std::jthread writer([&] {
    while (written < kPieces) {
      {
        MutexLock lock(mu);
        drained = false;
      }
      ++written;
      if (responder->Write(std::string(kPieceBytes, 'x'))) continue;
      ++pauses;
      MutexLock lock(mu);
      while (!drained) wake.Wait(mu);
    }
    responder->End();
  });
  EXPECT_TRUE(Eventually([&] { return pauses > 0; }));
  client.ReadUntil("\r\n\r\n");
  size_t got = 0;
  for (;;) {
    const std::string line = client.ReadUntil("\r\n");
    const size_t size = line.empty() ? 0 : std::stoul(line, nullptr, 16);
    got += client.ReadBytes(size).size();
    client.ReadUntil("\r\n");
    if (size == 0) break;
  }
  writer.join();
  EXPECT_EQ(got, kPieceBytes * kPieces);
  EXPECT_EQ(server_->Counters().streams_overflowed, 0u);
  EXPECT_EQ(server_->Counters().streams_paused, static_cast<uint64_t>(pauses.load()));
}

TEST_F(HttpStreamTest, ClientThatLeavesWhileItsStreamIsPausedEndsThePause) {
  Start({.pause_unsent_bytes = 1});
  BlockingClient client(server_->Address(), /*receive_buffer_bytes=*/4096);
  Ask(&client);
  const auto responder = TakeResponder();
  std::atomic<int> gone{0};
  responder->OnGone([&] { ++gone; });
  responder->Begin({});
  while (responder->Write(std::string(1u << 20, 'x'))) {
  }
  client.Close();
  EXPECT_TRUE(Eventually([&] { return gone == 1; }));
  EXPECT_TRUE(responder->Write("nobody holds this"));
}

TEST_F(HttpStreamTest, BodyThatAHandlerTookKeepsItsRoomUntilTheAnswerIsSent) {
  server_ = std::make_unique<HttpServer>(HttpServerConfig{});
  std::string taken;
  server_->RouteAsync("POST", "/take",
                      [&](HttpRequest& request, std::shared_ptr<HttpResponder> responder) {
                        MutexLock lock(mu_);
                        taken = std::move(request.body);
                        held_ = std::move(responder);
                      });
  ASSERT_TRUE(server_->Start().ok());
  BlockingClient client(server_->Address());
  client.Send("POST /take HTTP/1.1\r\nHost: t\r\nContent-Length: 100000\r\n\r\n" +
              std::string(100000, 'b'));
  auto responder = TakeResponder();
  EXPECT_EQ(taken.size(), 100000u);
  EXPECT_EQ(server_->Counters().buffered_bytes, 100000u);
  responder->Complete({.headers = {}, .body = "done"});
  EXPECT_EQ(client.ReadAnswer().body, "done");
  EXPECT_TRUE(Eventually([&] { return server_->Counters().buffered_bytes == 0; }));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
TEST_F(HttpStreamTest, IdleStreamTakesLittleMemory) {
  constexpr size_t kStreams = 300;
  server_ = std::make_unique<HttpServer>(HttpServerConfig{});
  std::vector<std::shared_ptr<HttpResponder>> responders;
  server_->RouteAsync("GET", "/held", [&](HttpRequest&, std::shared_ptr<HttpResponder> responder) {
    responder->Begin(
        {.content_type = "text/event-stream", .headers = {}, .body = std::string(300, 'x')});
    MutexLock lock(mu_);
    responders.push_back(std::move(responder));
  });
  ASSERT_TRUE(server_->Start().ok());
  std::deque<BlockingClient> clients;
  const size_t before_bytes = mallinfo2().uordblks;
  for (size_t i = 0; i < kStreams; ++i) {
    clients.emplace_back(server_->Address());
    Ask(&clients.back());
    clients.back().ReadUntil("xxx\r\n");
  }
  const size_t per_stream_bytes = (mallinfo2().uordblks - before_bytes) / kStreams;
  EXPECT_LT(per_stream_bytes, 12u * 1024);
  RecordProperty("bytes_per_idle_stream", static_cast<int>(per_stream_bytes));
  MutexLock lock(mu_);
  for (const auto& responder : responders) responder->End();
}
#endif

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
