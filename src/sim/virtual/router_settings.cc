#include "sim/virtual/router_settings.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <optional>
#include <variant>

namespace kvrouter::sim {
namespace {

using Field =
    std::variant<double*, bool*, uint64_t*, std::chrono::seconds*,
                 std::optional<std::chrono::seconds>*, std::optional<uint64_t>*, MigrationMode*>;

struct Setting {
  std::string_view key;
  Field (*field)(RouterConfig&);
};

constexpr Setting kSettings[] = {
    {"overlap_score_credit",
     [](RouterConfig& c) -> Field { return &c.scheduler.weights.overlap_score_credit; }},
    {"overlap_score_credit_decay",
     [](RouterConfig& c) -> Field { return &c.scheduler.weights.overlap_score_credit_decay; }},
    {"prefill_load_scale",
     [](RouterConfig& c) -> Field { return &c.scheduler.weights.prefill_load_scale; }},
    {"decode_active_request_weight",
     [](RouterConfig& c) -> Field { return &c.scheduler.weights.decode_active_request_weight; }},
    {"host_cache_hit_weight",
     [](RouterConfig& c) -> Field { return &c.scheduler.weights.host_cache_hit_weight; }},
    {"disk_cache_hit_weight",
     [](RouterConfig& c) -> Field { return &c.scheduler.weights.disk_cache_hit_weight; }},
    {"shared_cache_multiplier",
     [](RouterConfig& c) -> Field { return &c.scheduler.weights.shared_cache_multiplier; }},
    {"router_temperature",
     [](RouterConfig& c) -> Field { return &c.scheduler.router_temperature; }},
    {"router_track_active_blocks",
     [](RouterConfig& c) -> Field { return &c.scheduler.track_active_blocks; }},
    {"router_track_output_blocks",
     [](RouterConfig& c) -> Field { return &c.scheduler.track_output_blocks; }},
    {"router_track_prefill_tokens",
     [](RouterConfig& c) -> Field { return &c.scheduler.track_prefill_tokens; }},
    {"router_assume_kv_reuse",
     [](RouterConfig& c) -> Field { return &c.scheduler.assume_kv_reuse; }},
    {"router_session_affinity_ttl_secs",
     [](RouterConfig& c) -> Field { return &c.sessions.affinity_ttl; }},
    {"session_from_prefix_tokens",
     [](RouterConfig& c) -> Field { return &c.sessions.prefix_tokens; }},
    {"session_rendezvous", [](RouterConfig& c) -> Field { return &c.sessions.rendezvous; }},
    {"session_soft", [](RouterConfig& c) -> Field { return &c.sessions.soft; }},
    {"session_soft_max_cost_factor",
     [](RouterConfig& c) -> Field { return &c.sessions.soft_pin.max_cost_factor; }},
    {"session_soft_max_extra_cost_blocks",
     [](RouterConfig& c) -> Field { return &c.sessions.soft_pin.max_extra_cost_blocks; }},
    {"session_hot_share_of_mean",
     [](RouterConfig& c) -> Field { return &c.sessions.hot_share_of_mean; }},
    {"session_hot_min_requests",
     [](RouterConfig& c) -> Field { return &c.sessions.hot_min_requests; }},
    {"session_hot_half_life_secs",
     [](RouterConfig& c) -> Field { return &c.sessions.hot_half_life; }},
    {"kv_migration", [](RouterConfig& c) -> Field { return &c.migration.mode; }},
    {"kv_migration_min_tokens", [](RouterConfig& c) -> Field { return &c.migration.min_tokens; }},
    {"kv_migration_min_gain_tokens",
     [](RouterConfig& c) -> Field { return &c.migration.min_gain_tokens; }},
    {"kv_migration_prefill_tokens_per_s",
     [](RouterConfig& c) -> Field { return &c.migration.prefill_tokens_per_s; }},
    {"kv_migration_transfer_us_per_block",
     [](RouterConfig& c) -> Field { return &c.migration.transfer_us_per_block; }},
};

template <typename Number>
bool ParseNumber(std::string_view text, Number* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

bool Parse(std::string_view text, double* value) { return ParseNumber(text, value); }

bool Parse(std::string_view text, uint64_t* value) { return ParseNumber(text, value); }

bool Parse(std::string_view text, bool* value) {
  *value = text == "true" || text == "1";
  return *value || text == "false" || text == "0";
}

bool Parse(std::string_view text, std::chrono::seconds* value) {
  int64_t seconds = 0;
  if (!ParseNumber(text, &seconds)) return false;
  *value = std::chrono::seconds(seconds);
  return true;
}

template <typename Value>
bool Parse(std::string_view text, std::optional<Value>* value) {
  if (text == "none") {
    value->reset();
    return true;
  }
  return Parse(text, &value->emplace());
}

bool Parse(std::string_view text, MigrationMode* value) {
  if (text == "off")
    *value = MigrationMode::kOff;
  else if (text == "dry")
    *value = MigrationMode::kDry;
  else if (text == "migrate")
    *value = MigrationMode::kMigrate;
  else
    return false;
  return true;
}

std::string_view KindOf(const Field& field) {
  if (std::holds_alternative<bool*>(field)) return "truth value (true or false)";
  if (std::holds_alternative<MigrationMode*>(field)) return "mode (off, dry or migrate)";
  return std::holds_alternative<double*>(field) ? "number" : "whole number";
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
    const Field field = setting.field(*config);
    if (std::visit([text](auto* value) { return Parse(text, value); }, field))
      return absl::OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("{}: '{}' is not a {}", key, text, KindOf(field)));
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
