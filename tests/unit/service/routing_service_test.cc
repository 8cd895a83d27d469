#include "service/routing_service.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "service_fixture.h"

namespace kvrouter {
namespace {

RoutingService::Completion NeverWaits(TicketId) {
  ADD_FAILURE() << "a request waits although there is no queue";
  return [](const RoutingService::Answer&) {};
}

TEST(RoutingServiceTest, RouteBooksAndFreeReturnsIt) {
  Fleet fleet;
  const auto decision = fleet.service.Route(fleet.ARequest("r"));
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_TRUE(decision->booked);
  EXPECT_EQ(decision->isl_blocks, 10u);
  EXPECT_EQ(fleet.ActiveRequests(), 1u);
  EXPECT_EQ(fleet.service.LiveRequests(), 1u);
  EXPECT_EQ(fleet.service.Free("r"), LifecycleResult::kDone);
  fleet.ExpectNoLoad();
  EXPECT_EQ(fleet.service.LiveRequests(), 0u);
  EXPECT_EQ(fleet.service.Counters().requests_started, 1u);
  EXPECT_EQ(fleet.service.Counters().requests_finished, 1u);
}

TEST(RoutingServiceTest, EveryErrorAnswerIsCountedOnceUnderItsReason) {
  Fleet fleet(1, {}, {.max_prompt_tokens = 200});
  const auto refused = [&fleet](ErrorReason reason) {
    return fleet.service.Counters().refused[static_cast<size_t>(reason)];
  };
  ASSERT_TRUE(fleet.service.Route(fleet.ARequest("r")).ok());
  ASSERT_TRUE(fleet.service.Submit(fleet.ARequest("r"), NeverWaits).has_value());
  EXPECT_FALSE(fleet.service.Route(fleet.ARequest("r")).ok());
  EXPECT_EQ(refused(ErrorReason::kDuplicateRequest), 2u);
  const std::vector<TokenId> too_many(201);
  RouteRequest long_prompt = fleet.ARequest("long");
  long_prompt.prompt = TokenPrompt{too_many};
  EXPECT_FALSE(fleet.service.Route(long_prompt).ok());
  EXPECT_EQ(refused(ErrorReason::kTooLarge), 1u);
  ASSERT_TRUE(fleet.registry.Drain(WorkerId{1}).ok());
  EXPECT_FALSE(fleet.service.Route(fleet.ARequest("s")).ok());
  EXPECT_FALSE(fleet.service.Route(fleet.AnAdvice()).ok());
  EXPECT_EQ(refused(ErrorReason::kNoWorkers), 2u);
  fleet.service.StopIntake();
  EXPECT_FALSE(fleet.service.Route(fleet.ARequest("t")).ok());
  EXPECT_EQ(refused(ErrorReason::kShuttingDown), 1u);
  uint64_t all = 0;
  for (const uint64_t count : fleet.service.Counters().refused) all += count;
  EXPECT_EQ(all, 6u);
}

TEST(RoutingServiceTest, AdviceBooksNothing) {
  Fleet fleet;
  const auto decision = fleet.service.Route(fleet.AnAdvice());
  ASSERT_TRUE(decision.ok());
  EXPECT_FALSE(decision->booked);
  fleet.ExpectNoLoad();
  EXPECT_EQ(fleet.service.LiveRequests(), 0u);
  EXPECT_EQ(fleet.service.Counters().advice, 1u);
  EXPECT_EQ(fleet.service.Counters().requests_started, 0u);
}

TEST(RoutingServiceTest, AdviceMayReuseALiveId) {
  Fleet fleet;
  ASSERT_TRUE(fleet.service.Route(fleet.ARequest("r")).ok());
  RouteRequest advice = fleet.ARequest("r");
  advice.book = false;
  EXPECT_TRUE(fleet.service.Route(advice).ok());
  EXPECT_EQ(fleet.ActiveRequests(), 1u);
}

TEST(RoutingServiceTest, EmptyIdsAreReplacedByDistinctOnes) {
  Fleet fleet;
  std::set<std::string> ids;
  for (int i = 0; i < 100; ++i) {
    std::string id;
    ASSERT_TRUE(fleet.service.Route(fleet.ARequest(""), &id).ok());
    EXPECT_TRUE(ids.insert(id).second) << id;
  }
  for (const std::string& id : ids) EXPECT_EQ(fleet.service.Free(id), LifecycleResult::kDone);
  fleet.ExpectNoLoad();
}

// Another life of the daemon must not hand out the same ids, or a late Free would hit a stranger.
TEST(RoutingServiceTest, GeneratedIdsDifferBetweenLives) {
  Fleet one, other;
  std::string id_of_one, id_of_other;
  ASSERT_TRUE(one.service.Route(one.ARequest(""), &id_of_one).ok());
  ASSERT_TRUE(other.service.Route(other.ARequest(""), &id_of_other).ok());
  EXPECT_NE(id_of_one, id_of_other);
}

TEST(RoutingServiceTest, WithoutAQueueTheAnswerIsThereAtOnceWithTheGeneratedId) {
  Fleet fleet;
  std::string id;
  const auto answer = fleet.service.Submit(fleet.ARequest(""), NeverWaits, &id);
  ASSERT_TRUE(answer.has_value());
  ASSERT_TRUE(answer->ok());
  EXPECT_FALSE(id.empty());
  EXPECT_EQ(fleet.service.Free(id), LifecycleResult::kDone);
}

TEST(RoutingServiceTest, DuplicateIsRefusedAndTheOriginalIsKept) {
  Fleet fleet;
  const auto first = fleet.service.Route(fleet.ARequest("r"));
  ASSERT_TRUE(first.ok());
  const auto second = fleet.service.Route(fleet.ARequest("r"));
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ErrorReasonOf(second.status()), ErrorReason::kDuplicateRequest);
  const std::optional<RouteDecision> original = fleet.service.FindDecision("r");
  ASSERT_TRUE(original.has_value());
  EXPECT_EQ(original->target, first->target);
  EXPECT_EQ(original->booking, first->booking);
  EXPECT_EQ(original->address, first->address);
  EXPECT_TRUE(original->candidates.empty());
  EXPECT_FALSE(first->candidates.empty()) << "the first caller got its candidates all the same";
  EXPECT_EQ(fleet.ActiveRequests(), 1u);
  EXPECT_EQ(fleet.service.Counters().duplicate_requests, 1u);
}

TEST(RoutingServiceTest, IdIsFreeAgainAfterFree) {
  Fleet fleet;
  ASSERT_TRUE(fleet.service.Route(fleet.ARequest("r")).ok());
  ASSERT_EQ(fleet.service.Free("r"), LifecycleResult::kDone);
  EXPECT_TRUE(fleet.service.Route(fleet.ARequest("r")).ok());
}

TEST(RoutingServiceTest, FailedDecisionLeavesTheIdFree) {
  Fleet fleet;
  RouteRequest nobody = fleet.ARequest("r");
  nobody.allowed_workers = std::vector<WorkerId>();
  EXPECT_EQ(ErrorReasonOf(fleet.service.Route(nobody).status()), ErrorReason::kNoWorkers);
  EXPECT_EQ(fleet.service.LiveRequests(), 0u);
  EXPECT_TRUE(fleet.service.Route(fleet.ARequest("r")).ok());
}

TEST(RoutingServiceTest, BadRequestsAreRefusedBeforeTheCore) {
  Fleet fleet;
  const auto refused = fleet.service.Route(fleet.ARequest(std::string(257, 'x')));
  EXPECT_EQ(ErrorReasonOf(refused.status()), ErrorReason::kInvalidRequest);
  fleet.ExpectNoLoad();
}

TEST(RoutingServiceTest, UnknownIdsAreToldApart) {
  Fleet fleet;
  EXPECT_EQ(fleet.service.PrefillComplete("no"), LifecycleResult::kUnknownRequest);
  EXPECT_EQ(fleet.service.OutputTokens("no", 5, std::nullopt), LifecycleResult::kUnknownRequest);
  EXPECT_EQ(fleet.service.OutputBlock("no", std::nullopt), LifecycleResult::kUnknownRequest);
  EXPECT_EQ(fleet.service.KeepAlive("no"), LifecycleResult::kUnknownRequest);
  EXPECT_EQ(fleet.service.Free("no"), LifecycleResult::kUnknownRequest);
  EXPECT_FALSE(fleet.service.FindDecision("no").has_value());
  EXPECT_EQ(fleet.service.Counters().unknown_frees, 1u);
  EXPECT_EQ(fleet.service.Counters().requests_finished, 0u);
}

TEST(RoutingServiceTest, PrefillCompleteReleasesThePrefillLoadOnce) {
  Fleet fleet;
  ASSERT_TRUE(fleet.service.Route(fleet.ARequest("r")).ok());
  EXPECT_EQ(fleet.ActivePrefillTokens(), 160u);
  EXPECT_EQ(fleet.service.PrefillComplete("r"), LifecycleResult::kDone);
  EXPECT_EQ(fleet.ActivePrefillTokens(), 0u);
  EXPECT_EQ(fleet.service.PrefillComplete("r"), LifecycleResult::kDone);
  EXPECT_EQ(fleet.ActivePrefillTokens(), 0u);
  EXPECT_EQ(fleet.ActiveRequests(), 1u);
}

TEST(RoutingServiceTest, SilentBookingExpiresAndIsCountedOnce) {
  Fleet fleet;
  ASSERT_TRUE(fleet.service.Route(fleet.ARequest("silent")).ok());
  ASSERT_TRUE(fleet.service.Route(fleet.ARequest("alive")).ok());
  fleet.clock.Advance(std::chrono::seconds(200));
  EXPECT_EQ(fleet.service.KeepAlive("alive"), LifecycleResult::kDone);
  fleet.clock.Advance(std::chrono::seconds(101));
  fleet.service.Tick();
  fleet.service.Tick();
  EXPECT_EQ(fleet.service.LiveRequests(), 1u);
  EXPECT_EQ(fleet.ActiveRequests(), 1u);
  EXPECT_EQ(fleet.service.Counters().bookings_expired, 1u);
  EXPECT_EQ(fleet.service.Counters().requests_finished, 1u);
  EXPECT_EQ(fleet.service.Free("silent"), LifecycleResult::kUnknownRequest);
  EXPECT_EQ(fleet.service.Counters().requests_finished, 1u);
  EXPECT_EQ(fleet.service.Free("alive"), LifecycleResult::kDone);
  fleet.ExpectNoLoad();
}

TEST(RoutingServiceTest, EverySignOfLifePutsOffExpiry) {
  Fleet fleet;
  ASSERT_TRUE(fleet.service.Route(fleet.ARequest("r")).ok());
  const auto survives = [&](auto sign) {
    fleet.clock.Advance(std::chrono::seconds(299));
    sign();
    fleet.service.Tick();
    return fleet.service.LiveRequests() == 1;
  };
  EXPECT_TRUE(survives([&] { fleet.service.PrefillComplete("r"); }));
  EXPECT_TRUE(survives([&] { fleet.service.OutputBlock("r", std::nullopt); }));
  EXPECT_TRUE(survives([&] { fleet.service.OutputTokens("r", 40, 0.5); }));
  EXPECT_TRUE(survives([&] { EXPECT_FALSE(fleet.service.Route(fleet.ARequest("r")).ok()); }))
      << "a retry of the same id shows that the caller is there";
  fleet.clock.Advance(std::chrono::seconds(301));
  fleet.service.Tick();
  EXPECT_EQ(fleet.service.LiveRequests(), 0u);
}

// B16 at the service: a departed worker takes its bookings along, and its callers are not stuck
// with them.
TEST(RoutingServiceTest, B16_DepartedWorkerLosesItsBookingsAndTickFindsThem) {
  Fleet fleet(1);
  ASSERT_TRUE(fleet.service.Route(fleet.ARequest("a")).ok());
  ASSERT_TRUE(fleet.service.Route(fleet.ARequest("b")).ok());
  ASSERT_TRUE(fleet.registry.Remove(WorkerId{1}).ok());
  fleet.service.Tick();
  EXPECT_EQ(fleet.service.LiveRequests(), 0u);
  EXPECT_EQ(fleet.service.Counters().requests_finished, 2u);
  EXPECT_EQ(fleet.service.Counters().bookings_expired, 0u);
  EXPECT_EQ(fleet.service.Free("a"), LifecycleResult::kUnknownRequest);
}

TEST(RoutingServiceTest, LostBookingIsFoundByTheNextCallToo) {
  Fleet fleet(1);
  for (const char* id : {"free", "keep", "prefill"}) {
    ASSERT_TRUE(fleet.service.Route(fleet.ARequest(id)).ok());
  }
  ASSERT_TRUE(fleet.registry.Remove(WorkerId{1}).ok());
  EXPECT_EQ(fleet.service.Free("free"), LifecycleResult::kUnknownRequest);
  EXPECT_EQ(fleet.service.KeepAlive("keep"), LifecycleResult::kUnknownRequest);
  EXPECT_EQ(fleet.service.PrefillComplete("prefill"), LifecycleResult::kUnknownRequest);
  EXPECT_EQ(fleet.service.LiveRequests(), 0u);
  EXPECT_EQ(fleet.service.Counters().requests_finished, 3u);
  fleet.service.Tick();
  EXPECT_EQ(fleet.service.Counters().requests_finished, 3u);
}

TEST(RoutingServiceTest, RetryAfterTheWorkerLeftIsNotADuplicate) {
  Fleet fleet(1);
  ASSERT_TRUE(fleet.service.Route(fleet.ARequest("r")).ok());
  ASSERT_TRUE(fleet.registry.Register(AWorker(2)).ok());
  ASSERT_TRUE(fleet.registry.Remove(WorkerId{1}).ok());
  const auto retried = fleet.service.Route(fleet.ARequest("r"));
  ASSERT_TRUE(retried.ok()) << retried.status();
  EXPECT_EQ(retried->target.worker, WorkerId{2});
  EXPECT_EQ(fleet.service.Free("r"), LifecycleResult::kDone);
  fleet.ExpectNoLoad();
  EXPECT_EQ(fleet.service.Counters().requests_finished, 2u);
}

TEST(RoutingServiceTest, NewLifeOfAWorkerVoidsItsBookings) {
  Fleet fleet(1);
  ASSERT_TRUE(fleet.service.Route(fleet.ARequest("r")).ok());
  WorkerSpec next_life = AWorker(1);
  next_life.incarnation = Incarnation{50};
  ASSERT_TRUE(fleet.registry.Register(next_life).ok());
  fleet.service.Tick();
  EXPECT_EQ(fleet.service.LiveRequests(), 0u);
  fleet.ExpectNoLoad();
}

TEST(RoutingServiceTest, StoppedIntakeRefusesRoutesButFrees) {
  Fleet fleet;
  ASSERT_TRUE(fleet.service.Route(fleet.ARequest("r")).ok());
  fleet.service.StopIntake();
  const auto refused = fleet.service.Route(fleet.ARequest("late"));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ErrorReasonOf(refused.status()), ErrorReason::kShuttingDown);
  EXPECT_EQ(fleet.service.Free("r"), LifecycleResult::kDone);
}

