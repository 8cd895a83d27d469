#ifndef KVROUTER_ADAPTERS_METRICS_WARM_START_FIGURES_H_
#define KVROUTER_ADAPTERS_METRICS_WARM_START_FIGURES_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace kvrouter {

// What a process took over from the one before it, and keeps for the next, handed over by the
// daemon since adapters do not know each other. Names are of static life.
struct WarmStartFigures {
  using Counts = std::vector<std::pair<std::string_view, uint64_t>>;

  Counts loads = {};            // by result
  Counts writes = {};           // likewise
  Counts restored_feeds = {};   // by outcome
  Counts restored_blocks = {};  // likewise
  uint64_t waiting_feeds = 0;
  uint64_t waiting_bytes = 0;

  Counts peer_dumps = {};  // by result
  Counts peer_ranks = {};  // by outcome
  uint64_t peer_blocks = 0;

  // The snapshot on the disk; absent: none was written or read.
  struct OnDisk {
    double age_seconds = 0;
    uint64_t feeds = 0;
    uint64_t blocks = 0;
    uint64_t bytes = 0;
    double write_seconds = 0;  // 0: an earlier process wrote it
  };
  std::optional<OnDisk> on_disk = std::nullopt;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_METRICS_WARM_START_FIGURES_H_
