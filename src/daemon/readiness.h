#ifndef KVROUTER_DAEMON_READINESS_H_
#define KVROUTER_DAEMON_READINESS_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include "adapters/http/ops.h"
#include "kvrouter/types.h"

namespace kvrouter {

// When the daemon takes traffic: with at least one schedulable worker, once the feeds' initial
// recovery is done or has taken longer than its bound. Recovery counts once: a worker that joins a
// running fleet does not take the router out of service. The bound runs from the first worker on,
// since before there is nothing to recover. At the start, but not later, more workers than one may
// be asked for. Pure; thread-compatible.
class ReadinessRule {
 public:
  explicit ReadinessRule(std::chrono::milliseconds recovery_bound, uint64_t min_initial_workers = 0)
      : recovery_bound_(recovery_bound), min_initial_workers_(min_initial_workers) {}

  struct Inputs {
    bool starting = false;  // the workers of the file are still being registered
    uint64_t schedulable_workers = 0;
    bool recovery_done = false;
    bool stopping = false;
  };
  Readiness Evaluate(const Inputs& inputs, MonotonicTime now);

 private:
  const std::chrono::milliseconds recovery_bound_;
  const uint64_t min_initial_workers_;
  bool had_initial_workers_ = false;
  std::optional<MonotonicTime> first_worker_at_;
  bool recovered_ = false;
};

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_READINESS_H_
