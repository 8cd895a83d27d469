// Outcomes of single legs, as callers report them: who is taken out for them, whose session goes,
// what the observer hears.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "service_fixture.h"

namespace kvrouter {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Writes down what it hears of legs, as "kind worker ok|failed" and "pulled worker".
class LegRecorder : public RequestObserver {
 public:
  void OnFirstToken(const ServedBy&, std::chrono::nanoseconds) override {}
  void OnOutputBlock(const ServedBy&, std::chrono::nanoseconds) override {}
  void OnEnd(const ServedBy&, uint64_t) override {}
  void OnLeg(const EndedLeg& leg) override {
    heard_.push_back(fmt::format("{} {} {} {}", leg.request_id, LegKindName(leg.kind),
                                 static_cast<uint64_t>(leg.by.target.worker),
                                 leg.succeeded ? "ok" : "failed"));
  }
  void OnDecodingPulled(std::string_view request_id, const ServedBy& by) override {
    heard_.push_back(
        fmt::format("{} pulled {}", request_id, static_cast<uint64_t>(by.target.worker)));
  }
  std::vector<std::string> Take() { return std::exchange(heard_, {}); }

 private:
  std::vector<std::string> heard_;
};

RouterConfig EjectingAtOnce() {
  RouterConfig config;
  config.scheduler.outlier_ejection.consecutive_failures = 1;
  config.migration = {.mode = MigrationMode::kMigrate, .min_tokens = 16};
  config.sessions.affinity_ttl = seconds(600);
  return config;
}

// Prefill worker 1, decode workers 11 and 12; a failure takes a target out.
class LegReportsTest : public ::testing::Test {
 protected:
  LegReportsTest() { clock_.Set(std::chrono::hours(1)); }

  void Register(uint64_t id, WorkerRole role) {
    WorkerSpec spec = AWorker(id);
    spec.role = role;
    spec.kv_role = KvRole::kBoth;
    spec.engine_version = "v1";
    ASSERT_TRUE(workers_.Register(spec).ok());
  }
  void Disaggregate() {
    Register(1, WorkerRole::kPrefill);
    Register(2, WorkerRole::kPrefill);
    Register(11, WorkerRole::kDecode);
    Register(12, WorkerRole::kDecode);
  }
  RouteDecision Route(RouteRequest request) {
    request.request_id = "r";
    request.prompt = TokenPrompt{tokens_};
    const auto decision = service_.Route(std::move(request));
    EXPECT_TRUE(decision.ok()) << decision.status();
    return decision.ok() ? *decision : RouteDecision();
  }
  // Worker 1 holds the prompt, the request goes to 2 and pulls from it.
  void Migrate() {
    Register(1, WorkerRole::kAggregated);
    Register(2, WorkerRole::kAggregated);
    std::vector<LocalBlockHash> hashes;
    AppendLocalBlockHashes(tokens_, kBlockTokens, BlockSeed({}), &hashes);
    Stored stored;
    for (uint32_t i = 0; i < hashes.size(); ++i)
      stored.blocks.push_back({.engine_hash = EngineHash{i + 1}, .local_hash = hashes[i]});
    ASSERT_EQ(router_
                  .Apply({.target = {.worker = WorkerId{1}},
                          .incarnation = workers_.Find(WorkerId{1})->incarnation,
                          .data = std::move(stored)})
                  .status,
              ApplyStatus::kOk);
    RouteRequest request;
    request.pinned = TargetSelector{.worker = WorkerId{2}};
    ASSERT_EQ(Route(request).plan, Plan::kMigrate);
  }

