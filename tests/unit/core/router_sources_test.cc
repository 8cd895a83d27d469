#include <gtest/gtest.h>

#include <chrono>
#include <utility>
#include <vector>

#include "kvrouter/router.h"
#include "support/core_builders.h"

namespace kvrouter {
namespace {

using namespace testing;  // NOLINT: the builders
using std::chrono::milliseconds;
using std::chrono::seconds;

RouteRequest PinnedTo(uint64_t worker, const std::vector<TokenId>& tokens) {
  RouteRequest request = ARequest(tokens);
  request.pinned = TargetSelector{.worker = WorkerId{worker}};
  return request;
}

class RouterSourcesTest : public ::testing::Test {
 protected:
  static RouterConfig Approximate() {
    RouterConfig config;
    config.overlap_source.use_kv_events = false;
    config.overlap_source.router_ttl = seconds(10);
    return config;
  }
  static RouterConfig Predicting() {
    RouterConfig config;
    config.overlap_source.predicted_ttl = seconds(2);
    return config;
  }
  static void AddWorkers(Router* router, uint64_t count) {
    for (uint64_t id = 1; id <= count; ++id) ASSERT_TRUE(router->UpsertWorker(AWorker(id)).ok());
  }
  static RoutedBlocksFigures FiguresOf(const Router& router) {
    return router.Snapshot()[0].routed.value_or(RoutedBlocksFigures{});
  }

