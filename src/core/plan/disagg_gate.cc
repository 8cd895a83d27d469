#include "core/plan/disagg_gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "base/status_macros.h"
#include "core/plan/rule_check.h"
#include "core/schedule/busy_thresholds.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

using Comparison = RuleCheck::Comparison;
using Policy = ConditionalDisagg::Policy;

constexpr std::array<std::string_view, kGateRuleCount> kRuleNames = {
    "no_prefill_pool", "short_prompt",   "continuation", "few_new_tokens", "prefill_busy",
    "decode_busy",     "prefill_pinned", "empty_prompt", "no_advice",      "default"};
static_assert(kRuleNames.size() == static_cast<size_t>(GateRule::kDefault) + 1);

absl::Status BadField(std::string_view field, std::string_view range, std::string_view value) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest,
                   fmt::format("{} must be {}, got {}", field, range, value));
}

absl::Status CheckShare(std::string_view field, std::optional<double> value) {
  if (!value || (std::isfinite(*value) && *value >= 0)) return absl::OkStatus();
  return BadField(field, "finite and >= 0", fmt::format("{}", *value));
}

double AsDouble(uint64_t count) { return static_cast<double>(count); }

// Writes the comparison down and says how it came out.
bool Check(GateDecision* decision, std::string_view quantity, double value, Comparison comparison,
           double threshold) {
  const bool holds = comparison == Comparison::kLess ? value < threshold : value > threshold;
  decision->checks.push_back({.quantity = quantity,
                              .comparison = comparison,
                              .value = value,
                              .threshold = threshold,
                              .known = true,
                              .holds = holds});
  return holds;
}

void NoteUnknown(GateDecision* decision, std::string_view quantity, Comparison comparison,
                 double threshold) {
  decision->input_missing = true;
  decision->checks.push_back({.quantity = quantity,
                              .comparison = comparison,
                              .value = 0,
                              .threshold = threshold,
                              .known = false,
                              .holds = false});
}

uint64_t UncachedTokens(const GateInput& input) {
  const uint64_t cached = input.decode ? input.decode->cached_tokens : 0;
  return input.isl_tokens - std::min(cached, input.isl_tokens);
}

bool IsShort(const LengthGate& gate, const GateInput& input, GateDecision* decision) {
  const double min_tokens = AsDouble(gate.min_remote_prefill_tokens);
  if (gate.measure == LengthGate::Measure::kPrompt) {
    return Check(decision, "prompt_tokens", AsDouble(input.isl_tokens), Comparison::kLess,
                 min_tokens);
  }
  // Without advice nothing counts as cached: the prompt is judged by its whole length.
  if (!input.decode) decision->input_missing = true;
  return Check(decision, "uncached_tokens", AsDouble(UncachedTokens(input)), Comparison::kLess,
               min_tokens);
}

bool IsContinuation(const LengthGate& gate, const GateInput& input, GateDecision* decision) {
  if (!gate.local_continuations || !input.session_idle) return false;
  const std::chrono::duration<double> idle = *input.session_idle;
  const std::chrono::duration<double> window = gate.continuation_window;
  return Check(decision, "session_idle_seconds", idle.count(), Comparison::kLess, window.count());
}

bool HasFewNewTokens(const ConditionalDisagg& config, const GateInput& input,
                     GateDecision* decision) {
  const uint64_t new_tokens = UncachedTokens(input);
  const double ratio = AsDouble(new_tokens) / AsDouble(std::max<uint64_t>(input.isl_tokens, 1));
  return Check(decision, "new_tokens", AsDouble(new_tokens), Comparison::kLess,
               AsDouble(config.eff_isl_threshold_tokens)) &&
         Check(decision, "new_ratio", ratio, Comparison::kLess, config.eff_isl_ratio_threshold);
}

bool IsPrefillBusy(const ConditionalDisagg& config, const GateInput& input,
                   GateDecision* decision) {
  constexpr std::string_view kQuantity = "prefill_active_tokens";
  const double share = config.prefill_busy_threshold.value_or(0);
  if (!input.prefill) {
    NoteUnknown(decision, kQuantity, Comparison::kGreater, share);
    return false;
  }
  const PrefillAdvice& prefill = *input.prefill;
  if (prefill.queue_rejected) {
    decision->checks.push_back({.quantity = "prefill_queue_rejections",
                                .comparison = Comparison::kGreater,
                                .value = 1,
                                .threshold = 0,
                                .known = true,
                                .holds = true});
    return true;
  }
  const uint64_t capacity = prefill.max_num_batched_tokens > 0 ? prefill.max_num_batched_tokens
                                                               : kAssumedMaxBatchedTokens;
  return Check(decision, kQuantity, AsDouble(prefill.active_prefill_tokens), Comparison::kGreater,
               share * AsDouble(capacity));
}