  std::vector<uint64_t> Ejected() const {
    std::vector<uint64_t> out;
    for (const PartitionSnapshot& partition : router_.Snapshot())
      for (const TargetLoad& load : partition.loads)
        if (load.ejected_until) out.push_back(static_cast<uint64_t>(load.target.worker));
    return out;
  }
  LifecycleResult Fail(std::optional<LegKind> kind, std::optional<uint64_t> worker = {}) {
    LegNews news{.outcome = LegOutcome::kFailed, .kind = kind};
    if (worker) news.target = Target{.worker = WorkerId{*worker}};
    return service_.ReportLeg("r", news);
  }
  uint64_t PrefillSessions() const { return router_.Snapshot().front().prefill_sessions.sessions; }
  uint64_t DecodeSessions() const { return router_.Snapshot().front().decode_sessions.sessions; }

  LegRecorder recorder_;
  ManualClock clock_;
  Router router_{EjectingAtOnce(), nullptr};
  RoutingService service_{{}, &router_, &clock_, &recorder_};
  WorkerRegistry workers_{&router_};
  std::vector<TokenId> tokens_ = std::vector<TokenId>(160, 7);
};

TEST_F(LegReportsTest, ALegOfAFixedPlanIsNamedByItsKind) {
  Disaggregate();
  RouteRequest request;
  request.fixed_plan = true;
  const RouteDecision decision = Route(request);
  const auto decoder = static_cast<uint64_t>(decision.planning->legs.legs[1].where->target.worker);
  EXPECT_EQ(Fail(LegKind::kDecode), LifecycleResult::kDone);
  EXPECT_THAT(Ejected(), ElementsAre(decoder));
  EXPECT_THAT(recorder_.Take(), ElementsAre(fmt::format("r decode {} failed", decoder)));
  EXPECT_EQ(service_.Counters().legs_failed, 1u);
}

TEST_F(LegReportsTest, ALegOfAFixedPlanIsNamedByItsTarget) {
  Disaggregate();
  RouteRequest request;
  request.fixed_plan = true;
  const RouteDecision decision = Route(request);
  const auto prefiller = static_cast<uint64_t>(decision.target.worker);
  EXPECT_EQ(Fail(std::nullopt, prefiller), LifecycleResult::kDone);
  EXPECT_THAT(Ejected(), ElementsAre(prefiller));
}

TEST_F(LegReportsTest, TheLegThatRunsIsMeantWhereNoneIsNamed) {
  Disaggregate();
  RouteRequest request;
  request.fixed_plan = true;
  const RouteDecision decision = Route(request);
  EXPECT_EQ(service_.ReportLeg("r", LegOutcome::kSucceeded), LifecycleResult::kDone);
  service_.PrefillComplete("r");
  EXPECT_EQ(service_.ReportLeg("r", LegOutcome::kSucceeded), LifecycleResult::kDone);
  EXPECT_THAT(
      recorder_.Take(),
      ElementsAre(fmt::format("r prefill {} ok", static_cast<uint64_t>(decision.target.worker)),
                  fmt::format("r decode {} ok",
                              static_cast<uint64_t>(
                                  decision.planning->legs.legs[1].where->target.worker))));
}

TEST_F(LegReportsTest, ThePrefillLegCanBeReportedAfterTheDecodeLegWasPlaced) {
  Disaggregate();
  const auto prefiller = static_cast<uint64_t>(Route({}).target.worker);
  EXPECT_EQ(Fail(LegKind::kDecode), LifecycleResult::kUnknownLeg) << "it has no target yet";
  RouteRequest second;
  second.phase = RequestPhase::kDecode;
  const auto decoder = static_cast<uint64_t>(Route(second).target.worker);
  EXPECT_EQ(Fail(LegKind::kPrefill), LifecycleResult::kDone);
  EXPECT_THAT(Ejected(), ElementsAre(prefiller));
  EXPECT_EQ(service_.ReportLeg("r", LegOutcome::kSucceeded), LifecycleResult::kDone);
  EXPECT_THAT(recorder_.Take(), ElementsAre(fmt::format("r prefill {} failed", prefiller),
                                            fmt::format("r decode {} ok", decoder)));
}

TEST_F(LegReportsTest, ASourceThatHandsItsBlocksOverIsHeardOfAndThenTheTarget) {
  Migrate();
  EXPECT_EQ(
      service_.ReportLeg("r", {.outcome = LegOutcome::kSucceeded, .kind = LegKind::kKvSource}),
      LifecycleResult::kDone);
  service_.PrefillComplete("r");
  service_.PrefillComplete("r");
  EXPECT_THAT(recorder_.Take(), ElementsAre("r kv_source 1 ok", "r pulled 2")) << "once";
}

TEST_F(LegReportsTest, ASourceThatFailsIsTakenOutAndNobodyPulled) {
  Migrate();
  EXPECT_EQ(Fail(LegKind::kKvSource), LifecycleResult::kDone);
  service_.PrefillComplete("r");
  EXPECT_THAT(recorder_.Take(), ElementsAre("r kv_source 1 failed"));
  EXPECT_THAT(Ejected(), ElementsAre(1u));
}

TEST_F(LegReportsTest, WhereNoneIsNamedASourceIsNotMeant) {
  Migrate();
  EXPECT_EQ(Fail(std::nullopt), LifecycleResult::kDone);
  EXPECT_THAT(Ejected(), ElementsAre(2u));
}

TEST_F(LegReportsTest, TheSessionLeavesTheTargetOfTheLegThatFailedAndNoOther) {
  Disaggregate();
  RouteRequest request;
  request.fixed_plan = true;
  request.session_id = "s";
  Route(request);
  ASSERT_EQ(PrefillSessions(), 1u);
  ASSERT_EQ(DecodeSessions(), 1u);
  Fail(LegKind::kPrefill);
  EXPECT_EQ(PrefillSessions(), 0u);
  EXPECT_EQ(DecodeSessions(), 1u);
  Fail(LegKind::kDecode);
  EXPECT_EQ(DecodeSessions(), 0u);
}

TEST_F(LegReportsTest, ALegThatFailsLongAfterItsDispatchTakesNobodyOut) {
  Disaggregate();
  Route({});
  EXPECT_EQ(service_.ReportLeg("r", LegOutcome::kFailed, seconds(30)), LifecycleResult::kDone);
  EXPECT_THAT(Ejected(), IsEmpty());
  clock_.Advance(seconds(30));
  EXPECT_EQ(service_.ReportLeg("r", LegOutcome::kFailed), LifecycleResult::kDone);
  EXPECT_THAT(Ejected(), IsEmpty()) << "counted from the decision";
  EXPECT_EQ(service_.ReportLeg("r", LegOutcome::kFailed, milliseconds(5)), LifecycleResult::kDone);
  EXPECT_EQ(Ejected().size(), 1u) << "dispatched late, failed fast";
}

TEST_F(LegReportsTest, FreeCarriesHowLongAfterItsDispatchTheLegFailed) {
  Disaggregate();
  Route({});
  clock_.Advance(seconds(30));
  EXPECT_EQ(service_.Free("r", LegOutcome::kFailed, milliseconds(5)), LifecycleResult::kDone);
  EXPECT_EQ(Ejected().size(), 1u);
}

TEST_F(LegReportsTest, ALegThatThePlanDoesNotHaveIsRefusedAndNothingIsCounted) {
  Disaggregate();
  EXPECT_EQ(Fail(LegKind::kServe), LifecycleResult::kUnknownRequest);
  Route({});
  EXPECT_EQ(Fail(LegKind::kServe), LifecycleResult::kUnknownLeg);
  EXPECT_EQ(Fail(std::nullopt, 99), LifecycleResult::kUnknownLeg);
  EXPECT_EQ(Fail(LegKind::kPrefill, 99), LifecycleResult::kUnknownLeg);
  EXPECT_EQ(service_.Counters().legs_failed, 0u);
  EXPECT_THAT(recorder_.Take(), IsEmpty());
}

}  // namespace
}  // namespace kvrouter
