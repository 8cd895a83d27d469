#include "daemon/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "daemon/command_line.h"
#include "daemon/config_file.h"
#include "daemon/option_checks.h"
#include "daemon/option_table.h"
#include "daemon/option_text.h"
#include "daemon/policy_file.h"
#include "daemon/unimplemented_settings.h"
#include "daemon/worker_yaml.h"
#include "daemon/yaml_values.h"

namespace kvrouter {
namespace {

constexpr const char* kConfigVariable = "KVROUTER_CONFIG";
constexpr std::string_view kPrefillScale = "router-prefill-load-scale";
constexpr std::string_view kConditionalDisaggConfig = "router-conditional-disagg-config";
constexpr std::string_view kOverlapCredit = "router-kv-overlap-score-credit";
constexpr std::string_view kLoadAware = "load-aware";

// Parity: Dynamo v1.4.1's preset of that name.
constexpr std::pair<std::string_view, const char*> kLoadAwarePreset[] = {
    {kOverlapCredit, "0"},
    {"router-kv-events", "false"},
    {"router-track-active-blocks", "true"},
    {"router-assume-kv-reuse", "false"},
    {"router-track-prefill-tokens", "true"},
    {"shared-cache-multiplier", "0"},
    {"shared-cache-type", "none"},
    {"router-predicted-ttl-secs", "none"}};

// ---- Environment and file ----

std::vector<Assignment> FromEnvironment(const std::map<std::string, std::string>& environment) {
  std::vector<Assignment> out;
  const auto add = [&](const Option* option, const std::string& variable) {
    const auto it = environment.find(variable);
    if (it == environment.end()) return;
    out.push_back(
        {option, it->second, SettingOrigin::kEnvironment, fmt::format("environment {}", variable)});
  };
  for (const std::string& variable : OverlapScoreWeightAlias().environments) add(nullptr, variable);
  for (const Option& option : OptionTable()) {
    for (const std::string& variable : option.other_environments) add(&option, variable);
    add(&option, option.environment);
  }
  return out;
}

absl::StatusOr<std::vector<Assignment>> FromFile(const ConfigFile& file, const std::string& path) {
  std::vector<Assignment> out;
  for (const ConfigFile::Setting& setting : file.settings) {
    const Option* option = FindOptionByKey(setting.key);
    if (option == nullptr && setting.key != OverlapScoreWeightAlias().key) {
      if (const UnimplementedSetting* const refused = FindUnimplementedSetting(setting.key)) {
        if (refused->IsNeutral(setting.value)) continue;
        return absl::InvalidArgumentError(
            fmt::format("{}:{}: key '{}': {}", path, setting.line, setting.key, refused->Reason()));
      }
      std::vector<std::string> known{"workers"};
      for (const Option& row : OptionTable()) known.push_back(row.Key());
      return absl::InvalidArgumentError(fmt::format("{}:{}: unknown key '{}'{}", path, setting.line,
                                                    setting.key,
                                                    Suggestion("", setting.key, known)));
    }
    out.push_back({option, setting.value, SettingOrigin::kFile,
                   fmt::format("file {}:{}", path, setting.line)});
  }
  return out;
}

// The members of router_conditional_disagg_config as settings of their own, from wherever it came.
absl::StatusOr<std::vector<Assignment>> FromConditionalDisagg(
    const std::string& json, const std::vector<EffectiveSetting>& settings) {
  std::vector<Assignment> out;
  if (json.empty()) return out;
  const Option* const whole = FindOption(kConditionalDisaggConfig);
  const EffectiveSetting& origin = settings[static_cast<size_t>(whole - OptionTable().data())];
  const auto refuse = [&](const std::string& why) {
    return absl::InvalidArgumentError(
        fmt::format("{}: bad value '{}' from {}: {}", whole->Key(), json, origin.source, why));
  };
  const auto members = ParseConfigFile(json, "value");  // JSON is YAML, too
  if (!members.ok()) return refuse(std::string(members.status().message()));
  if (!members->workers.empty()) return refuse("unknown key 'workers'");
  for (const ConfigFile::Setting& member : members->settings) {
    const Option* const option = FindOptionByKey("router_conditional_disagg_" + member.key);
    if (option == nullptr || option == whole)
      return refuse(fmt::format("unknown key '{}'", member.key));
    const bool is_null = member.value.empty() || member.value == "null";
    out.push_back({option, is_null ? "none" : member.value, origin.origin, origin.source});
  }
  return out;
}

// Kubernetes puts KVROUTER_SERVICE_HOST, KVROUTER_PORT and the like into every pod beside a Service
// named kvrouter.
bool IsKubernetesServiceVariable(std::string_view name) {
  return name.starts_with("KVROUTER_SERVICE_") || name.starts_with("KVROUTER_PORT");
}

std::vector<std::string> IgnoredVariables(const std::map<std::string, std::string>& environment) {
  std::vector<std::string> known = OverlapScoreWeightAlias().environments;
  known.emplace_back(kConfigVariable);
  for (const Option& option : OptionTable()) {
    known.push_back(option.environment);
    known.insert(known.end(), option.other_environments.begin(), option.other_environments.end());
  }
  std::vector<std::string> out;
  for (const auto& [name, value] : environment) {
    const bool ours = name.starts_with("DYN_") ||
                      (name.starts_with("KVROUTER_") && !IsKubernetesServiceVariable(name));
    if (ours && std::find(known.begin(), known.end(), name) == known.end()) out.push_back(name);
  }
  return out;
}

// Settings off their default that do nothing because of another one.
std::vector<std::string> SettingsWithoutEffect(const std::vector<EffectiveSetting>& settings,
                                               const DaemonConfig& config) {
  const RouterConfig& router = config.router;
  std::vector<std::string_view> idle;
  if (router.overlap_source.shared_cache_type == SharedCacheType::kNone)
    idle.push_back("shared-cache-multiplier");
  const OverlapSource source = OverlapSourceOf(router);
  if (source != OverlapSource::kRouting) idle.push_back("router-ttl-secs");
  if (source == OverlapSource::kNone) {
    idle.push_back("router-predicted-ttl-secs");
    // All of every prompt is new.
    if (router.gate.conditional.policy == ConditionalDisagg::Policy::kIslBounding)
      idle.push_back("router-conditional-disagg");
  }
  if (!router.scheduler.queue.busy.batch_share && config.policy_file.empty())
    idle.push_back("router-queue-policy");
  const LengthGate& length = router.gate.length;
  const bool has_length = length.min_remote_prefill_tokens > 0;
  if (!has_length) idle.insert(idle.end(), {"local-continuations", "min-remote-prefill-measure"});
  const bool is_bound = router.sessions.affinity_ttl.has_value();
  if (!is_bound) idle.insert(idle.end(), {"session-rendezvous", "session-soft"});
  const bool asks_who = is_bound || (has_length && length.local_continuations) ||
                        router.migration.mode != MigrationMode::kOff;
  if (!asks_who) idle.push_back("session-from-prefix-tokens");
  // Nobody fills an index of events, so there is none to save or to take over.
  if (source != OverlapSource::kEvents) {
    idle.insert(idle.end(),
                {"snapshot-path", "indexer-peers", "max-device-blocks", "max-lower-tier-blocks"});
  }
  if (router.migration.prefill_tokens_per_s == 0)
    idle.push_back("kv-migration-transfer-us-per-block");
  std::vector<std::string> out;
  for (const std::string_view name : idle) {
    const Option* option = FindOption(name);
    if (option == nullptr) continue;
    const auto& setting = settings[static_cast<size_t>(option - OptionTable().data())];
    if (setting.value != option->Default()) out.push_back(setting.key);
  }
  return out;
}

// ---- Putting it together ----

// The assignments of each origin, in ascending strength.
using Origins = std::vector<std::vector<Assignment>>;

// The deprecated name as it counts in the end; null: nobody uses it.
const Assignment* StrongestAlias(const Origins& origins) {
  const Assignment* strongest = nullptr;
  for (const std::vector<Assignment>& assignments : origins) {
    for (const Assignment& a : assignments)
      if (a.option == nullptr) strongest = &a;
  }
  return strongest;
}

class Resolver {
 public:
  explicit Resolver(LoadedOptions* out) : out_(out) {
    for (const Option& option : OptionTable()) {
      out_->settings.push_back(
          {option.Key(), option.Default(), SettingOrigin::kDefault, "default"});
    }
  }

