#ifndef KVROUTER_DAEMON_CONFIG_FILE_H_
#define KVROUTER_DAEMON_CONFIG_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
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

// Errors name the file and the line. `name` is what they call the file. One YAML document.
absl::StatusOr<ConfigFile> ParseConfigFile(const std::string& text, const std::string& name);
// Regular files (or links to one) of at most kMaxConfigFileBytes.
absl::StatusOr<ConfigFile> ReadConfigFile(const std::string& path);

// A file that lists workers and nothing else: the list `workers` as the config file has it, or that
// list alone; YAML or JSON. An empty file is an error and no empty list: it is what a writer leaves
// behind that was stopped in the middle.
absl::StatusOr<std::vector<WorkerSpec>> ParseWorkersFile(const std::string& text,
                                                         const std::string& name);
absl::StatusOr<std::vector<WorkerSpec>> ReadWorkersFile(const std::string& path);

// The event socket of one rank by the convention of vLLM and SGLang: TCP port = base port +
// data-parallel rank (the global one), after the last colon. Other transports have one address
// only, so they are an error for rank > 0.
absl::StatusOr<std::string> EndpointForRank(std::string_view base_endpoint, uint32_t dp_rank);

// The workers as the file has them.
std::string WorkersYaml(const std::vector<WorkerSpec>& workers);
// The text as a YAML scalar, quoted where needed.
std::string YamlScalar(std::string_view text);

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_CONFIG_FILE_H_
