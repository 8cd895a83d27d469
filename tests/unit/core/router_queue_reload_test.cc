// Queue and ejection under changed settings, and whom a request of a bound session waits for.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "kvrouter/error.h"
#include "kvrouter/router.h"
#include "support/core_builders.h"

namespace kvrouter {
namespace {

using namespace testing;  // NOLINT: the builders
using std::chrono::milliseconds;
using std::chrono::seconds;

// Requests wait while every worker has more than this to compute.
RouterConfig WaitingAbove(std::optional<uint64_t> tokens) {
  RouterConfig config;
  config.scheduler.queue.busy.tokens = tokens;
  return config;
}

PolicyClass AClass(std::string name, uint64_t busy_tokens) {
  PolicyClass c;
  c.name = std::move(name);
  c.busy.tokens = busy_tokens;
  return c;
}

// Class chat-any for whoever names none, and these.
RouterConfig WithClasses(uint64_t busy_tokens, std::vector<PolicyClass> others) {
  RouterConfig config;
  PolicyProfile profile{.default_policy_family = "chat",
                        .uncached_isl_buckets = {{.min_tokens = 0, .bucket = "any"}},
                        .policy_classes = {AClass("chat-any", busy_tokens)}};
  profile.policy_classes[0].policy_family = "chat";
  profile.policy_classes[0].cache_bucket = "any";
  for (PolicyClass& c : others) profile.policy_classes.push_back(std::move(c));
  config.scheduler.queue.profile = std::move(profile);
  return config;
}

class RouterQueueReloadTest : public ::testing::Test {
 protected:
  void Start(const RouterConfig& config, uint64_t workers = 1) {
    router_.emplace(config, nullptr);
    for (uint64_t id = 1; id <= workers; ++id) ASSERT_TRUE(router_->UpsertWorker(AWorker(id)).ok());
  }
  Router::Submission Submit(RouteRequest request = {}) {
    const auto tokens = TokensFrom(next_ += 1000, 64);
    RouteRequest filled = ARequest(tokens);
    filled.policy_class = request.policy_class;
    filled.session_id = request.session_id;
    filled.pinned = request.pinned;
    filled.excluded = request.excluded;
    auto submission = router_->Submit(filled, now_);
    EXPECT_TRUE(submission.ok()) << submission.status();
    return submission.ok() ? *std::move(submission) : Router::Submission();
  }
  RouteDecision Decided(RouteRequest request = {}) {
    const auto submission = Submit(std::move(request));
    EXPECT_TRUE(std::holds_alternative<RouteDecision>(submission)) << "it waits";
    return std::get<RouteDecision>(submission);
  }
  TicketId Waiting(RouteRequest request = {}) {
    const auto submission = Submit(std::move(request));
    EXPECT_TRUE(std::holds_alternative<TicketId>(submission)) << "it was decided";
    return std::get<TicketId>(submission);
  }
  static RouteRequest OfClass(std::string name) {
    RouteRequest request;
    request.policy_class = std::move(name);
    return request;
  }
  static RouteRequest OfSession(std::string id) {
    RouteRequest request;
    request.session_id = std::move(id);
    return request;
  }
  std::vector<TicketId> Pump() {
    std::vector<TicketId> tickets;
    for (const auto& resolved : router_->Pump(now_)) {
      EXPECT_TRUE(resolved.decision.ok()) << resolved.decision.status();
      tickets.push_back(resolved.ticket);
      if (resolved.decision.ok()) last_ = *resolved.decision;
    }
    return tickets;
  }
  QueueClassSnapshot Class(const std::string& name) const {
    const auto partitions = router_->Snapshot();
    for (const QueueClassSnapshot& c : partitions.front().queue)
      if (c.policy_class == name) return c;
    ADD_FAILURE() << "no class " << name;
    return {};
  }

  std::optional<Router> router_;
  MonotonicTime now_ = seconds(100);
  RouteDecision last_;

