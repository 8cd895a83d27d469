// What bad, slow and too many clients meet.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "adapters/http/http_server.h"
#include "base/mutex.h"
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
    if (server->Counters().head_timeouts > 0) break;
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_NE(client.ReadAll().find("408 Request Timeout"), std::string::npos);
  EXPECT_EQ(server->Counters().head_timeouts, 1u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(4000));
}

TEST(HttpLimitsTest, IdleConnectionEndsAndIsNoSlowRequest) {
  const auto server = StartServer({.idle_timeout = milliseconds(100)});
  BlockingClient client(server->Address());
  ASSERT_EQ(client.Get("/").status, 200);
  EXPECT_EQ(client.ReadAll(), "");
  EXPECT_EQ(server->Counters().idle_timeouts, 1u);
  EXPECT_EQ(server->Counters().head_timeouts, 0u);
}

TEST(HttpLimitsTest, ClientThatNeverReadsIsDropped) {
  const auto server = StartServer({.write_timeout = milliseconds(200)});
  BlockingClient client(server->Address(), /*receive_buffer_bytes=*/4096);
  client.Send("GET /big HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_TRUE(Eventually([&] { return server->Counters().write_timeouts == 1; }));
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
  EXPECT_EQ(server->Counters().bodies_too_large, 1u);
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
        "GET / HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    BlockingClient client(server->Address());
    client.Send(garbage);
    EXPECT_EQ(client.ReadAnswer().status, 400) << garbage;
  }
  EXPECT_EQ(server->Counters().malformed, 4u);
}

TEST(HttpLimitsTest, LongestWaitingConnectionMakesRoomForANewOne) {
  // One thread, so that connections begin to wait in the order in which they were answered.
  const auto server = StartServer({.threads = 1, .max_connections = 3});
  std::vector<std::unique_ptr<BlockingClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<BlockingClient>(server->Address()));
    ASSERT_EQ(clients.back()->Get("/").status, 200);
  }
  ASSERT_EQ(clients[0]->Get("/").status, 200);  // so that the second waits longest
  BlockingClient fourth(server->Address());
  EXPECT_EQ(fourth.Get("/").status, 200);
  EXPECT_EQ(clients[1]->ReadAll(), "");
  EXPECT_EQ(clients[0]->Get("/").status, 200);
  EXPECT_EQ(clients[2]->Get("/").status, 200);
  EXPECT_EQ(server->Counters().connections_evicted, 1u);
  EXPECT_EQ(server->Counters().connections_refused, 0u);
}

TEST(HttpLimitsTest, ACrowdThatAsksNothingMakesRoomForItselfAndLeavesKeptConnectionsAlone) {
  const auto server = StartServer({.max_connections = 6});
  BlockingClient first(server->Address());
  BlockingClient second(server->Address());
  for (BlockingClient* client : {&first, &second}) ASSERT_EQ(client->Get("/").status, 200);
  std::vector<std::unique_ptr<BlockingClient>> crowd;
  for (uint64_t i = 1; i <= 20; ++i) {
    crowd.push_back(std::make_unique<BlockingClient>(server->Address()));
    ASSERT_TRUE(Eventually([&] { return server->Counters().connections_accepted == 2 + i; }));
  }
  EXPECT_TRUE(Eventually([&] { return server->Counters().connections_evicted == 16; }));
  for (BlockingClient* client : {&first, &second}) EXPECT_EQ(client->Get("/").status, 200);
  BlockingClient late(server->Address());
  EXPECT_EQ(late.Get("/").status, 200);
}

TEST(HttpLimitsTest, SlowHeadersDoNotKeepOthersOut) {
  // One thread, so that who was answered waits again before the next one comes.
  const auto server = StartServer({.threads = 1, .max_connections = 2});
  BlockingClient slow(server->Address());
  slow.Send("GET / HT");
  BlockingClient slower(server->Address());
  slower.Send("GET / HTTP/1.1\r\nX: ");
  for (int i = 0; i < 5; ++i) {
    BlockingClient client(server->Address());
    EXPECT_EQ(client.Get("/").status, 200) << i;
  }
}

TEST(HttpLimitsTest, NewConnectionIsClosedAtOnceWhenAllAreBusy) {
  HttpServer server({.max_connections = 2});
  std::vector<std::shared_ptr<HttpResponder>> kept;
  Mutex mu;
  server.RouteAsync("GET", "/held",
                    [&](const HttpRequest&, std::shared_ptr<HttpResponder> responder) {
                      MutexLock lock(mu);
                      kept.push_back(std::move(responder));
                    });
  ASSERT_TRUE(server.Start().ok());
  BlockingClient first(server.Address());
  BlockingClient second(server.Address());
  for (BlockingClient* client : {&first, &second})
    client->Send("GET /held HTTP/1.1\r\nHost: t\r\n\r\n");
  ASSERT_TRUE(Eventually([&] {
    MutexLock lock(mu);
    return kept.size() == 2;
  }));
  BlockingClient third(server.Address());
  EXPECT_EQ(third.ReadAll(), "");
  EXPECT_EQ(server.Counters().connections_refused, 1u);
  {
    MutexLock lock(mu);
    for (const auto& responder : kept) responder->Complete({.headers = {}, .body = "late"});
  }
  EXPECT_EQ(first.ReadAnswer().body, "late");
  EXPECT_TRUE(Eventually([&] { return BlockingClient(server.Address()).Get("/").status == 404; }));
}