  absl::Status ApplyAll(const Origins& origins) {
    const Assignment* const alias = StrongestAlias(origins);
    for (const std::vector<Assignment>& assignments : origins)
      KVR_RETURN_IF_ERROR(Apply(assignments, alias));
    return absl::OkStatus();
  }

  // The assignments of one origin. The deprecated name goes first, so that a setting under its own
  // name is stronger. Where it is given more than once (`alias` is the one that counts), a 0 that
  // was replaced must not leave the router without credit.
  absl::Status Apply(const std::vector<Assignment>& assignments,
                     const Assignment* alias = nullptr) {
    for (const Assignment& a : assignments) {
      if (a.option != nullptr) continue;
      KVR_RETURN_IF_ERROR(Set(*FindOption(kPrefillScale), a));
      if (&a == alias && out_->config.router.scheduler.weights.prefill_load_scale == 0) {
        KVR_RETURN_IF_ERROR(Set(*FindOption(kOverlapCredit), {nullptr, "0", a.origin, a.source}));
      }
    }
    for (const Assignment& a : assignments) {
      if (a.option != nullptr) KVR_RETURN_IF_ERROR(Set(*a.option, a));
    }
    return absl::OkStatus();
  }

  // Last: what a preset asks for is stronger than settings of their own.
  absl::Status ApplyPresets() {
    if (!out_->config.load_aware) return absl::OkStatus();
    const auto preset = static_cast<size_t>(FindOption(kLoadAware) - OptionTable().data());
    const EffectiveSetting by = out_->settings[preset];
    for (const auto& [name, value] : kLoadAwarePreset) {
      const Assignment assignment{nullptr, value, by.origin,
                                  fmt::format("{} ({})", by.source, kLoadAware)};
      KVR_RETURN_IF_ERROR(Set(*FindOption(name), assignment));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Set(const Option& option, const Assignment& a) {
    if (absl::Status status = option.set(a.value, &out_->config); !status.ok()) {
      return absl::InvalidArgumentError(fmt::format("{}: bad value '{}' from {}: {}", option.Key(),
                                                    a.value, a.source,
                                                    std::string(status.message())));
    }
    const auto index = static_cast<size_t>(&option - OptionTable().data());
    out_->settings[index] = {option.Key(), option.get(out_->config), a.origin, a.source};
    return absl::OkStatus();
  }

  LoadedOptions* const out_;
};

// A secret is only said to be there.
std::string ShownValue(const EffectiveSetting& setting) {
  const Option* const option = FindOptionByKey(setting.key);
  const bool hidden = option != nullptr && option->is_secret && !setting.value.empty();
  return hidden ? "\"***\"" : YamlScalar(setting.value);
}

}  // namespace

absl::StatusOr<LoadedOptions> LoadOptions(const std::vector<std::string>& arguments,
                                          const std::map<std::string, std::string>& environment) {
  LoadedOptions out;
  Resolver resolver(&out);
  KVR_ASSIGN_OR_RETURN(const CommandLine line, ParseCommandLine(arguments));
  out.action = line.action;
  if (out.action >= DaemonAction::kPrintOptionsMarkdown) return out;  // needs no settings

  Origins origins;
  std::string path;
  if (const auto it = environment.find(kConfigVariable); it != environment.end()) path = it->second;
  if (line.config_path) path = *line.config_path;
  if (!path.empty()) {
    out.config_path = path;
    out.config_signature = SignatureOf(path);
    KVR_ASSIGN_OR_RETURN(ConfigFile file, ReadConfigFile(path));
    KVR_ASSIGN_OR_RETURN(origins.emplace_back(), FromFile(file, path));
    out.config.workers = std::move(file.workers);
    out.workers_source = fmt::format("file {}", path);
  }
  origins.push_back(FromEnvironment(environment));
  origins.push_back(line.assignments);
  KVR_RETURN_IF_ERROR(resolver.ApplyAll(origins));
  KVR_ASSIGN_OR_RETURN(const std::vector<Assignment> conditional,
                       FromConditionalDisagg(out.config.conditional_disagg_json, out.settings));
  KVR_RETURN_IF_ERROR(resolver.Apply(conditional));
  // Parity: without a threshold of its own, busy means what it means to the queue.
  auto& busy = out.config.router.gate.conditional.prefill_busy_threshold;
  if (!busy) busy = out.config.router.scheduler.queue.busy.batch_share;
  KVR_RETURN_IF_ERROR(CheckUnimplemented(environment));
  out.ignored_variables = IgnoredVariables(environment);
  out.ignored_flags = line.ignored_flags;
  KVR_RETURN_IF_ERROR(resolver.ApplyPresets());
  out.without_effect = SettingsWithoutEffect(out.settings, out.config);
  if (OverlapSourceOf(out.config.router) != OverlapSource::kEvents) {
    out.config.snapshot.path.clear();
    out.config.peers.peers.clear();
  }
  KVR_RETURN_IF_ERROR(FindCluster(environment, out.action, &out.config.kubernetes));
  if (!out.config.policy_file.empty()) {
    out.policy_signature = SignatureOf(out.config.policy_file);
    KVR_RETURN_IF_ERROR(Validate(out.config.router));  // what is not this file's affair
    KVR_RETURN_IF_ERROR(ReadPolicyFile(out.config.policy_file, &out.config.router.scheduler.queue));
    if (const absl::Status status = Validate(out.config.router); !status.ok()) {
      return absl::InvalidArgumentError(fmt::format(
          "router_policy_config {}: {}", out.config.policy_file, std::string(status.message())));
    }
  }
  out.config.workers_file.may_be_learned = out.config.introspection.enabled;
  out.config.kubernetes.may_be_learned = out.config.introspection.enabled;
  KVR_RETURN_IF_ERROR(ResolveShadow(&out.config));
  KVR_RETURN_IF_ERROR(CheckTogether(out.config));
  return out;
}

std::string EffectiveConfigText(const LoadedOptions& options) {
  std::string out;
  for (const EffectiveSetting& setting : options.settings) {
    out += fmt::format("{:<60} # {}\n", fmt::format("{}: {}", setting.key, ShownValue(setting)),
                       setting.source);
  }
  if (!options.config.workers.empty()) out += fmt::format("# {}\n", options.workers_source);
  return out + WorkersYaml(options.config.workers);
}

}  // namespace kvrouter