// The guard lets local pass only if decode is known not to be busy.
bool DecodeHasRoom(const ConditionalDisagg& config, const DecodeAdvice& decode,
                   GateDecision* decision) {
  if (!config.decode_busy_threshold) return true;
  constexpr std::string_view kQuantity = "potential_decode_blocks";
  if (decode.total_kv_blocks == 0) {
    NoteUnknown(decision, kQuantity, Comparison::kGreater, *config.decode_busy_threshold);
    return false;
  }
  return !Check(decision, kQuantity, decode.potential_decode_blocks, Comparison::kGreater,
                *config.decode_busy_threshold * AsDouble(decode.total_kv_blocks));
}

GateDecision& Local(GateDecision* decision, GateRule rule) {
  decision->remote = false;
  decision->rule = rule;
  return *decision;
}

GateDecision& Remote(GateDecision* decision, GateRule rule) {
  decision->remote = true;
  decision->rule = rule;
  return *decision;
}

GateDecision& DecideConditional(const ConditionalDisagg& config, const GateInput& input,
                                GateDecision* decision) {
  if (input.prefill_pinned) return Remote(decision, GateRule::kPrefillPinned);
  if (input.isl_tokens == 0) return Remote(decision, GateRule::kEmptyPrompt);
  if (!input.decode) {
    decision->input_missing = true;
    return Remote(decision, GateRule::kNoAdvice);
  }
  std::optional<GateRule> local;
  if (config.policy != Policy::kPrefillLoad && HasFewNewTokens(config, input, decision)) {
    local = GateRule::kFewNewTokens;
  }
  if (!local && config.policy != Policy::kIslBounding && IsPrefillBusy(config, input, decision)) {
    local = GateRule::kPrefillBusy;
  }
  if (!local) return Remote(decision, GateRule::kDefault);
  if (!DecodeHasRoom(config, *input.decode, decision)) {
    return Remote(decision, GateRule::kDecodeBusy);
  }
  return Local(decision, *local);
}

}  // namespace

std::string_view GateRuleName(GateRule rule) { return kRuleNames[static_cast<size_t>(rule)]; }

absl::Status Validate(const GateConfig& config) {
  if (config.length.continuation_window <= std::chrono::seconds::zero()) {
    return BadField("continuation_window", "> 0 s",
                    fmt::format("{} s", config.length.continuation_window.count()));
  }
  const ConditionalDisagg& conditional = config.conditional;
  const double ratio = conditional.eff_isl_ratio_threshold;
  if (!(ratio >= 0 && ratio <= 1)) {
    return BadField("conditional_disagg_eff_isl_ratio_threshold", "in 0..1",
                    fmt::format("{}", ratio));
  }
  KVR_RETURN_IF_ERROR(
      CheckShare("conditional_disagg_prefill_busy_threshold", conditional.prefill_busy_threshold));
  KVR_RETURN_IF_ERROR(
      CheckShare("conditional_disagg_decode_busy_threshold", conditional.decode_busy_threshold));
  if (conditional.enabled && conditional.policy != Policy::kIslBounding &&
      !conditional.prefill_busy_threshold) {
    return BadField("conditional_disagg_prefill_busy_threshold or router_queue_threshold",
                    "set for the policies prefill_load and isl_or_load", "none");
  }
  return absl::OkStatus();
}

GateDecision DecideGate(const GateConfig& config, const GateInput& input) {
  GateDecision decision;
  if (!input.prefill_pool_active) return Local(&decision, GateRule::kNoPrefillPool);
  if (config.length.min_remote_prefill_tokens > 0) {
    if (IsShort(config.length, input, &decision)) return Local(&decision, GateRule::kShortPrompt);
    if (IsContinuation(config.length, input, &decision)) {
      return Local(&decision, GateRule::kContinuation);
    }
  }
  if (config.conditional.enabled) return DecideConditional(config.conditional, input, &decision);
  return Remote(&decision, GateRule::kDefault);
}

bool WantsDecodeAdvice(const GateConfig& config) {
  return config.conditional.enabled || (config.length.min_remote_prefill_tokens > 0 &&
                                        config.length.measure == LengthGate::Measure::kUncached);
}

bool WantsPrefillAdvice(const GateConfig& config) {
  return config.conditional.enabled && config.conditional.policy != Policy::kIslBounding;
}

std::string DescribeGate(const GateDecision& decision) {
  std::string text =
      fmt::format("{} {}", decision.remote ? "remote" : "local", GateRuleName(decision.rule));
  const char* separator = " (";
  for (const RuleCheck& check : decision.checks) {
    text += separator;
    text += DescribeCheck(check);
    separator = ", ";
  }
  if (!decision.checks.empty()) text += ')';
  return text;
}

}  // namespace kvrouter
