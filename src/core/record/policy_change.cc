#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/status_macros.h"
#include "kvrouter/decision_record.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::max();

// By the keys that the daemon's settings have in its file.
struct PolicySetting {
  std::string_view key;
  std::optional<double> PolicyChange::*field;
  double max;
};
constexpr std::array kSettings = {
    PolicySetting{"router_kv_overlap_score_credit", &PolicyChange::overlap_score_credit,
                  kUnbounded},
    PolicySetting{"router_kv_overlap_score_credit_decay", &PolicyChange::overlap_score_credit_decay,
                  kUnbounded},
    PolicySetting{"router_prefill_load_scale", &PolicyChange::prefill_load_scale, kUnbounded},
    PolicySetting{"router_decode_active_request_weight",
                  &PolicyChange::decode_active_request_weight, kUnbounded},
    PolicySetting{"router_host_cache_hit_weight", &PolicyChange::host_cache_hit_weight, 1},
    PolicySetting{"router_disk_cache_hit_weight", &PolicyChange::disk_cache_hit_weight, 1},
    PolicySetting{"shared_cache_multiplier", &PolicyChange::shared_cache_multiplier, 1},
    PolicySetting{"router_temperature", &PolicyChange::router_temperature, kUnbounded}};

absl::Status Invalid(std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest, message);
}

std::string_view Trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

absl::Status Assign(std::string_view assignment, PolicyChange* change) {
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos)
    return Invalid(fmt::format("'{}': want key=value", assignment));
  // As on the command line, where dashes are usual.
  std::string key(Trimmed(assignment.substr(0, equals)));
  for (char& c : key) c = c == '-' ? '_' : c;
  const std::string_view text = Trimmed(assignment.substr(equals + 1));
  for (const PolicySetting& setting : kSettings) {
    if (setting.key != key) continue;
    if (change->*setting.field) return Invalid(fmt::format("{} is given twice", key));
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) ||
        value < 0 || value > setting.max) {
      return Invalid(fmt::format("{}: bad value '{}': want {}", key, text,
                                 setting.max == kUnbounded
                                     ? "a finite number >= 0"
                                     : fmt::format("a number in 0..{}", setting.max)));
    }
    change->*setting.field = value;
    return absl::OkStatus();
  }
  return Invalid(fmt::format("'{}' is no setting of the choice; those are {}", key, PolicyKeys()));
}

}  // namespace

std::string PolicyKeys() {
  std::string out;
  for (const PolicySetting& setting : kSettings) {
    if (!out.empty()) out += ", ";
    out += setting.key;
  }
  return out;
}

absl::StatusOr<PolicyChange> ParsePolicyChange(std::span<const std::string> assignments) {
  PolicyChange change;
  for (const std::string& assignment : assignments)
    KVR_RETURN_IF_ERROR(Assign(assignment, &change));
  return change;
}

absl::StatusOr<PolicyChange> ParsePolicyChange(std::string_view assignments) {
  PolicyChange change;
  while (!assignments.empty()) {
    const size_t comma = std::min(assignments.find(','), assignments.size());
    const std::string_view one = Trimmed(assignments.substr(0, comma));
    assignments.remove_prefix(std::min(comma + 1, assignments.size()));
    if (!one.empty()) KVR_RETURN_IF_ERROR(Assign(one, &change));
  }
  return change;
}

ShadowPolicy ApplyPolicyChange(const PolicyChange& change, const CostWeights& weights,
                               double router_temperature) {
  return {.weights = {.overlap_score_credit =
                          change.overlap_score_credit.value_or(weights.overlap_score_credit),
                      .overlap_score_credit_decay = change.overlap_score_credit_decay.value_or(
                          weights.overlap_score_credit_decay),
                      .prefill_load_scale =
                          change.prefill_load_scale.value_or(weights.prefill_load_scale),
                      .decode_active_request_weight = change.decode_active_request_weight.value_or(
                          weights.decode_active_request_weight),
                      .host_cache_hit_weight =
                          change.host_cache_hit_weight.value_or(weights.host_cache_hit_weight),
                      .disk_cache_hit_weight =
                          change.disk_cache_hit_weight.value_or(weights.disk_cache_hit_weight),
                      .shared_cache_multiplier =
                          change.shared_cache_multiplier.value_or(weights.shared_cache_multiplier)},
          .router_temperature = change.router_temperature.value_or(router_temperature)};
}

}  // namespace kvrouter
