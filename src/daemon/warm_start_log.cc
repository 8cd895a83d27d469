#include "daemon/warm_start_log.h"

#include <fmt/format.h>

#include <string_view>

namespace kvrouter {

std::vector<StateLog::Line> WarmStartLog::Changes(const SavedFeeds::Figures& saved,
                                                  const SnapshotKeeper::Figures& snapshots,
                                                  const PeerDumps::Figures& peers) {
  std::vector<StateLog::Line> lines;
  for (size_t i = 0; i < saved.feeds.size(); ++i) {
    const uint64_t feeds = saved.feeds[i] - saved_.feeds[i];
    if (feeds == 0) continue;
    const auto outcome = static_cast<RestoreOutcome>(i);
    const bool proved = outcome == RestoreOutcome::kProved;
    lines.push_back(
        {!proved,
         fmt::format("event={} outcome={} feeds={} blocks={} waiting={}",
                     proved ? "snapshot_restored" : "snapshot_dropped", RestoreOutcomeName(outcome),
                     feeds, saved.blocks[i] - saved_.blocks[i], saved.waiting_feeds)});
  }
  saved_ = saved;
  const auto taken = static_cast<size_t>(PeerRankOutcome::kTaken);
  if (peers.ranks[taken] != peers_.ranks[taken]) {
    lines.push_back({false, fmt::format("event=peer_blocks_taken ranks={} blocks={}",
                                        peers.ranks[taken] - peers_.ranks[taken],
                                        peers.blocks_taken - peers_.blocks_taken)});
  }
  if (!peers.failure.empty() && peers.failure != peers_.failure)
    lines.push_back({true, fmt::format("event=peer_not_used reason={}", LogValue(peers.failure))});
  peers_ = peers;
  if (!snapshots.failure.empty() && snapshots.failure != failure_) {
    lines.push_back(
        {true, fmt::format("event=snapshot_not_written reason={}", LogValue(snapshots.failure))});
  } else if (snapshots.failure.empty() && !failure_.empty()) {
    lines.push_back({false, fmt::format("event=snapshot_written_again feeds={} blocks={} bytes={}",
                                        snapshots.feeds, snapshots.blocks, snapshots.bytes)});
  }
  failure_ = snapshots.failure;
  return lines;
}

StateLog::Line SnapshotLoadLine(const std::string& path, const absl::Status& status,
                                const SavedFeeds::Figures& saved,
                                const SnapshotKeeper::Figures& snapshots) {
  if (status.ok()) {
    return {false, fmt::format("event=snapshot_loaded path={} feeds={} blocks={} bytes={} age_s={}",
                               LogValue(path), saved.waiting_feeds, saved.waiting_blocks,
                               snapshots.bytes, snapshots.loaded_age.count() / 1000)};
  }
  const std::string_view message(status.message().data(), status.message().size());
  if (status.code() == absl::StatusCode::kNotFound)
    return {false, fmt::format("event=snapshot_absent path={}", LogValue(path))};
  return {true, fmt::format("event=snapshot_refused reason={}", LogValue(message))};
}

}  // namespace kvrouter