TEST(RoutingServiceTest, BookingLimitOfTheCoreIsPassedOnAndLeavesNoRecord) {
  RouterConfig config;
  config.scheduler.max_bookings = 3;
  Fleet fleet(1, config);
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(fleet.service.Route(fleet.ARequest(id)).ok());
  EXPECT_EQ(ErrorReasonOf(fleet.service.Route(fleet.ARequest("d")).status()),
            ErrorReason::kLimitReached);
  EXPECT_EQ(fleet.service.LiveRequests(), 3u);
  ASSERT_EQ(fleet.service.Free("b"), LifecycleResult::kDone);
  EXPECT_TRUE(fleet.service.Route(fleet.ARequest("d")).ok());
}

TEST(RoutingServiceTest, OneOfTwoThreadsBooksEachId) {
  Fleet fleet;
  constexpr int kRounds = 3000;
  std::atomic<int> booked{0}, refused{0}, freed{0};
  const auto race = [&] {
    for (int i = 0; i < kRounds; ++i) {
      const auto decision = fleet.service.Route(fleet.ARequest(std::to_string(i)));
      if (decision.ok()) {
        ++booked;
      } else if (ErrorReasonOf(decision.status()) == ErrorReason::kDuplicateRequest) {
        ++refused;
      }
    }
  };
  { std::jthread one(race), other(race); }
  EXPECT_EQ(booked, kRounds);
  EXPECT_EQ(refused, kRounds);
  EXPECT_EQ(fleet.ActiveRequests(), static_cast<uint64_t>(kRounds));
  const auto free_all = [&] {
    for (int i = 0; i < kRounds; ++i) {
      if (fleet.service.Free(std::to_string(i)) == LifecycleResult::kDone) ++freed;
    }
  };
  { std::jthread one(free_all), other(free_all); }
  EXPECT_EQ(freed, kRounds);
  fleet.ExpectNoLoad();
}

