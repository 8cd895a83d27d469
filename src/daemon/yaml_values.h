#ifndef KVROUTER_DAEMON_YAML_VALUES_H_
#define KVROUTER_DAEMON_YAML_VALUES_H_

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kvrouter {

// Single values of a YAML file, read with errors that name the line.

inline int LineOf(const YAML::Node& node) { return node.Mark().line + 1; }

// Where a problem is, for messages.
struct Place {
  std::string file;
  int line = 0;
  absl::Status Error(std::string_view what) const;
};

absl::StatusOr<uint64_t> ParseWhole(const YAML::Node& node, std::string_view key, uint64_t max,
                                    const Place& place);
absl::StatusOr<std::string> ParseText(const YAML::Node& node, std::string_view key,
                                      const Place& place);
absl::StatusOr<bool> ParseFlag(const YAML::Node& node, std::string_view key, const Place& place);

// The text as a YAML scalar, quoted where needed.
std::string YamlScalar(std::string_view text);

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_YAML_VALUES_H_
