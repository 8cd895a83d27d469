#include "adapters/http/ops.h"

#include <gtest/gtest.h>

#include "blocking_client.h"

namespace kvrouter {
namespace {

TEST(OpsTest, LiveAlwaysAnswersAndReadyFollowsTheDaemon) {
  std::atomic<bool> ready{false};
  HttpServer server({});
  AddOpsRoutes(
      &server,
      [&] {
        return ready ? Readiness{.ready = true, .schedulable_workers = 3, .reason = ""}
                     : Readiness{.ready = false,
                                 .schedulable_workers = 0,
                                 .reason = "no schedulable worker"};
      },
      [] { return std::string("a 1\n"); });
  ASSERT_TRUE(server.Start().ok());
  BlockingClient client(server.Address());
  EXPECT_EQ(client.Get("/live").status, 200);
  for (const char* path : {"/ready", "/health"}) {
    const auto answer = client.Get(path);
    EXPECT_EQ(answer.status, 503);
    EXPECT_EQ(answer.body, R"({"error":"no schedulable worker"})");
  }
  ready = true;
  for (const char* path : {"/ready", "/health"}) {
    const auto answer = client.Get(path);
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, R"({"status":"ready","schedulable_workers":3})");
  }
  const auto metrics = client.Get("/metrics");
  EXPECT_EQ(metrics.body, "a 1\n");
  EXPECT_NE(metrics.head.find("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"),
            std::string::npos);
}

}  // namespace
}  // namespace kvrouter
