#ifndef KVROUTER_DAEMON_WARM_START_LOG_H_
#define KVROUTER_DAEMON_WARM_START_LOG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "adapters/peer/peer_dumps.h"
#include "adapters/snapshot/snapshot_keeper.h"
#include "daemon/state_log.h"
#include "service/saved_feeds.h"

namespace kvrouter {

// What is worth a line of what happened to snapshots since the last look: feeds of an earlier
// process that were proved or dropped, blocks taken over from peers and peers that could not be
// used, a snapshot that could not be written after one that could, and the other way round.
// Pure; thread-compatible.
class WarmStartLog {
 public:
  std::vector<StateLog::Line> Changes(const SavedFeeds::Figures& saved,
                                      const SnapshotKeeper::Figures& snapshots,
                                      const PeerDumps::Figures& peers);

 private:
  SavedFeeds::Figures saved_;
  PeerDumps::Figures peers_;
  std::string failure_;
};

// The line for what Load said.
StateLog::Line SnapshotLoadLine(const std::string& path, const absl::Status& status,
                                const SavedFeeds::Figures& saved,
                                const SnapshotKeeper::Figures& snapshots);

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_WARM_START_LOG_H_
