#ifndef KVROUTER_ADAPTERS_METRICS_PROCESS_FIGURES_H_
#define KVROUTER_ADAPTERS_METRICS_PROCESS_FIGURES_H_

#include <cstdint>

namespace kvrouter {

// What Linux says about this process, for the process_* metrics every Prometheus client has. What
// cannot be read is 0.
struct ProcessFigures {
  double cpu_seconds = 0;         // user and system
  double start_time_seconds = 0;  // Unix time
  uint64_t resident_bytes = 0;
  uint64_t virtual_bytes = 0;
  uint64_t open_fds = 0;
  uint64_t max_fds = 0;  // soft limit
  uint64_t threads = 0;
};

ProcessFigures ReadProcessFigures();

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_METRICS_PROCESS_FIGURES_H_
