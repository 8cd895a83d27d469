#ifndef KVROUTER_ADAPTERS_DISCOVERY_FILE_CHANGE_H_
#define KVROUTER_ADAPTERS_DISCOVERY_FILE_CHANGE_H_

#include <cstdint>
#include <optional>
#include <string>

namespace kvrouter {

// What tells one content of a file from the next without reading it. Links are followed, so that
// the swap of a link on the way (as a ConfigMap volume does it) is a change like any other.
struct FileSignature {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size_bytes = 0;
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;

  friend bool operator==(const FileSignature&, const FileSignature&) = default;
};

// Absent: there is nothing to open under this path.
std::optional<FileSignature> SignatureOf(const std::string& path);

// When a watched file is to be read again: once it differs from what was read last, and has been
// the same at two looks in a row. A file that is written in place, piece by piece, is valid YAML at
// many of its lengths, each with fewer workers than meant. Pure; thread-compatible.
class FileChange {
 public:
  enum class Verdict : uint8_t { kNothing, kRead, kVanished };

  // `now`: the signature at this look. kVanished once per disappearance.
  Verdict Look(const std::optional<FileSignature>& now);
  // The content that was read, well-formed or not, had this signature before and after.
  void Read(const FileSignature& signature) { read_ = signature; }

 private:
  std::optional<FileSignature> read_;
  std::optional<FileSignature> last_look_;
  bool vanished_ = false;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_DISCOVERY_FILE_CHANGE_H_
