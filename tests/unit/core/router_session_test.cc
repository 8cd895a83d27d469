#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "kvrouter/error.h"
#include "kvrouter/router.h"
#include "support/core_builders.h"

namespace kvrouter {
namespace {

using namespace testing;  // NOLINT: the builders
using std::chrono::seconds;

RouterConfig WithAffinity() {
  RouterConfig config;
  config.sessions.affinity_ttl = seconds(60);
  return config;
}

class RouterSessionTest : public ::testing::Test {
 protected:
  void AddWorkers(Router& router, uint64_t count) {
    for (uint64_t id = 1; id <= count; ++id) ASSERT_TRUE(router.UpsertWorker(AWorker(id)).ok());
  }
  RouteRequest OfSession(const std::string& id) {
    RouteRequest request = ARequest(tokens_);
    request.session_id = id;
    return request;
  }
  static SessionFigures Figures(const Router& router) {
    return router.Snapshot().front().decode_sessions;
  }

  const std::vector<TokenId> tokens_ = TokensFrom(0, 64);
  MonotonicTime now_ = seconds(1000);
};

TEST_F(RouterSessionTest, ASessionStaysWhereItsFirstRequestWentAgainstTheCost) {
  Router router(WithAffinity(), nullptr);
  AddWorkers(router, 4);
  const auto first = Decide(router, OfSession("s"), now_);
  EXPECT_EQ(first.session.source, SessionSource::kCaller);
  EXPECT_EQ(first.session.outcome, SessionOutcome::kInitialised);
  // Its target now has the most load, and somebody else holds the whole prompt.
  const uint64_t other = first.target == TargetOf(1) ? 2 : 1;
  ASSERT_EQ(router.Apply(StoredEvent(tokens_, TargetOf(other))).status, ApplyStatus::kOk);
  for (int i = 0; i < 10; ++i) {
    const auto next = Decide(router, OfSession("s"), now_);
    EXPECT_EQ(next.target, first.target);
    EXPECT_EQ(next.reason, DecisionReason::kSession);
    EXPECT_EQ(next.session.outcome, SessionOutcome::kBound);
    EXPECT_EQ(next.candidates.size(), 4u) << "explained with all that was there";
    EXPECT_GT(next.regret_blocks, 0);
  }
  EXPECT_EQ(Figures(router).sessions, 1u);
  EXPECT_EQ(Figures(router).leases, 11u);
}

TEST_F(RouterSessionTest, WithoutAffinityOrSessionNothingIsBound) {
  Router off(RouterConfig{}, nullptr);
  AddWorkers(off, 2);
  EXPECT_EQ(Decide(off, OfSession("s"), now_).session.outcome, SessionOutcome::kNone);
  Router on(WithAffinity(), nullptr);
  AddWorkers(on, 2);
  const auto decision = Decide(on, ARequest(tokens_), now_);
  EXPECT_EQ(decision.session.key, kNoSession);
  EXPECT_EQ(decision.session.outcome, SessionOutcome::kNone);
  EXPECT_EQ(Figures(on).sessions, 0u);
}

TEST_F(RouterSessionTest, AdviceReadsTheBindingAndChangesNothing) {
  Router router(WithAffinity(), nullptr);
  AddWorkers(router, 4);
  RouteRequest advice = OfSession("s");
  advice.book = false;
  EXPECT_EQ(Decide(router, advice, now_).session.outcome, SessionOutcome::kInitialised)
      << "what a booking would do";
  EXPECT_EQ(Figures(router).sessions, 0u);
  const auto booked = Decide(router, OfSession("s"), now_);
  for (int i = 0; i < 5; ++i) {
    const auto advised = Decide(router, advice, now_);
    EXPECT_EQ(advised.target, booked.target);
    EXPECT_EQ(advised.session.outcome, SessionOutcome::kBound);
  }
  EXPECT_EQ(Figures(router).leases, 1u);
}

TEST_F(RouterSessionTest, IdleForTheTtlItIsPlacedAnewAndLeasesKeepIt) {
  Router router(WithAffinity(), nullptr);
  AddWorkers(router, 4);
  const auto first = Decide(router, OfSession("s"), now_);
  now_ += seconds(100'000);
  router.Expire(MonotonicTime{});
  EXPECT_EQ(Decide(router, OfSession("s"), now_).session.outcome, SessionOutcome::kBound)
      << "the first request still runs";
  ASSERT_TRUE(router.Finish(first.booking, now_));
  for (const BookingId expired : router.Expire(now_ + seconds(300))) EXPECT_NE(expired, kNoBooking);
  now_ += seconds(360);
  EXPECT_EQ(Decide(router, OfSession("s"), now_).session.outcome, SessionOutcome::kInitialised);
}

TEST_F(RouterSessionTest, ATargetThatDrainsLeavesOrLivesAnewLosesTheSession) {
  for (const std::string how : {"drain", "remove", "restart"}) {
    SCOPED_TRACE(how);
    Router router(WithAffinity(), nullptr);
    AddWorkers(router, 2);
    const auto first = Decide(router, OfSession("s"), now_);
    const auto id = static_cast<uint64_t>(first.target.worker);
    if (how == "drain") {
      WorkerSpec spec = AWorker(id);
      spec.draining = true;
      ASSERT_TRUE(router.UpsertWorker(spec).ok());
    } else if (how == "remove") {
      ASSERT_TRUE(router.RemoveWorker(first.target.worker));
    } else {
      ASSERT_TRUE(router.UpsertWorker(AWorker(id, 2)).ok());
    }
    const auto next = Decide(router, OfSession("s"), now_);
    if (how == "restart") {
      // Another life of the same worker is another target; the session begins anew.
      EXPECT_NE(next.session.outcome, SessionOutcome::kBound);
    } else {
      EXPECT_NE(next.target, first.target);
      EXPECT_EQ(next.session.outcome,
                how == "drain" ? SessionOutcome::kReplaced : SessionOutcome::kInitialised);
    }
    const auto after = Decide(router, OfSession("s"), now_);
    EXPECT_EQ(after.target, next.target);
    EXPECT_EQ(after.session.outcome, SessionOutcome::kBound);
    // A worker that comes back does not get the session back.
    ASSERT_TRUE(router.UpsertWorker(AWorker(id, 3)).ok());
    if (how == "restart") continue;
    EXPECT_EQ(Decide(router, OfSession("s"), now_).target, next.target);
  }
}

TEST_F(RouterSessionTest, B42_NeverPinnedToTheDeadNorTooEarly) {
  Router router(WithAffinity(), nullptr);
  AddWorkers(router, 2);
  // A first turn whose target fails it leaves no pin.
  const auto failed = Decide(router, OfSession("s"), now_);
  EXPECT_TRUE(router.DropSession(failed.booking));
  router.Finish(failed.booking, now_);
  EXPECT_EQ(Figures(router).sessions, 0u);
  // Ten first turns at once end on one worker.
  std::set<Target> targets;
  for (int i = 0; i < 10; ++i) targets.insert(Decide(router, OfSession("s"), now_).target);
  ASSERT_EQ(targets.size(), 1u);
  const Target first = *targets.begin();
  // Its worker goes: the next turn is pinned elsewhere, and stays there when it is back.
  ASSERT_TRUE(router.RemoveWorker(first.worker));
  const Target second = Decide(router, OfSession("s"), now_).target;
  EXPECT_NE(second, first);
  ASSERT_TRUE(router.UpsertWorker(AWorker(static_cast<uint64_t>(first.worker), 2)).ok());
  EXPECT_EQ(Decide(router, OfSession("s"), now_).target, second);
  // A pin to the very target refreshes, too.
  RouteRequest pinned = OfSession("s");
  pinned.pinned = TargetSelector{.worker = second.worker};
  EXPECT_EQ(Decide(router, pinned, now_).session.outcome, SessionOutcome::kBound);
}

TEST_F(RouterSessionTest, AnExplicitPinWinsAndLeavesTheBindingAlone) {
  Router router(WithAffinity(), nullptr);
  AddWorkers(router, 3);
  const auto first = Decide(router, OfSession("s"), now_);
  RouteRequest pinned = OfSession("s");
  pinned.pinned = TargetSelector{.worker = first.target == TargetOf(1) ? WorkerId{2} : WorkerId{1}};
  const auto elsewhere = Decide(router, pinned, now_);
  EXPECT_EQ(elsewhere.target.worker, pinned.pinned->worker);
  EXPECT_EQ(elsewhere.reason, DecisionReason::kPinned);
  EXPECT_EQ(elsewhere.session.outcome, SessionOutcome::kConflict);
  EXPECT_EQ(Decide(router, OfSession("s"), now_).target, first.target);
}

TEST_F(RouterSessionTest, AFailedTargetLosesTheSessionAndACancelledRequestDoesNot) {
  Router router(WithAffinity(), nullptr);
  AddWorkers(router, 3);
  const auto first = Decide(router, OfSession("s"), now_);
  ASSERT_TRUE(router.Finish(first.booking, now_));
  const auto second = Decide(router, OfSession("s"), now_);
  EXPECT_EQ(second.target, first.target);
  EXPECT_TRUE(router.DropSession(second.booking));
  EXPECT_FALSE(router.DropSession(second.booking));
  EXPECT_TRUE(router.IsLive(second.booking)) << "the booking is the caller's to end";
  ASSERT_TRUE(router.Finish(second.booking, now_));
  RouteRequest retry = OfSession("s");
  retry.excluded = {TargetSelector{.worker = first.target.worker}};
  const auto third = Decide(router, retry, now_);
  EXPECT_EQ(third.session.outcome, SessionOutcome::kInitialised);
  EXPECT_EQ(Decide(router, OfSession("s"), now_).target, third.target);
}

TEST_F(RouterSessionTest, SoftSessionsMoveWhenStayingCostsTooMuch) {
  RouterConfig config = WithAffinity();
  config.sessions.soft = true;
  config.sessions.soft_pin = {.max_cost_factor = 1.5, .max_extra_cost_blocks = 0};
  Router router(config, nullptr);
  AddWorkers(router, 2);
  const auto first = Decide(router, OfSession("s"), now_);
  EXPECT_EQ(first.session.outcome, SessionOutcome::kInitialised);
  // Idle target: 4 + 4 = 8; with the first request: 8 + 4 = 12 (its blocks are shared) = 1.5 x.
  const auto second = Decide(router, OfSession("s"), now_);
  EXPECT_EQ(second.target, first.target);
  EXPECT_EQ(second.session.outcome, SessionOutcome::kBound);
  const auto third = Decide(router, OfSession("s"), now_);
  EXPECT_NE(third.target, first.target);
  EXPECT_EQ(third.session.outcome, SessionOutcome::kMoved);
  EXPECT_EQ(third.reason, DecisionReason::kOnlyCandidate == third.reason
                              ? DecisionReason::kOnlyCandidate
                              : DecisionReason::kLowestCost);
  EXPECT_EQ(Decide(router, OfSession("s"), now_).target, third.target) << "the binding moved along";
}

TEST_F(RouterSessionTest, RendezvousGivesEveryRouterTheSamePlaceWhateverTheLoad) {
  RouterConfig config = WithAffinity();
  config.sessions.rendezvous = true;
  Router a(config, nullptr);
  Router b(config, nullptr);
  AddWorkers(a, 5);
  AddWorkers(b, 5);
  for (int i = 0; i < 50; ++i) Decide(b, ARequest(tokens_), now_);  // other loads
  std::set<Target> used;
  for (int i = 0; i < 40; ++i) {
    const auto in_a = Decide(a, OfSession("s" + std::to_string(i)), now_);
    const auto in_b = Decide(b, OfSession("s" + std::to_string(i)), now_);
    EXPECT_EQ(in_a.target, in_b.target) << i;
    EXPECT_EQ(in_a.reason, DecisionReason::kRendezvous);
    used.insert(in_a.target);
  }
  EXPECT_EQ(used.size(), 5u);
}

TEST_F(RouterSessionTest, TurnsOfAConversationAreOneSessionWithoutAName) {
  RouterConfig config = WithAffinity();
  config.sessions.prefix_tokens = 100;
  Router router(config, nullptr);
  AddWorkers(router, 8);
  std::map<int, Target> place;
  std::map<int, std::vector<TokenId>> prompts;
  for (int turn = 0; turn < 12; ++turn) {  // 21 tokens a turn: below N, across it, far above
    for (int c = 0; c < 20; ++c) {
      for (TokenId t = 0; t < 21; ++t)
        prompts[c].push_back(static_cast<TokenId>(1'000'000 * (c + 1) + 21 * turn) + t);
      const auto decision = Decide(router, ARequest(prompts[c]), now_);
      ASSERT_NE(decision.session.key, kNoSession);
      ASSERT_NE(decision.session.source, SessionSource::kCaller);
      if (turn == 0) place[c] = decision.target;
      ASSERT_EQ(decision.target, place[c]) << "conversation " << c << " turn " << turn;
      router.Finish(decision.booking, now_);
    }
  }
  EXPECT_EQ(Figures(router).sessions, 20u);
}

TEST_F(RouterSessionTest, WhatAllHaveInCommonDoesNotHerd) {
  RouterConfig config = WithAffinity();
  config.sessions.prefix_tokens = 64;
  Router router(config, nullptr);
  AddWorkers(router, 8);
  std::map<Target, int> requests;
  bool turned_hot = false;
  for (int i = 0; i < 2000; ++i) {
    std::vector<TokenId> prompt = tokens_;  // a system prompt of N tokens
    for (TokenId t = 0; t < 64; ++t) prompt.push_back(static_cast<TokenId>(1000 + 64 * i) + t);
    const auto decision = Decide(router, ARequest(prompt), now_);
    turned_hot |= decision.session.outcome == SessionOutcome::kHot;
    if (turned_hot) ++requests[decision.target];
    now_ += std::chrono::milliseconds(10);
  }
  EXPECT_TRUE(turned_hot);
  ASSERT_EQ(requests.size(), 8u);
  for (const auto& [target, count] : requests) EXPECT_LT(count, 2 * 2000 / 8);
  EXPECT_EQ(router.Snapshot().front().derived_sessions.hot, 1u);
}

TEST_F(RouterSessionTest, ReservingBindsToo) {
  Router router(WithAffinity(), nullptr);
  AddWorkers(router, 3);
  ReserveRequest reserve{.route = OfSession("s"), .target = TargetOf(3)};
  const auto reserved = router.Reserve(reserve, now_);
  ASSERT_TRUE(reserved.ok()) << reserved.status();
  EXPECT_EQ(reserved->session.outcome, SessionOutcome::kInitialised);
  EXPECT_EQ(Decide(router, OfSession("s"), now_).target, TargetOf(3));
}

TEST_F(RouterSessionTest, AnIdOfMoreThan256BytesIsRefused) {
  Router router(WithAffinity(), nullptr);
  AddWorkers(router, 1);
  EXPECT_TRUE(router.Submit(OfSession(std::string(256, 'x')), now_).ok());
  const auto error = ErrorOf(router, OfSession(std::string(257, 'x')), now_);
  EXPECT_EQ(error.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorReasonOf(error), ErrorReason::kInvalidRequest);
}

TEST_F(RouterSessionTest, WhenAllBindingsAreInUseRequestsGoUnbound) {
  RouterConfig config = WithAffinity();
  config.sessions.max_sessions = 2;
  Router router(config, nullptr);
  AddWorkers(router, 2);
  Decide(router, OfSession("a"), now_);
  Decide(router, OfSession("b"), now_);
  const auto third = Decide(router, OfSession("c"), now_);
  EXPECT_EQ(third.session.outcome, SessionOutcome::kNoRoom);
  EXPECT_TRUE(third.booked);
  EXPECT_EQ(Figures(router).refused_total, 1u);
}

TEST_F(RouterSessionTest, EveryLeaseComesBack) {
  RouterConfig config = WithAffinity();
  config.scheduler.active_request_expiry = seconds(10);
  Router router(config, nullptr);
  AddWorkers(router, 3);
  for (int i = 0; i < 30; ++i) {
    const auto decision = Decide(router, OfSession("s" + std::to_string(i % 7)), now_);
    if (i % 3 == 0) router.Finish(decision.booking, now_);
  }
  router.RemoveWorker(WorkerId{1});
  EXPECT_GT(Figures(router).leases, 0u);
  router.Expire(now_ + seconds(10));
  EXPECT_EQ(Figures(router).leases, 0u);
  router.Expire(now_ + seconds(70));
  EXPECT_EQ(Figures(router).sessions, 0u);
}

}  // namespace
}  // namespace kvrouter
