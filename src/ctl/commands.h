#ifndef KVROUTER_CTL_COMMANDS_H_
#define KVROUTER_CTL_COMMANDS_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace kvrouter::ctl {

// Options of all commands, as main.cc reads them.
struct Connection {
  std::string grpc = "127.0.0.1:8093";
  std::string http = "127.0.0.1:8092";
  std::chrono::milliseconds timeout{5000};
  bool json = false;
};

struct RouteOptions {
  std::string tokens;
  std::string model_name;
  std::string routing_group;
  std::string lora_name;
  std::string cache_salt;
  std::string request_id;
  std::optional<std::string> pin;  // WORKER or WORKER/RANK
  std::optional<uint64_t> expected_output_tokens;
  bool advise = false;
};

// Each command returns what goes to standard output.
absl::StatusOr<std::string> ShowWorkers(const Connection& connection);
absl::StatusOr<std::string> RouteOnce(const Connection& connection, const RouteOptions& options);
absl::StatusOr<std::string> FreeRequest(const Connection& connection,
                                        const std::string& request_id);
// Why the request went where it went.
absl::StatusOr<std::string> ExplainRequest(const Connection& connection,
                                           const std::string& request_id);
absl::StatusOr<std::string> ShowLoads(const Connection& connection);
absl::StatusOr<std::string> ShowMetrics(const Connection& connection, const std::string& prefix);

}  // namespace kvrouter::ctl

#endif  // KVROUTER_CTL_COMMANDS_H_
