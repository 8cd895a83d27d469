#include "sim/trace/line_reader.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "base/status_macros.h"

namespace kvrouter::sim {

LineReader::LineReader(std::string path, std::unique_ptr<ByteSource> source)
    : path_(std::move(path)), source_(std::move(source)), buffer_(kPaddingBytes, '\0') {}

absl::StatusOr<LineReader> LineReader::Open(const std::string& path) {
  auto source = OpenByteSource(path);
  if (!source.ok()) {
    return absl::Status(source.status().code(),
                        fmt::format("{}: {}", path, std::string(source.status().message())));
  }
  return LineReader(path, *std::move(source));
}

absl::Status LineReader::Fill() {
  const auto chunk = source_->Next();
  if (!chunk.ok()) {
    return absl::Status(chunk.status().code(), fmt::format("{}:{}: {}", path_, line_number_ + 1,
                                                           std::string(chunk.status().message())));
  }
  if (chunk->empty()) {
    at_end_ = true;
    return absl::OkStatus();
  }
  buffer_.erase(0, position_);
  content_bytes_ -= position_;
  position_ = 0;
  buffer_.resize(content_bytes_);
  buffer_.append(*chunk);
  content_bytes_ = buffer_.size();
  buffer_.append(kPaddingBytes, '\0');
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string_view>> LineReader::Next() {
  size_t searched_bytes = 0;  // of the unfinished line: do not look at them again
  while (true) {
    const char* start = buffer_.data() + position_;
    const size_t rest_bytes = content_bytes_ - position_;
    const void* found = std::memchr(start + searched_bytes, '\n', rest_bytes - searched_bytes);
    const bool last_line = found == nullptr && at_end_ && rest_bytes > 0;
    if (found != nullptr || last_line) {
      size_t line_bytes =
          last_line ? rest_bytes : static_cast<size_t>(static_cast<const char*>(found) - start);
      position_ += line_bytes + (last_line ? 0 : 1);
      ++line_number_;
      if (line_bytes > 0 && start[line_bytes - 1] == '\r') --line_bytes;
      return std::string_view(start, line_bytes);
    }
    if (at_end_) return std::nullopt;
    if (rest_bytes > kMaxLineBytes) {
      return absl::InvalidArgumentError(fmt::format("{}:{}: the line is longer than {} bytes",
                                                    path_, line_number_ + 1, kMaxLineBytes));
    }
    searched_bytes = rest_bytes;
    KVR_RETURN_IF_ERROR(Fill());
  }
}

}  // namespace kvrouter::sim
