#include "feed/snapshot_frames.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/status_macros.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

constexpr std::string_view kMagic = "kvrsnap\n";
constexpr uint64_t kSection = 1;
constexpr uint64_t kEnd = 2;
static_assert(std::endian::native == std::endian::little, "numbers are written as they lie");

void AppendWord(uint64_t word, std::string* out) {
  char bytes[sizeof(word)];
  std::memcpy(bytes, &word, sizeof(word));
  out->append(bytes, sizeof(bytes));
}

std::string Words(uint64_t a, uint64_t b, uint64_t c) {
  std::string out;
  for (const uint64_t word : {a, b, c}) AppendWord(word, &out);
  return out;
}

uint64_t ChecksumOf(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

absl::Status Refused(std::string_view message) {
  return MakeError(absl::StatusCode::kDataLoss, ErrorReason::kInvalidRequest, message);
}

// The file, which cannot be read beyond its end.
class Source {
 public:
  Source(uint64_t bytes, const std::function<bool(char*, size_t)>& read)
      : bytes_(bytes), read_(read) {}

  absl::Status Read(char* out, size_t bytes) {
    if (bytes > left() || !read_(out, bytes))
      return Refused(fmt::format("it ends after {} bytes, where more must follow", bytes_));
    read_bytes_ += bytes;
    return absl::OkStatus();
  }
  absl::StatusOr<std::array<uint64_t, 3>> ReadWords() {
    std::array<uint64_t, 3> words{};
    KVR_RETURN_IF_ERROR(Read(reinterpret_cast<char*>(words.data()), sizeof(words)));
    return words;
  }
  uint64_t left() const { return bytes_ - read_bytes_; }
  uint64_t position() const { return read_bytes_; }

 private:
  const uint64_t bytes_;
  const std::function<bool(char*, size_t)>& read_;
  uint64_t read_bytes_ = 0;
};

absl::StatusOr<uint64_t> ReadHeader(Source* source) {
  std::string header(kMagic.size(), '\0');
  if (source->left() < header.size()) return Refused("it is too short for a snapshot");
  KVR_RETURN_IF_ERROR(source->Read(header.data(), header.size()));
  if (header != kMagic) return Refused("it is no snapshot of kvrouter");
  KVR_ASSIGN_OR_RETURN(const auto words, source->ReadWords());
  if (words[0] != kSnapshotVersion) {
    return Refused(
        fmt::format("it has version {}, this is for version {}", words[0], kSnapshotVersion));
  }
  AppendWord(words[0], &header);
  AppendWord(words[1], &header);
  if (words[2] != ChecksumOf(header)) return Refused("the checksum of its header is wrong");
  return words[1];
}

}  // namespace

std::string SnapshotFrames::Header(uint64_t created_unix_ms) {
  std::string header(kMagic);
  AppendWord(kSnapshotVersion, &header);
  AppendWord(created_unix_ms, &header);
  AppendWord(ChecksumOf(header), &header);
  return header;
}

std::string SnapshotFrames::Section(std::string_view payload) {
  const std::string frame = Words(kSection, payload.size(), ChecksumOf(payload));
  ++sections_;
  sums_ += frame.substr(sizeof(uint64_t));
  return frame;
}

std::string SnapshotFrames::End() const { return Words(kEnd, sections_, ChecksumOf(sums_)); }

absl::StatusOr<SnapshotContents> ReadSnapshot(
    uint64_t file_bytes, const std::function<bool(char* out, size_t bytes)>& read) {
  Source source(file_bytes, read);
  SnapshotContents contents;
  KVR_ASSIGN_OR_RETURN(contents.created_unix_ms, ReadHeader(&source));
  std::string sums;
  for (;;) {
    const uint64_t at = source.position();
    KVR_ASSIGN_OR_RETURN(const auto words, source.ReadWords());
    if (words[0] == kEnd) {
      if (words[1] != contents.payloads.size() || words[2] != ChecksumOf(sums))
        return Refused("sections are missing");
      if (source.left() > 0) return Refused("more bytes follow its end");
      return contents;
    }
    if (words[0] != kSection) return Refused(fmt::format("no section begins at byte {}", at));
    if (words[1] > source.left())
      return Refused(fmt::format("it ends within the section at byte {}", at));
    std::string payload(words[1], '\0');
    KVR_RETURN_IF_ERROR(source.Read(payload.data(), payload.size()));
    if (words[2] != ChecksumOf(payload))
      return Refused(fmt::format("the checksum of the section at byte {} is wrong", at));
    AppendWord(words[1], &sums);
    AppendWord(words[2], &sums);
    contents.payloads.push_back(std::move(payload));
  }
}

}  // namespace kvrouter