 private:
  TokenId next_ = 0;
};

TEST_F(RouterQueueReloadTest, AThresholdHoldsForWhoComesAndForWhoWaits) {
  Start({});
  Decided();
  Decided();  // nobody waits
  const auto generation = router_->Reconfigure(WaitingAbove(10));
  ASSERT_TRUE(generation.ok()) << generation.status();
  EXPECT_EQ(*generation, 2u);
  const TicketId ticket = Waiting();
  EXPECT_TRUE(Pump().empty());
  ASSERT_TRUE(router_->Reconfigure(WaitingAbove(1'000'000)).ok());
  EXPECT_EQ(Pump(), std::vector{ticket});
  EXPECT_EQ(last_.config_generation, 2u) << "its weights are those it came under";
}

TEST_F(RouterQueueReloadTest, WhoWaitsGoesWhereNobodyWaitsAnyMore) {
  Start(WaitingAbove(10));
  Decided();
  const std::vector tickets = {Waiting(), Waiting()};
  ASSERT_TRUE(router_->Reconfigure({}).ok());
  EXPECT_EQ(Pump(), tickets);
  EXPECT_EQ(router_->Snapshot().front().bookings, 3u);
}

TEST_F(RouterQueueReloadTest, APartitionThatComesLaterQueuesAsConfigured) {
  Start({});
  ASSERT_TRUE(router_->Reconfigure(WaitingAbove(10)).ok());
  WorkerSpec spec = AWorker(9);
  spec.model_name = "m";
  ASSERT_TRUE(router_->UpsertWorker(spec).ok());
  for (const bool waits : {false, true}) {
    const auto tokens = TokensFrom(0, 64);
    RouteRequest request = ARequest(tokens);
    request.model_name = "m";
    const auto submission = router_->Submit(request, now_);
    ASSERT_TRUE(submission.ok());
    EXPECT_EQ(std::holds_alternative<TicketId>(*submission), waits);
  }
}

TEST_F(RouterQueueReloadTest, WhoWaitsInAClassThatGoesIsPutWhereItWouldComeNow) {
  Start(WithClasses(10, {AClass("batch", 10)}));
  const BookingId filler = Decided().booking;
  const TicketId batch = Waiting(OfClass("batch"));
  const TicketId chat = Waiting();
  EXPECT_EQ(Class("batch").waiting, 1u);

  ASSERT_TRUE(router_->Reconfigure(WithClasses(10, {AClass("other", 10)})).ok());
  EXPECT_EQ(Class("chat-any").waiting, 2u);
  EXPECT_EQ(Class("chat-any").waiting_isl_tokens, 128u);
  EXPECT_EQ(Class("chat-any").parked_total, 2u) << "its own and the one that came over";
  EXPECT_EQ(Class("other").waiting, 0u);
  EXPECT_TRUE(Pump().empty()) << "nothing became free";

  ASSERT_TRUE(router_->Finish(filler, now_));
  EXPECT_EQ(Pump(), std::vector{batch}) << "it came first";
  ASSERT_TRUE(router_->Finish(last_.booking, now_));
  EXPECT_EQ(Pump(), std::vector{chat});
  EXPECT_EQ(Class("chat-any").released_total, 2u);
}

TEST_F(RouterQueueReloadTest, WhoWaitsForAClassThatIsNewIsPutThere) {
  Start(WithClasses(10, {}));
  Decided();
  Waiting(OfClass("batch"));
  EXPECT_EQ(Class("chat-any").waiting, 1u);
  ASSERT_TRUE(router_->Reconfigure(WithClasses(10, {AClass("batch", 10)})).ok());
  EXPECT_EQ(Class("chat-any").waiting, 0u);
  EXPECT_EQ(Class("chat-any").released_total, 1u);
  EXPECT_EQ(Class("batch").waiting, 1u);
  EXPECT_EQ(Class("batch").parked_total, 1u);
}

TEST_F(RouterQueueReloadTest, ATicketCanBeCancelledAndExpiresAfterwards) {
  Start(WithClasses(10, {AClass("batch", 10)}));
  Decided();
  const TicketId one = Waiting(OfClass("batch"));
  const TicketId two = Waiting();
  ASSERT_TRUE(router_->Reconfigure(WithClasses(10, {})).ok());
  EXPECT_TRUE(router_->Cancel(one));
  EXPECT_FALSE(router_->Cancel(one));
  EXPECT_TRUE(router_->Cancel(two));
  EXPECT_EQ(Class("chat-any").waiting, 0u);
  EXPECT_EQ(Class("chat-any").waiting_isl_tokens, 0u);
}

TEST_F(RouterQueueReloadTest, ALowerBoundLetsInNobodyMoreAndPutsNobodyOut) {
  Start(WaitingAbove(10));
  Decided();
  Waiting();
  Waiting();
  RouterConfig config = WaitingAbove(10);
  config.scheduler.queue.max_waiting = 1;
  ASSERT_TRUE(router_->Reconfigure(config).ok());
  EXPECT_EQ(Class("default").waiting, 2u);
  const auto tokens = TokensFrom(0, 64);
  EXPECT_EQ(ErrorReasonOf(router_->Submit(ARequest(tokens), now_).status()),
            ErrorReason::kQueueLimit);
}

TEST_F(RouterQueueReloadTest, WhatIsRefusedLeavesTheQueueAsItWas) {
  Start(WaitingAbove(10));
  Decided();
  RouterConfig config = WaitingAbove(1'000'000);
  config.max_workers = 7;
  EXPECT_EQ(router_->Reconfigure(config).status().code(), absl::StatusCode::kFailedPrecondition);
  config = WithClasses(10, {AClass("no such name!", 10)});
  EXPECT_EQ(router_->Reconfigure(config).status().code(), absl::StatusCode::kInvalidArgument);
  Waiting();
  EXPECT_TRUE(Pump().empty());
  EXPECT_EQ(router_->ConfigGeneration(), 1u);
}

// Run under ThreadSanitizer, too.
TEST_F(RouterQueueReloadTest, UnderThreadsEveryRequestIsAnsweredOnceWhateverTheClasses) {
  Start(WithClasses(10, {AClass("batch", 10)}));
  const BookingId filler = Decided().booking;
  constexpr uint64_t kRequests = 400;
  constexpr uint64_t kThreads = 3;
  std::atomic<uint64_t> answered{0};
  Waiting();
  std::atomic<uint64_t> parked{1};
  std::atomic<bool> done{false};
  const auto finish = [&](const RouteDecision& decision) {
    ++answered;
    EXPECT_TRUE(router_->Finish(decision.booking, now_));
  };
  const auto pump = [&] {
    for (auto batch = router_->Pump(now_); !batch.empty(); batch = router_->Pump(now_)) {
      for (const auto& resolved : batch) {
        ASSERT_TRUE(resolved.decision.ok()) << resolved.decision.status();
        finish(*resolved.decision);
      }
    }
  };
  {
    std::vector<std::jthread> callers;
    for (uint64_t thread = 0; thread < kThreads; ++thread) {
      callers.emplace_back([&, thread] {
        const auto tokens = TokensFrom(static_cast<TokenId>(thread * 1000), 64);
        for (uint64_t i = 0; i < kRequests; ++i) {
          RouteRequest request = ARequest(tokens);
          if (i % 2 == 0) request.policy_class = "batch";
          const auto submission = router_->Submit(request, now_);
          ASSERT_TRUE(submission.ok()) << submission.status();
          if (const auto* decision = std::get_if<RouteDecision>(&*submission)) {
            finish(*decision);
          } else {
            ++parked;
          }
          pump();
        }
      });
    }
    std::jthread reloads([&] {
      for (int i = 0; !done; ++i) {
        const RouterConfig next = i % 3 == 0   ? WithClasses(10, {})
                                  : i % 3 == 1 ? WithClasses(10, {AClass("batch", 10)})
                                               : WithClasses(1'000'000, {AClass("more", 1)});
        EXPECT_TRUE(router_->Reconfigure(next).ok());
      }
    });
    for (std::jthread& caller : callers) caller.join();
    done = true;
  }
  EXPECT_TRUE(router_->Finish(filler, now_));
  pump();
  EXPECT_EQ(answered, kRequests * kThreads + 1);
  EXPECT_GT(parked, 1u);
  ExpectIdle(*router_);
  const auto partitions = router_->Snapshot();
  for (const QueueClassSnapshot& c : partitions.front().queue)
    EXPECT_EQ(c.waiting, 0u) << c.policy_class;
}

TEST_F(RouterQueueReloadTest, EjectionAsConfiguredHoldsFromNowOn) {
  Start({}, 2);
  const auto fail = [&] {
    router_->ReportLeg({.target = TargetOf(1),
                        .incarnation = Incarnation{1},
                        .succeeded = false,
                        .after = milliseconds(5)},
                       now_);
  };
  RouterConfig config;
  config.scheduler.outlier_ejection.consecutive_failures = 2;
  fail();
  ASSERT_TRUE(router_->Reconfigure(config).ok());
  EXPECT_FALSE(LoadOf(*router_, TargetOf(1))->ejected_until);
  fail();
  EXPECT_TRUE(LoadOf(*router_, TargetOf(1))->ejected_until) << "the row before counts";
  config.scheduler.outlier_ejection.consecutive_failures = 0;
  ASSERT_TRUE(router_->Reconfigure(config).ok());
  EXPECT_FALSE(LoadOf(*router_, TargetOf(1))->ejected_until) << "nobody is out";
  fail();
  EXPECT_FALSE(LoadOf(*router_, TargetOf(1))->ejected_until);
}

// ---- Sessions in the queue ----

RouterConfig WithSessions(bool soft = false) {
  RouterConfig config = WaitingAbove(10);
  config.sessions.affinity_ttl = seconds(600);
  config.sessions.soft = soft;
  return config;
}

TEST_F(RouterQueueReloadTest, ARequestOfABoundSessionWaitsForItsWorkerThoughAnotherIsIdle) {
  Start(WithSessions(), 2);
  const RouteDecision first = Decided(OfSession("s"));
  const TicketId second = Waiting(OfSession("s"));
  EXPECT_TRUE(Pump().empty());
  const TicketId other = Waiting();  // nobody is passed by before Pump looks
  EXPECT_EQ(Pump(), std::vector{other}) << "it holds up nobody else";
  EXPECT_NE(last_.target, first.target);
  ASSERT_TRUE(router_->Finish(first.booking, now_));
  EXPECT_EQ(Pump(), std::vector{second});
  EXPECT_EQ(last_.target, first.target);
  EXPECT_EQ(last_.session.outcome, SessionOutcome::kBound);
}

TEST_F(RouterQueueReloadTest, ItWaitsForItNoLongerThanItCouldServe) {
  Start(WithSessions(), 2);
  const RouteDecision first = Decided(OfSession("s"));
  const TicketId second = Waiting(OfSession("s"));
  ASSERT_TRUE(router_->RemoveWorker(first.target.worker));
  EXPECT_EQ(Pump(), std::vector{second});
  EXPECT_NE(last_.target, first.target);
}

TEST_F(RouterQueueReloadTest, WhereItsWorkerIsNotAllowedAnyOtherWillDo) {
  Start(WithSessions(), 2);
  const RouteDecision first = Decided(OfSession("s"));
  RouteRequest request = OfSession("s");
  request.excluded = {{.worker = first.target.worker}};
  EXPECT_NE(Decided(request).target, first.target);
}

TEST_F(RouterQueueReloadTest, ASoftPinIsNoReasonToWait) {
  Start(WithSessions(/*soft=*/true), 2);
  Decided(OfSession("s"));
  Decided(OfSession("s"));
}

}  // namespace
}  // namespace kvrouter
