#include "core/schedule/effective_weights.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "base/status_macros.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

absl::Status CheckOverride(std::string_view field, std::optional<double> value, double max) {
  if (!value || (std::isfinite(*value) && *value >= 0 && *value <= max)) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest,
                   max <= 1
                       ? fmt::format("override {} must be in 0..{}, got {}", field, max, *value)
                       : fmt::format("override {} must be finite and >= 0, got {}", field, *value));
}

}  // namespace

absl::Status ValidateOverrides(const ConfigOverride& overrides) {
  constexpr double kUnbounded = std::numeric_limits<double>::max();
  KVR_RETURN_IF_ERROR(
      CheckOverride("overlap_score_credit", overrides.overlap_score_credit, kUnbounded));
  KVR_RETURN_IF_ERROR(
      CheckOverride("prefill_load_scale", overrides.prefill_load_scale, kUnbounded));
  KVR_RETURN_IF_ERROR(
      CheckOverride("router_temperature", overrides.router_temperature, kUnbounded));
  return CheckOverride("shared_cache_multiplier", overrides.shared_cache_multiplier, 1);
}

EffectiveWeights ResolveWeights(const SchedulerConfig& config, const ConfigOverride& overrides) {
  EffectiveWeights weights;
  weights.cost = config.weights;
  weights.cost.overlap_score_credit =
      overrides.overlap_score_credit.value_or(config.weights.overlap_score_credit);
  weights.cost.prefill_load_scale =
      overrides.prefill_load_scale.value_or(config.weights.prefill_load_scale);
  weights.cost.shared_cache_multiplier =
      overrides.shared_cache_multiplier.value_or(config.weights.shared_cache_multiplier);
  weights.temperature = overrides.router_temperature.value_or(config.router_temperature);
  weights.track_prefill_tokens =
      overrides.track_prefill_tokens.value_or(config.track_prefill_tokens);
  weights.assume_kv_reuse = overrides.assume_kv_reuse.value_or(config.assume_kv_reuse);
  return weights;
}

}  // namespace kvrouter
