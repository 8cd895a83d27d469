// RouteText over HTTP, with the test in the dispatcher's place.

#include "adapters/openai/route_text_api.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/mutex.h"
#include "blocking_client.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

using Json = nlohmann::json;

class RouteTextApiTest : public testing::Test {
 protected:
  void Start(RouteTextFunction call) {
    server_ = std::make_unique<HttpServer>(HttpServerConfig{});
    api_ = std::make_unique<RouteTextApi>(std::move(call));
    api_->AddRoutes(server_.get());
    ASSERT_TRUE(server_->Start().ok());
  }
  BlockingClient::Answer Ask(const std::string& target, const std::string& body,
                             const std::string& headers = "") {
    BlockingClient client(server_->Address());
    client.Send("POST " + target + " HTTP/1.1\r\nHost: t\r\n" + headers +
                "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return client.ReadAnswer();
  }
  // Remembers what it was asked and answers with worker 7.
  RouteTextFunction Answering(std::shared_ptr<const std::vector<TokenId>> token_ids) {
    return [this, token_ids](RouteTextRequest request, const Dispatcher::RouteTextDone& done) {
      {
        MutexLock lock(mu_);
        asked_ = std::move(request);
      }
      RouteTextAnswer answer{.request_id = "r-9", .decision = {}, .token_ids = token_ids};
      answer.decision.target = {.worker = WorkerId{7}, .dp_rank = 1};
      answer.decision.address = "http://10.0.0.7:8000";
      done(std::move(answer));
      return [] {};
    };
  }
  RouteTextRequest Asked() {
    MutexLock lock(mu_);
    return asked_;
  }

  Mutex mu_;
  RouteTextRequest asked_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<RouteTextApi> api_;  // outlives the server's threads
  std::unique_ptr<HttpServer> server_;
};

TEST_F(RouteTextApiTest, BodyGoesInAsItIsAndTheDecisionComesBackWithTheTokens) {
  Start(Answering(std::make_shared<const std::vector<TokenId>>(std::vector<TokenId>{5, 6, 70000})));
  const auto answer =
      Ask("/route/v1/chat/completions", R"({"messages":[]})", "X-Request-Id: abc\r\n");
  EXPECT_EQ(answer.status, 200);
  const Json json = Json::parse(answer.body);
  EXPECT_EQ(json["decision"]["request_id"], "r-9");
  EXPECT_EQ(json["decision"]["target"]["worker_id"], 7);
  EXPECT_EQ(json["decision"]["target"]["dp_rank"], 1);
  EXPECT_EQ(json["decision"]["address"], "http://10.0.0.7:8000");
  EXPECT_EQ(json["tokenized"], true);
  EXPECT_EQ(json["token_ids"], Json({5, 6, 70000}));
  const RouteTextRequest asked = Asked();
  EXPECT_EQ(asked.path, "/v1/chat/completions");
  EXPECT_EQ(asked.body, R"({"messages":[]})");
  EXPECT_TRUE(asked.book);
  bool has_id = false;
  for (const auto& [name, value] : asked.headers)
    has_id |= name == "x-request-id" && value == "abc";
  EXPECT_TRUE(has_id);
}

TEST_F(RouteTextApiTest, WithoutTokensItSaysSoAndAdviceIsAskedForByTheQuery) {
  Start(Answering(nullptr));
  const auto answer = Ask("/route/v1/completions?book=false", R"({"prompt":"x"})");
  EXPECT_EQ(answer.status, 200);
  const Json json = Json::parse(answer.body);
  EXPECT_EQ(json["tokenized"], false);
  EXPECT_EQ(json["token_ids"], Json::array());
  EXPECT_EQ(Asked().path, "/v1/completions");
  EXPECT_FALSE(Asked().book);
  const auto refused = Ask("/route/v1/completions?book=maybe", "{}");
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("book must be true or false"), std::string::npos);
}

TEST_F(RouteTextApiTest, ErrorOfTheRouterIsAnErrorOfTheSelectionApi) {
  Start([](const RouteTextRequest&, const Dispatcher::RouteTextDone& done) {
    done(MakeError(absl::StatusCode::kNotFound, ErrorReason::kUnknownPartition, "no such model"));
    return [] {};
  });
  const auto answer = Ask("/route/v1/completions", "{}");
  EXPECT_EQ(answer.status, 404);
  EXPECT_EQ(answer.body, R"({"error":"no such model"})");
}

TEST_F(RouteTextApiTest, CallerThatLeavesCallsItsRequestOff) {
  std::atomic<int> asked{0}, cancelled{0};
  Dispatcher::RouteTextDone kept;
  Start([&](const RouteTextRequest&, Dispatcher::RouteTextDone done) {
    kept = std::move(done);
    ++asked;
    return [&cancelled] { ++cancelled; };
  });
  BlockingClient client(server_->Address());
  client.Send("POST /route/v1/completions HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\n{}");
  EXPECT_TRUE(Eventually([&] { return asked == 1; }));
  EXPECT_EQ(cancelled, 0);
  client.Close();
  EXPECT_TRUE(Eventually([&] { return cancelled == 1; }));
}

TEST_F(RouteTextApiTest, WithoutADispatcherItSaysWhatItNeeds) {
  Start(nullptr);
  const auto answer = Ask("/route/v1/completions", "{}");
  EXPECT_EQ(answer.status, 501);
  EXPECT_NE(answer.body.find("needs dispatch or route-text"), std::string::npos);
}

}  // namespace
}  // namespace kvrouter
