#include <fmt/format.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "kvrouter/router.h"
#include "support/core_builders.h"

namespace kvrouter {
namespace {

using namespace testing;  // NOLINT: the builders

constexpr auto kHost = StorageTier::kHostPinned;
constexpr auto kDisk = StorageTier::kDisk;
constexpr auto kExternal = StorageTier::kExternal;

// Blocks [from, to) of the prompt are on this tier of the target.
KvEvent StoredOn(StorageTier tier, const std::vector<TokenId>& tokens, size_t from, size_t to,
                 Target target) {
  KvEvent event = StoredEvent(tokens, target);
  auto& stored = std::get<Stored>(event.data);
  event.tier = tier;
  if (from > 0) stored.parent = stored.blocks[from - 1].engine_hash;
  stored.blocks = {stored.blocks.begin() + static_cast<ptrdiff_t>(from),
                   stored.blocks.begin() + static_cast<ptrdiff_t>(to)};
  return event;
}

class RouterTiersTest : public ::testing::Test {
 protected:
  explicit RouterTiersTest(DecisionDetail detail = DecisionDetail::kFull)
      : router_(Config(detail), nullptr) {}

  static RouterConfig Config(DecisionDetail detail) {
    RouterConfig config;
    config.decision_detail = detail;
    config.scheduler.weights.host_cache_hit_weight = 0.5;
    config.scheduler.weights.disk_cache_hit_weight = 0.3;
    return config;
  }
  void AddWorkers(uint64_t count) {
    for (uint64_t id = 1; id <= count; ++id) ASSERT_TRUE(router_.UpsertWorker(AWorker(id)).ok());
  }
  void Store(StorageTier tier, size_t from, size_t to, Target target) {
    ASSERT_EQ(router_.Apply(StoredOn(tier, tokens_, from, to, target)).blocks_stored, to - from);
  }
  // Worker 1: one block on the device, three on host, two on disk, one external.
  void FillFirst() {
    Store(StorageTier::kDevice, 0, 1, TargetOf(1));
    Store(kHost, 1, 4, TargetOf(1));
    Store(kDisk, 4, 6, TargetOf(1));
    Store(kExternal, 6, 7, TargetOf(1));
  }
  static constexpr double kEffectiveOfFirst = 1 + 0.5 * 3 + 0.3 * 3;

  static void ExpectTermsOfFirst(const CandidateCost& cost) {
    EXPECT_EQ(cost.device_overlap_blocks, 1);
    EXPECT_EQ(cost.host_overlap_blocks, 3);
    EXPECT_EQ(cost.disk_overlap_blocks, 3) << "with external";
    EXPECT_DOUBLE_EQ(cost.effective_overlap_blocks, kEffectiveOfFirst);
    EXPECT_DOUBLE_EQ(cost.credit_blocks, kEffectiveOfFirst);
    EXPECT_DOUBLE_EQ(cost.prefill_cost_blocks, 10 - kEffectiveOfFirst);
  }