TEST(HttpLimitsTest, EndlessChunkExtensionAndTrailerAreRefused) {
  const auto server = StartServer({});
  for (const char* start : {"2;", "0\r\nX: "}) {
    BlockingClient client(server->Address());
    client.Send(std::string("POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n") +
                start);
    const std::string more(64 * 1024, 'a');
    for (int i = 0; i < 64 && client.Send(more); ++i) {
    }
    const int status = client.ReadAnswer().status;
    EXPECT_TRUE(status == 400 || status == 431) << start << status;
  }
}

TEST(HttpLimitsTest, BodiesTogetherAreBounded) {
  const auto server = StartServer({.max_body_bytes = 1000, .max_buffered_bytes = 1500});
  BlockingClient first(server->Address());
  first.Send("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 1000\r\n\r\nx");
  ASSERT_TRUE(Eventually([&] { return server->Counters().buffered_bytes == 1000; }));
  BlockingClient second(server->Address());
  second.Send("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 501\r\n\r\n");
  EXPECT_EQ(second.ReadAnswer().status, 503);
  BlockingClient chunked(server->Address());
  chunked.Send("POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n1f5\r\n" +
               std::string(501, 'x') + "\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.ReadAnswer().status, 503);
  // What came of them is let go a little behind the answer.
  EXPECT_TRUE(Eventually([&] { return server->Counters().buffered_bytes == 1000; }));
  BlockingClient small(server->Address());
  small.Send("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_EQ(small.ReadAnswer().status, 200);
  first.Send(std::string(999, 'x'));
  EXPECT_EQ(first.ReadAnswer().status, 200);
  EXPECT_TRUE(Eventually([&] { return server->Counters().buffered_bytes == 0; }));
  EXPECT_EQ(server->Counters().bodies_without_room, 2u);
}

TEST(HttpLimitsTest, AnswersTogetherAreBounded) {
  const auto server = StartServer({.max_buffered_bytes = 40u << 20});
  BlockingClient first(server->Address(), /*receive_buffer_bytes=*/4096);
  first.Send("GET /big HTTP/1.1\r\nHost: t\r\n\r\n");
  ASSERT_TRUE(Eventually([&] { return server->Counters().buffered_bytes == 32u << 20; }));
  BlockingClient second(server->Address());
  EXPECT_EQ(second.Get("/big").status, 503);
  EXPECT_EQ(second.Get("/").status, 200);
  first.Close();
  EXPECT_TRUE(Eventually([&] { return server->Counters().buffered_bytes == 0; }));
  EXPECT_EQ(second.Get("/big").body.size(), 32u << 20);
}

TEST(HttpLimitsTest, TrickleOfReadsIsNoProgress) {
  const auto server = StartServer({.write_timeout = milliseconds(500)});
  BlockingClient client(server->Address(), /*receive_buffer_bytes=*/4096);
  client.Send("GET /big HTTP/1.1\r\nHost: t\r\n\r\n");
  const auto start = std::chrono::steady_clock::now();
  while (server->Counters().write_timeouts == 0 &&
         std::chrono::steady_clock::now() - start < milliseconds(10000)) {
    client.ReadBytes(1);
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_EQ(server->Counters().write_timeouts, 1u);
}

TEST(HttpLimitsTest, WhatProxiesCouldReadDifferentlyIsRefusedAndEndsTheConnection) {
  const auto server = StartServer({});
  const std::string smuggled = "GET /smuggled HTTP/1.1\r\nHost: t\r\n\r\n";
  const struct {
    const char* fields;
    int status;
  } kCases[] = {
      {"Host: t\r\nTransfer-Encoding: gzip\r\n", 501},
      {"Host: t\r\nTransfer-Encoding: gzip, chunked\r\n", 501},
      {"Host: t\r\nTransfer-Encoding: chunked, chunked\r\n", 501},
      {"Host: t\r\nTransfer-Encoding: xchunked\r\n", 501},
      {"Host: t\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", 400},
      {"Host: t\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n", 400},
      {"Host: t\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n", 400},
      {"Host: t\r\nContent-Length: 0\r\nContent-Length: 0\r\n", 400},
      {"Host: t\r\nContent-Length: 0, 0\r\n", 400},
      {"Host: t\r\nContent-Length: +0\r\n", 400},
      {"Host: t\r\nContent-Length : 0\r\n", 400},
      {"Host: t\nX: y\r\n", 400},
      {"Host: t\rX: y\r\n", 400},
      {"Host: t\r\nHost: u\r\n", 400},
      {"X: y\r\n", 400},
  };
  for (const auto& row : kCases) {
    BlockingClient client(server->Address());
    client.Send(std::string("POST / HTTP/1.1\r\n") + row.fields + "\r\n" + smuggled);
    EXPECT_EQ(client.ReadAnswer().status, row.status) << row.fields;
    EXPECT_EQ(client.ReadAll(), "") << row.fields;
  }
  BlockingClient old(server->Address());
  old.Send("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
  EXPECT_EQ(old.ReadAnswer().status, 400);
  EXPECT_EQ(server->Counters().unrouted, 0u) << "no smuggled request was read";
}

TEST(HttpLimitsTest, ManyHeaderFieldsAreRefused) {
  const auto server = StartServer({.max_header_fields = 20});
  std::string fields;
  for (int i = 0; i < 19; ++i) fields += "x: y\r\n";
  BlockingClient client(server->Address());
  client.Send("GET / HTTP/1.1\r\nHost: t\r\n" + fields + "\r\n");
  EXPECT_EQ(client.ReadAnswer().status, 200);
  client.Send("GET / HTTP/1.1\r\nHost: t\r\nx: y\r\n" + fields + "\r\n");
  EXPECT_EQ(client.ReadAnswer().status, 431);
  EXPECT_EQ(server->Counters().heads_too_large, 1u);
}

}  // namespace
}  // namespace kvrouter
