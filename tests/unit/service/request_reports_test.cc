// What the observer of a service hears of its requests.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/clock.h"
#include "service/routing_service.h"
#include "service/worker_registry.h"
#include "service_fixture.h"

namespace kvrouter {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

// Writes down what it hears, as "what worker figure".
class Recorder : public RequestObserver {
 public:
  void OnFirstToken(const ServedBy& by, nanoseconds since_arrival) override {
    Add("first", by, static_cast<uint64_t>(since_arrival / milliseconds(1)));
  }
  void OnOutputBlock(const ServedBy& by, nanoseconds average_inter_token) override {
    Add("output", by, static_cast<uint64_t>(average_inter_token / milliseconds(1)));
  }
  void OnEnd(const ServedBy& by, uint64_t output_tokens) override { Add("end", by, output_tokens); }
  std::vector<std::string> TakeHeard() { return std::exchange(heard_, {}); }

 private:
  void Add(const char* what, const ServedBy& by, uint64_t figure) {
    EXPECT_GT(static_cast<uint64_t>(by.incarnation), 0u);
    heard_.push_back(
        fmt::format("{} {} {}", what, static_cast<uint64_t>(by.target.worker), figure));
  }
  std::vector<std::string> heard_;
};

class RequestReportsTest : public testing::Test {
 protected:
  RequestReportsTest() : service_({}, &router_, &clock_, &recorder_), workers_(&router_) {
    clock_.Set(std::chrono::hours(1));
    EXPECT_TRUE(workers_.Register(AWorker(7)).ok());
  }

  void Book(const std::string& id) {
    RouteRequest request;
    request.request_id = id;
    request.prompt = TokenPrompt{tokens_};
    ASSERT_TRUE(service_.Route(std::move(request)).ok());
  }

  using Heard = std::vector<std::string>;
  Recorder recorder_;
  ManualClock clock_;
  Router router_{{}, nullptr};
  RoutingService service_;
  WorkerRegistry workers_;
  const std::vector<TokenId> tokens_ = std::vector<TokenId>(96, 5);  // 6 blocks
};

TEST_F(RequestReportsTest, ALifeInTokensIsHeardStepByStep) {
  Book("r");
  clock_.Advance(milliseconds(200));
  service_.PrefillComplete("r");
  service_.PrefillComplete("r");
  clock_.Advance(milliseconds(1600));
  service_.OutputTokens("r", 17, std::nullopt);
  service_.OutputTokens("r", 20, std::nullopt);
  service_.Free("r");
  service_.Free("r");
  EXPECT_EQ(recorder_.TakeHeard(), (Heard{"first 7 200", "output 7 100", "end 7 20"}));
}

TEST_F(RequestReportsTest, ALifeInBlocksIsHeardLikewise) {
  Book("r");
  service_.PrefillComplete("r");
  clock_.Advance(milliseconds(1600));
  service_.OutputBlock("r", std::nullopt);  // 97th token in all: the first of the output
  service_.OutputBlock("r", std::nullopt);  // 113th: the 17th
  service_.Free("r");
  EXPECT_EQ(recorder_.TakeHeard(), (Heard{"first 7 0", "output 7 100", "end 7 17"}));
}

TEST_F(RequestReportsTest, AnExplicitBookingIsHeardLikeAnyOther) {
  RouteRequest route;
  route.request_id = "r";
  route.prompt = TokenPrompt{tokens_};
  ASSERT_TRUE(service_.Reserve({.route = route, .target = {WorkerId{7}, 0}}).ok());
  clock_.Advance(milliseconds(5));
  service_.PrefillComplete("r");
  EXPECT_EQ(recorder_.TakeHeard(), Heard{"first 7 5"});
}

TEST_F(RequestReportsTest, RequestsWithoutReportsEndSilently) {
  Book("r");
  service_.Free("r");
  service_.PrefillComplete("r");
  service_.OutputTokens("never booked", 5, std::nullopt);
  EXPECT_EQ(recorder_.TakeHeard(), Heard{});
}

TEST_F(RequestReportsTest, ABrokenStreamsRequestEndsToo) {
  Book("r");
  const BookingId booking = service_.FindDecision("r")->booking;
  service_.OutputTokens("r", 3, std::nullopt);
  EXPECT_EQ(service_.FreeBooking("r", booking), LifecycleResult::kDone);
  EXPECT_EQ(recorder_.TakeHeard(), Heard{"end 7 3"});
}

TEST_F(RequestReportsTest, WhatExpiredOrLostItsWorkerIsNotHeardToEnd) {
  Book("expires");
  service_.OutputTokens("expires", 3, std::nullopt);
  clock_.Advance(seconds(3600));
  service_.Tick();
  service_.Free("expires");
  Book("loses its worker");
  service_.OutputTokens("loses its worker", 3, std::nullopt);
  ASSERT_TRUE(workers_.Remove(WorkerId{7}).ok());
  service_.PrefillComplete("loses its worker");
  service_.Free("loses its worker");
  EXPECT_EQ(recorder_.TakeHeard(), Heard{});
}

}  // namespace
}  // namespace kvrouter
