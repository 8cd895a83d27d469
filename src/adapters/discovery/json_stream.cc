#include "adapters/discovery/json_stream.h"

#include <fmt/format.h>

#include <utility>

namespace kvrouter {

absl::Status JsonStream::Feed(std::string_view piece, std::vector<std::string>* objects) {
  size_t begin = 0;  // of what belongs to the open object
  for (size_t i = 0; i < piece.size(); ++i) {
    const char c = piece[i];
    if (depth_ == 0) {
      if (c == ' ' || c == '\n' || c == '\r' || c == '\t') continue;
      if (c != '{') {
        return absl::InvalidArgumentError(
            fmt::format("byte {} between JSON objects", static_cast<unsigned char>(c)));
      }
      begin = i;
      depth_ = 1;
      continue;
    }
    if (escaped_) {
      escaped_ = false;
    } else if (in_string_) {
      escaped_ = c == '\\';
      in_string_ = c != '"';
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if ((c == '}' || c == ']') && --depth_ == 0) {
      object_.append(piece.substr(begin, i + 1 - begin));
      objects->push_back(std::exchange(object_, {}));
      if (objects->back().size() > max_object_bytes_) break;
    }
  }
  if (depth_ > 0) object_.append(piece.substr(begin));
  const bool finished_one_too_long =
      !objects->empty() && objects->back().size() > max_object_bytes_;
  if (object_.size() > max_object_bytes_ || finished_one_too_long) {
    return absl::ResourceExhaustedError(
        fmt::format("a JSON object of more than {} bytes", max_object_bytes_));
  }
  return absl::OkStatus();
}

}  // namespace kvrouter
