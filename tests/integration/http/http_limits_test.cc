// What bad, slow and too many clients meet.

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "adapters/http/http_server.h"
#include "blocking_client.h"

namespace kvrouter {
namespace {

using std::chrono::milliseconds;

std::unique_ptr<HttpServer> StartServer(HttpServerConfig config) {
  auto server = std::make_unique<HttpServer>(std::move(config));
  server->Route("GET", "/", [](const HttpRequest&) { return HttpResponse{}; });
  server->Route("POST", "/", [](const HttpRequest&) { return HttpResponse{}; });
  server->Route("GET", "/big", [](const HttpRequest&) {
    return HttpResponse{.headers = {}, .body = std::string(32u << 20, 'x')};
  });
  EXPECT_TRUE(server->Start().ok());
  return server;
}

TEST(HttpLimitsTest, SlowSenderIsTurnedAwayAlthoughBytesKeepComing) {
  const auto server = StartServer({.read_timeout = milliseconds(200)});
  BlockingClient client(server->Address());
  const auto start = std::chrono::steady_clock::now();
  client.Send("GET / HTTP/1.1\r\n");
  while (client.Send("a: b\r\n") && std::chrono::steady_clock::now() - start < milliseconds(5000)) {
    if (server->Counters().timeouts > 0) break;
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_NE(client.ReadAll().find("408 Request Timeout"), std::string::npos);
  EXPECT_EQ(server->Counters().timeouts, 1u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(4000));
}

TEST(HttpLimitsTest, IdleConnectionEndsWithoutBeingCountedAsTimeout) {
  const auto server = StartServer({.idle_timeout = milliseconds(100)});
  BlockingClient client(server->Address());
  ASSERT_EQ(client.Get("/").status, 200);
  EXPECT_EQ(client.ReadAll(), "");
  EXPECT_EQ(server->Counters().timeouts, 0u);
}

TEST(HttpLimitsTest, ClientThatNeverReadsIsDropped) {
  const auto server = StartServer({.write_timeout = milliseconds(200)});
  BlockingClient client(server->Address(), /*receive_buffer_bytes=*/4096);
  client.Send("GET /big HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_TRUE(Eventually([&] { return server->Counters().timeouts == 1; }));
  BlockingClient other(server->Address());
  EXPECT_EQ(other.Get("/").status, 200) << "others are served meanwhile and after";
}

TEST(HttpLimitsTest, AnnouncedHugeBodyIsRefusedBeforeItComes) {
  const auto server = StartServer({.max_body_bytes = 1000});
  BlockingClient client(server->Address());
  client.Send("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 99999999999\r\n\r\n");
  const auto answer = client.ReadAnswer();
  EXPECT_EQ(answer.status, 413);
  EXPECT_EQ(answer.body, R"({"error":"body over 1000 bytes"})");
}

TEST(HttpLimitsTest, ClientThatSendsAHugeBodyAnywayReadsTheRefusal) {
  const auto server = StartServer({.max_body_bytes = 1000});
  BlockingClient client(server->Address());
  client.Send("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 3000000\r\n\r\n");
  client.Send(std::string(3000000, 'x'));
  EXPECT_EQ(client.ReadAnswer().status, 413);
}

TEST(HttpLimitsTest, ChunkedBodyOverTheLimitIsRefused) {
  const auto server = StartServer({.max_body_bytes = 1000});
  BlockingClient client(server->Address());
  client.Send("POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
  client.Send("7d0\r\n" + std::string(2000, 'x') + "\r\n0\r\n\r\n");
  EXPECT_EQ(client.ReadAnswer().status, 413);
  EXPECT_EQ(server->Counters().bad_requests, 1u);
}

TEST(HttpLimitsTest, LongHeadersAreRefused) {
  const auto server = StartServer({.max_header_bytes = 1000});
  BlockingClient client(server->Address());
  client.Send("GET / HTTP/1.1\r\nHost: t\r\nX: " + std::string(2000, 'x') + "\r\n\r\n");
  EXPECT_EQ(client.ReadAnswer().status, 431);
}

TEST(HttpLimitsTest, GarbageIsABadRequest) {
  const auto server = StartServer({});
  for (const char* garbage :
       {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 TLS hello\r\n\r\n", "GET /\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    BlockingClient client(server->Address());
    client.Send(garbage);
    EXPECT_EQ(client.ReadAnswer().status, 400) << garbage;
  }
  EXPECT_EQ(server->Counters().bad_requests, 4u);
}

TEST(HttpLimitsTest, ConnectionsOverTheCapAreClosedAndCounted) {
  const auto server = StartServer({.max_connections = 3});
  std::vector<std::unique_ptr<BlockingClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<BlockingClient>(server->Address()));
    ASSERT_EQ(clients.back()->Get("/").status, 200);
  }
  BlockingClient fourth(server->Address());
  EXPECT_EQ(fourth.ReadAll(), "");
  EXPECT_EQ(server->Counters().connections_refused, 1u);
  clients.pop_back();
  EXPECT_TRUE(Eventually([&] { return BlockingClient(server->Address()).Get("/").status == 200; }));
}

}  // namespace
}  // namespace kvrouter
