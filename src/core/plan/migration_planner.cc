#include "core/plan/migration_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "core/plan/rule_check.h"

namespace kvrouter {
namespace {

using Outcome = MigrationOutcome;

constexpr std::array<std::string_view, kMigrationOutcomeCount> kOutcomeNames = {
    "off",
    "prefill_leg",
    "below_min_tokens",
    "no_source",
    "source_is_target",
    "has_prefill_result",
    "source_gone",
    "source_cannot_produce",
    "target_cannot_consume",
    "source_overloaded",
    "engine_version_differs",
    "block_size_differs",
    "no_gain",
    "transfer_too_dear",
    "source_too_busy",
    "planned"};
static_assert(kOutcomeNames.size() == static_cast<size_t>(Outcome::kPlanned) + 1);

uint64_t TruncatedTokens(double blocks, uint32_t block_size_tokens) {
  return static_cast<uint64_t>(std::max(0.0, blocks) * static_cast<double>(block_size_tokens));
}

bool Check(MigrationPlan* plan, RuleCheck check) {
  check.holds = check.comparison == RuleCheck::Comparison::kAtLeast ? check.value >= check.threshold
                                                                    : check.value < check.threshold;
  plan->checks.push_back(check);
  return check.holds;
}

bool CheckAtLeast(MigrationPlan* plan, std::string_view quantity, double value, double threshold) {
  return Check(plan, {.quantity = quantity,
                      .comparison = RuleCheck::Comparison::kAtLeast,
                      .value = value,
                      .threshold = threshold});
}

// How long the first token takes by a pull and by computing, in microseconds that a reader of the
// explanation can add up. They are far below 2^53, or so long that no fraction matters.
struct Prices {
  double compute_us = 0;
  double transfer_us = 0;
  double wait_us = 0;
};

Prices PricesOf(const MigrationConfig& config, const MigrationInput& input,
                const MigrationPeer& source, const MigrationPlan& plan) {
  const auto computing_us = [&config](uint64_t tokens) {
    return std::round(static_cast<double>(tokens) * 1e6 /
                      static_cast<double>(config.prefill_tokens_per_s));
  };
  const auto lacking = [&input](uint64_t held_tokens) {
    return input.isl_tokens - std::min(input.isl_tokens, held_tokens);
  };
  const uint64_t moved_blocks = lacking(plan.target_tokens) / input.target.block_size_tokens;
  const double way_us =
      static_cast<double>(moved_blocks) * static_cast<double>(config.transfer_us_per_block);
  return {.compute_us = computing_us(lacking(plan.target_tokens)),
          .transfer_us = computing_us(lacking(plan.migratable_tokens)) + way_us,
          .wait_us = computing_us(source.pending_prefill_tokens)};
}

Outcome JudgePrice(const MigrationConfig& config, const MigrationInput& input,
                   const MigrationPeer& source, MigrationPlan* plan) {
  if (config.prefill_tokens_per_s == 0) return Outcome::kPlanned;
  const Prices prices = PricesOf(config, input, source, *plan);
  const auto is_sooner = [&](std::string_view quantity, double pull_us) {
    return Check(plan, {.quantity = quantity,
                        .comparison = RuleCheck::Comparison::kLess,
                        .value = pull_us,
                        .threshold = prices.compute_us});
  };
  if (!is_sooner("transfer_us", prices.transfer_us)) return Outcome::kTransferTooDear;
  if (!is_sooner("wait_and_transfer_us", prices.wait_us + prices.transfer_us))
    return Outcome::kSourceTooBusy;
  return Outcome::kPlanned;
}

Outcome JudgeSource(const MigrationConfig& config, const MigrationInput& input,
                    const MigrationPeer& source, MigrationPlan* plan) {
  const MigrationPeer& target = input.target;
  if (source.target.worker == target.target.worker) return Outcome::kSourceIsTarget;
  if (input.has_prefill_result) return Outcome::kHasPrefillResult;
  if (!source.alive) return Outcome::kSourceGone;
  if (!CanProduce(source.kv_role)) return Outcome::kSourceCannotProduce;
  if (!CanConsume(target.kv_role)) return Outcome::kTargetCannotConsume;
  if (source.overloaded) return Outcome::kSourceOverloaded;
  if (source.engine_version != target.engine_version) return Outcome::kEngineVersionDiffers;
  if (source.block_size_tokens != target.block_size_tokens) return Outcome::kBlockSizeDiffers;
  const uint64_t min_gain_tokens = config.min_gain_tokens.value_or(config.min_tokens);
  if (!CheckAtLeast(plan, "gain_tokens", static_cast<double>(plan->GainTokens()),
                    static_cast<double>(min_gain_tokens))) {
    return Outcome::kNoGain;
  }
  return JudgePrice(config, input, source, plan);
}

Outcome Judge(const MigrationConfig& config, const MigrationInput& input, MigrationPlan* plan) {
  if (config.mode == MigrationMode::kOff) return Outcome::kOff;
  if (input.prefill_leg) return Outcome::kPrefillLeg;
  plan->target_tokens =
      TruncatedTokens(input.target.overlap_blocks, input.target.block_size_tokens);
  if (input.best_overlap) {
    plan->migratable_tokens =
        TruncatedTokens(input.best_overlap->overlap_blocks, input.target.block_size_tokens);
  }
  if (!CheckAtLeast(plan, "migratable_tokens", static_cast<double>(plan->migratable_tokens),
                    static_cast<double>(config.min_tokens))) {
    return Outcome::kBelowMinTokens;
  }
  plan->set_kv_home = input.has_session;
  plan->source_is_kv_home = !input.best_overlap && input.kv_home.has_value();
  const auto& source = input.best_overlap ? input.best_overlap : input.kv_home;
  if (!source) return Outcome::kNoSource;
  plan->source = source->target;
  return JudgeSource(config, input, *source, plan);
}

}  // namespace

std::string_view MigrationOutcomeName(MigrationOutcome outcome) {
  return kOutcomeNames[static_cast<size_t>(outcome)];
}

MigrationPlan PlanMigration(const MigrationConfig& config, const MigrationInput& input) {
  MigrationPlan plan;
  plan.outcome = Judge(config, input, &plan);
  plan.migrate = plan.outcome == Outcome::kPlanned && config.mode == MigrationMode::kMigrate;
  return plan;
}

std::string DescribeMigration(const MigrationPlan& plan) {
  std::string text(MigrationOutcomeName(plan.outcome));
  if (plan.outcome == Outcome::kPlanned) text += plan.migrate ? " migrate" : " dry";
  if (plan.source) {
    text += fmt::format(" from worker {} rank {}{}", static_cast<uint64_t>(plan.source->worker),
                        plan.source->dp_rank, plan.source_is_kv_home ? " (kv_home)" : "");
  }
  for (const RuleCheck& check : plan.checks) text += fmt::format(", {}", DescribeCheck(check));
  return text;
}

}  // namespace kvrouter
