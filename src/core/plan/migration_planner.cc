#include "core/plan/migration_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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
    "planned"};
static_assert(kOutcomeNames.size() == static_cast<size_t>(Outcome::kPlanned) + 1);

uint64_t TruncatedTokens(double blocks, uint32_t block_size_tokens) {
  return static_cast<uint64_t>(std::max(0.0, blocks) * static_cast<double>(block_size_tokens));
}

bool CheckAtLeast(MigrationPlan* plan, std::string_view quantity, double value, double threshold) {
  const bool holds = value >= threshold;
  plan->checks.push_back({.quantity = quantity,
                          .comparison = RuleCheck::Comparison::kAtLeast,
                          .value = value,
                          .threshold = threshold,
                          .known = true,
                          .holds = holds});
  return holds;
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
  return Outcome::kPlanned;
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
