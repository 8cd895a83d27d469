#ifndef KVROUTER_ADAPTERS_DISCOVERY_JSON_STREAM_H_
#define KVROUTER_ADAPTERS_DISCOVERY_JSON_STREAM_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace kvrouter {

// Cuts a stream of JSON objects, as a watch delivers it, into single ones. It only counts braces
// and knows strings, so it does not matter where the pieces end: between objects, within one, or
// within a character. What stands between two objects must be white space.
//
// Thread-compatible. Bound: an object of more than max_object_bytes is an error; after an error the
// stream is of no more use.
class JsonStream {
 public:
  explicit JsonStream(size_t max_object_bytes) : max_object_bytes_(max_object_bytes) {}

  // Appends the objects that the piece completes.
  absl::Status Feed(std::string_view piece, std::vector<std::string>* objects);
  bool AtBoundary() const { return depth_ == 0; }

 private:
  const size_t max_object_bytes_;
  std::string object_;  // what has come of the open one
  size_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_DISCOVERY_JSON_STREAM_H_