// Routes, frees, ticks and a worker that comes and goes, all at once: whatever the order, nothing
// stays behind.
TEST(RoutingServiceTest, NothingLeaksWhenWorkersLeaveInTheMidstOfCalls) {
  Fleet fleet(3);
  std::atomic<bool> stop{false};
  {
    std::jthread churn([&] {
      while (!stop) {
        ASSERT_TRUE(fleet.registry.Remove(WorkerId{1}).ok());
        ASSERT_TRUE(fleet.registry.Register(AWorker(1)).ok());
        fleet.service.Tick();
      }
    });
    std::vector<std::jthread> callers;
    for (int t = 0; t < 2; ++t) {
      callers.emplace_back([&, t] {
        for (int i = 0; i < 5000; ++i) {
          const std::string id = std::to_string(t) + "-" + std::to_string(i % 50);
          if (fleet.service.Route(fleet.ARequest(id)).ok()) fleet.service.PrefillComplete(id);
          if (i % 3 != 0) fleet.service.Free(id);
        }
        for (int i = 0; i < 50; ++i)
          fleet.service.Free(std::to_string(t) + "-" + std::to_string(i));
      });
    }
    callers.clear();
    stop = true;
  }
  fleet.service.Tick();
  fleet.ExpectNoLoad();
  EXPECT_EQ(fleet.service.LiveRequests(), 0u);
  const ServiceCounters counters = fleet.service.Counters();
  EXPECT_EQ(counters.requests_started, counters.requests_finished);
}

