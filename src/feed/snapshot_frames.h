#ifndef KVROUTER_FEED_SNAPSHOT_FRAMES_H_
#define KVROUTER_FEED_SNAPSHOT_FRAMES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kvrouter {

// The snapshot of all feeds as a file's bytes; no I/O here. Little endian.
//
//   header    "kvrsnap\n"   u64 version         u64 created, Unix ms     u64 XXH3 of these 24 bytes
//   section   u64 1         u64 payload bytes   u64 XXH3 of the payload  payload
//   ...
//   end       u64 2         u64 sections        u64 XXH3 of the sections' sizes and checksums
//
// One section is one feed (saved_feed_codec.h). Nothing follows the end. A file that breaks off,
// even between two sections, or has a bit turned, is refused as a whole: half a picture would look
// like a whole one.
inline constexpr uint64_t kSnapshotVersion = 2;

// Frames the sections of a file that is written from beginning to end. Thread-compatible.
class SnapshotFrames {
 public:
  static std::string Header(uint64_t created_unix_ms);
  // What goes before the payload.
  std::string Section(std::string_view payload);
  std::string End() const;

  uint64_t sections() const { return sections_; }

 private:
  uint64_t sections_ = 0;
  std::string sums_;  // sizes and checksums so far: 16 bytes per feed
};

struct SnapshotContents {
  uint64_t created_unix_ms = 0;
  std::vector<std::string> payloads;
};

// `read` fills exactly `bytes` bytes; false: the file ended before. Takes memory in proportion to
// `file_bytes` at most. Errors: what is wrong, in one line.
absl::StatusOr<SnapshotContents> ReadSnapshot(
    uint64_t file_bytes, const std::function<bool(char* out, size_t bytes)>& read);

}  // namespace kvrouter

#endif  // KVROUTER_FEED_SNAPSHOT_FRAMES_H_
