#ifndef KVROUTER_ADAPTERS_METRICS_RECORD_FIGURES_H_
#define KVROUTER_ADAPTERS_METRICS_RECORD_FIGURES_H_

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace kvrouter {

// The decision log and reloads of the settings, handed over by the daemon since adapters do not
// know each other. Names are of static life.
struct RecordFigures {
  using Counts = std::vector<std::pair<std::string_view, uint64_t>>;

  uint64_t log_records = 0;
  uint64_t log_bytes = 0;
  uint64_t log_incomplete = 0;
  Counts log_dropped = {};  // by reason
  uint64_t log_queued_bytes = 0;
  uint64_t log_rotations = 0;

  uint64_t config_generation = 0;
  Counts reloads = {};  // by result
  bool reload_failed = false;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_METRICS_RECORD_FIGURES_H_
