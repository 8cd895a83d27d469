// Migration in virtual time: the real router's plans, carried out by the engine model.
#include "sim/virtual/kv_moves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <numeric>
#include <string>
#include <string_view>

#include "sim/trace/trace.h"
#include "sim/virtual/break_even.h"
#include "sim/virtual/policy_table.h"
#include "sim/virtual/router_settings.h"
#include "sim/virtual/simulation.h"
#include "sim/virtual/trace_blocks.h"
#include "support/sanitized.h"

namespace kvrouter::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

// 1 token a millisecond, 4 tokens a block.
EngineConfig AnEngine(microseconds transfer_per_block) {
  EngineConfig engine;
  engine.service = EngineConfig::Service::kContinuousBatching;
  engine.block_size_tokens = 4;
  engine.prefill_tokens_per_s = 1000;
  engine.transfer_per_block = transfer_per_block;
  return engine;
}

// One row after another of the prompts that a fleet of two is told to move.
class KvMovesTest : public ::testing::Test {
 protected:
  struct Seen {
    uint32_t worker = 0;
    EngineEvent event;
  };

  // Prompts of 10 tokens, all alike: two full blocks.
  explicit KvMovesTest() {
    for (int i = 0; i < 4; ++i) {
      trace_.rows.push_back({.arrival = {},
                             .isl_tokens = 10,
                             .osl_tokens = 1,
                             .block_ids = {1, 2},
                             .session_id = ""});
    }
  }

  void Compute(uint32_t worker, size_t row_index, MonotonicTime now) {
    fleet_.engine(worker).Submit(
        {.id = row_index,
         .isl_tokens = 10,
         .osl_tokens = 1,
         .block_hashes = TraceBlocks::EngineHashes(worker, trace_.rows[row_index])},
        now);
  }

  void RunUntil(MonotonicTime until) {
    for (;;) {
      const MonotonicTime at = std::min(fleet_.NextEventTime(), moves_.NextExpiry());
      if (at > until || at == MonotonicTime::max()) return;
      if (fleet_.NextEventTime() <= at) {
        const Fleet::WorkerEvents step = fleet_.Step();
        Deliver(step.worker, step.events);
      } else {
        moves_.Expire(at);
      }
      while (const auto ending = moves_.TakeEnding()) {
        std::vector<EngineEvent> events;
        fleet_.engine(ending->worker).AdvanceTo(at, &events);
        Deliver(ending->worker, events);
        moves_.End(*ending, at);
      }
    }
  }

  MonotonicTime FirstTokenOf(size_t row_index, uint32_t worker) const {
    for (const Seen& seen : seen_) {
      const auto* first = std::get_if<FirstToken>(&seen.event.what);
      if (first != nullptr && first->id == row_index && seen.worker == worker) return seen.event.at;
    }
    ADD_FAILURE() << "no first token of row " << row_index << " on worker " << worker;
    return MonotonicTime::max();
  }

  Trace trace_{.name = "test", .block_size_tokens = 4, .rows = {}};
  Fleet fleet_{2, AnEngine(milliseconds(1))};
  KvMoves moves_{trace_, fleet_};
  std::vector<Seen> seen_;

 private:
  void Deliver(uint32_t worker, const std::vector<EngineEvent>& events) {
    for (const EngineEvent& event : events) {
      moves_.See(event);
      seen_.push_back({worker, event});
    }
  }
};

TEST_F(KvMovesTest, ThePromptIsHeldOnTheSourceThenComesBlockByBlockAndIsUnpinned) {
  Compute(0, 0, MonotonicTime{});
  RunUntil(milliseconds(100));
  moves_.Begin(1, {.source = 0, .timeout = milliseconds(500)}, 1, milliseconds(100));
  RunUntil(milliseconds(103));
  EXPECT_EQ(fleet_.engine(0).Gauges().held_requests, 1u) << "2 tokens were not cached: 102 ms";
  EXPECT_EQ(moves_.SourceHitBlocks(1), 2u);
  RunUntil(MonotonicTime::max());
  EXPECT_EQ(FirstTokenOf(1, 1), milliseconds(100 + 2 + 3 + 1))
      << "the source's step, three blocks (one of them partial), the last token";
  EXPECT_EQ(fleet_.engine(0).Gauges().held_requests, 0u);
  EXPECT_EQ(fleet_.engine(1).Totals().computed_prefill_tokens, 1u);
  EXPECT_EQ(fleet_.engine(1).CachedPrefixBlocks(TraceBlocks::EngineHashes(1, trace_.rows[1])), 2u);
  EXPECT_EQ(moves_.sums().moved, 1u);
  EXPECT_EQ(moves_.sums().pulled_blocks, 3u);
  EXPECT_EQ(moves_.sums().source_wait_s, 0);
  EXPECT_EQ(moves_.NextExpiry(), MonotonicTime::max());
}