TEST(RoutingServiceTest, ExplainGivesTheWholeDecisionAlsoAfterItsEnd) {
  Fleet fleet(2);
  const auto decision = fleet.service.Route(fleet.ARequest("a"));
  ASSERT_TRUE(decision.ok());
  fleet.clock.Advance(std::chrono::seconds(3));
  auto explanation = fleet.service.Explain("a");
  ASSERT_TRUE(explanation.has_value());
  EXPECT_EQ(explanation->decision.target, decision->target);
  EXPECT_EQ(explanation->decision.candidates.size(), 2u);
  EXPECT_EQ(explanation->age, std::chrono::seconds(3));
  EXPECT_TRUE(explanation->live);
  fleet.service.Free("a");
  explanation = fleet.service.Explain("a");
  ASSERT_TRUE(explanation.has_value());
  EXPECT_FALSE(explanation->live);
  EXPECT_EQ(fleet.service.Counters().decision_ring_entries, 1u);
}

TEST(RoutingServiceTest, ExplainKnowsBookingsOnlyAndNotForEver) {
  Fleet fleet(1, {}, {.decision_ring_entries = 2});
  ASSERT_TRUE(fleet.service.Route(fleet.AnAdvice()).ok());
  EXPECT_EQ(fleet.service.Counters().decision_ring_entries, 0u);
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(fleet.service.Route(fleet.ARequest(id)).ok());
  EXPECT_FALSE(fleet.service.Explain("a").has_value());
  EXPECT_TRUE(fleet.service.Explain("c").has_value());
  EXPECT_FALSE(fleet.service.Explain("never").has_value());
  EXPECT_EQ(fleet.service.Counters().decision_ring_evicted, 1u);
}

