#include <string>

#include "adapters/metrics/scraped_families.h"
#include "adapters/metrics/warm_start_figures.h"

namespace kvrouter {

void ShowWarmStart(const WarmStartFigures& figures, MetricFamilies* out) {
  const auto show_by = [&](Metric metric, const char* label,
                           const WarmStartFigures::Counts& counts) {
    out->Open(metric);
    for (const auto& [value, count] : counts) out->Add(count, {{label, std::string(value)}});
  };
  const auto show_on_disk = [&](Metric metric, auto WarmStartFigures::OnDisk::*figure) {
    out->Open(metric);
    if (figures.on_disk) out->Add((*figures.on_disk).*figure);
  };
  show_by(Metric::kSnapshotWrites, "result", figures.writes);
  show_on_disk(Metric::kSnapshotAge, &WarmStartFigures::OnDisk::age_seconds);
  show_on_disk(Metric::kSnapshotFeeds, &WarmStartFigures::OnDisk::feeds);
  show_on_disk(Metric::kSnapshotBlocks, &WarmStartFigures::OnDisk::blocks);
  show_on_disk(Metric::kSnapshotBytes, &WarmStartFigures::OnDisk::bytes);
  show_on_disk(Metric::kSnapshotWriteTime, &WarmStartFigures::OnDisk::write_seconds);
  show_by(Metric::kSnapshotLoads, "result", figures.loads);
  show_by(Metric::kSnapshotRestoredFeeds, "outcome", figures.restored_feeds);
  show_by(Metric::kSnapshotRestoredBlocks, "outcome", figures.restored_blocks);
  out->Show(Metric::kSnapshotWaitingFeeds, figures.waiting_feeds);
  out->Show(Metric::kSnapshotWaitingBytes, figures.waiting_bytes);
  show_by(Metric::kPeerDumps, "result", figures.peer_dumps);
  show_by(Metric::kPeerRanks, "outcome", figures.peer_ranks);
  out->Show(Metric::kPeerBlocks, figures.peer_blocks);
}

}  // namespace kvrouter
