#include "sim/virtual/router_settings.h"

#include <fmt/format.h>

#include <charconv>
#include <variant>

namespace kvrouter::sim {
namespace {

using Field = std::variant<double*, bool*>;

struct Setting {
  std::string_view key;
  Field (*field)(SchedulerConfig&);
};

constexpr Setting kSettings[] = {
    {"overlap_score_credit",
     [](SchedulerConfig& c) -> Field { return &c.weights.overlap_score_credit; }},
    {"overlap_score_credit_decay",
     [](SchedulerConfig& c) -> Field { return &c.weights.overlap_score_credit_decay; }},
    {"prefill_load_scale",
     [](SchedulerConfig& c) -> Field { return &c.weights.prefill_load_scale; }},
    {"decode_active_request_weight",
     [](SchedulerConfig& c) -> Field { return &c.weights.decode_active_request_weight; }},
    {"host_cache_hit_weight",
     [](SchedulerConfig& c) -> Field { return &c.weights.host_cache_hit_weight; }},
    {"disk_cache_hit_weight",
     [](SchedulerConfig& c) -> Field { return &c.weights.disk_cache_hit_weight; }},
    {"shared_cache_multiplier",
     [](SchedulerConfig& c) -> Field { return &c.weights.shared_cache_multiplier; }},
    {"router_temperature", [](SchedulerConfig& c) -> Field { return &c.router_temperature; }},
    {"router_track_active_blocks",
     [](SchedulerConfig& c) -> Field { return &c.track_active_blocks; }},
    {"router_track_output_blocks",
     [](SchedulerConfig& c) -> Field { return &c.track_output_blocks; }},
    {"router_track_prefill_tokens",
     [](SchedulerConfig& c) -> Field { return &c.track_prefill_tokens; }},
    {"router_assume_kv_reuse", [](SchedulerConfig& c) -> Field { return &c.assume_kv_reuse; }},
};

bool Parse(std::string_view text, double* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

bool Parse(std::string_view text, bool* value) {
  *value = text == "true" || text == "1";
  return *value || text == "false" || text == "0";
}

}  // namespace

absl::Status ApplySetting(std::string_view assignment, RouterConfig* config) {
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) {
    return absl::InvalidArgumentError(fmt::format("'{}' is not key=value", assignment));
  }
  const std::string_view key = assignment.substr(0, equals);
  const std::string_view text = assignment.substr(equals + 1);
  for (const Setting& setting : kSettings) {
    if (setting.key != key) continue;
    const bool parsed = std::visit([text](auto* field) { return Parse(text, field); },
                                   setting.field(config->scheduler));
    if (parsed) return absl::OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("{}: '{}' is not a {}", key, text,
                    std::holds_alternative<bool*>(setting.field(config->scheduler))
                        ? "truth value (true or false)"
                        : "number"));
  }
  return absl::InvalidArgumentError(
      fmt::format("unknown setting '{}'; known: {}", key, KnownSettings()));
}

std::string KnownSettings() {
  std::string known;
  for (const Setting& setting : kSettings) {
    known += known.empty() ? "" : ", ";
    known += setting.key;
  }
  return known;
}

}  // namespace kvrouter::sim
