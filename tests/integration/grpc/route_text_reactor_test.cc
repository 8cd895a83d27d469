// RouteText over a real socket, with the test in the dispatcher's place.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "adapters/grpc/grpc_server.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "kvrouter/error.h"
#include "kvrouter/v1/router.grpc.pb.h"

namespace kvrouter {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

RouteTextAnswer AnswerUnder(const std::string& request_id) {
  RouteTextAnswer answer;
  answer.request_id = request_id;
  return answer;
}

class RouteTextReactorTest : public testing::Test {
 protected:
  void Start(RouteTextFunction route_text) {
    server_ = std::make_unique<GrpcServer>(GrpcServerConfig(),
                                           GrpcServer::Doors{.routing = &routing_,
                                                             .workers = &registry_,
                                                             .feeds = &feeds_,
                                                             .router = &router_,
                                                             .published = nullptr,
                                                             .signs = nullptr,
                                                             .route_text = std::move(route_text)});
    ASSERT_TRUE(server_->Start().ok());
    stub_ = v1::Router::NewStub(
        grpc::CreateChannel(server_->Address(), grpc::InsecureChannelCredentials()));
  }
  void StartKeeping() {
    Start([this](RouteTextRequest request, Dispatcher::RouteTextDone done) {
      MutexLock lock(mu_);
      asked_ = std::move(request);
      done_ = std::move(done);
      return [this] { ++called_off_; };
    });
  }
  grpc::Status Ask(const v1::RouteTextRequest& request, v1::RouteTextResponse* response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    return stub_->RouteText(&context, request, response);
  }
  // What StartKeeping was asked, once it was.
  std::optional<Dispatcher::RouteTextDone> AwaitDone() {
    for (int i = 0; i < 3000; ++i) {
      {
        MutexLock lock(mu_);
        if (done_) return done_;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return std::nullopt;
  }

  Router router_{RouterConfig(), nullptr};
  RoutingService routing_{ServiceConfig(), &router_, &SteadyClock()};
  WorkerRegistry registry_{&router_};
  FeedMonitor feeds_;
  Mutex mu_;
  RouteTextRequest asked_ ABSL_GUARDED_BY(mu_);
  Dispatcher::RouteTextDone done_ ABSL_GUARDED_BY(mu_);
  std::atomic<int> called_off_{0};
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<v1::Router::Stub> stub_;
};

TEST_F(RouteTextReactorTest, RequestGoesInAsItIsAndTheDecisionComesBackWithTheTokens) {
  RouteTextRequest asked;
  Start([&asked](RouteTextRequest request, const Dispatcher::RouteTextDone& done) {
    asked = std::move(request);
    RouteTextAnswer answer = AnswerUnder(asked.request_id);
    answer.decision.target = {.worker = WorkerId{7}, .dp_rank = 1};
    answer.token_ids = std::make_shared<const std::vector<TokenId>>(std::vector<TokenId>{3, 70000});
    done(std::move(answer));
    return [] {};
  });
  v1::RouteTextRequest request;
  request.set_path("/v1/chat/completions");
  request.set_body(R"({"messages":[]})");
  request.mutable_headers()->insert({"X-Dynamo-Session-Id", "s"});
  request.set_request_id("r-1");
  request.set_routing_group("g");
  request.set_advise_only(true);
  v1::RouteTextResponse response;
  const grpc::Status status = Ask(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(asked.path, "/v1/chat/completions");
  EXPECT_EQ(asked.body, R"({"messages":[]})");
  EXPECT_GE(asked.body.capacity(), asked.body.size() + 64);
  EXPECT_THAT(asked.headers,
              ElementsAre(std::pair<std::string, std::string>("x-dynamo-session-id", "s")));
  EXPECT_EQ(asked.request_id, "r-1");
  EXPECT_EQ(asked.routing_group, "g");
  EXPECT_FALSE(asked.book);
  EXPECT_EQ(response.decision().request_id(), "r-1");
  EXPECT_EQ(response.decision().target().worker_id(), 7u);
  EXPECT_TRUE(response.tokenized());
  EXPECT_THAT(response.token_ids(), ElementsAre(3u, 70000u));
}

TEST_F(RouteTextReactorTest, ErrorKeepsItsCodeAndUnknownPathsAreRefused) {
  Start([](const RouteTextRequest&, const Dispatcher::RouteTextDone& done) {
    done(MakeError(absl::StatusCode::kUnavailable, ErrorReason::kNoWorkers, "nobody there"));
    return [] {};
  });
  v1::RouteTextResponse response;
  const grpc::Status unavailable = Ask({}, &response);
  EXPECT_EQ(unavailable.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(unavailable.error_message(), HasSubstr("nobody there"));
  v1::RouteTextRequest other;
  other.set_path("/v1/embeddings");
  const grpc::Status invalid = Ask(other, &response);
  EXPECT_EQ(invalid.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(invalid.error_message(), HasSubstr("/v1/embeddings"));
}

TEST_F(RouteTextReactorTest, WithoutADispatcherItIsUnimplemented) {
  Start(nullptr);
  v1::RouteTextResponse response;
  const grpc::Status status = Ask({}, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(status.error_message(), HasSubstr("needs dispatch or route-text"));
}

TEST_F(RouteTextReactorTest, CancelledCallCallsItsRequestOffAndALateAnswerHarmsNobody) {
  StartKeeping();
  grpc::ClientContext context;
  std::jthread caller([&] {
    v1::RouteTextResponse response;
    EXPECT_EQ(stub_->RouteText(&context, {}, &response).error_code(), grpc::StatusCode::CANCELLED);
  });
  const auto done = AwaitDone();
  ASSERT_TRUE(done.has_value());
  context.TryCancel();
  caller.join();
  for (int i = 0; i < 3000 && called_off_ == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(called_off_, 1);
  (*done)(AnswerUnder("late"));
}

TEST_F(RouteTextReactorTest, AnswerFromAnotherThreadEndsAWaitingCall) {
  StartKeeping();
  grpc::Status status = grpc::Status::CANCELLED;
  v1::RouteTextResponse response;
  std::jthread caller([&] { status = Ask({}, &response); });
  const auto done = AwaitDone();
  ASSERT_TRUE(done.has_value());
  (*done)(AnswerUnder("r-2"));
  caller.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.decision().request_id(), "r-2");
  EXPECT_FALSE(response.tokenized());
  EXPECT_EQ(called_off_, 0);
}

}  // namespace
}  // namespace kvrouter
