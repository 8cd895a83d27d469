#ifndef KVROUTER_ADAPTERS_DECISION_LOG_ROTATED_FILE_H_
#define KVROUTER_ADAPTERS_DECISION_LOG_ROTATED_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

namespace kvrouter {

// A decision log that is written to at its end and put aside when it has grown: PATH becomes
// PATH.1, that PATH.2, and so on; of `files` together the oldest goes. What a process that died
// left at its end, half a record, is cut off before more is written; a file that is damaged
// otherwise is put aside. A file that is no decision log is left alone: an error. One process
// writes at a time.
//
// Thread-compatible.
class RotatedFile {
 public:
  struct Options {
    std::string path;
    uint64_t max_bytes = 0;  // of one file; a single record may pass it
    uint32_t files = 1;      // with the one being written
  };
  explicit RotatedFile(Options options) : options_(std::move(options)) {}
  ~RotatedFile() { Close(); }
  RotatedFile(const RotatedFile&) = delete;
  RotatedFile& operator=(const RotatedFile&) = delete;

  // Goes on with the file that is there, or begins one. Errors name the path.
  absl::Status Open();
  // Whether `bytes` more stay within the bound.
  bool HasRoomFor(uint64_t bytes) const { return size_bytes_ + bytes <= options_.max_bytes; }
  // Puts the file aside, if they do not, and begins the next. On an error nothing may be appended:
  // the file would grow without bound.
  absl::Status MakeRoomFor(uint64_t bytes);
  // Puts the file aside and begins the next. On an error it is as it was.
  absl::Status Rotate();
  // Whole records. On an error none of them is in the file; the next Append tries anew.
  absl::Status Append(std::string_view records);
  void Close();

  uint64_t size_bytes() const { return size_bytes_; }
  uint64_t rotations() const { return rotations_; }

 private:
  std::string Aside(uint32_t number) const;
  // Empty, or the beginning of a decision log.
  bool IsOurs() const;
  // Bytes up to the last whole record; nothing if it is damaged otherwise than by breaking off.
  std::optional<uint64_t> FindGoodBytes() const;
  absl::Status Begin();
  absl::Status Write(std::string_view bytes);
  absl::Status Failed(std::string_view what) const;

  const Options options_;
  int fd_ = -1;
  uint64_t size_bytes_ = 0;
  uint64_t rotations_ = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_DECISION_LOG_ROTATED_FILE_H_
