#include "service/waiting_requests.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace kvrouter {
namespace {

RouteDecision OfWorker(uint64_t id) {
  RouteDecision decision;
  decision.target.worker = WorkerId{id};
  return decision;
}

// Remembers what it was answered.
struct Probe {
  int calls = 0;
  WorkerId worker{};
  WaitingRequests::Continuation Continuation() {
    return [this](absl::StatusOr<RouteDecision> decision) {
      ++calls;
      if (decision.ok()) worker = decision->target.worker;
    };
  }
};

TEST(WaitingRequestsTest, ParkedThenResolved) {
  WaitingRequests waiting;
  Probe probe;
  waiting.Park(TicketId{1}, probe.Continuation());
  EXPECT_EQ(waiting.Size(), 1u);
  waiting.Resolve(TicketId{1}, OfWorker(5));
  EXPECT_EQ(probe.calls, 1);
  EXPECT_EQ(probe.worker, WorkerId{5});
  EXPECT_EQ(waiting.Size(), 0u);
}

TEST(WaitingRequestsTest, ResultThatCameFirstIsNotLost) {
  WaitingRequests waiting;
  Probe probe;
  waiting.Resolve(TicketId{1}, OfWorker(5));
  waiting.Park(TicketId{1}, probe.Continuation());
  EXPECT_EQ(probe.calls, 1);
  EXPECT_EQ(probe.worker, WorkerId{5});
}

TEST(WaitingRequestsTest, TicketsAreThoseThatWait) {
  WaitingRequests waiting;
  waiting.Park(TicketId{1}, [](const absl::StatusOr<RouteDecision>&) {});
  waiting.Park(TicketId{2}, [](const absl::StatusOr<RouteDecision>&) {});
  waiting.Resolve(TicketId{1}, absl::CancelledError());
  waiting.Resolve(TicketId{3}, absl::CancelledError());  // before its request is there
  EXPECT_EQ(waiting.Tickets(), std::vector{TicketId{2}});
}

TEST(WaitingRequestsTest, TakeAllEmptiesTheRoom) {
  WaitingRequests waiting;
  Probe a, b;
  waiting.Park(TicketId{1}, a.Continuation());
  waiting.Park(TicketId{2}, b.Continuation());
  for (auto& continuation : waiting.TakeAll()) continuation(absl::CancelledError());
  EXPECT_EQ(a.calls + b.calls, 2);
  EXPECT_EQ(waiting.Size(), 0u);
}

TEST(WaitingRequestsTest, ParkAndResolveOnTwoThreadsMeetOnce) {
  WaitingRequests waiting;
  constexpr uint64_t kTickets = 2000;
  std::vector<Probe> probes(kTickets);
  {
    std::jthread parker([&] {
      for (uint64_t i = 0; i < kTickets; ++i)
        waiting.Park(TicketId{i + 1}, probes[i].Continuation());
    });
    std::jthread resolver([&] {
      for (uint64_t i = 0; i < kTickets; ++i) waiting.Resolve(TicketId{i + 1}, OfWorker(i));
    });
  }
  for (uint64_t i = 0; i < kTickets; ++i) {
    ASSERT_EQ(probes[i].calls, 1) << "ticket " << i + 1;
    ASSERT_EQ(probes[i].worker, WorkerId{i});
  }
}

}  // namespace
}  // namespace kvrouter
