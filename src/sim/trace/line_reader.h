#ifndef KVROUTER_SIM_TRACE_LINE_READER_H_
#define KVROUTER_SIM_TRACE_LINE_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sim/trace/byte_source.h"

namespace kvrouter::sim {

// Lines of a plain, gzip or xz file, one at a time: memory stays at a chunk plus the longest line.
// Errors name the path.
//
// Thread-compatible.
class LineReader {
 public:
  // A longer line is an error; the longest row of a million-token prompt is a few MiB.
  static constexpr size_t kMaxLineBytes = size_t{64} << 20;
  // Readable bytes behind every line handed out (their content means nothing), as simdjson needs
  // them.
  static constexpr size_t kPaddingBytes = 64;

  static absl::StatusOr<LineReader> Open(const std::string& path);

  // The next line without its line end, or nothing at the end of the file. Valid until the next
  // call.
  absl::StatusOr<std::optional<std::string_view>> Next();

  // Of the line handed out last, from 1.
  uint64_t line_number() const { return line_number_; }

 private:
  LineReader(std::string path, std::unique_ptr<ByteSource> source);

  // Appends the next chunk, or notes the end of the file.
  absl::Status Fill();

  std::string path_;
  std::unique_ptr<ByteSource> source_;
  std::string buffer_;        // content, then kPaddingBytes
  size_t content_bytes_ = 0;  // of buffer_, without the padding
  size_t position_ = 0;       // start of the next line
  bool at_end_ = false;
  uint64_t line_number_ = 0;
};

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_TRACE_LINE_READER_H_