TEST(RoutingServiceTest, ALateOwnerFreesItsOwnBookingOnly) {
  Fleet fleet(1);
  const auto first = fleet.service.Route(fleet.ARequest("a"));
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(fleet.service.HasBooking("a", first->booking));
  ASSERT_EQ(fleet.service.Free("a"), LifecycleResult::kDone);
  const auto second = fleet.service.Route(fleet.ARequest("a"));
  ASSERT_TRUE(second.ok());
  EXPECT_FALSE(fleet.service.HasBooking("a", first->booking));
  EXPECT_EQ(fleet.service.FreeBooking("a", first->booking), LifecycleResult::kUnknownRequest);
  EXPECT_EQ(fleet.ActiveRequests(), 1u);
  EXPECT_EQ(fleet.service.FreeBooking("a", second->booking), LifecycleResult::kDone);
  fleet.ExpectNoLoad();
  EXPECT_EQ(fleet.service.LiveRequests(), 0u);
  EXPECT_EQ(fleet.service.Counters().requests_finished, 2u);
}

TEST(RoutingServiceTest, LookingChecksTheRequestAndLeavesNoTrace) {
  Fleet fleet(2);
  ASSERT_TRUE(fleet.service.FindOverlap(fleet.ARequest("a")).ok());
  const auto loads = fleet.service.PotentialLoads(fleet.ARequest("a"));
  ASSERT_TRUE(loads.ok());
  EXPECT_EQ(loads->size(), 2u);
  RouteRequest bad = fleet.ARequest(std::string(300, 'x'));
  EXPECT_EQ(fleet.service.FindOverlap(bad).status().code(),
            fleet.service.Route(bad).status().code());
  EXPECT_FALSE(fleet.service.PotentialLoads(bad).ok());
  fleet.ExpectNoLoad();
  EXPECT_EQ(fleet.service.Counters().advice, 0u);
}

}  // namespace
}  // namespace kvrouter
