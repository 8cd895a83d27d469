#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "service_fixture.h"

namespace kvrouter {
namespace {

// A call that waited, as its door sees it.
struct Waiting {
  TicketId ticket = kNoTicket;
  std::optional<RoutingService::Answer> answer;
};

// One worker; whoever comes while it computes a prompt waits.
class AbandonTest : public ::testing::Test {
 protected:
  static RouterConfig Config() {
    RouterConfig config;
    config.scheduler.queue.busy.tokens = 100;
    return config;
  }
  AbandonTest() {
    EXPECT_TRUE(fleet_.service.Route(fleet_.ARequest("first")).ok());
    const auto wait = [this](TicketId ticket) -> RoutingService::Completion {
      waiting_->ticket = ticket;
      return [waiting = waiting_](RoutingService::Answer answer) {
        waiting->answer = std::move(answer);
      };
    };
    EXPECT_FALSE(fleet_.service.Submit(fleet_.ARequest("r"), wait)) << "it has to wait";
  }

  Fleet fleet_{1, Config()};
  const std::shared_ptr<Waiting> waiting_ = std::make_shared<Waiting>();
};

TEST_F(AbandonTest, WhoWaitsLeavesAtOnce) {
  fleet_.service.Abandon("r", waiting_->ticket);
  ASSERT_TRUE(waiting_->answer);
  EXPECT_EQ(waiting_->answer->status().code(), absl::StatusCode::kCancelled);
  fleet_.service.Free("first");
  fleet_.ExpectNoLoad();
}

TEST_F(AbandonTest, WhoseAnswerIsOnItsWayKeepsNoBooking) {
  fleet_.service.Free("first");
  ASSERT_TRUE(waiting_->answer && waiting_->answer->ok());
  EXPECT_EQ(fleet_.ActiveRequests(), 1u);
  fleet_.service.Abandon("r", waiting_->ticket);
  fleet_.ExpectNoLoad();
  EXPECT_EQ(fleet_.service.LiveRequests(), 0u);
  const ServiceCounters counters = fleet_.service.Counters();
  EXPECT_EQ(counters.requests_started, counters.requests_finished);
}

TEST_F(AbandonTest, ALaterRequestOfTheSameIdIsNotItsAffair) {
  fleet_.service.Free("first");
  fleet_.service.Free("r");
  ASSERT_TRUE(fleet_.service.Route(fleet_.ARequest("r")).ok());
  fleet_.service.Abandon("r", waiting_->ticket);
  EXPECT_EQ(fleet_.ActiveRequests(), 1u);
}

}  // namespace
}  // namespace kvrouter
