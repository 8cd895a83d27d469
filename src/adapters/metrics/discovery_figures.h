#ifndef KVROUTER_ADAPTERS_METRICS_DISCOVERY_FIGURES_H_
#define KVROUTER_ADAPTERS_METRICS_DISCOVERY_FIGURES_H_

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "kvrouter/types.h"
#include "service/worker_signs.h"

namespace kvrouter {

// What one source of workers says of itself. Names are of static life.
struct WorkerSourceFigures {
  std::string_view name;
  bool current = false;
  std::vector<std::pair<std::string_view, uint64_t>> workers;   // by state
  std::vector<std::pair<std::string_view, uint64_t>> attempts;  // by outcome
  uint64_t conflicts = 0;
  uint64_t refusals = 0;
};

// The sources in use, handed over by the daemon since adapters do not know each other.
struct DiscoveryFigures {
  std::vector<WorkerSourceFigures> sources;
  uint64_t log_lines_dropped = 0;
  // What makes the router blind or wrong about a worker that looks well: all signs of each worker.
  std::vector<std::pair<WorkerId, WorkerSigns>> signs;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_METRICS_DISCOVERY_FIGURES_H_
