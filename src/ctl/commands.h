#ifndef KVROUTER_CTL_COMMANDS_H_
#define KVROUTER_CTL_COMMANDS_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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

struct RegisterOptions {
  uint64_t worker_id = 0;
  std::string address;
  uint32_t block_size_tokens = 0;
  std::string model_name;
  std::string routing_group;
  uint32_t dp_size = 1;
  bool is_eagle = false;
  std::optional<uint32_t> image_token_id;
  std::vector<std::string> events;  // by rank, from 0
  std::vector<std::string> replay;  // of the same rank as events
};

struct DumpOptions {
  std::string model_name;
  std::string routing_group;
};

// Each command returns what goes to standard output.
absl::StatusOr<std::string> ShowWorkers(const Connection& connection);
absl::StatusOr<std::string> RouteOnce(const Connection& connection, const RouteOptions& options);
absl::StatusOr<std::string> FreeRequest(const Connection& connection,
                                        const std::string& request_id);
absl::StatusOr<std::string> RegisterWorker(const Connection& connection,
                                           const RegisterOptions& options);
absl::StatusOr<std::string> DrainWorker(const Connection& connection, uint64_t worker_id);
absl::StatusOr<std::string> RemoveWorker(const Connection& connection, uint64_t worker_id);
// How much of a prompt each target holds.
absl::StatusOr<std::string> ShowOverlap(const Connection& connection, const RouteOptions& options);
// Why the request went where it went.
absl::StatusOr<std::string> ExplainRequest(const Connection& connection,
                                           const std::string& request_id);
// What the workers of a partition hold, a line of JSON per event straight to standard output;
// returns the summary, which goes to standard error.
absl::StatusOr<std::string> Dump(const Connection& connection, const DumpOptions& options);
absl::StatusOr<std::string> ShowLoads(const Connection& connection);
absl::StatusOr<std::string> ShowMetrics(const Connection& connection, const std::string& prefix);

}  // namespace kvrouter::ctl

#endif  // KVROUTER_CTL_COMMANDS_H_
