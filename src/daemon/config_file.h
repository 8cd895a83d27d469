#ifndef KVROUTER_DAEMON_CONFIG_FILE_H_
#define KVROUTER_DAEMON_CONFIG_FILE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvrouter/worker.h"

namespace kvrouter {

// The YAML file: one scalar per setting, and the list `workers`.
struct ConfigFile {
  struct Setting {
    std::string key;
    std::string value;
    int line = 0;
  };
  std::vector<Setting> settings;  // in file order; keys are not looked up here
  std::vector<WorkerSpec> workers;
};

inline constexpr size_t kMaxConfigFileBytes = size_t{16} << 20;

// Of regular files (or links to one) of at most kMaxConfigFileBytes.
absl::StatusOr<std::string> ReadConfigText(const std::string& path);

// Errors name the file and the line. `name` is what they call the file. One YAML document.
absl::StatusOr<ConfigFile> ParseConfigFile(const std::string& text, const std::string& name);
absl::StatusOr<ConfigFile> ReadConfigFile(const std::string& path);

// A file that lists workers and nothing else: the list `workers` as the config file has it, or that
// list alone; YAML or JSON. An empty file is an error and no empty list: it is what a writer leaves
// behind that was stopped in the middle.
absl::StatusOr<std::vector<WorkerSpec>> ParseWorkersFile(const std::string& text,
                                                         const std::string& name);
absl::StatusOr<std::vector<WorkerSpec>> ReadWorkersFile(const std::string& path);

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_CONFIG_FILE_H_
