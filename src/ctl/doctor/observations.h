#ifndef KVROUTER_CTL_DOCTOR_OBSERVATIONS_H_
#define KVROUTER_CTL_DOCTOR_OBSERVATIONS_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/exposition.h"

namespace kvrouter::ctl {

// What the doctor saw, as plain data; nothing here is judged yet. What could not be seen is absent:
// an older daemon has fewer figures, a worker may not be reachable from where the doctor runs.

struct SeenFeed {
  uint32_t dp_rank = 0;
  std::string state;  // none, connecting, recovering, live, degraded
  std::string detail;
  uint64_t index_blocks = 0;
  uint64_t events_applied = 0;
};

struct SeenEndpoints {
  std::string live;
  std::string replay;
};

// A worker's own HTTP door.
struct SeenEngine {
  // Nothing: it could not be reached, and `error` says how.
  std::optional<int> health_status;  // of GET /health
  std::string error;
  // Empty: no metrics page, or not one in Prometheus' format.
  std::vector<client::Sample> metrics;
};

struct SeenWorker {
  uint64_t worker_id = 0;
  std::string model_name;
  std::string routing_group;
  std::string address;
  uint32_t block_size_tokens = 0;
  bool draining = false;
  std::map<uint32_t, SeenEndpoints> events;  // by rank
  std::vector<SeenFeed> feeds;
  std::optional<SeenEngine> engine;  // nothing: not asked
};

struct Observations {
  std::string grpc_address;
  std::string http_address;
  std::string grpc_error;  // empty: it answered
  std::string http_error;

  std::optional<bool> ready;
  std::string not_ready_reason;
  std::vector<SeenWorker> workers;
  std::vector<client::Sample> metrics;  // of the daemon
  // What the daemon counted in the doctor's window of time; the same as `metrics` without one.
  std::vector<client::Sample> recent;
  std::chrono::milliseconds slowest_answer{0};  // of the daemon's doors
  double now_unix_seconds = 0;                  // by the doctor's clock
};

}  // namespace kvrouter::ctl

#endif  // KVROUTER_CTL_DOCTOR_OBSERVATIONS_H_
