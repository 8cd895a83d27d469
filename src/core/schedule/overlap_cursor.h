#ifndef KVROUTER_CORE_SCHEDULE_OVERLAP_CURSOR_H_
#define KVROUTER_CORE_SCHEDULE_OVERLAP_CURSOR_H_

#include <cstdint>
#include <span>

#include "core/index/block_index.h"
#include "core/schedule/scorer.h"
#include "kvrouter/types.h"

namespace kvrouter {

// Reads the overlaps of targets that are asked for in ascending order. The index may know targets
// that have just left and not yet know new ones. Borrows. Thread-compatible.
class OverlapCursor {
 public:
  OverlapCursor(std::span<const OverlapMatch> device, std::span<const LowerTierMatch> lower)
      : device_(device), lower_(lower) {}

  uint32_t DeviceBlocks(const Target& target) {
    while (!device_.empty() && device_.front().target < target) device_ = device_.subspan(1);
    return !device_.empty() && device_.front().target == target ? device_.front().blocks : 0;
  }

  LowerTierOverlap LowerTiers(const Target& target) {
    while (!lower_.empty() && lower_.front().target < target) lower_ = lower_.subspan(1);
    if (lower_.empty() || lower_.front().target != target) return {};
    const LowerTierMatch& match = lower_.front();
    return {.host_blocks = match.host_blocks,
            .disk_blocks = match.disk_blocks + match.external_blocks};
  }

 private:
  std::span<const OverlapMatch> device_;
  std::span<const LowerTierMatch> lower_;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_SCHEDULE_OVERLAP_CURSOR_H_