TEST_F(KvMovesTest, TheStepQueuesOnABusySource) {
  Compute(0, 0, MonotonicTime{});
  RunUntil(milliseconds(5));
  moves_.Begin(1, {.source = 0, .timeout = milliseconds(500)}, 1, milliseconds(5));
  RunUntil(MonotonicTime::max());
  EXPECT_EQ(FirstTokenOf(1, 1), milliseconds(10 + 2 + 3 + 1));
  EXPECT_DOUBLE_EQ(moves_.sums().source_wait_s, 0.005);
}

TEST_F(KvMovesTest, ASourceThatTakesTooLongIsGivenUpAndTheTargetComputes) {
  Compute(0, 0, MonotonicTime{});
  RunUntil(milliseconds(1));
  moves_.Begin(1, {.source = 0, .timeout = milliseconds(4)}, 1, milliseconds(1));
  RunUntil(MonotonicTime::max());
  EXPECT_EQ(FirstTokenOf(1, 1), milliseconds(1 + 4 + 10));
  EXPECT_EQ(moves_.sums().timed_out, 1u);
  EXPECT_EQ(moves_.sums().moved, 0u);
  EXPECT_EQ(moves_.SourceHitBlocks(1), std::nullopt);
  EXPECT_EQ(fleet_.engine(0).Totals().requests_aborted, 1u);
}

TEST_F(KvMovesTest, AStepThatEndsWithItsTimeIsNotGivenUp) {
  moves_.Begin(0, {.source = 0, .timeout = milliseconds(10)}, 1, MonotonicTime{});
  RunUntil(MonotonicTime::max());
  EXPECT_EQ(moves_.sums().timed_out, 0u);
  EXPECT_EQ(moves_.sums().leases_ended, 0u);
  EXPECT_EQ(FirstTokenOf(0, 1), milliseconds(10 + 3 + 1));
}

TEST(BreakEvenTest, BetweenIdleEnginesItIsWhereThePullBecomesShorter) {
  // Of a prompt of k blocks the source computes the last block anew, 4 ms, and the target one token
  // after k blocks have come: 4 + k + 1 < 4k.
  EXPECT_EQ(IdleBreakEvenTokens(AnEngine(milliseconds(1))), 2 * 4);
  EXPECT_EQ(IdleBreakEvenTokens(AnEngine(milliseconds(2))), 3 * 4);
  EXPECT_EQ(IdleBreakEvenTokens(AnEngine(milliseconds(3))), 6 * 4);
  EXPECT_EQ(IdleBreakEvenTokens(AnEngine(microseconds(3900))), 51 * 4) << "0.1 k > 5";
  EXPECT_EQ(IdleBreakEvenTokens(AnEngine(milliseconds(4))), std::nullopt);
}

TEST(BreakEvenTest, UnderLoadTheWaitAtTheSourceIsPaidForToo) {
  MoveSums moves;
  EXPECT_EQ(LoadedBreakEvenTokens(AnEngine(milliseconds(1)), moves), std::nullopt);
  moves.moved = 2;
  moves.source_wait_s = 0.06;
  EXPECT_EQ(LoadedBreakEvenTokens(AnEngine(milliseconds(2)), moves), 60u) << "30 ms / (1 - 0.5) ms";
  EXPECT_EQ(LoadedBreakEvenTokens(AnEngine(milliseconds(5)), moves), std::nullopt);
}

