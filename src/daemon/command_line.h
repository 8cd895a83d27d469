#ifndef KVROUTER_DAEMON_COMMAND_LINE_H_
#define KVROUTER_DAEMON_COMMAND_LINE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/option_table.h"
#include "daemon/options.h"

namespace kvrouter {

// One value from one place, not yet parsed. Without an option it is the deprecated overlap score
// weight.
struct Assignment {
  const Option* option = nullptr;
  std::string value;
  SettingOrigin origin = SettingOrigin::kDefault;
  std::string source;
};

struct CommandLine {
  DaemonAction action = DaemonAction::kRun;
  std::optional<std::string> config_path;
  std::vector<Assignment> assignments;     // in the order of the flags
  std::vector<std::string> ignored_flags;  // of Dynamo's, without effect there, too
};

// Every flag must be known; values are not looked at, save those of settings that are not there.
absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments);

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_COMMAND_LINE_H_
