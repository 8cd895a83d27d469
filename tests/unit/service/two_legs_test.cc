#include <gtest/gtest.h>

#include <string>

#include "service_fixture.h"

namespace kvrouter {
namespace {

using std::chrono::seconds;

bool IsPrefillWorker(const Target& target) { return static_cast<uint64_t>(target.worker) < 10; }

// Prefill workers 1 and 2, decode workers 11 and 12; every prompt is computed remotely.
class TwoLegsTest : public ::testing::Test {
 protected:
  TwoLegsTest() {
    for (const uint64_t id : {1, 2}) Register(id, WorkerRole::kPrefill);
    for (const uint64_t id : {11, 12}) Register(id, WorkerRole::kDecode);
  }
  void Register(uint64_t id, WorkerRole role) {
    WorkerSpec spec = AWorker(id);
    spec.role = role;
    EXPECT_TRUE(fleet_.registry.Register(spec).ok());
  }
  RouteDecision First(const std::string& id, bool fixed_plan = false) {
    RouteRequest request = fleet_.ARequest(id);
    request.fixed_plan = fixed_plan;
    const auto decision = fleet_.service.Route(request);
    EXPECT_TRUE(decision.ok()) << decision.status();
    return decision.ok() ? *decision : RouteDecision();
  }
  absl::StatusOr<RouteDecision> Second(const std::string& id, bool prefill_here = false) {
    RouteRequest request = fleet_.ARequest(id);
    request.phase = RequestPhase::kDecode;
    request.prefill_here = prefill_here;
    return fleet_.service.Route(request);
  }

