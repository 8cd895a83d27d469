#include "daemon/unimplemented_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace kvrouter {
namespace {

std::string Upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<int>(c)));
  return out;
}

bool ParseReal(std::string_view text, double* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

// As text whatever its case, or as the same number.
bool SameValue(std::string_view a, std::string_view b) {
  double x = 0;
  double y = 0;
  return Upper(a) == Upper(b) || (ParseReal(a, &x) && ParseReal(b, &y) && x == y);
}

}  // namespace

const std::vector<UnimplementedSetting>& UnimplementedSettings() {
  static const std::vector<std::string_view> off = {"false", "0", "no", "off"};
  constexpr std::string_view kPolicyModules =
      "policies that are loaded as modules would run in the router's process; its own are settings";
  constexpr std::string_view kKeyedHashes =
      "keyed-xxh3-v1 hides prompts in what routers send each other, and none is sent";
  static const auto* const table = new std::vector<UnimplementedSetting>{
      // Policies.
      {"DYN_ROUTER_PREFILL_POLICY", {}, kPolicyModules},
      {"DYN_ROUTER_DECODE_POLICY", {}, kPolicyModules},
      {"DYN_ROUTER_WORKER_SELECTION_POLICY", {"default"}, kPolicyModules},
      {"DYN_ROUTER_PREFILL_LOAD_MODEL",
       {"none"},
       "aic estimates prefill times with NVIDIA's AI Configurator, a Python package with measured "
       "tables of its own"},
      {"DYN_ROUTER_MODE",
       {"kv"},
       "kvrouterd routes by cached blocks and load only (kv); load_aware leaves the blocks out"},
      // Where cached blocks are known from.
      {"DYN_USE_REMOTE_INDEXER", off,
       "the index is part of the router; indexer_listen serves it to others, and indexer_peers "
       "fills it from another router"},
      {"DYN_SERVE_INDEXER", off,
       "it serves Dynamo's request plane; set indexer_listen for the standalone indexer's API"},
      // Several routers.
      {"DYN_ROUTER_REPLICA_SYNC", off,
       "routers do not tell each other of their bookings; send all requests of a model to one"},
      {"DYN_ROUTER_TRACKING_HASH", {"public-xxh3-v1"}, kKeyedHashes},
      {"DYN_ROUTER_TRACKING_KEY_FILE", {}, kKeyedHashes},
      {"DYN_ROUTER_TRACKING_KEY_ID", {}, kKeyedHashes},
  };
  return *table;
}

bool UnimplementedSetting::IsNeutral(std::string_view value) const {
  return value.empty() ||
         std::any_of(neutral.begin(), neutral.end(),
                     [value](std::string_view word) { return SameValue(value, word); });
}

bool UnimplementedSetting::IsSwitch() const {
  return std::find(neutral.begin(), neutral.end(), "false") != neutral.end();
}

std::string UnimplementedSetting::Reason() const {
  return why.empty() ? "not implemented yet" : fmt::format("not supported: {}", why);
}

bool IsDeadSwitch(std::string_view flag) {
  if (flag.starts_with("no-")) flag.remove_prefix(3);
  return flag == "enforce-disagg";
}

const UnimplementedSetting* FindUnimplementedSetting(std::string_view name) {
  const std::string variable = "DYN_" + Upper(name);
  for (const UnimplementedSetting& setting : UnimplementedSettings())
    if (setting.variable == variable) return &setting;
  return nullptr;
}

absl::Status CheckUnimplemented(const std::map<std::string, std::string>& environment) {
  for (const UnimplementedSetting& setting : UnimplementedSettings()) {
    const auto it = environment.find(std::string(setting.variable));
    if (it == environment.end() || setting.IsNeutral(it->second)) continue;
    return absl::InvalidArgumentError(fmt::format("value '{}' from environment {}: {}", it->second,
                                                  setting.variable, setting.Reason()));
  }
  return absl::OkStatus();
}

}  // namespace kvrouter
