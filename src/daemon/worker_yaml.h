#ifndef KVROUTER_DAEMON_WORKER_YAML_H_
#define KVROUTER_DAEMON_WORKER_YAML_H_

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kvrouter/worker.h"

namespace kvrouter {

// Workers as files list them, read and written.

// The list `workers` of a file, or an empty one where there is nothing. Errors name file and line.
absl::StatusOr<std::vector<WorkerSpec>> ParseWorkers(const YAML::Node& list,
                                                     const std::string& file);

// The event socket of one rank by the convention of vLLM and SGLang: TCP port = base port +
// data-parallel rank (the global one), after the last colon. Other transports have one address
// only, so they are an error for rank > 0.
absl::StatusOr<std::string> EndpointForRank(std::string_view base_endpoint, uint32_t dp_rank);

// The workers as the file has them.
std::string WorkersYaml(const std::vector<WorkerSpec>& workers);

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_WORKER_YAML_H_
