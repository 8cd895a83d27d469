#ifndef KVROUTER_DAEMON_OPTION_TABLE_H_
#define KVROUTER_DAEMON_OPTION_TABLE_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "daemon/daemon_config.h"

namespace kvrouter {

// One row per setting; everything that is said about a setting anywhere comes from here. The flag
// is --name, the YAML key is the name with underscores, `environment` is Dynamo's variable where
// Dynamo has one.
struct Option {
  std::string name;  // as the flag, without the dashes
  std::string environment;
  std::string help;        // unit and meaning
  std::string range;       // what values are allowed, e.g. "0..1"
  bool is_switch = false;  // true/false; the flags --name and --no-name need no value

  // Parses and stores. An error says what is wrong with the value, not which option or where it
  // came from.
  std::function<absl::Status(std::string_view text, DaemonConfig* config)> set;
  // The value as text that `set` accepts.
  std::function<std::string(const DaemonConfig& config)> get;

  // Shown as *** instead of its value.
  bool is_secret = false;
  // Taken over while the daemon runs (config_reload.h).
  bool reloadable = false;
  // Other spellings, weaker than the first.
  std::vector<std::string> other_environments = {};
  std::vector<std::string> other_flags = {};

  std::string Key() const;
  std::string Default() const { return get(DaemonConfig{}); }
};

// In the order of --help. Built once.
const std::vector<Option>& OptionTable();

// Null if there is none.
const Option* FindOption(std::string_view name);
const Option* FindOptionByKey(std::string_view key);

// The deprecated overlap score weight of Dynamo: it sets the prefill load scale, and 0 also takes
// away the overlap credit. Parity: names and mapping of Dynamo v1.4.1. Names are in ascending
// priority within one origin.
struct AliasOption {
  std::vector<std::string> flags;
  std::vector<std::string> environments;
  std::string key;
};
const AliasOption& OverlapScoreWeightAlias();

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_OPTION_TABLE_H_
