#ifndef KVROUTER_SIM_TRACE_BYTE_SOURCE_H_
#define KVROUTER_SIM_TRACE_BYTE_SOURCE_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace kvrouter::sim {

// Bytes of a file, decompressed, in chunks. Thread-compatible.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // An empty chunk is the end. Valid until the next call. Errors do not name the file.
  virtual absl::StatusOr<std::string_view> Next() = 0;
};

// Opens `path`; gzip, xz or plain is told by its first bytes, not by its name.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenByteSource(const std::string& path);

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_TRACE_BYTE_SOURCE_H_
