#ifndef KVROUTER_ADAPTERS_SNAPSHOT_SNAPSHOT_FILE_H_
#define KVROUTER_ADAPTERS_SNAPSHOT_SNAPSHOT_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "feed/snapshot_frames.h"

namespace kvrouter {

// The snapshot at `path`. Errors: NOT_FOUND if there is no such file, DATA_LOSS if it is no whole
// snapshot of this version, RESOURCE_EXHAUSTED if it is over `max_bytes`, UNAVAILABLE if it cannot
// be read.
absl::StatusOr<SnapshotContents> ReadSnapshotFile(const std::string& path, uint64_t max_bytes);

// A snapshot that takes the place of the one at `path` in one step, or never: until Commit
// everything goes to PATH.tmp beside it. A process that is killed leaves that behind, for the next
// one to write over; the snapshot at `path` is always a whole one.
//
// Thread-compatible. Errors: ABORTED if another process is writing to PATH.tmp, RESOURCE_EXHAUSTED
// over `max_bytes`, else UNAVAILABLE.
class SnapshotFileWriter {
 public:
  SnapshotFileWriter(std::string path, uint64_t max_bytes);
  ~SnapshotFileWriter();  // without Commit: removes what was written
  SnapshotFileWriter(const SnapshotFileWriter&) = delete;
  SnapshotFileWriter& operator=(const SnapshotFileWriter&) = delete;

  absl::Status Open(uint64_t created_unix_ms);
  absl::Status Append(std::string_view payload);
  // To the disk, then under its name.
  absl::Status Commit();

  uint64_t bytes() const { return bytes_; }

 private:
  absl::Status Write(std::string_view bytes);
  absl::Status Failed(std::string_view what) const;

  const std::string path_;
  const std::string temporary_;
  const uint64_t max_bytes_;
  SnapshotFrames frames_;
  int fd_ = -1;
  uint64_t bytes_ = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_SNAPSHOT_SNAPSHOT_FILE_H_
