#include "adapters/http/http_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "blocking_client.h"

namespace kvrouter {
namespace {

using std::chrono::milliseconds;

class HttpServerTest : public testing::Test {
 protected:
  void SetUp() override {
    server_.Route("GET", "/echo", [](const HttpRequest& request) {
      return HttpResponse{.content_type = "text/plain", .headers = {}, .body = request.query};
    });
    server_.Route("POST", "/length", [](const HttpRequest& request) {
      return HttpResponse{
          .content_type = "text/plain", .headers = {}, .body = std::to_string(request.body.size())};
    });
    server_.Route("POST", "/room", [](const HttpRequest& request) {
      return HttpResponse{.content_type = "text/plain",
                          .headers = {},
                          .body = std::to_string(request.body.capacity() - request.body.size())};
    });
    ASSERT_TRUE(server_.Start().ok());
  }

  HttpServer server_{HttpServerConfig{}};
};

TEST_F(HttpServerTest, KeptConnectionAnswersManyRequests) {
  BlockingClient client(server_.Address());
  for (int i = 0; i < 100; ++i) {
    const auto answer = client.Get("/echo?" + std::to_string(i));
    ASSERT_EQ(answer.status, 200);
    ASSERT_EQ(answer.body, std::to_string(i));
  }
  EXPECT_EQ(server_.Counters().requests, 100u);
}

TEST(HttpServerDefaultsTest, OneBusyHandlerDoesNotHoldUpAnotherRequest) {
  HttpServer server{HttpServerConfig{}};
  std::promise<void> busy;
  std::promise<void> other_answered;
  server.Route("GET", "/large", [&](const HttpRequest&) {
    busy.set_value();
    const bool overtaken =
        other_answered.get_future().wait_for(std::chrono::seconds(10)) == std::future_status::ready;
    return HttpResponse{
        .content_type = "text/plain", .headers = {}, .body = overtaken ? "overtaken" : "waited"};
  });
  server.Route("GET", "/live", [](const HttpRequest&) {
    return HttpResponse{.content_type = "text/plain", .headers = {}, .body = "live"};
  });
  ASSERT_TRUE(server.Start().ok());
  BlockingClient scraper(server.Address());
  scraper.Send("GET /large HTTP/1.1\r\nHost: t\r\n\r\n");
  busy.get_future().wait();
  BlockingClient prober(server.Address());
  EXPECT_EQ(prober.Get("/live").body, "live");
  other_answered.set_value();
  EXPECT_EQ(scraper.ReadAnswer().body, "overtaken");
}

TEST_F(HttpServerTest, PipelinedRequestsAreAnsweredInOrder) {
  BlockingClient client(server_.Address());
  std::string requests;
  for (int i = 0; i < 50; ++i)
    requests += "GET /echo?" + std::to_string(i) + " HTTP/1.1\r\nHost: t\r\n\r\n";
  ASSERT_TRUE(client.Send(requests));
  for (int i = 0; i < 50; ++i) ASSERT_EQ(client.ReadAnswer().body, std::to_string(i));
}

TEST_F(HttpServerTest, PipelinedRequestsAreAnsweredAlthoughTheClientClosedItsSide) {
  BlockingClient client(server_.Address());
  client.Send("GET /echo?1 HTTP/1.1\r\nHost: t\r\n\r\nGET /echo?2 HTTP/1.1\r\nHost: t\r\n\r\n");
  client.CloseSending();
  EXPECT_EQ(client.ReadAnswer().body, "1");
  EXPECT_EQ(client.ReadAnswer().body, "2");
  EXPECT_EQ(client.ReadAll(), "");
}

TEST_F(HttpServerTest, HeadIsAnsweredWithTheLengthOfGetAndNoBody) {
  BlockingClient client(server_.Address());
  client.Send("HEAD /echo?12345 HTTP/1.1\r\nHost: t\r\n\r\n");
  const auto answer = client.ReadAnswer(/*head_only=*/true);
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.head.find("Content-Length: 5\r\n"), std::string::npos);
  EXPECT_EQ(client.Get("/echo?next").body, "next") << "the next answer follows the head directly";
}

TEST_F(HttpServerTest, UnknownPathAndUnknownMethodDiffer) {
  BlockingClient client(server_.Address());
  const auto missing = client.Get("/nowhere");
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(missing.body, R"({"error":"route not found"})");
  client.Send("DELETE /echo HTTP/1.1\r\nHost: t\r\n\r\n");
  const auto refused = client.ReadAnswer();
  EXPECT_EQ(refused.status, 405);
  EXPECT_EQ(refused.body, R"({"error":"method not allowed"})");
  EXPECT_NE(refused.head.find("Allow: GET, HEAD\r\n"), std::string::npos);
}

TEST_F(HttpServerTest, BodyComesInChunksOrWithContinue) {
  BlockingClient client(server_.Address());
  client.Send(
      "POST /length HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: "
      "chunked\r\n\r\n5\r\nabcde\r\n3\r\nfgh\r\n0\r\n\r\n");
  EXPECT_EQ(client.ReadAnswer().body, "8");
  client.Send(
      "POST /length HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("abcd");
  EXPECT_EQ(client.ReadAnswer().body, "4");
}

TEST_F(HttpServerTest, ChunksMayComeByteByByte) {
  BlockingClient client(server_.Address());
  for (const char* body : {"0\r\n\r\n", "3\r\nabc\r\n0\r\n\r\n"}) {
    client.Send("POST /length HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (const char byte : std::string(body)) {
      client.Send(std::string(1, byte));
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // a read of its own
    }
    EXPECT_EQ(client.ReadAnswer().body, body[0] == '0' ? "0" : "3");
  }
}

TEST_F(HttpServerTest, OldClientIsNotToldToContinue) {
  BlockingClient client(server_.Address());
  client.Send("POST /length HTTP/1.0\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\nabcd");
  const auto answer = client.ReadAnswer();
  EXPECT_EQ(answer.status, 200) << "an interim answer is the final one to HTTP/1.0";
  EXPECT_EQ(answer.body, "4");
}

TEST_F(HttpServerTest, LargeBodyPassesWhole) {
  BlockingClient client(server_.Address());
  const std::string body(20u << 20, 'x');
  client.Send("POST /length HTTP/1.1\r\nHost: t\r\nContent-Length: " + std::to_string(body.size()) +
              "\r\n\r\n");
  client.Send(body);
  EXPECT_EQ(client.ReadAnswer().body, std::to_string(body.size()));
}

TEST_F(HttpServerTest, AnnouncedBodyHasRoomBehindItSoThatParsersNeedNoCopy) {
  BlockingClient client(server_.Address());
  for (const size_t length : {size_t{1}, size_t{100}, size_t{70'000}, size_t{5u << 20}}) {
    client.Send("POST /room HTTP/1.1\r\nHost: t\r\nContent-Length: " + std::to_string(length) +
                "\r\n\r\n");
    client.Send(std::string(length, 'x'));
    EXPECT_GE(std::stoul(client.ReadAnswer().body), kBodyPaddingBytes) << length;
  }
}

TEST_F(HttpServerTest, BytesBehindTheBodyBelongToTheNextRequest) {
  BlockingClient client(server_.Address());
  const std::string body(300'000, 'x');
  client.Send("POST /length HTTP/1.1\r\nHost: t\r\nContent-Length: 300000\r\n\r\n" + body +
              "GET /echo?after HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_EQ(client.ReadAnswer().body, "300000");
  EXPECT_EQ(client.ReadAnswer().body, "after");
}

TEST_F(HttpServerTest, CloseIsHonoured) {
  BlockingClient client(server_.Address());
  client.Send("GET /echo?x HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
  EXPECT_NE(client.ReadAll().find("Connection: close\r\n\r\nx"), std::string::npos);
  BlockingClient old_client(server_.Address());
  old_client.Send("GET /echo?y HTTP/1.0\r\n\r\n");
  EXPECT_NE(old_client.ReadAll().find("\r\n\r\ny"), std::string::npos);
}

TEST_F(HttpServerTest, TakenPortIsAnErrorThatNamesTheAddress) {
  HttpServer second({.listen = server_.Address()});
  const absl::Status status = second.Start();
  ASSERT_FALSE(status.ok());
  EXPECT_NE(std::string(status.message()).find(server_.Address()), std::string::npos);
  const std::string port = server_.Address().substr(server_.Address().rfind(':'));
  HttpServer wildcard({.listen = "0.0.0.0" + port});
  EXPECT_FALSE(wildcard.Start().ok());
}

TEST_F(HttpServerTest, PortIsFreeAgainAfterStop) {
  BlockingClient client(server_.Address());
  ASSERT_EQ(client.Get("/echo?1").status, 200);
  const std::string address = server_.Address();
  server_.Stop(milliseconds(1000));
  HttpServer next({.listen = address});
  EXPECT_TRUE(next.Start().ok());
}

TEST(HttpServerStopTest, IdleConnectionsEndAtOnce) {
  HttpServer server({});
  ASSERT_TRUE(server.Start().ok());
  BlockingClient client(server.Address());
  ASSERT_EQ(client.Get("/").status, 404);
  const auto start = std::chrono::steady_clock::now();
  server.Stop(milliseconds(5000));
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(2000));
  EXPECT_EQ(client.ReadAll(), "");
}

TEST(HttpServerStopTest, RunningAnswerFinishesWithinGrace) {
  HttpServer server({});
  std::atomic<bool> asked{false};
  std::jthread answering;
  server.RouteAsync("GET", "/slow",
                    [&](const HttpRequest&, std::shared_ptr<HttpResponder> responder) {
                      answering = std::jthread([&asked, responder] {
                        asked = true;
                        std::this_thread::sleep_for(milliseconds(200));
                        responder->Complete({.headers = {}, .body = "late"});
                      });
                    });
  ASSERT_TRUE(server.Start().ok());
  BlockingClient client(server.Address());
  client.Send("GET /slow HTTP/1.1\r\nHost: t\r\n\r\n");
  ASSERT_TRUE(Eventually([&] { return asked.load(); }));
  server.Stop(milliseconds(5000));
  const auto answer = client.ReadAnswer();
  EXPECT_EQ(answer.body, "late");
  EXPECT_NE(answer.head.find("Connection: close"), std::string::npos);
}

TEST(HttpServerStopTest, GraceBoundsAnAnswerThatNeverComes) {
  std::shared_ptr<HttpResponder> kept;
  {
    HttpServer server({});
    std::atomic<bool> asked{false};
    server.RouteAsync("GET", "/never",
                      [&](const HttpRequest&, std::shared_ptr<HttpResponder> responder) {
                        kept = std::move(responder);
                        asked = true;
                      });
    ASSERT_TRUE(server.Start().ok());
    BlockingClient client(server.Address());
    client.Send("GET /never HTTP/1.1\r\nHost: t\r\n\r\n");
    ASSERT_TRUE(Eventually([&] { return asked.load(); }));
    const auto start = std::chrono::steady_clock::now();
    server.Stop(milliseconds(100));
    EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(2000));
  }
  EXPECT_TRUE(kept->Cancelled());
  kept->Complete({});  // the server is gone: nothing happens
}

TEST(HttpServerStopTest, ManyBusyClientsDoNotHoldItUp) {
  HttpServer server({.threads = 2});
  server.Route("GET", "/x", [](const HttpRequest&) {
    return HttpResponse{.headers = {}, .body = std::string(1000, 'x')};
  });
  ASSERT_TRUE(server.Start().ok());
  std::atomic<int> answered{0};
  std::vector<std::jthread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] {
      BlockingClient client(server.Address());
      while (client.Get("/x").status == 200) ++answered;
    });
  }
  ASSERT_TRUE(Eventually([&] { return answered > 200; }));
  const auto start = std::chrono::steady_clock::now();
  server.Stop(milliseconds(3000));
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(2500));
}

}  // namespace
}  // namespace kvrouter
