#include "daemon/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "adapters/discovery/worker_sources.h"
#include "base/status_macros.h"
#include "daemon/config_file.h"
#include "daemon/option_table.h"
#include "daemon/option_text.h"
#include "daemon/policy_file.h"
#include "daemon/unimplemented_settings.h"
#include "kvrouter/decision_record.h"
#include "service/worker_registry.h"

namespace kvrouter {
namespace {

constexpr std::string_view kConfigFlag = "config";
constexpr const char* kConfigVariable = "KVROUTER_CONFIG";
constexpr std::string_view kPrefillScale = "router-prefill-load-scale";
constexpr std::string_view kConditionalDisaggConfig = "router-conditional-disagg-config";
constexpr std::string_view kNamespace = "kubernetes-namespace";
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

struct ActionFlag {
  std::string_view name;
  DaemonAction action;
};
constexpr ActionFlag kActionFlags[] = {
    {"check-config", DaemonAction::kCheckConfig},
    {"print-effective-config", DaemonAction::kPrintEffectiveConfig},
    {"print-options-markdown", DaemonAction::kPrintOptionsMarkdown},
    {"print-metrics-markdown", DaemonAction::kPrintMetricsMarkdown},
    {"version", DaemonAction::kVersion},
    {"help", DaemonAction::kHelp}};

// One value from one place, not yet parsed. Without an option it is the deprecated overlap score
// weight.
struct Assignment {
  const Option* option = nullptr;
  std::string value;
  SettingOrigin origin = SettingOrigin::kDefault;
  std::string source;
};

std::string Suggestion(std::string_view prefix, std::string_view name,
                       const std::vector<std::string>& known) {
  const std::string nearest = NearestName(name, known);
  return nearest.empty() ? "" : fmt::format(" (did you mean '{}{}'?)", prefix, nearest);
}

// ---- Flags ----

struct Flags {
  DaemonAction action = DaemonAction::kRun;
  std::optional<std::string> config_path;
  std::vector<Assignment> assignments;
};

absl::Status UnknownFlag(std::string_view argument, std::string_view name) {
  if (const UnimplementedSetting* const setting = FindUnimplementedSetting(name))
    return absl::InvalidArgumentError(fmt::format("flag '{}': {}", argument, setting->Reason()));
  std::vector<std::string> known{std::string(kConfigFlag)};
  for (const ActionFlag& flag : kActionFlags) known.emplace_back(flag.name);
  for (const Option& option : OptionTable()) {
    known.push_back(option.name);
    if (option.is_switch) known.push_back("no-" + option.name);
  }
  return absl::InvalidArgumentError(
      fmt::format("unknown flag '{}'{}", argument, Suggestion("--", name, known)));
}

// What a flag's name stands for.
struct FlagMeaning {
  const Option* option = nullptr;
  bool is_alias = false;
  bool is_config = false;
  bool negated = false;
  bool Known() const { return option != nullptr || is_alias || is_config; }
};

FlagMeaning MeaningOf(std::string_view name) {
  FlagMeaning meaning{.option = FindOption(name)};
  const auto& aliases = OverlapScoreWeightAlias().flags;
  meaning.is_alias = std::find(aliases.begin(), aliases.end(), name) != aliases.end();
  meaning.is_config = name == kConfigFlag;
  if (!meaning.Known() && name.starts_with("no-")) {
    const Option* option = FindOption(name.substr(3));
    if (option != nullptr && option->is_switch) return {.option = option, .negated = true};
  }
  return meaning;
}

absl::StatusOr<Flags> ParseFlags(const std::vector<std::string>& arguments) {
  Flags flags;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "-h") {
      flags.action = DaemonAction::kHelp;
      continue;
    }
    if (!argument.starts_with("--")) {
      return absl::InvalidArgumentError(
          fmt::format("unexpected argument '{}': options begin with --", argument));
    }
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::optional<std::string> value;
    if (equals != std::string::npos) value = argument.substr(equals + 1);