  const std::vector<TokenId> tokens_ = TokensFrom(0, 10 * kBlockSize);
  Router router_;
};

class RouterTiersWinnerTest : public RouterTiersTest {
 protected:
  RouterTiersWinnerTest() : RouterTiersTest(DecisionDetail::kWinner) {}
};

TEST_F(RouterTiersTest, ADecisionTellsEachTierAndItsWeight) {
  AddWorkers(3);
  FillFirst();
  Store(StorageTier::kDevice, 0, 2, TargetOf(2));
  const RouteDecision decision = Decide(router_, ARequest(tokens_));
  EXPECT_EQ(decision.target, TargetOf(1));
  EXPECT_DOUBLE_EQ(decision.effective_overlap_blocks, kEffectiveOfFirst);
  EXPECT_EQ(decision.overlap_blocks, 3u) << "3.4 rounded";
  EXPECT_EQ(decision.best_overlap_target, TargetOf(1));
  EXPECT_DOUBLE_EQ(decision.best_overlap_blocks, kEffectiveOfFirst);
  EXPECT_EQ(decision.expected_engine_hit_tokens, kBlockSize) << "what is on the device";
  ASSERT_EQ(decision.candidates.size(), 3u);
  ExpectTermsOfFirst(decision.candidates[0]);
  EXPECT_EQ(decision.candidates[1].effective_overlap_blocks, 2);
  EXPECT_EQ(decision.candidates[2].effective_overlap_blocks, 0);
  // 3.4 blocks are 54.4 tokens.
  EXPECT_EQ(LoadOf(router_, TargetOf(1))->active_prefill_tokens, 160u - 54);
}

TEST_F(RouterTiersTest, TheBestOfManyKeepTheirTiers) {
  AddWorkers(100);
  FillFirst();
  Store(kHost, 0, 2, TargetOf(77));
  const RouteDecision decision = Decide(router_, ARequest(tokens_));
  ASSERT_EQ(decision.candidates.size(), kBestCandidates);
  ExpectTermsOfFirst(decision.candidates[0]);
  EXPECT_EQ(decision.candidates[1].target, TargetOf(77));
  EXPECT_EQ(decision.candidates[1].host_overlap_blocks, 2);
  EXPECT_GT(decision.candidates.bytes(), kBestCandidates * 40);
}

TEST_F(RouterTiersWinnerTest, TheChosenOneKeepsItsTiers) {
  AddWorkers(3);
  FillFirst();
  const RouteDecision decision = Decide(router_, ARequest(tokens_));
  ASSERT_EQ(decision.candidates.size(), 1u);
  ExpectTermsOfFirst(decision.candidates[0]);
}

TEST_F(RouterTiersTest, WhatIsOutOfReachIsWeighedToo) {
  AddWorkers(2);
  FillFirst();
  Store(StorageTier::kDevice, 0, 2, TargetOf(2));
  RouteRequest request = ARequest(tokens_);
  request.excluded.push_back({.worker = WorkerId{1}});
  const RouteDecision decision = Decide(router_, request);
  EXPECT_EQ(decision.target, TargetOf(2));
  EXPECT_EQ(decision.best_overlap_target, TargetOf(1));
  EXPECT_DOUBLE_EQ(decision.best_overlap_blocks, kEffectiveOfFirst);
  ASSERT_EQ(decision.candidates.size(), 1u);
  EXPECT_EQ(decision.candidates[0].host_overlap_blocks, 0) << "not the excluded one's";
}

TEST_F(RouterTiersTest, OverlapIsToldByTierInTargetOrder) {
  AddWorkers(4);
  Store(kHost, 0, 2, TargetOf(1));
  Store(StorageTier::kDevice, 0, 3, TargetOf(2));
  Store(StorageTier::kDevice, 0, 1, TargetOf(3));
  Store(kDisk, 1, 2, TargetOf(3));
  Store(kExternal, 2, 4, TargetOf(3));
  const auto overlaps = *router_.FindOverlap(ARequest(tokens_));
  ASSERT_EQ(overlaps.size(), 3u);
  const auto text = [](const TargetOverlap& o) {
    return fmt::format("{}: {} {} {} {}", static_cast<uint64_t>(o.target.worker), o.device_blocks,
                       o.host_blocks, o.disk_blocks, o.external_blocks);
  };
  EXPECT_EQ(text(overlaps[0]), "1: 0 2 0 0");
  EXPECT_EQ(text(overlaps[1]), "2: 3 0 0 0");
  EXPECT_EQ(text(overlaps[2]), "3: 1 0 1 2");
}

TEST_F(RouterTiersTest, PotentialLoadsAreWeighted) {
  AddWorkers(2);
  FillFirst();
  const auto loads = *router_.PotentialLoads(ARequest(tokens_));
  ASSERT_EQ(loads.size(), 2u);
  EXPECT_EQ(loads[0].overlap_blocks, 3u);
  EXPECT_EQ(loads[0].potential_prefill_tokens, 160u - 54);
  EXPECT_EQ(loads[1].potential_prefill_tokens, 160u);
}

TEST_F(RouterTiersTest, WhatACallerStatesReplacesAllTiers) {
  AddWorkers(1);
  FillFirst();
  ReserveRequest reserve{.route = ARequest(tokens_), .target = TargetOf(1)};
  EXPECT_DOUBLE_EQ(router_.Reserve(reserve, {})->effective_overlap_blocks, kEffectiveOfFirst);
  reserve.effective_prefill_tokens = 160 - 24;
  const auto decision = router_.Reserve(reserve, {});
  EXPECT_EQ(decision->effective_overlap_blocks, 1.5);
  EXPECT_EQ(decision->candidates[0].host_overlap_blocks, 0);
}

TEST_F(RouterTiersTest, AWorkerThatLeavesTakesItsTiersAlong) {
  WorkerSpec two_ranks = AWorker(1);
  two_ranks.dp_size = 2;
  ASSERT_TRUE(router_.UpsertWorker(two_ranks).ok());
  ASSERT_TRUE(router_.UpsertWorker(AWorker(2)).ok());
  for (const Target target : {TargetOf(1, 0), TargetOf(1, 1), TargetOf(2)}) {
    Store(StorageTier::kDevice, 0, 1, target);
    Store(kHost, 1, 3, target);
    Store(kDisk, 3, 4, target);
  }
  const auto blocks = [&] { return router_.Snapshot().at(0).tier_blocks; };
  using Blocks = std::array<uint64_t, kStorageTierCount>;
  EXPECT_EQ(blocks(), (Blocks{3, 6, 3, 0}));
  EXPECT_EQ(LoadOf(router_, TargetOf(1, 1))->tier_blocks, (Blocks{1, 2, 1, 0}));
  two_ranks.dp_size = 1;
  ASSERT_TRUE(router_.UpsertWorker(two_ranks).ok());
  EXPECT_EQ(blocks(), (Blocks{2, 4, 2, 0}));
  ASSERT_TRUE(router_.UpsertWorker(AWorker(2, /*incarnation=*/2)).ok());
  EXPECT_EQ(blocks(), (Blocks{1, 2, 1, 0}));
  router_.RemoveWorker(WorkerId{1});
  EXPECT_EQ(blocks(), (Blocks{0, 0, 0, 0}));
  EXPECT_EQ(router_.Snapshot().at(0).index_unique_blocks, 0u);
}

TEST_F(RouterTiersTest, WhatIsForgottenForTheBoundIsCounted) {
  RouterConfig config;
  config.max_lower_tier_blocks = 3;
  Router router(config, nullptr);
  ASSERT_TRUE(router.UpsertWorker(AWorker(1)).ok());
  router.Apply(StoredOn(kHost, tokens_, 0, 3, TargetOf(1)));
  EXPECT_EQ(router.Snapshot().at(0).lower_tier_forgotten_total, 0u);
  router.Apply(StoredOn(kHost, tokens_, 3, 4, TargetOf(1)));
  EXPECT_EQ(router.Snapshot().at(0).lower_tier_forgotten_total, 4u);
  EXPECT_EQ(router.Snapshot().at(0).tier_blocks[1], 0u);
}

TEST_F(RouterTiersTest, DeviceBeyondItsBoundIsForgottenCountedAndFillsAgain) {
  RouterConfig config;
  config.max_device_blocks = 3;
  Router router(config, nullptr);
  for (uint64_t id = 1; id <= 2; ++id) ASSERT_TRUE(router.UpsertWorker(AWorker(id)).ok());
  constexpr StorageTier kDevice = StorageTier::kDevice;
  router.Apply(StoredOn(kDevice, tokens_, 0, 3, TargetOf(1)));
  router.Apply(StoredOn(kHost, tokens_, 0, 2, TargetOf(1)));
  router.Apply(StoredOn(kDevice, tokens_, 0, 3, TargetOf(2)));
  EXPECT_EQ(router.Snapshot().at(0).device_forgotten_total, 0u);
  router.Apply(StoredOn(kDevice, tokens_, 3, 4, TargetOf(1)));
  const PartitionSnapshot snapshot = router.Snapshot().at(0);
  EXPECT_EQ(snapshot.device_forgotten_total, 6u) << "with what it had on host";
  EXPECT_EQ(snapshot.lower_tier_forgotten_total, 0u);
  EXPECT_EQ(snapshot.index_holder_blocks, 3u) << "of the other worker";
  EXPECT_EQ(snapshot.tier_blocks[1], 0u);
  EXPECT_EQ(router.Apply(StoredOn(kDevice, tokens_, 4, 5, TargetOf(1))).status,
            ApplyStatus::kParentForgotten);
  EXPECT_EQ(router.Apply(StoredOn(kDevice, tokens_, 4, 5, TargetOf(2))).status,
            ApplyStatus::kParentBlockNotFound)
      << "nothing was forgotten of this one";
  EXPECT_EQ(router.Apply(StoredOn(kDevice, tokens_, 0, 2, TargetOf(1))).status, ApplyStatus::kOk);
  EXPECT_EQ(router.Snapshot().at(0).index_holder_blocks, 5u);
  // As a picture that takes the place of the last one, too: what was staged is gone, and with it
  // what it was to replace.
  KvEvent staged = StoredOn(kDevice, tokens_, 0, 4, TargetOf(2));
  staged.staging = Staging::kStaged;
  router.Apply(staged);
  KvEvent commit;
  commit.target = TargetOf(2);
  commit.incarnation = Incarnation{1};
  commit.data = Cleared{};
  commit.staging = Staging::kCommit;
  router.Apply(commit);
  EXPECT_EQ(router.Snapshot().at(0).device_forgotten_total, 10u);
  EXPECT_EQ(router.Snapshot().at(0).index_holder_blocks, 2u);
  EXPECT_EQ(router.Apply(StoredOn(kDevice, tokens_, 4, 5, TargetOf(2))).status,
            ApplyStatus::kParentForgotten);
  commit.staging = Staging::kNone;
  router.Apply(commit);  // the engine says that it holds nothing
  EXPECT_EQ(router.Apply(StoredOn(kDevice, tokens_, 4, 5, TargetOf(2))).status,
            ApplyStatus::kParentBlockNotFound);
}

TEST_F(RouterTiersTest, TheLargestRanksAreForgottenUntilAllTogetherKeepTheirBound) {
  RouterConfig config;
  config.max_index_blocks = 15;
  Router router(config, nullptr);
  constexpr StorageTier kDevice = StorageTier::kDevice;
  for (uint64_t id = 1; id <= 3; ++id) {
    WorkerSpec spec = AWorker(id);
    if (id == 3) spec.model_name = "another";
    ASSERT_TRUE(router.UpsertWorker(spec).ok());
  }
  router.Apply(StoredOn(kDevice, tokens_, 0, 4, TargetOf(1)));
  router.Apply(StoredOn(kDevice, tokens_, 0, 3, TargetOf(2)));
  router.Apply(StoredOn(kHost, tokens_, 0, 3, TargetOf(2)));
  router.Apply(StoredOn(kDevice, tokens_, 0, 5, TargetOf(3)));
  const auto held = [&] {
    std::vector<uint64_t> blocks;
    for (const PartitionSnapshot& partition : router.Snapshot()) {
      for (const TargetLoad& load : partition.loads) blocks.push_back(load.index_blocks);
    }
    return blocks;
  };
  router.BoundIndex();
  EXPECT_EQ(held(), (std::vector<uint64_t>{4, 3, 5})) << "at the bound";
  router.Apply(StoredOn(kDevice, tokens_, 5, 6, TargetOf(3)));
  EXPECT_EQ(held(), (std::vector<uint64_t>{4, 3, 6}));
  router.BoundIndex();
  EXPECT_EQ(held(), (std::vector<uint64_t>{4, 0, 6}))
      << "with its host it was the largest of the partition that takes most";
  EXPECT_EQ(router.Snapshot().at(0).whole_forgotten_total, 6u);
  EXPECT_EQ(router.Snapshot().at(1).whole_forgotten_total, 0u);
  EXPECT_EQ(router.Apply(StoredOn(kDevice, tokens_, 3, 4, TargetOf(2))).status,
            ApplyStatus::kParentForgotten)
      << "nobody need recover it";
  EXPECT_EQ(router.Apply(StoredOn(kDevice, tokens_, 0, 2, TargetOf(2))).status, ApplyStatus::kOk);
  // Lower from now on: one after the other, largest first.
  config.max_index_blocks = 4;
  ASSERT_TRUE(router.Reconfigure(config).ok());
  router.BoundIndex();
  EXPECT_EQ(held(), (std::vector<uint64_t>{0, 2, 0}));
  config.max_index_blocks = 1;
  ASSERT_TRUE(router.Reconfigure(config).ok());
  router.BoundIndex();
  EXPECT_EQ(held(), (std::vector<uint64_t>{0, 0, 0}));
}

TEST_F(RouterTiersTest, DumpAndSaveCarryTheTiers) {
  AddWorkers(2);
  FillFirst();
  Store(kHost, 0, 10, TargetOf(2));
  for (const bool save : {false, true}) {
    Router copy(Config(DecisionDetail::kFull), nullptr);
    for (uint64_t id = 1; id <= 2; ++id) ASSERT_TRUE(copy.UpsertWorker(AWorker(id)).ok());
    if (save) {
      for (const Target target : {TargetOf(1), TargetOf(2)}) {
        EXPECT_TRUE(router_.SaveTarget(target, [&](KvEvent event) {
          event.incarnation = Incarnation{1};
          copy.Apply(event);
        }));
      }
    } else {
      const auto counts = router_.Dump("default", "default", [&](const KvEvent& event) {
        return copy.Apply(event).status == ApplyStatus::kOk;
      });
      EXPECT_EQ(counts->blocks, 17u);
      EXPECT_EQ(counts->omitted_blocks, 0u);
      EXPECT_TRUE(counts->complete);
    }
    EXPECT_EQ(copy.Snapshot().at(0).tier_blocks, router_.Snapshot().at(0).tier_blocks);
    const RouteDecision decision = Decide(copy, ARequest(tokens_));
    ASSERT_EQ(decision.candidates.size(), 2u);
    ExpectTermsOfFirst(decision.candidates[0]);
    EXPECT_EQ(decision.candidates[1].host_overlap_blocks, 10);
  }
}

}  // namespace
}  // namespace kvrouter