  const std::vector<TokenId> tokens_ = TokensFrom(1, 4 * kBlockSize + 3);
};

TEST_F(RouterSourcesTest, WithoutEventsABookedPromptIsHeldForTheTtl) {
  Router router(Approximate(), nullptr);
  AddWorkers(&router, 3);
  const RouteDecision booked = Decide(router, ARequest(tokens_), seconds(1));
  const Target first = booked.target;
  EXPECT_TRUE(router.Finish(booked.booking, seconds(2)));
  const RouteDecision again = Decide(router, ARequest(tokens_), seconds(5));
  EXPECT_EQ(again.target, first) << "its blocks are there";
  EXPECT_EQ(again.overlap_blocks, 4u);
  EXPECT_EQ(Decide(router, PinnedTo(1, tokens_), milliseconds(14900)).best_overlap_blocks, 4)
      << "the second booking moved the end";
  EXPECT_EQ(router.Snapshot()[0].overlap_source, OverlapSource::kRouting);
  EXPECT_GT(FiguresOf(router).refreshed_total, 0u);
  router.ForgetRouted(seconds(25));
  EXPECT_EQ(FiguresOf(router).blocks, 0u);
  EXPECT_EQ(OverlapOf(router, tokens_, first), 0u);
}

TEST_F(RouterSourcesTest, ADecisionForgetsWhatIsOverBeforeItLooks) {
  Router router(Approximate(), nullptr);
  AddWorkers(&router, 1);
  Decide(router, ARequest(tokens_), seconds(1));
  EXPECT_EQ(Decide(router, ARequest(tokens_), seconds(11)).overlap_blocks, 0u);
}

TEST_F(RouterSourcesTest, AdviceIsNotRemembered) {
  Router router(Approximate(), nullptr);
  AddWorkers(&router, 1);
  RouteRequest advice = ARequest(tokens_);
  advice.book = false;
  Decide(router, advice, seconds(1));
  EXPECT_EQ(FiguresOf(router).blocks, 0u);
}

// The bound on what engines announce is not theirs: forgotten under those who remember it, it could
// never be held again.
TEST_F(RouterSourcesTest, WhatIsRememberedOfBookingsHasItsOwnBound) {
  for (RouterConfig config : {Approximate(), Predicting()}) {
    config.max_device_blocks = 2;
    config.max_index_blocks = 2;
    Router router(config, nullptr);
    AddWorkers(&router, 1);
    Decide(router, ARequest(tokens_), seconds(1));
    router.BoundIndex();
    EXPECT_EQ(Decide(router, ARequest(tokens_), milliseconds(1500)).overlap_blocks, 4u);
    EXPECT_EQ(router.Snapshot()[0].device_forgotten_total, 0u);
  }
}

TEST_F(RouterSourcesTest, AReservationIsRemembered) {
  Router router(Approximate(), nullptr);
  AddWorkers(&router, 2);
  ReserveRequest reserve{.route = ARequest(tokens_), .target = TargetOf(2)};
  ASSERT_TRUE(router.Reserve(reserve, seconds(1)).ok());
  EXPECT_EQ(OverlapOf(router, tokens_, TargetOf(2)), 4u);
}

TEST_F(RouterSourcesTest, WithoutEventsOnesThatComeAreIgnoredAndCounted) {
  Router router(Approximate(), nullptr);
  AddWorkers(&router, 1);
  const ApplyResult result = router.Apply(StoredEvent(tokens_, TargetOf(1)));
  EXPECT_EQ(result, ApplyResult{});
  EXPECT_EQ(OverlapOf(router, tokens_, TargetOf(1)), 0u);
  EXPECT_EQ(router.Snapshot()[0].events_ignored_total, 1u);
}

TEST_F(RouterSourcesTest, ARemovedOrRestartedWorkerHoldsNothing) {
  Router router(Approximate(), nullptr);
  AddWorkers(&router, 1);
  Decide(router, ARequest(tokens_), seconds(1));
  ASSERT_TRUE(router.UpsertWorker(AWorker(1, /*incarnation=*/2)).ok());
  EXPECT_EQ(OverlapOf(router, tokens_, TargetOf(1)), 0u);
  EXPECT_EQ(FiguresOf(router).blocks, 0u);
  Decide(router, ARequest(tokens_), seconds(1));
  EXPECT_TRUE(router.RemoveWorker(WorkerId{1}));
  EXPECT_EQ(FiguresOf(router).blocks, 0u);
}

TEST_F(RouterSourcesTest, PredictionsAddToEventsUntilTheirTtl) {
  Router router(Predicting(), nullptr);
  AddWorkers(&router, 2);
  const std::vector<TokenId> first_two(tokens_.begin(), tokens_.begin() + 2 * kBlockSize);
  router.Apply(StoredEvent(first_two, TargetOf(1)));
  router.Apply(StoredEvent(first_two, TargetOf(2)));
  Decide(router, PinnedTo(2, tokens_), seconds(1));
  EXPECT_EQ(OverlapOf(router, tokens_, TargetOf(1)), 2u);
  EXPECT_EQ(OverlapOf(router, tokens_, TargetOf(2)), 4u) << "the larger of both";
  EXPECT_EQ(OverlapOf(router, first_two, TargetOf(2)), 2u);
  EXPECT_EQ(router.Snapshot()[0].index_holder_blocks, 4u) << "the index of events is as it was";
  router.ForgetRouted(seconds(3));
  EXPECT_EQ(OverlapOf(router, tokens_, TargetOf(2)), 2u);
}

TEST_F(RouterSourcesTest, LowerTiersGoOnFromEventsNotFromPredictions) {
  Router router(Predicting(), nullptr);
  AddWorkers(&router, 1);
  KvEvent host = StoredEvent(tokens_, TargetOf(1));
  host.tier = StorageTier::kHostPinned;
  router.Apply(host);
  Decide(router, ARequest(tokens_), seconds(1));
  const auto overlaps = *router.FindOverlap(ARequest(tokens_));
  ASSERT_EQ(overlaps.size(), 1u);
  EXPECT_EQ(overlaps[0].device_blocks, 4u) << "predicted";
  EXPECT_EQ(overlaps[0].host_blocks, 4u) << "beyond the device prefix that events tell of: none";
}

TEST_F(RouterSourcesTest, WithoutCreditThereIsNoIndex) {
  for (const bool use_kv_events : {true, false}) {
    RouterConfig config;
    config.scheduler.weights.overlap_score_credit = 0;
    config.overlap_source.use_kv_events = use_kv_events;
    Router router(config, nullptr);
    AddWorkers(&router, 1);
    router.Apply(StoredEvent(tokens_, TargetOf(1)));
    Decide(router, ARequest(tokens_), seconds(1));
    RouteRequest request = ARequest(tokens_);
    request.overrides.overlap_score_credit = 1;  // does not bring an index back
    EXPECT_EQ(Decide(router, request, seconds(2)).overlap_blocks, 0u);
    const PartitionSnapshot snapshot = router.Snapshot()[0];
    EXPECT_EQ(snapshot.overlap_source, OverlapSource::kNone);
    EXPECT_EQ(snapshot.index_holder_blocks, 0u);
    EXPECT_FALSE(snapshot.routed.has_value());
  }
}

class FakeSharedCache final : public SharedCacheView {
 public:
  void FindHits(std::string_view model_name, std::string_view, std::span<const LocalBlockHash>,
                std::span<const SequenceHash> sequence_hashes,
                std::vector<BlockRange>* hits) const override {
    EXPECT_EQ(model_name, "default");
    EXPECT_EQ(sequence_hashes.size(), 4u);
    *hits = {{0, 1}, {2, 4}};
  }
};

TEST_F(RouterSourcesTest, SharedHitsBeyondTheDevicePrefixAreCredited) {
  RouterConfig config;
  config.scheduler.weights.shared_cache_multiplier = 0.5;
  const FakeSharedCache shared;
  Router router(config, nullptr, nullptr, nullptr, &shared);
  AddWorkers(&router, 2);
  const std::vector<TokenId> first_three(tokens_.begin(), tokens_.begin() + 3 * kBlockSize);
  router.Apply(StoredEvent(first_three, TargetOf(1)));
  RouteRequest request = ARequest(tokens_);
  request.book = false;
  const RouteDecision decision = Decide(router, request);
  ASSERT_EQ(decision.candidates.size(), 2u);
  EXPECT_EQ(decision.candidates[0].shared_overlap_blocks, 1);
  EXPECT_EQ(decision.candidates[1].shared_overlap_blocks, 3);
  EXPECT_DOUBLE_EQ(decision.candidates[0].credit_blocks, 3 + 0.5 * 1);
  EXPECT_DOUBLE_EQ(decision.candidates[1].credit_blocks, 0.5 * 3);
  EXPECT_EQ(decision.candidates[1].effective_overlap_blocks, 0) << "not the worker's own";

  request.overrides.shared_cache_multiplier = 0;
  EXPECT_EQ(Decide(router, request).candidates[1].credit_blocks, 0);
}

TEST_F(RouterSourcesTest, WhatAnyExternalTierHoldsIsSharedByAll) {
  RouterConfig config;
  config.scheduler.weights.shared_cache_multiplier = 0.5;
  config.scheduler.weights.disk_cache_hit_weight = 0;
  config.overlap_source.shared_cache_type = SharedCacheType::kExternalTier;
  Router router(config, nullptr);
  AddWorkers(&router, 2);
  KvEvent external = StoredEvent(tokens_, TargetOf(1));
  external.tier = StorageTier::kExternal;
  router.Apply(external);
  router.Apply(AnEvent(TargetOf(1), Removed{.engine_hashes = {EngineHashesOf(tokens_)[1]}}));
  KvEvent gap = AnEvent(TargetOf(1), Removed{.engine_hashes = {EngineHashesOf(tokens_)[1]}});
  gap.tier = StorageTier::kExternal;
  router.Apply(gap);
  RouteRequest request = ARequest(tokens_);
  request.book = false;
  const RouteDecision decision = Decide(router, request);
  for (const CandidateCost& candidate : decision.candidates)
    EXPECT_DOUBLE_EQ(candidate.credit_blocks, 0.5 * 3) << "blocks 0, 2 and 3";
}

}  // namespace
}  // namespace kvrouter