    const auto* action =
        std::find_if(std::begin(kActionFlags), std::end(kActionFlags),
                     [&name](const ActionFlag& flag) { return flag.name == name; });
    if (action != std::end(kActionFlags)) {
      if (value) return absl::InvalidArgumentError(fmt::format("--{} takes no value", name));
      flags.action = std::max(flags.action, action->action);
      continue;
    }
    const FlagMeaning meaning = MeaningOf(name);
    if (!meaning.Known()) return UnknownFlag(argument, name);
    if (meaning.negated && value)
      return absl::InvalidArgumentError(fmt::format("--{} takes no value", name));
    if (!value && meaning.option != nullptr && meaning.option->is_switch)
      value = meaning.negated ? "false" : "true";
    if (!value) {
      if (i + 1 == arguments.size())
        return absl::InvalidArgumentError(fmt::format("--{} needs a value", name));
      value = arguments[++i];
    }
    if (meaning.is_config) {
      flags.config_path = *value;
    } else {
      flags.assignments.push_back(
          {meaning.option, *value, SettingOrigin::kFlag, fmt::format("flag --{}", name)});
    }
  }
  return flags;
}

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
                                               const RouterConfig& router) {
  std::vector<std::string_view> idle;
  if (router.overlap_source.shared_cache_type == SharedCacheType::kNone)
    idle.push_back("shared-cache-multiplier");
  const OverlapSource source = OverlapSourceOf(router);
  if (source != OverlapSource::kRouting) idle.push_back("router-ttl-secs");
  if (source == OverlapSource::kNone) idle.push_back("router-predicted-ttl-secs");
  // Nobody fills an index of events, so there is none to save or to take over.
  if (source != OverlapSource::kEvents) idle.insert(idle.end(), {"snapshot-path", "indexer-peers"});
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

class Resolver {
 public:
  explicit Resolver(LoadedOptions* out) : out_(out) {
    for (const Option& option : OptionTable()) {
      out_->settings.push_back(
          {option.Key(), option.Default(), SettingOrigin::kDefault, "default"});
    }
  }

  // The assignments of one origin; origins come in ascending strength. The deprecated name goes
  // first, so that a setting under its own name is stronger.
  absl::Status Apply(const std::vector<Assignment>& assignments) {
    for (const Assignment& a : assignments) {
      if (a.option != nullptr) continue;
      KVR_RETURN_IF_ERROR(Set(*FindOption(kPrefillScale), a));
      if (out_->config.router.scheduler.weights.prefill_load_scale == 0) {
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

// A worker that is listed before is the stronger file's; one that waits for its engine's word
// (may_be_learned) is no record yet.
absl::Status CheckWorkers(const std::vector<WorkerSpec>& workers, std::string_view origin,
                          bool may_be_learned, WorkerRegistry* registry) {
  for (const WorkerSpec& spec : workers) {
    if (registry->Find(spec.id)) continue;
    const bool is_open = spec.block_size_tokens == 0 || spec.model_name.empty();
    if (may_be_learned && is_open && ValidateDeclared(spec, may_be_learned).ok()) continue;
    if (const auto stored = registry->Register(spec); !stored.ok()) {
      return absl::InvalidArgumentError(fmt::format("worker {} of the {}: {}",
                                                    static_cast<uint64_t>(spec.id), origin,
                                                    std::string(stored.status().message())));
    }
  }
  return absl::OkStatus();
}

// What Kubernetes tells every pod: where its API server is, and, by the convention that Dynamo
// follows, its namespace.
absl::Status FindCluster(const std::map<std::string, std::string>& environment, DaemonAction action,
                         KubernetesConfig* config) {
  if (!config->Enabled()) return absl::OkStatus();
  const auto name_space = environment.find("POD_NAMESPACE");
  if (config->pod_namespace.empty() && name_space != environment.end()) {
    DaemonConfig checked;
    if (!FindOption(kNamespace)->set(name_space->second, &checked).ok()) {
      return absl::InvalidArgumentError(fmt::format(
          "bad value '{}' from environment POD_NAMESPACE: want a namespace", name_space->second));
    }
    config->pod_namespace = checked.kubernetes.pod_namespace;
  }
  if (!config->api_server.empty()) return absl::OkStatus();
  const auto host = environment.find("KUBERNETES_SERVICE_HOST");
  const auto port = environment.find("KUBERNETES_SERVICE_PORT");
  if (host == environment.end() || host->second.empty()) {
    if (action != DaemonAction::kRun) return absl::OkStatus();  // checked on somebody's desk
    return absl::InvalidArgumentError(
        "discovery_backend is kubernetes, but kubernetes_api_server is empty and the process runs "
        "in no cluster (KUBERNETES_SERVICE_HOST is not set)");
  }
  const bool v6 = host->second.find(':') != std::string::npos;
  config->api_server = fmt::format("https://{}{}{}:{}", v6 ? "[" : "", host->second, v6 ? "]" : "",
                                   port == environment.end() ? "443" : port->second);
  return absl::OkStatus();
}

// The shadow policy is what is in force with its changes.
absl::Status ResolveShadow(DaemonConfig* config) {
  KVR_ASSIGN_OR_RETURN(const PolicyChange change,
                       ParsePolicyChange(std::string_view(config->shadow_policy)));
  if (config->shadow_policy.empty()) return absl::OkStatus();
  const SchedulerConfig& scheduler = config->router.scheduler;
  config->router.shadow =
      ApplyPolicyChange(change, scheduler.weights, scheduler.router_temperature);
  return absl::OkStatus();
}

absl::Status CheckDispatch(const DaemonConfig& config) {
  KVR_RETURN_IF_ERROR(Validate(config.dispatch));
  const std::chrono::duration<double> sign = config.dispatch.dispatch.keep_alive_period;
  const std::chrono::duration<double> expiry = config.router.scheduler.active_request_expiry;
  if (config.dispatch.NeedsDispatcher() && sign >= expiry) {
    return absl::InvalidArgumentError(
        fmt::format("dispatch_keep_alive_secs ({}) must be below "
                    "router_active_request_expiry_secs ({})",
                    sign.count(), expiry.count()));
  }
  return absl::OkStatus();
}

// What concerns more than one setting, and whether the workers of the files can live together.
absl::Status CheckTogether(const DaemonConfig& config) {
  KVR_RETURN_IF_ERROR(Validate(config.router));
  KVR_RETURN_IF_ERROR(Validate(config.peers));
  KVR_RETURN_IF_ERROR(CheckDispatch(config));
  KVR_RETURN_IF_ERROR(Validate(config.event_plane, config.metrics.dynamo_namespace));
  if (config.zmq.reconnect_min > config.zmq.reconnect_max) {
    return absl::InvalidArgumentError(
        fmt::format("zmq_reconnect_min_ms ({}) is over zmq_reconnect_max_ms ({})",
                    config.zmq.reconnect_min.count(), config.zmq.reconnect_max.count()));
  }
  Router router(config.router, nullptr);
  WorkerRegistry registry(&router);
  if (config.event_plane.transport != "none") registry.AllowReplayAlone();
  const bool may_be_learned = config.introspection.enabled;
  KVR_RETURN_IF_ERROR(CheckWorkers(config.workers, "config file", may_be_learned, &registry));
  if (config.workers_file.path.empty()) return absl::OkStatus();
  KVR_ASSIGN_OR_RETURN(const std::vector<WorkerSpec> workers,
                       ReadWorkersFile(config.workers_file.path));
  return CheckWorkers(workers, "workers file", may_be_learned, &registry);
}

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
  KVR_ASSIGN_OR_RETURN(Flags flags, ParseFlags(arguments));
  out.action = flags.action;
  if (out.action >= DaemonAction::kPrintOptionsMarkdown) return out;  // needs no settings

  std::string path;
  if (const auto it = environment.find(kConfigVariable); it != environment.end()) path = it->second;
  if (flags.config_path) path = *flags.config_path;
  if (!path.empty()) {
    out.config_path = path;
    out.config_signature = SignatureOf(path);
    KVR_ASSIGN_OR_RETURN(ConfigFile file, ReadConfigFile(path));
    KVR_ASSIGN_OR_RETURN(const std::vector<Assignment> assignments, FromFile(file, path));
    KVR_RETURN_IF_ERROR(resolver.Apply(assignments));
    out.config.workers = std::move(file.workers);
    out.workers_source = fmt::format("file {}", path);
  }
  KVR_RETURN_IF_ERROR(resolver.Apply(FromEnvironment(environment)));
  KVR_RETURN_IF_ERROR(resolver.Apply(flags.assignments));
  KVR_ASSIGN_OR_RETURN(const std::vector<Assignment> conditional,
                       FromConditionalDisagg(out.config.conditional_disagg_json, out.settings));
  KVR_RETURN_IF_ERROR(resolver.Apply(conditional));
  // Parity: without a threshold of its own, busy means what it means to the queue.
  auto& busy = out.config.router.gate.conditional.prefill_busy_threshold;
  if (!busy) busy = out.config.router.scheduler.queue.busy.batch_share;
  KVR_RETURN_IF_ERROR(CheckUnimplemented(environment));
  out.ignored_variables = IgnoredVariables(environment);
  KVR_RETURN_IF_ERROR(resolver.ApplyPresets());
  out.without_effect = SettingsWithoutEffect(out.settings, out.config.router);
  if (OverlapSourceOf(out.config.router) != OverlapSource::kEvents) {
    out.config.snapshot.path.clear();
    out.config.peers.peers.clear();
  }
  KVR_RETURN_IF_ERROR(FindCluster(environment, out.action, &out.config.kubernetes));
  if (!out.config.policy_file.empty()) {
    out.policy_signature = SignatureOf(out.config.policy_file);
    KVR_RETURN_IF_ERROR(ReadPolicyFile(out.config.policy_file, &out.config.router.scheduler.queue));
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
