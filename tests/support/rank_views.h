#ifndef KVROUTER_TESTS_SUPPORT_RANK_VIEWS_H_
#define KVROUTER_TESTS_SUPPORT_RANK_VIEWS_H_

#include <cstdint>
#include <optional>

#include "kvrouter/router.h"
#include "service/feed_monitor.h"

namespace kvrouter {

// What core and feed monitor know of one rank.

inline uint64_t IndexBlocksOf(const Router& router, Target target) {
  for (const PartitionSnapshot& partition : router.Snapshot()) {
    for (const TargetLoad& load : partition.loads) {
      if (load.target == target) return load.index_blocks;
    }
  }
  return 0;
}

inline std::optional<FeedReport> ReportOf(const FeedMonitor& monitor, Target target) {
  for (const FeedReport& report : monitor.Reports()) {
    if (report.target == target) return report;
  }
  return std::nullopt;
}

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_SUPPORT_RANK_VIEWS_H_
