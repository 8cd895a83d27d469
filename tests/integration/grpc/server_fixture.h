#ifndef KVROUTER_TESTS_INTEGRATION_GRPC_SERVER_FIXTURE_H_
#define KVROUTER_TESTS_INTEGRATION_GRPC_SERVER_FIXTURE_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>

#include "adapters/grpc/grpc_server.h"
#include "adapters/grpc/status_convert.h"
#include "base/clock.h"

namespace kvrouter {

// A real core behind its gRPC doors, on a port of their own.
class GrpcServerFixture : public ::testing::Test {
 protected:
  ~GrpcServerFixture() override { server_.Stop(std::chrono::milliseconds(0)); }
  void SetUp() override { ASSERT_TRUE(server_.Start().ok()); }

  std::shared_ptr<grpc::Channel> Channel(grpc::ChannelArguments arguments = {}) const {
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    return grpc::CreateCustomChannel(server_.Address(), grpc::InsecureChannelCredentials(),
                                     arguments);
  }

  Router router_{RouterConfig(), nullptr};
  WorkerRegistry registry_{&router_};
  RoutingService service_{ServiceConfig(), &router_, &SteadyClock()};
  FeedMonitor feeds_;
  GrpcServer server_{
      GrpcServerConfig(),
      {.routing = &service_, .workers = &registry_, .feeds = &feeds_, .router = &router_}};
};

// Why a finished call was refused.
inline ErrorReason ReasonOf(const grpc::ClientContext& context) {
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto found = trailers.find(kErrorDetailKey);
  v1::ErrorDetail detail;
  if (found == trailers.end() ||
      !detail.ParseFromArray(found->second.data(), static_cast<int>(found->second.size()))) {
    return ErrorReason::kUnspecified;
  }
  return static_cast<ErrorReason>(detail.reason());
}

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_INTEGRATION_GRPC_SERVER_FIXTURE_H_