// ---- The rows of docs/performance.md#migration ----

const TraceBlocks& SkewedIsl() {
  static const Trace trace = ReadTrace("tests/data/traces/skewed_isl.jsonl.gz", 256).value();
  static const TraceBlocks blocks(trace);
  return blocks;
}

SimulationConfig OverSkewedIsl(microseconds transfer_per_block,
                               std::initializer_list<std::string_view> settings) {
  SimulationConfig config;
  config.engine.service = EngineConfig::Service::kContinuousBatching;
  config.engine.block_size_tokens = 256;
  config.engine.transfer_per_block = transfer_per_block;
  for (const std::string_view setting : settings) {
    const absl::Status status = ApplySetting(setting, &config.router);
    EXPECT_TRUE(status.ok()) << status;
  }
  return config;
}

PolicyFigures FiguresOf(const SimulationConfig& config) {
  const auto figures = SimulateMean(SkewedIsl(), config, /*runs=*/kSanitized ? 1 : 3);
  EXPECT_TRUE(figures.ok()) << figures.status();
  return figures.ok() ? *figures : PolicyFigures();
}

constexpr microseconds kCheap{1000};
constexpr microseconds kDear{31'800};  // a block is computed in 32,000

TEST(MigrationFiguresTest, CheapTransferLowersTimeToFirstToken) {
  const PolicyFigures off = FiguresOf(OverSkewedIsl(kCheap, {}));
  const SimulationConfig config =
      OverSkewedIsl(kCheap, {"kv_migration=migrate", "kv_migration_min_tokens=2048"});
  const PolicyFigures on = FiguresOf(config);
  EXPECT_EQ(off.moves.moved, 0u);
  EXPECT_GT(on.moves.moved, 300u);
  EXPECT_LE(on.ttft_p50_s, 0.9 * off.ttft_p50_s);
  EXPECT_LE(on.ttft_p99_s, 0.8 * off.ttft_p99_s);
  EXPECT_GE(on.full_block_hit, off.full_block_hit + 0.1);
  EXPECT_LE(on.prefill_util, 0.75 * off.prefill_util) << "what is pulled is not computed";
  EXPECT_EQ(std::accumulate(on.moves.outcomes.begin(), on.moves.outcomes.end(), uint64_t{0}),
            on.sums.requests);
  EXPECT_EQ(on.moves.outcomes[static_cast<size_t>(MigrationOutcome::kPlanned)],
            on.moves.moved + on.moves.timed_out);
  const std::string text = FormatMoves({&on, 1}, config);
  EXPECT_THAT(text, HasSubstr("assumed from 2048 tokens on"));
  EXPECT_THAT(text, HasSubstr("measured between idle engines from 512 tokens on, in this run"));
}

TEST(MigrationFiguresTest, DearTransferIsSeldomChosenWithTheFloorAtTheIdleBreakEven) {
  const PolicyFigures off = FiguresOf(OverSkewedIsl(kDear, {}));
  SimulationConfig config = OverSkewedIsl(kDear, {"kv_migration=migrate"});
  const auto break_even = IdleBreakEvenTokens(config.engine);
  ASSERT_TRUE(break_even.has_value());
  EXPECT_GT(*break_even, 32'768u);
  config.router.migration.min_tokens = *break_even;
  const PolicyFigures on = FiguresOf(config);
  EXPECT_GT(on.moves.moved, 0u);
  EXPECT_LE(on.moves.moved, on.sums.requests / 50);
  EXPECT_LE(on.ttft_p50_s, 1.1 * off.ttft_p50_s);
  EXPECT_LE(on.ttft_p99_s, 1.1 * off.ttft_p99_s);
}

// As an operator finds his floor: what a run with a low one measured.
TEST(MigrationFiguresTest, DearTransferIsNotChosenWithTheFloorAtTheBreakEvenUnderLoad) {
  const PolicyFigures off = FiguresOf(OverSkewedIsl(kDear, {}));
  SimulationConfig config =
      OverSkewedIsl(kDear, {"kv_migration=migrate", "kv_migration_min_tokens=2048"});
  const auto break_even = LoadedBreakEvenTokens(config.engine, FiguresOf(config).moves);
  ASSERT_TRUE(break_even.has_value());
  config.router.migration.min_tokens = *break_even;
  const PolicyFigures on = FiguresOf(config);
  EXPECT_LE(on.moves.moved, on.sums.requests / 1000);
  EXPECT_LE(on.ttft_p50_s, off.ttft_p50_s);
  EXPECT_LE(on.ttft_p99_s, off.ttft_p99_s);
}

TEST(MigrationFiguresTest, DearTransferWithAFloorTooLowMakesTheTailLonger) {
  const PolicyFigures off = FiguresOf(OverSkewedIsl(kDear, {}));
  const PolicyFigures on =
      FiguresOf(OverSkewedIsl(kDear, {"kv_migration=migrate", "kv_migration_min_tokens=2048"}));
  EXPECT_GT(on.moves.moved, 300u);
  EXPECT_GE(on.ttft_p99_s, 1.1 * off.ttft_p99_s);
}

PolicyFigures PricedOverSkewedIsl(microseconds transfer_per_block) {
  SimulationConfig config =
      OverSkewedIsl(transfer_per_block, {"kv_migration=migrate", "kv_migration_min_tokens=512"});
  config.router.migration.prefill_tokens_per_s = 8000;
  config.router.migration.transfer_us_per_block = static_cast<uint64_t>(transfer_per_block.count());
  return FiguresOf(config);
}

// One floor for all, the lowest of the table: prices do what a floor has to be found for.
TEST(MigrationFiguresTest, PricedTransfersAreChosenWhereTheyPayAndOnlyThere) {
  const PolicyFigures off = FiguresOf(OverSkewedIsl(kCheap, {}));
  const PolicyFigures cheap = PricedOverSkewedIsl(kCheap);
  EXPECT_GT(cheap.moves.moved, 300u);
  EXPECT_LE(cheap.ttft_p50_s, 0.9 * off.ttft_p50_s);
  EXPECT_LE(cheap.ttft_p99_s, 0.8 * off.ttft_p99_s);
  EXPECT_GT(cheap.moves.outcomes[static_cast<size_t>(MigrationOutcome::kSourceTooBusy)], 0u);

  const PolicyFigures middling = PricedOverSkewedIsl(microseconds(20'000));
  EXPECT_GT(middling.moves.moved, 100u);
  EXPECT_LE(middling.ttft_p50_s, off.ttft_p50_s);
  EXPECT_LE(middling.ttft_p99_s, off.ttft_p99_s);

  const PolicyFigures dear = PricedOverSkewedIsl(kDear);
  EXPECT_EQ(dear.moves.moved, 0u);
  EXPECT_GT(dear.moves.outcomes[static_cast<size_t>(MigrationOutcome::kTransferTooDear)], 300u);
  EXPECT_EQ(dear.ttft_p50_s, off.ttft_p50_s);
  EXPECT_EQ(dear.ttft_p99_s, off.ttft_p99_s);
}

TEST(MigrationFiguresTest, DryPlansAndChangesNothing) {
  const PolicyFigures off = FiguresOf(OverSkewedIsl(kCheap, {}));
  const PolicyFigures dry =
      FiguresOf(OverSkewedIsl(kCheap, {"kv_migration=dry", "kv_migration_min_tokens=2048"}));
  EXPECT_GT(dry.moves.outcomes[static_cast<size_t>(MigrationOutcome::kPlanned)], 300u);
  EXPECT_EQ(dry.moves.moved, 0u);
  EXPECT_EQ(dry.ttft_p50_s, off.ttft_p50_s);
  EXPECT_EQ(dry.full_block_hit, off.full_block_hit);
}

TEST(MigrationFiguresTest, EnginesThatExchangeNothingAreAnError) {
  SimulationConfig config = OverSkewedIsl(kCheap, {"kv_migration=migrate"});
  config.engine.service = EngineConfig::Service::kFifoPrefill;
  EXPECT_THAT(Simulate(SkewedIsl(), config).status().ToString(), HasSubstr("continuous_batching"));
}

}  // namespace
}  // namespace kvrouter::sim