  Fleet fleet_{0};
};

TEST_F(TwoLegsTest, TheSecondCallOfTheSameIdMovesTheBookingToTheDecodeTarget) {
  const RouteDecision first = First("r");
  EXPECT_TRUE(IsPrefillWorker(first.target));
  EXPECT_EQ(fleet_.ActivePrefillTokens(), 160u);
  const auto second = Second("r");
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_FALSE(IsPrefillWorker(second->target));
  EXPECT_EQ(second->leg, RequestPhase::kDecode);
  EXPECT_EQ(fleet_.ActiveRequests(), 1u) << "the prefill booking was given back";
  EXPECT_EQ(fleet_.ActivePrefillTokens(), 0u);
  EXPECT_EQ(fleet_.service.LiveRequests(), 1u);
  EXPECT_EQ(fleet_.service.Counters().requests_started, 1u) << "one request";
  EXPECT_EQ(fleet_.service.FindDecision("r")->target, second->target);
  EXPECT_EQ(fleet_.service.Free("r"), LifecycleResult::kDone);
  EXPECT_EQ(fleet_.service.Counters().requests_finished, 1u);
  fleet_.ExpectNoLoad();
}

TEST_F(TwoLegsTest, ARetriedSecondLegLearnsItsTarget) {
  First("r");
  const auto second = Second("r");
  ASSERT_TRUE(second.ok());
  const auto again = Second("r");
  EXPECT_EQ(ErrorReasonOf(again.status()), ErrorReason::kDuplicateRequest);
  EXPECT_EQ(fleet_.service.FindDecision("r")->target, second->target);
  EXPECT_EQ(fleet_.ActiveRequests(), 1u);
}

TEST_F(TwoLegsTest, ARetryOfTheFirstCallIsADuplicate) {
  const RouteDecision first = First("r");
  const auto again = fleet_.service.Route(fleet_.ARequest("r"));
  EXPECT_EQ(ErrorReasonOf(again.status()), ErrorReason::kDuplicateRequest);
  EXPECT_EQ(fleet_.service.FindDecision("r")->target, first.target);
}

TEST_F(TwoLegsTest, ASecondLegThatFindsNobodyLeavesTheFirstOneAsItWas) {
  First("r");
  for (const uint64_t id : {11, 12}) ASSERT_TRUE(fleet_.registry.Remove(WorkerId{id}).ok());
  EXPECT_EQ(ErrorReasonOf(Second("r").status()), ErrorReason::kNoWorkers);
  EXPECT_EQ(fleet_.ActiveRequests(), 1u);
  Register(11, WorkerRole::kDecode);
  EXPECT_TRUE(Second("r").ok()) << "it can be asked for again";
  fleet_.service.Free("r");
  fleet_.ExpectNoLoad();
}

TEST_F(TwoLegsTest, AfterAFailedPrefillTheDecodeTargetTakesAll) {
  First("r");
  const auto second = Second("r", /*prefill_here=*/true);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->plan, Plan::kLocal);
  EXPECT_EQ(fleet_.ActivePrefillTokens(), 160u) << "it computes the prompt";
  EXPECT_EQ(fleet_.service.PrefillComplete("r"), LifecycleResult::kDone);
  EXPECT_EQ(fleet_.ActivePrefillTokens(), 0u);
  fleet_.service.Free("r");
  fleet_.ExpectNoLoad();
}

TEST_F(TwoLegsTest, KeepAliveKeepsBothLegsOfAFixedPlan) {
  First("r", /*fixed_plan=*/true);
  ASSERT_EQ(fleet_.ActiveRequests(), 2u);
  for (int i = 0; i < 3; ++i) {
    fleet_.clock.Advance(seconds(200));
    EXPECT_EQ(fleet_.service.KeepAlive("r"), LifecycleResult::kDone);
    fleet_.service.Tick();
  }
  EXPECT_EQ(fleet_.ActiveRequests(), 2u) << "the prompt is still being computed";
  EXPECT_EQ(fleet_.ActivePrefillTokens(), 160u);
  EXPECT_EQ(fleet_.service.Counters().bookings_expired, 0u);
  fleet_.service.Free("r");
  fleet_.ExpectNoLoad();
}

// A broken stream gives back what it was answered, and an explanation says whether that is live.
TEST_F(TwoLegsTest, AFixedPlanIsKnownByItsFirstBookingAlsoWhenThePromptIsComputed) {
  const RouteDecision decision = First("r", /*fixed_plan=*/true);
  EXPECT_TRUE(fleet_.service.Explain("r")->live);
  ASSERT_EQ(fleet_.service.PrefillComplete("r"), LifecycleResult::kDone);
  EXPECT_TRUE(fleet_.service.HasBooking("r", decision.booking));
  EXPECT_TRUE(fleet_.service.Explain("r")->live);
  EXPECT_TRUE(fleet_.service.Recent(1).front().live);
  EXPECT_EQ(fleet_.service.FreeBooking("r", decision.booking), LifecycleResult::kDone);
  EXPECT_FALSE(fleet_.service.HasBooking("r", decision.booking));
  EXPECT_FALSE(fleet_.service.Explain("r")->live);
  fleet_.ExpectNoLoad();
  EXPECT_EQ(fleet_.service.LiveRequests(), 0u);
}

TEST_F(TwoLegsTest, AFirstLegsBookingSaysNothingOfTheSecondLeg) {
  const RouteDecision first = First("r");
  const auto second = Second("r");
  ASSERT_TRUE(second.ok());
  EXPECT_FALSE(fleet_.service.HasBooking("r", first.booking));
  EXPECT_EQ(fleet_.service.FreeBooking("r", first.booking), LifecycleResult::kUnknownRequest);
  EXPECT_EQ(fleet_.service.FreeBooking("r", second->booking), LifecycleResult::kDone);
  fleet_.ExpectNoLoad();
}

TEST_F(TwoLegsTest, FreeBeforeTheSecondLegEndsAll) {
  First("r");
  EXPECT_EQ(fleet_.service.Free("r"), LifecycleResult::kDone);
  fleet_.ExpectNoLoad();
  const auto late = Second("r");
  ASSERT_TRUE(late.ok()) << "a decode leg of its own: somebody else computed the prompt";
  fleet_.service.Free("r");
  fleet_.ExpectNoLoad();
}

TEST_F(TwoLegsTest, OfAFixedPlanBothAreBookedAndPrefillCompleteEndsTheFirst) {
  const RouteDecision decision = First("r", /*fixed_plan=*/true);
  EXPECT_EQ(fleet_.ActiveRequests(), 2u);
  EXPECT_EQ(fleet_.service.LiveRequests(), 1u);
  EXPECT_EQ(fleet_.service.PrefillComplete("r"), LifecycleResult::kDone);
  EXPECT_EQ(fleet_.ActiveRequests(), 1u);
  EXPECT_FALSE(fleet_.router.IsLive(decision.booking));
  EXPECT_TRUE(fleet_.router.IsLive(decision.decode_booking));
  EXPECT_EQ(fleet_.service.PrefillComplete("r"), LifecycleResult::kDone) << "idempotent";
  EXPECT_EQ(fleet_.service.Free("r"), LifecycleResult::kDone);
  fleet_.ExpectNoLoad();
}

TEST_F(TwoLegsTest, OfAFixedPlanFreeAloneEndsBoth) {
  First("r", /*fixed_plan=*/true);
  EXPECT_EQ(fleet_.service.Free("r"), LifecycleResult::kDone);
  fleet_.ExpectNoLoad();
  EXPECT_EQ(fleet_.service.Counters().requests_finished, 1u);
}

TEST_F(TwoLegsTest, AStreamThatBreaksGivesBackWhateverTheFixedPlanHolds) {
  const RouteDecision decision = First("r", /*fixed_plan=*/true);
  EXPECT_EQ(fleet_.service.FreeBooking("r", decision.booking), LifecycleResult::kDone);
  fleet_.ExpectNoLoad();
}

TEST_F(TwoLegsTest, SilenceEndsBothBookings) {
  First("fixed", /*fixed_plan=*/true);
  First("single");
  fleet_.clock.Advance(seconds(300));
  fleet_.service.Tick();
  EXPECT_EQ(fleet_.service.LiveRequests(), 0u);
  fleet_.ExpectNoLoad();
}

TEST_F(TwoLegsTest, WhenTheDecodeWorkerLeavesThePrefillBookingGoesWithTheRecord) {
  const RouteDecision decision = First("r", /*fixed_plan=*/true);
  const Target decode = decision.planning->legs.legs[1].where->target;
  ASSERT_TRUE(fleet_.registry.Remove(decode.worker).ok());
  fleet_.service.Tick();
  EXPECT_EQ(fleet_.service.LiveRequests(), 0u);
  fleet_.ExpectNoLoad();
}

TEST_F(TwoLegsTest, TheDecodeTargetIsWhereThePrefillWorkersTopologyDemands) {
  const auto in_rack = [&](uint64_t id, WorkerRole role, const std::string& rack) {
    WorkerSpec spec = AWorker(id);
    spec.role = role;
    spec.topology.topology_domains = {{"rack", rack}};
    if (role == WorkerRole::kPrefill) {
      spec.topology.kv_transfer_domain = "rack";
      spec.topology.kv_transfer_enforcement = "required";
    }
    ASSERT_TRUE(fleet_.registry.Register(spec).ok());
  };
  in_rack(1, WorkerRole::kPrefill, "a");
  in_rack(2, WorkerRole::kPrefill, "b");
  in_rack(11, WorkerRole::kDecode, "a");
  in_rack(12, WorkerRole::kDecode, "b");
  for (int i = 0; i < 12; ++i) {
    const std::string id = "r" + std::to_string(i);
    const RouteDecision first = First(id);
    const auto second = Second(id);
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ(static_cast<uint64_t>(second->target.worker),
              static_cast<uint64_t>(first.target.worker) + 10);
  }
  // Nobody there is nearer than the wrong rack.
  First("x", /*fixed_plan=*/false);
  for (const uint64_t id : {11, 12}) ASSERT_TRUE(fleet_.registry.Remove(WorkerId{id}).ok());
  in_rack(13, WorkerRole::kDecode, "c");
  EXPECT_EQ(ErrorReasonOf(Second("x").status()), ErrorReason::kNoWorkers);
}

}  // namespace
}  // namespace kvrouter
