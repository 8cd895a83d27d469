#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kvrouter/decision_record.h"
#include "kvrouter/error.h"
#include "kvrouter/router.h"
#include "support/core_builders.h"
#include "support/log_in_memory.h"

namespace kvrouter {
namespace {

using namespace testing;  // NOLINT: the builders
using std::chrono::seconds;

WorkerSpec APrefillWorker(uint64_t id) {
  WorkerSpec spec = AWorker(id);
  spec.role = WorkerRole::kPrefill;
  return spec;
}

WorkerSpec ADecodeWorker(uint64_t id) {
  WorkerSpec spec = AWorker(id);
  spec.role = WorkerRole::kDecode;
  return spec;
}

RouterConfig WithLengthGate(uint64_t min_tokens) {
  RouterConfig config;
  config.gate.length.min_remote_prefill_tokens = min_tokens;
  return config;
}

// Prefill workers 1 and 2, decode workers 11 and 12.
void AddFleet(Router& router) {
  for (const uint64_t id : {1, 2}) ASSERT_TRUE(router.UpsertWorker(APrefillWorker(id)).ok());
  for (const uint64_t id : {11, 12}) ASSERT_TRUE(router.UpsertWorker(ADecodeWorker(id)).ok());
}

RouteRequest ADecodeLeg(const std::vector<TokenId>& tokens) {
  RouteRequest request = ARequest(tokens);
  request.phase = RequestPhase::kDecode;
  request.prefilled_by = Target{WorkerId{1}, 0};
  return request;
}

bool IsPrefillWorker(const Target& target) { return static_cast<uint64_t>(target.worker) < 10; }

GateRule RuleOf(const RouteDecision& decision) { return decision.planning->gate->rule; }

TEST(RouterGateTest, WithoutPrefillWorkersThereIsOneLegAndNothingToExplain) {
  Router router(RouterConfig{}, nullptr);
  ASSERT_TRUE(router.UpsertWorker(AWorker(1)).ok());
  const auto tokens = TokensFrom(0, 64);
  const auto decision = Decide(router, ARequest(tokens));
  EXPECT_EQ(decision.plan, Plan::kLocal);
  EXPECT_EQ(decision.leg, RequestPhase::kWhole);
  EXPECT_EQ(decision.planning, nullptr);
}

TEST(RouterGateTest, AShortPromptIsNeverGivenToAPrefillWorker) {
  Router router(WithLengthGate(1'000'000), nullptr);
  AddFleet(router);
  const auto tokens = TokensFrom(0, 64);
  // Prefill workers hold it all and have no load.
  ASSERT_EQ(router.Apply(StoredEvent(tokens, TargetOf(1))).status, ApplyStatus::kOk);
  for (int i = 0; i < 20; ++i) {
    const auto decision = Decide(router, ARequest(tokens));
    EXPECT_FALSE(IsPrefillWorker(decision.target));
    EXPECT_EQ(RuleOf(decision), GateRule::kShortPrompt);
    EXPECT_EQ(decision.plan, Plan::kLocal);
    EXPECT_EQ(decision.filtered.other_role, 2u);
    ASSERT_EQ(decision.planning->legs.legs.size(), 1u);
    EXPECT_EQ(decision.planning->legs.legs[0].kind, LegKind::kServe);
  }
}

TEST(RouterGateTest, TheLengthIsComparedStrictly) {
  Router router(WithLengthGate(64), nullptr);
  AddFleet(router);
  const auto below = TokensFrom(0, 63);
  const auto at = TokensFrom(0, 64);
  const auto above = TokensFrom(0, 65);
  EXPECT_EQ(Decide(router, ARequest(below)).plan, Plan::kLocal);
  EXPECT_EQ(Decide(router, ARequest(at)).plan, Plan::kRemotePrefill);
  EXPECT_EQ(Decide(router, ARequest(above)).plan, Plan::kRemotePrefill);
}

TEST(RouterGateTest, UncachedLengthCountsWhatTheDecodeWorkerLacks) {
  RouterConfig config = WithLengthGate(64);
  config.gate.length.measure = LengthGate::Measure::kUncached;
  Router router(config, nullptr);
  AddFleet(router);
  const auto tokens = TokensFrom(0, 128);
  EXPECT_EQ(Decide(router, ARequest(tokens)).plan, Plan::kRemotePrefill);
  ASSERT_EQ(router.Apply(StoredEvent(TokensFrom(0, 80), TargetOf(11))).status, ApplyStatus::kOk);
  const auto warm = Decide(router, ARequest(tokens));
  EXPECT_EQ(warm.plan, Plan::kLocal) << "48 tokens are left";
  EXPECT_EQ(warm.target, TargetOf(11));
}

TEST(RouterGateTest, AContinuationWithinTheHourIsLocal) {
  RouterConfig config = WithLengthGate(16);
  config.gate.length.local_continuations = true;
  Router router(config, nullptr);
  AddFleet(router);
  const auto tokens = TokensFrom(0, 128);
  RouteRequest request = ARequest(tokens);
  request.session_id = "s";
  const auto at = [&](seconds time) { return Decide(router, request, time); };
  EXPECT_EQ(at(seconds(0)).plan, Plan::kRemotePrefill);
  request.book = false;
  EXPECT_EQ(RuleOf(at(seconds(1))), GateRule::kContinuation) << "advice looks";
  request.book = true;
  EXPECT_EQ(RuleOf(at(seconds(3599))), GateRule::kContinuation);
  EXPECT_EQ(at(seconds(3599 + 3600)).plan, Plan::kRemotePrefill) << "expired";
  EXPECT_EQ(router.PlanningState().continuations, 1u);
  request.session_id.clear();
  EXPECT_EQ(at(seconds(7200)).plan, Plan::kRemotePrefill) << "no session, no continuation";
}

TEST(RouterGateTest, ConditionalDisaggregationComparesNewTokensOfTheAdvisedWorker) {
  RouterConfig config;
  config.gate.conditional.enabled = true;
  config.gate.conditional.eff_isl_threshold_tokens = 40;
  Router router(config, nullptr);
  AddFleet(router);
  const auto tokens = TokensFrom(0, 128);
  EXPECT_EQ(Decide(router, ARequest(tokens)).plan, Plan::kRemotePrefill);
  ASSERT_EQ(router.Apply(StoredEvent(TokensFrom(0, 96), TargetOf(12))).status, ApplyStatus::kOk);
  const auto warm = Decide(router, ARequest(tokens));
  EXPECT_EQ(RuleOf(warm), GateRule::kFewNewTokens);
  EXPECT_EQ(warm.target, TargetOf(12));
}

TEST(RouterGateTest, BusyPrefillWorkersMakeItLocalUnlessDecodeIsBusyToo) {
  RouterConfig config;
  config.gate.conditional.enabled = true;
  config.gate.conditional.policy = ConditionalDisagg::Policy::kPrefillLoad;
  config.gate.conditional.prefill_busy_threshold = 1.0;
  config.gate.conditional.decode_busy_threshold = 0.5;
  Router router(config, nullptr);
  WorkerSpec prefill = APrefillWorker(1);
  prefill.max_num_batched_tokens = 100;
  WorkerSpec decode = ADecodeWorker(11);
  decode.total_kv_blocks = 100;
  ASSERT_TRUE(router.UpsertWorker(prefill).ok());
  ASSERT_TRUE(router.UpsertWorker(decode).ok());
  const auto tokens = TokensFrom(0, 128);
  EXPECT_EQ(Decide(router, ARequest(tokens)).plan, Plan::kRemotePrefill);
  EXPECT_EQ(RuleOf(Decide(router, ARequest(tokens))), GateRule::kPrefillBusy) << "128 > 100";
  decode.total_kv_blocks = 10;
  ASSERT_TRUE(router.UpsertWorker(decode).ok());
  EXPECT_EQ(RuleOf(Decide(router, ARequest(tokens))), GateRule::kDecodeBusy);
  decode.total_kv_blocks = 0;
  ASSERT_TRUE(router.UpsertWorker(decode).ok());
  const auto blind = Decide(router, ARequest(tokens));
  EXPECT_EQ(RuleOf(blind), GateRule::kDecodeBusy);
  EXPECT_TRUE(blind.planning->gate->input_missing);
}

TEST(RouterLegsTest, ARemotePlanBooksThePrefillTargetAndNamesTheLegs) {
  Router router(RouterConfig{}, nullptr);
  AddFleet(router);
  const auto tokens = TokensFrom(0, 128);
  const auto decision = Decide(router, ARequest(tokens), seconds(50));
  EXPECT_EQ(decision.plan, Plan::kRemotePrefill);
  EXPECT_EQ(decision.leg, RequestPhase::kPrefill);
  EXPECT_TRUE(IsPrefillWorker(decision.target));
  EXPECT_EQ(decision.filtered.other_role, 2u);
  EXPECT_EQ(LoadOf(router, decision.target)->active_prefill_tokens, 128u);
  const LegPlan& plan = decision.planning->legs;
  ASSERT_EQ(plan.legs.size(), 2u);
  EXPECT_EQ(plan.legs[0].where->target, decision.target);
  EXPECT_EQ(plan.legs[0].where->address, decision.address);
  EXPECT_EQ(plan.legs[0].fallback, LegFallback::kServeLocally);
  EXPECT_FALSE(plan.legs[1].where);
  EXPECT_EQ(plan.lease_deadline, seconds(350));
}

TEST(RouterLegsTest, TheDecodeLegSharesNothingAndCountsNoPrefill) {
  Router router(RouterConfig{}, nullptr);
  AddFleet(router);
  const auto tokens = TokensFrom(0, 128);
  ASSERT_EQ(router.Apply(StoredEvent(tokens, TargetOf(11))).status, ApplyStatus::kOk);
  RouteRequest request = ARequest(tokens);
  request.phase = RequestPhase::kDecode;
  const auto decode = Decide(router, request);
  EXPECT_FALSE(IsPrefillWorker(decode.target));
  EXPECT_EQ(decode.leg, RequestPhase::kDecode);
  EXPECT_FALSE(decode.weights.assume_kv_reuse);
  EXPECT_FALSE(decode.weights.track_prefill_tokens);
  EXPECT_EQ(decode.weights.cost.overlap_score_credit, 0);
  EXPECT_EQ(LoadOf(router, decode.target)->active_prefill_tokens, 0u);
  EXPECT_EQ(LoadOf(router, decode.target)->active_decode_blocks, 8);
  ASSERT_EQ(decode.planning->legs.legs.size(), 1u);
  EXPECT_EQ(decode.planning->legs.legs[0].kind, LegKind::kDecode);
}

TEST(RouterLegsTest, ConditionalDisaggregationLeavesTheCreditOfTheDecodeLeg) {
  RouterConfig config;
  config.gate.conditional.enabled = true;
  Router router(config, nullptr);
  AddFleet(router);
  const auto tokens = TokensFrom(0, 128);
  RouteRequest request = ARequest(tokens);
  request.phase = RequestPhase::kDecode;
  EXPECT_EQ(Decide(router, request).weights.cost.overlap_score_credit, 1);
}

TEST(RouterLegsTest, AFixedPlanBooksBothAndIsReportedOnce) {
  RecordingSink sink;
  Router router(RouterConfig{}, &sink);
  AddFleet(router);
  const auto tokens = TokensFrom(0, 128);
  RouteRequest request = ARequest(tokens);
  request.fixed_plan = true;
  const auto decision = Decide(router, request);
  EXPECT_TRUE(IsPrefillWorker(decision.target));
  ASSERT_NE(decision.decode_booking, kNoBooking);
  const auto& decode = decision.planning->legs.legs[1].where;
  ASSERT_TRUE(decode);
  EXPECT_FALSE(IsPrefillWorker(decode->target));
  EXPECT_EQ(LoadOf(router, decode->target)->active_requests, 1u);
  EXPECT_EQ(sink.Decisions().size(), 1u);
  EXPECT_TRUE(router.Finish(decision.booking, {}));
  EXPECT_TRUE(router.Finish(decision.decode_booking, {}));
  ExpectIdle(router);
}

TEST(RouterLegsTest, WhereNobodyCanDecodeNothingIsBooked) {
  Router router(RouterConfig{}, nullptr);
  ASSERT_TRUE(router.UpsertWorker(APrefillWorker(1)).ok());
  const auto tokens = TokensFrom(0, 128);
  RouteRequest request = ARequest(tokens);
  EXPECT_EQ(ErrorReasonOf(ErrorOf(router, request)), ErrorReason::kNoWorkers);
  request.fixed_plan = true;
  EXPECT_EQ(ErrorReasonOf(ErrorOf(router, request)), ErrorReason::kNoWorkers);
  request.fixed_plan = false;
  request.phase = RequestPhase::kPrefill;
  EXPECT_EQ(Decide(router, request).target, TargetOf(1));
}

TEST(RouterLegsTest, AFixedPlanThatNobodyCanDecodeBindsNoSession) {
  RouterConfig config;
  config.sessions.affinity_ttl = std::chrono::seconds(60);
  Router router(config, nullptr);
  ASSERT_TRUE(router.UpsertWorker(APrefillWorker(1)).ok());
  const auto tokens = TokensFrom(0, 128);
  RouteRequest request = ARequest(tokens);
  request.session_id = "s";
  request.fixed_plan = true;
  EXPECT_EQ(ErrorReasonOf(ErrorOf(router, request)), ErrorReason::kNoWorkers);
  EXPECT_EQ(router.Snapshot().front().prefill_sessions.sessions, 0u);
  // One that was bound before stays so.
  request.fixed_plan = false;
  request.phase = RequestPhase::kPrefill;
  Decide(router, request);
  request.phase = RequestPhase::kWhole;
  request.fixed_plan = true;
  EXPECT_EQ(ErrorReasonOf(ErrorOf(router, request)), ErrorReason::kNoWorkers);
  EXPECT_EQ(router.Snapshot().front().prefill_sessions.sessions, 1u);
}

TEST(RouterLegsTest, WithoutAPrefillWorkerTheRequestIsServedLocallyUnlessStrict) {
  for (const bool strict : {false, true}) {
    SCOPED_TRACE(strict);
    RouterConfig config;
    config.strict_disaggregation = strict;
    Router router(config, nullptr);
    AddFleet(router);
    const auto tokens = TokensFrom(0, 128);
    RouteRequest request = ARequest(tokens);
    request.excluded = {{.worker = WorkerId{1}}, {.worker = WorkerId{2}}};
    if (strict) {
      const auto error = ErrorOf(router, request);
      EXPECT_EQ(error.code(), absl::StatusCode::kUnavailable);
      EXPECT_EQ(ErrorReasonOf(error), ErrorReason::kNoWorkers);
      continue;
    }
    const auto decision = Decide(router, request);
    EXPECT_EQ(decision.plan, Plan::kLocal);
    EXPECT_FALSE(IsPrefillWorker(decision.target));
    EXPECT_TRUE(decision.planning->gate->remote);
    EXPECT_FALSE(decision.planning->prefill_refused.empty());
  }
}

TEST(RouterLegsTest, B43_AnEmptyPrefillSetMeansLocalOnDecodeAndUnavailableIfStrict) {
  for (const bool strict : {false, true}) {
    SCOPED_TRACE(strict);
    RouterConfig config = WithLengthGate(16'384);
    config.strict_disaggregation = strict;
    Router router(config, nullptr);
    AddFleet(router);
    const auto tokens = TokensFrom(0, 100'000);
    const auto small = TokensFrom(0, 100);
    EXPECT_EQ(Decide(router, ARequest(tokens)).plan, Plan::kRemotePrefill);
    // The blink: both prefill workers are gone for a moment.
    for (const uint64_t id : {1, 2}) router.RemoveWorker(WorkerId{id});
    EXPECT_FALSE(IsPrefillWorker(Decide(router, ARequest(small)).target)) << "short ones go on";
    if (strict) {
      const auto error = ErrorOf(router, ARequest(tokens));
      EXPECT_EQ(error.code(), absl::StatusCode::kUnavailable);
      EXPECT_EQ(ErrorReasonOf(error), ErrorReason::kNoWorkers);
    } else {
      const auto decision = Decide(router, ARequest(tokens));
      EXPECT_EQ(RuleOf(decision), GateRule::kNoPrefillPool);
      EXPECT_FALSE(IsPrefillWorker(decision.target));
    }
    ASSERT_TRUE(router.UpsertWorker(APrefillWorker(1)).ok());
    EXPECT_EQ(Decide(router, ARequest(tokens)).target, TargetOf(1));
  }
}

TEST(RouterLegsTest, StrictnessIsNoAffairOfGroupsThatAreNotDisaggregated) {
  RouterConfig config;
  config.strict_disaggregation = true;
  Router router(config, nullptr);
  ASSERT_TRUE(router.UpsertWorker(AWorker(1)).ok());
  const auto tokens = TokensFrom(0, 64);
  EXPECT_EQ(Decide(router, ARequest(tokens)).plan, Plan::kLocal);
}

TEST(RouterLegsTest, AfterAFailedPrefillLegTheDecodeTargetDoesAll) {
  Router router(RouterConfig{}, nullptr);
  AddFleet(router);
  const auto tokens = TokensFrom(0, 128);
  RouteRequest request = ARequest(tokens);
  request.prefill_here = true;
  const auto whole = Decide(router, request);
  EXPECT_EQ(whole.plan, Plan::kLocal);
  request.phase = RequestPhase::kDecode;
  const auto leg = Decide(router, request);
  EXPECT_EQ(leg.plan, Plan::kLocal);
  EXPECT_TRUE(leg.weights.track_prefill_tokens);
  EXPECT_EQ(leg.planning->legs.legs[0].kind, LegKind::kServe);
}

TEST(RouterLegsTest, ThePinnedPrefillWorkerComputesThePrompt) {
  Router router(RouterConfig{}, nullptr);
  AddFleet(router);
  const auto tokens = TokensFrom(0, 128);
  for (const uint64_t id : {1, 2}) {
    RouteRequest request = ARequest(tokens);
    request.pinned_prefill = TargetSelector{.worker = WorkerId{id}};
    EXPECT_EQ(Decide(router, request).target, TargetOf(id));
  }
  RouteRequest request = ARequest(tokens);
  request.pinned = TargetSelector{.worker = WorkerId{1}};
  request.prefill_here = true;
  EXPECT_EQ(ErrorReasonOf(ErrorOf(router, request)), ErrorReason::kPinnedUnavailable)
      << "a prefill worker decodes for nobody";
}

TEST(RouterLegsTest, PrefillAndDecodeTargetsAreBoundApart) {
  RouterConfig config;
  config.sessions.affinity_ttl = seconds(60);
  Router router(config, nullptr);
  AddFleet(router);
  const auto tokens = TokensFrom(0, 128);
  RouteRequest request = ARequest(tokens);
  request.session_id = "s";
  const auto prefill = Decide(router, request);
  request.phase = RequestPhase::kDecode;
  const auto decode = Decide(router, request);
  EXPECT_EQ(decode.session.outcome, SessionOutcome::kInitialised);
  for (int i = 0; i < 10; ++i) {
    request.phase = RequestPhase::kWhole;
    EXPECT_EQ(Decide(router, request).target, prefill.target);
    request.phase = RequestPhase::kDecode;
    EXPECT_EQ(Decide(router, request).target, decode.target);
  }
  const auto partition = router.Snapshot().front();
  EXPECT_EQ(partition.prefill_sessions.sessions, 1u);
  EXPECT_EQ(partition.decode_sessions.sessions, 1u);
}

// ---- Migration ----

// ---- A second leg has no credit, whatever the settings ----

// Decode worker 11 holds the prompt and has 4 blocks of other work; 12 is idle.
RouteDecision DecideDecodeLeg(Router& router, const std::vector<TokenId>& tokens) {
  AddFleet(router);
  router.Apply(StoredEvent(tokens, TargetOf(11)));
  const auto other = TokensFrom(5000, 4 * kBlockSize);
  EXPECT_TRUE(router.Reserve({.route = ARequest(other), .target = TargetOf(11)}, {}).ok());
  return Decide(router, ADecodeLeg(tokens));
}

TEST(SecondLegPolicyTest, AShadowOfTheSameSettingsAgrees) {
  RouterConfig config;
  config.shadow = ShadowPolicy{.weights = config.scheduler.weights, .router_temperature = 0};
  Router router(config, nullptr);
  const RouteDecision decision = DecideDecodeLeg(router, TokensFrom(0, 10 * kBlockSize));
  EXPECT_EQ(decision.target, TargetOf(12));
  ASSERT_TRUE(decision.shadow);
  EXPECT_TRUE(decision.shadow->agrees);
  EXPECT_EQ(decision.shadow->shadow_regret_blocks, 0);
}

TEST(SecondLegPolicyTest, AReplayWithAnotherCreditDoesNotMoveIt) {
  LogInMemory log({});
  Router router(RouterConfig{}, nullptr, nullptr, &log);
  EXPECT_EQ(DecideDecodeLeg(router, TokensFrom(0, 10 * kBlockSize)).target, TargetOf(12));
  const DecisionRecord record = log.ReadBack().back();
  for (const double credit : {0.5, 2.0}) {
    const auto again = Redecide(record, {.overlap_score_credit = credit}, 1);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_FALSE(again->moves) << "credit " << credit;
  }
}

TEST(SecondLegPolicyTest, WhereDisaggregationIsConditionalItKeepsItsCredit) {
  LogInMemory log({});
  RouterConfig config;
  config.gate.conditional.enabled = true;
  Router router(config, nullptr, nullptr, &log);
  EXPECT_EQ(DecideDecodeLeg(router, TokensFrom(0, 10 * kBlockSize)).target, TargetOf(11));
  const auto again = Redecide(log.ReadBack().back(), {.overlap_score_credit = 0.1}, 1);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->moves);
}

class RouterMigrationTest : public ::testing::Test {
 protected:
  static WorkerSpec APeer(uint64_t id, KvRole role = KvRole::kBoth, std::string version = "v1") {
    WorkerSpec spec = AWorker(id);
    spec.kv_role = role;
    spec.engine_version = std::move(version);
    return spec;
  }
  static RouterConfig WithMode(MigrationMode mode) {
    RouterConfig config;
    config.migration = {.mode = mode, .min_tokens = 64};
    config.kv_source_timeout = std::chrono::milliseconds(1500);
    return config;
  }
  // Worker 1 holds the prompt; the request goes to worker 2.
  RouteDecision OnTheOther(Router& router, const std::string& session = "") {
    RouteRequest request = ARequest(tokens_);
    request.pinned = TargetSelector{.worker = WorkerId{2}};
    request.session_id = session;
    return Decide(router, request);
  }
  MigrationOutcome OutcomeWith(const WorkerSpec& source, const WorkerSpec& target) {
    Router router(WithMode(MigrationMode::kMigrate), nullptr);
    EXPECT_TRUE(router.UpsertWorker(source).ok());
    EXPECT_TRUE(router.UpsertWorker(target).ok());
    EXPECT_EQ(router.Apply(StoredEvent(tokens_, TargetOf(1))).status, ApplyStatus::kOk);
    return OnTheOther(router).planning->migration->outcome;
  }

  const std::vector<TokenId> tokens_ = TokensFrom(0, 128);
};

TEST_F(RouterMigrationTest, ThePlanListsTheSourceThenTheTarget) {
  Router router(WithMode(MigrationMode::kMigrate), nullptr);
  ASSERT_TRUE(router.UpsertWorker(APeer(1)).ok());
  ASSERT_TRUE(router.UpsertWorker(APeer(2)).ok());
  ASSERT_EQ(router.Apply(StoredEvent(tokens_, TargetOf(1))).status, ApplyStatus::kOk);
  const auto decision = OnTheOther(router);
  EXPECT_EQ(decision.plan, Plan::kMigrate);
  EXPECT_EQ(decision.target, TargetOf(2));
  const auto& legs = decision.planning->legs.legs;
  ASSERT_EQ(legs.size(), 2u);
  EXPECT_EQ(legs[0].kind, LegKind::kKvSource);
  EXPECT_EQ(legs[0].where->target, TargetOf(1));
  EXPECT_EQ(legs[0].where->address, "http://worker-1");
  EXPECT_EQ(legs[0].request_id, "r-kvmig");
  EXPECT_TRUE(legs[0].kv_migration_source);
  EXPECT_EQ(legs[0].max_tokens, 1u);
  EXPECT_EQ(legs[0].timeout, std::chrono::milliseconds(1500));
  EXPECT_EQ(legs[0].fallback, LegFallback::kRecompute);
  EXPECT_EQ(legs[1].where->target, TargetOf(2));
  EXPECT_EQ(LoadOf(router, TargetOf(1))->active_requests, 0u) << "the source is not booked";
}

TEST_F(RouterMigrationTest, DryModeSaysSoAndChangesNothing) {
  Router router(WithMode(MigrationMode::kDry), nullptr);
  ASSERT_TRUE(router.UpsertWorker(APeer(1)).ok());
  ASSERT_TRUE(router.UpsertWorker(APeer(2)).ok());
  ASSERT_EQ(router.Apply(StoredEvent(tokens_, TargetOf(1))).status, ApplyStatus::kOk);
  const auto decision = OnTheOther(router);
  EXPECT_EQ(decision.plan, Plan::kLocal);
  EXPECT_EQ(decision.planning->migration->outcome, MigrationOutcome::kPlanned);
  EXPECT_FALSE(decision.planning->migration->migrate);
  EXPECT_EQ(decision.planning->legs.legs.size(), 1u);
}

TEST_F(RouterMigrationTest, EachRefusalHasItsName) {
  EXPECT_EQ(OutcomeWith(APeer(1), APeer(2)), MigrationOutcome::kPlanned);
  EXPECT_EQ(OutcomeWith(APeer(1, KvRole::kConsumer), APeer(2)),
            MigrationOutcome::kSourceCannotProduce);
  EXPECT_EQ(OutcomeWith(APeer(1), APeer(2, KvRole::kProducer)),
            MigrationOutcome::kTargetCannotConsume);
  EXPECT_EQ(OutcomeWith(APeer(1), APeer(2, KvRole::kBoth, "v2")),
            MigrationOutcome::kEngineVersionDiffers);
  EXPECT_EQ(OutcomeWith(AWorker(1), AWorker(2)), MigrationOutcome::kSourceCannotProduce);
}

TEST_F(RouterMigrationTest, WhatTheSourceHasToComputeFirstIsWaitedFor) {
  RouterConfig config = WithMode(MigrationMode::kMigrate);
  config.migration.prefill_tokens_per_s = 1000;
  Router router(config, nullptr);
  ASSERT_TRUE(router.UpsertWorker(APeer(1)).ok());
  ASSERT_TRUE(router.UpsertWorker(APeer(2)).ok());
  ASSERT_EQ(router.Apply(StoredEvent(tokens_, TargetOf(1))).status, ApplyStatus::kOk);
  const auto outcome = [&] {
    const RouteDecision decision = OnTheOther(router);
    EXPECT_TRUE(router.Finish(decision.booking, seconds(1)));
    return decision.planning->migration->outcome;
  };
  // The target would compute 128 tokens.
  for (const size_t pending_tokens : {127, 128}) {
    const auto other_tokens = TokensFrom(10'000, pending_tokens);
    RouteRequest other = ARequest(other_tokens);
    other.request_id = "other";
    other.pinned = TargetSelector{.worker = WorkerId{1}};
    const RouteDecision on_source = Decide(router, other);
    EXPECT_EQ(outcome(), pending_tokens == 127 ? MigrationOutcome::kPlanned
                                               : MigrationOutcome::kSourceTooBusy);
    ASSERT_TRUE(router.Finish(on_source.booking, seconds(1)));
  }
  EXPECT_EQ(outcome(), MigrationOutcome::kPlanned);
  config.migration.transfer_us_per_block = 128'000 / (128 / kBlockSize);
  ASSERT_TRUE(router.Reconfigure(config).ok());
  EXPECT_EQ(outcome(), MigrationOutcome::kTransferTooDear);
}

TEST_F(RouterMigrationTest, BlocksThatComeFromElsewhereAreNotPulled) {
  Router router(WithMode(MigrationMode::kMigrate), nullptr);
  ASSERT_TRUE(router.UpsertWorker(APeer(1)).ok());
  ASSERT_TRUE(router.UpsertWorker(APeer(2)).ok());
  ASSERT_EQ(router.Apply(StoredEvent(tokens_, TargetOf(1))).status, ApplyStatus::kOk);
  RouteRequest request = ARequest(tokens_);
  request.pinned = TargetSelector{.worker = WorkerId{2}};
  request.has_prefill_result = true;
  EXPECT_EQ(Decide(router, request).planning->migration->outcome,
            MigrationOutcome::kHasPrefillResult);
  request.has_prefill_result = false;
  request.phase = RequestPhase::kDecode;
  EXPECT_EQ(Decide(router, request).planning->migration->outcome,
            MigrationOutcome::kHasPrefillResult);
}

TEST_F(RouterMigrationTest, TheHomeOfASessionIsRememberedByBookingsOverTheFloorOnly) {
  Router router(WithMode(MigrationMode::kDry), nullptr);
  ASSERT_TRUE(router.UpsertWorker(APeer(1)).ok());
  ASSERT_TRUE(router.UpsertWorker(APeer(2)).ok());
  EXPECT_EQ(OnTheOther(router, "cold").planning->migration->outcome,
            MigrationOutcome::kBelowMinTokens);
  EXPECT_EQ(router.PlanningState().kv_homes, 0u);
  ASSERT_EQ(router.Apply(StoredEvent(tokens_, TargetOf(1))).status, ApplyStatus::kOk);
  OnTheOther(router, "warm");
  EXPECT_EQ(router.PlanningState().kv_homes, 1u);
}

}  // namespace
}  // namespace kvrouter
