#include "daemon/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "daemon/option_text.h"
#include "daemon/unimplemented_settings.h"

namespace kvrouter {
namespace {

constexpr std::string_view kConfigFlag = "config";

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

absl::Status UnknownFlag(std::string_view argument, std::string_view name) {
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

// The flag of a setting that is not there, as it may stand in a command line made for Dynamo.
struct UnimplementedFlag {
  const UnimplementedSetting* setting = nullptr;  // null: it is none
  bool negated = false;
};

UnimplementedFlag UnimplementedOf(std::string_view name) {
  if (const UnimplementedSetting* const setting = FindUnimplementedSetting(name))
    return {.setting = setting};
  if (!name.starts_with("no-")) return {};
  const UnimplementedSetting* const setting = FindUnimplementedSetting(name.substr(3));
  return setting != nullptr && setting->IsSwitch()
             ? UnimplementedFlag{.setting = setting, .negated = true}
             : UnimplementedFlag{};
}

// OK if it asks for nothing. `value`: behind the equals sign, else `next`, which is used up then.
absl::Status CheckUnimplementedFlag(const UnimplementedFlag& flag, std::string_view argument,
                                    std::optional<std::string> value, const std::string* next,
                                    bool* used_next) {
  if (!value && flag.setting->IsSwitch()) value = flag.negated ? "false" : "true";
  if (!value && next != nullptr) {
    value = *next;
    *used_next = true;
  }
  if (value && flag.setting->IsNeutral(*value)) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("flag '{}': {}", argument, flag.setting->Reason()));
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments) {
  CommandLine line;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "-h") {
      line.action = DaemonAction::kHelp;
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
      line.action = std::max(line.action, action->action);
      continue;
    }
    const FlagMeaning meaning = MeaningOf(name);
    if (!meaning.Known() && IsDeadSwitch(name) && !value) {
      line.ignored_flags.push_back(argument);
      continue;
    }
    if (!meaning.Known()) {
      const UnimplementedFlag flag = UnimplementedOf(name);
      if (flag.setting == nullptr) return UnknownFlag(argument, name);
      bool used_next = false;
      KVR_RETURN_IF_ERROR(CheckUnimplementedFlag(
          flag, argument, value, i + 1 < arguments.size() ? &arguments[i + 1] : nullptr,
          &used_next));
      if (used_next) ++i;
      continue;
    }
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
      line.config_path = *value;
    } else {
      line.assignments.push_back(
          {meaning.option, *value, SettingOrigin::kFlag, fmt::format("flag --{}", name)});
    }
  }
  return line;
}

}  // namespace kvrouter
