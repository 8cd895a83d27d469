#include "core/plan/migration_planner.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <vector>

#include "core/affinity/kv_home.h"

namespace kvrouter {
namespace {

using Mode = MigrationMode;
using Outcome = MigrationOutcome;

MigrationPeer APeer(uint64_t worker, double overlap_blocks) {
  return {.target = {.worker = WorkerId{worker}},
          .overlap_blocks = overlap_blocks,
          .kv_role = KvRole::kBoth,
          .engine_version = "0.11.0",
          .block_size_tokens = 16};
}

// 32,000 tokens on worker 2, nothing on worker 1, which was chosen.
MigrationInput AnInput() {
  MigrationInput input;
  input.has_session = true;
  input.isl_tokens = 32'010;
  input.target = APeer(1, 0);
  input.best_overlap = APeer(2, 2000);
  return input;
}

MigrationConfig Config(Mode mode) { return {.mode = mode}; }

TEST(MigrationPlannerTest, PullsFromTheBestOverlap) {
  const MigrationPlan plan = PlanMigration(Config(Mode::kMigrate), AnInput());
  EXPECT_EQ(plan.outcome, Outcome::kPlanned);
  EXPECT_TRUE(plan.migrate);
  EXPECT_EQ(plan.source, (Target{.worker = WorkerId{2}}));
  EXPECT_FALSE(plan.source_is_kv_home);
  EXPECT_EQ(plan.migratable_tokens, 32'000u);
  EXPECT_EQ(plan.GainTokens(), 32'000);
  EXPECT_TRUE(plan.set_kv_home);
}

TEST(MigrationPlannerTest, DryPlansTheSameAndActsOnNothing) {
  const MigrationPlan plan = PlanMigration(Config(Mode::kDry), AnInput());
  EXPECT_EQ(plan.outcome, Outcome::kPlanned);
  EXPECT_FALSE(plan.migrate);
  EXPECT_EQ(plan.source, (Target{.worker = WorkerId{2}}));
  EXPECT_EQ(DescribeMigration(plan),
            "planned dry from worker 2 rank 0, migratable_tokens 32000 >= 16384: yes, "
            "gain_tokens 32000 >= 16384: yes");
}

TEST(MigrationPlannerTest, OffLooksAtNothing) {
  const MigrationPlan plan = PlanMigration(Config(Mode::kOff), AnInput());
  EXPECT_EQ(plan.outcome, Outcome::kOff);
  EXPECT_FALSE(plan.migrate);
  EXPECT_FALSE(plan.set_kv_home);
  EXPECT_FALSE(plan.source);
}

TEST(MigrationPlannerTest, TheFloorIsInWholeTokens) {
  struct Row {
    double blocks;
    Outcome outcome;
    uint64_t tokens;
  };
  for (const Row& row :
       {Row{1023, Outcome::kBelowMinTokens, 16'368}, Row{1023.99, Outcome::kBelowMinTokens, 16'383},
        Row{1024, Outcome::kPlanned, 16'384}, Row{1024.0625, Outcome::kPlanned, 16'385}}) {
    MigrationInput input = AnInput();
    input.best_overlap->overlap_blocks = row.blocks;
    const MigrationPlan plan = PlanMigration(Config(Mode::kMigrate), input);
    EXPECT_EQ(plan.outcome, row.outcome) << row.blocks;
    EXPECT_EQ(plan.migratable_tokens, row.tokens) << row.blocks;
    EXPECT_EQ(plan.set_kv_home, row.outcome == Outcome::kPlanned);
  }
}

TEST(MigrationPlannerTest, EachRefusalHasItsName) {
  struct Row {
    Outcome outcome;
    std::function<void(MigrationInput*)> change;
  };
  const std::vector<Row> rows = {
      {Outcome::kPrefillLeg, [](auto* i) { i->prefill_leg = true; }},
      {Outcome::kBelowMinTokens, [](auto* i) { i->best_overlap.reset(); }},
      {Outcome::kSourceIsTarget,
       [](auto* i) { i->best_overlap->target = {.worker = WorkerId{1}, .dp_rank = 3}; }},
      {Outcome::kHasPrefillResult, [](auto* i) { i->has_prefill_result = true; }},
      {Outcome::kSourceGone, [](auto* i) { i->best_overlap->alive = false; }},
      {Outcome::kSourceCannotProduce, [](auto* i) { i->best_overlap->kv_role = KvRole::kNone; }},
      {Outcome::kSourceCannotProduce,
       [](auto* i) { i->best_overlap->kv_role = KvRole::kConsumer; }},
      {Outcome::kTargetCannotConsume, [](auto* i) { i->target.kv_role = KvRole::kProducer; }},
      {Outcome::kSourceOverloaded, [](auto* i) { i->best_overlap->overloaded = true; }},
      {Outcome::kEngineVersionDiffers, [](auto* i) { i->best_overlap->engine_version = "0.12.0"; }},
      {Outcome::kEngineVersionDiffers, [](auto* i) { i->target.engine_version = ""; }},
      {Outcome::kBlockSizeDiffers, [](auto* i) { i->best_overlap->block_size_tokens = 32; }},
      {Outcome::kNoGain, [](auto* i) { i->target.overlap_blocks = 1990; }},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(MigrationOutcomeName(row.outcome));
    MigrationInput input = AnInput();
    row.change(&input);
    for (const Mode mode : {Mode::kMigrate, Mode::kDry}) {
      const MigrationPlan plan = PlanMigration(Config(mode), input);
      EXPECT_EQ(MigrationOutcomeName(plan.outcome), MigrationOutcomeName(row.outcome));
      EXPECT_FALSE(plan.migrate);
      EXPECT_EQ(DescribeMigration(plan).rfind(MigrationOutcomeName(row.outcome), 0), 0u);
    }
  }
}

TEST(MigrationPlannerTest, WhatIsWrongFirstIsNamedFirst) {
  MigrationInput input = AnInput();
  input.best_overlap->block_size_tokens = 32;
  input.best_overlap->engine_version = "other";
  input.best_overlap->overloaded = true;
  input.target.kv_role = KvRole::kNone;
  input.best_overlap->kv_role = KvRole::kNone;
  input.best_overlap->alive = false;
  const auto outcome = [&] { return PlanMigration(Config(Mode::kMigrate), input).outcome; };
  EXPECT_EQ(outcome(), Outcome::kSourceGone);
  input.best_overlap->alive = true;
  EXPECT_EQ(outcome(), Outcome::kSourceCannotProduce);
  input.best_overlap->kv_role = KvRole::kProducer;
  EXPECT_EQ(outcome(), Outcome::kTargetCannotConsume);
  input.target.kv_role = KvRole::kConsumer;
  EXPECT_EQ(outcome(), Outcome::kSourceOverloaded);
  input.best_overlap->overloaded = false;
  EXPECT_EQ(outcome(), Outcome::kEngineVersionDiffers);
  input.best_overlap->engine_version = input.target.engine_version;
  EXPECT_EQ(outcome(), Outcome::kBlockSizeDiffers);
  input.best_overlap->block_size_tokens = 16;
  EXPECT_EQ(outcome(), Outcome::kPlanned);
}

TEST(MigrationPlannerTest, UndeclaredVersionsOnBothSidesAreTheSame) {
  MigrationInput input = AnInput();
  input.target.engine_version = "";
  input.best_overlap->engine_version = "";
  EXPECT_EQ(PlanMigration(Config(Mode::kMigrate), input).outcome, Outcome::kPlanned);
}

TEST(MigrationPlannerTest, TheGainIsWhatTheTargetLacks) {
  MigrationConfig config = Config(Mode::kMigrate);
  MigrationInput input = AnInput();
  struct Row {
    std::optional<uint64_t> min_gain;
    double target_blocks;
    Outcome outcome;
  };
  for (const Row& row : {
           Row{std::nullopt, 977, Outcome::kNoGain},   // 32000 - 15632 = 16368
           Row{std::nullopt, 976, Outcome::kPlanned},  // 16384
           Row{std::nullopt, 975, Outcome::kPlanned},  // 16400
           Row{16, 1999, Outcome::kPlanned},           // 16
           Row{17, 1999, Outcome::kNoGain},
           Row{0, 2000, Outcome::kPlanned},  // as the fork: not tested
       }) {
    config.min_gain_tokens = row.min_gain;
    input.target.overlap_blocks = row.target_blocks;
    EXPECT_EQ(PlanMigration(config, input).outcome, row.outcome) << row.target_blocks;
  }
}

// A thousand tokens a second, so that a token takes a millisecond.
MigrationConfig Priced(uint64_t transfer_us_per_block) {
  MigrationConfig config = Config(Mode::kMigrate);
  config.prefill_tokens_per_s = 1000;
  config.transfer_us_per_block = transfer_us_per_block;
  return config;
}

TEST(MigrationPlannerTest, APullThatTakesAsLongAsComputingIsRefusedByName) {
  // Computing: 32,010 ms. Pulling: the source computes 10 tokens, then 2000 blocks are under way.
  struct Row {
    uint64_t transfer_us;
    uint64_t pending_tokens;
    Outcome outcome;
  };
  for (const Row& row : {
           Row{0, 0, Outcome::kPlanned},
           Row{1000, 0, Outcome::kPlanned},
           Row{15'999, 0, Outcome::kPlanned},  // 10 + 31,998 < 32,010
           Row{16'000, 0, Outcome::kTransferTooDear},
           Row{16'000, 50'000, Outcome::kTransferTooDear},  // the price is named before the queue
           Row{std::numeric_limits<uint64_t>::max(), 0, Outcome::kTransferTooDear},
           Row{1000, 29'999, Outcome::kPlanned},  // 29,999 + 10 + 2000 < 32,010
           Row{1000, 30'000, Outcome::kSourceTooBusy},
           Row{0, 31'999, Outcome::kPlanned},
           Row{0, 32'000, Outcome::kSourceTooBusy},
           Row{0, std::numeric_limits<uint64_t>::max(), Outcome::kSourceTooBusy},
       }) {
    SCOPED_TRACE(row.transfer_us);
    SCOPED_TRACE(row.pending_tokens);
    MigrationInput input = AnInput();
    input.best_overlap->pending_prefill_tokens = row.pending_tokens;
    const MigrationPlan plan = PlanMigration(Priced(row.transfer_us), input);
    EXPECT_EQ(MigrationOutcomeName(plan.outcome), MigrationOutcomeName(row.outcome));
    EXPECT_EQ(plan.migrate, row.outcome == Outcome::kPlanned);
    EXPECT_TRUE(plan.set_kv_home) << "the conversation is where it is computed";
  }
}

TEST(MigrationPlannerTest, TheExplanationHasThePrices) {
  MigrationInput input = AnInput();
  input.best_overlap->pending_prefill_tokens = 30'000;
  EXPECT_EQ(DescribeMigration(PlanMigration(Priced(1000), input)),
            "source_too_busy from worker 2 rank 0, migratable_tokens 32000 >= 16384: yes, "
            "gain_tokens 32000 >= 16384: yes, transfer_us 2010000 < 32010000: yes, "
            "wait_and_transfer_us 32010000 < 32010000: no");
}

TEST(MigrationPlannerTest, OnlyWhatTheTargetLacksIsPriced) {
  MigrationInput input = AnInput();
  input.target.overlap_blocks = 900;  // 17,610 tokens are lacking, 1100 full blocks
  MigrationConfig config = Priced(15'999);
  EXPECT_EQ(PlanMigration(config, input).outcome, Outcome::kPlanned);
  config.transfer_us_per_block = 16'000;
  EXPECT_EQ(PlanMigration(config, input).outcome, Outcome::kTransferTooDear);
  // The target has all of it: nothing is to be computed, and a pull cannot be sooner than nothing.
  config.min_tokens = 0;
  input.isl_tokens = 14'400;
  input.best_overlap->overlap_blocks = 900;
  EXPECT_EQ(PlanMigration(config, input).outcome, Outcome::kTransferTooDear);
}

TEST(MigrationPlannerTest, WithoutARateQueuesAndWaysCostNothing) {
  MigrationInput input = AnInput();
  MigrationConfig config = Config(Mode::kMigrate);
  config.transfer_us_per_block = 1'000'000;
  input.best_overlap->pending_prefill_tokens = 1'000'000;
  const MigrationPlan plan = PlanMigration(config, input);
  EXPECT_EQ(plan.outcome, Outcome::kPlanned);
  EXPECT_EQ(plan.checks.size(), 2u);
}

TEST(MigrationPlannerTest, KvHomeIsTheSourceWhenTheIndexNamesNobody) {
  MigrationConfig config = Config(Mode::kMigrate);
  MigrationInput input = AnInput();
  input.best_overlap.reset();
  input.kv_home = APeer(3, 0);
  EXPECT_EQ(PlanMigration(config, input).outcome, Outcome::kBelowMinTokens)
      << "no best worker means 0 tokens";
  config.min_tokens = 0;
  const MigrationPlan plan = PlanMigration(config, input);
  EXPECT_EQ(plan.outcome, Outcome::kPlanned);
  EXPECT_TRUE(plan.source_is_kv_home);
  EXPECT_EQ(plan.source, (Target{.worker = WorkerId{3}}));
  input.kv_home.reset();
  EXPECT_EQ(PlanMigration(config, input).outcome, Outcome::kNoSource);
}

TEST(MigrationPlannerTest, TheBestOverlapComesBeforeKvHome) {
  MigrationInput input = AnInput();
  input.kv_home = APeer(3, 0);
  EXPECT_EQ(PlanMigration(Config(Mode::kMigrate), input).source, (Target{.worker = WorkerId{2}}));
}

TEST(MigrationPlannerTest, TheHomeIsSetForSessionsOverTheFloorWhateverTheOutcome) {
  MigrationInput input = AnInput();
  input.best_overlap->target.worker = WorkerId{1};
  EXPECT_TRUE(PlanMigration(Config(Mode::kMigrate), input).set_kv_home);
  input.has_session = false;
  EXPECT_FALSE(PlanMigration(Config(Mode::kMigrate), input).set_kv_home);
}

TEST(KvRoleTest, NamesAreReadBackAndNothingElse) {
  for (const KvRole role : {KvRole::kNone, KvRole::kProducer, KvRole::kConsumer, KvRole::kBoth}) {
    EXPECT_EQ(KvRoleOf(KvRoleName(role)), role);
  }
  EXPECT_FALSE(KvRoleOf("kv_both"));
  EXPECT_FALSE(KvRoleOf(""));
}

TEST(KvHomeTest, TheLeastRecentlyWrittenMakesRoom) {
  KvHome homes(2);
  const auto target = [](uint64_t worker) { return Target{.worker = WorkerId{worker}}; };
  EXPECT_FALSE(homes.Put(SessionKey{1}, target(1)));
  EXPECT_FALSE(homes.Put(SessionKey{2}, target(2)));
  EXPECT_FALSE(homes.Put(SessionKey{1}, target(11)));
  const auto evicted = homes.Put(SessionKey{3}, target(3));
  ASSERT_TRUE(evicted);
  EXPECT_EQ(evicted->key, SessionKey{2});
  EXPECT_EQ(evicted->value, target(2));
  EXPECT_EQ(homes.Find(SessionKey{2}), nullptr);
  ASSERT_NE(homes.Find(SessionKey{1}), nullptr);
  EXPECT_EQ(*homes.Find(SessionKey{1}), target(11));
  EXPECT_EQ(homes.EvictionsTotal(), 1u);
  EXPECT_TRUE(homes.Erase(SessionKey{1}));
  EXPECT_FALSE(homes.Erase(SessionKey{1}));
  EXPECT_EQ(homes.size(), 1u);
}

}  // namespace
}  // namespace kvrouter
