#ifndef KVROUTER_DAEMON_OPTIONS_H_
#define KVROUTER_DAEMON_OPTIONS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "adapters/discovery/file_change.h"
#include "daemon/daemon_config.h"

namespace kvrouter {

// Settings from four places, each stronger than the one before: default, file, environment, flag.
// Read once, here; nothing else in the daemon looks at the environment. A value that is out of
// range is refused wherever it comes from, even when a stronger one would hide it; so is an unknown
// flag or key, and a setting for a part that is not here (unimplemented_settings.h).
// Other DYN_* variables are not ours to refuse: pods carry those of other processes.

enum class SettingOrigin : uint8_t { kDefault, kFile, kEnvironment, kFlag };

struct EffectiveSetting {
  std::string key;
  std::string value;
  SettingOrigin origin = SettingOrigin::kDefault;
  std::string source;  // "default", "file kv.yaml:3", "environment DYN_ROUTER_TEMPERATURE", "flag
                       // --router-temperature"
};

enum class DaemonAction : uint8_t {
  kRun,
  kCheckConfig,
  kPrintEffectiveConfig,
  kPrintOptionsMarkdown,
  kPrintMetricsMarkdown,
  kVersion,
  kHelp
};

struct LoadedOptions {
  DaemonAction action = DaemonAction::kRun;
  DaemonConfig config;
  std::vector<EffectiveSetting> settings;              // in table order
  std::string workers_source;                          // of config.workers
  std::string config_path;                             // empty: there is no file
  std::optional<FileSignature> config_signature = {};  // before it was read
  std::optional<FileSignature> policy_signature = {};  // of config.policy_file, likewise
  std::vector<std::string>
      ignored_variables;                    // DYN_* and KVROUTER_* that name no setting, ascending
  std::vector<std::string> ignored_flags;   // of Dynamo's, without effect there, too
  std::vector<std::string> without_effect;  // keys off their default that others make idle
};

// `arguments` without the program's name. Errors are one line: the setting, where the value came
// from, the value, what is allowed. Beyond ranges it checks what concerns several settings, and
// that the workers can be registered.
absl::StatusOr<LoadedOptions> LoadOptions(const std::vector<std::string>& arguments,
                                          const std::map<std::string, std::string>& environment);

// A YAML file that loads back to the same settings, with the origin of each as a comment.
std::string EffectiveConfigText(const LoadedOptions& options);

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_OPTIONS_H_
