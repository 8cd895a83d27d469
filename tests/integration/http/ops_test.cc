#include "adapters/http/ops.h"

#include <gtest/gtest.h>

#include "blocking_client.h"

namespace kvrouter {
namespace {

TEST(OpsTest, LiveAlwaysAnswersAndMetricsAreText) {
  HttpServer server({});
  AddOpsRoutes(&server, [] { return std::string("a 1\n"); });
  ASSERT_TRUE(server.Start().ok());
  BlockingClient client(server.Address());
  EXPECT_EQ(client.Get("/live").status, 200);
  const auto metrics = client.Get("/metrics");
  EXPECT_EQ(metrics.body, "a 1\n");
  EXPECT_NE(metrics.head.find("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"),
            std::string::npos);
}

}  // namespace
}  // namespace kvrouter
