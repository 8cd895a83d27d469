#include "adapters/decision_log/rotated_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/status_macros.h"
#include "kvrouter/decision_record.h"

namespace kvrouter {
namespace {

constexpr mode_t kMode = 0640;  // request ids are nobody else's affair

}  // namespace

absl::Status RotatedFile::Failed(std::string_view what) const {
  return absl::UnavailableError(
      fmt::format("decision log {}: {}: {}", options_.path, what, std::strerror(errno)));
}

std::string RotatedFile::Aside(uint32_t number) const {
  return fmt::format("{}.{}", options_.path, number);
}

void RotatedFile::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
  size_bytes_ = 0;
}

absl::Status RotatedFile::Open() {
  Close();
  fd_ = open(options_.path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode);
  if (fd_ < 0) return Failed("cannot open");
  struct stat status {};
  if (fstat(fd_, &status) != 0) return Failed("cannot look at");
  if (!S_ISREG(status.st_mode)) {
    Close();
    return absl::InvalidArgumentError(
        fmt::format("decision log {}: not a regular file", options_.path));
  }
  if (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    Close();
    return absl::UnavailableError(
        fmt::format("decision log {}: another process writes to it", options_.path));
  }
  if (!IsOurs()) {
    Close();
    return absl::InvalidArgumentError(
        fmt::format("decision log {}: there is a file that is no decision log", options_.path));
  }
  const std::optional<uint64_t> good_bytes = FindGoodBytes();
  if (!good_bytes) {  // damaged: kept as it is, but nothing is added to it
    const absl::Status rotated = Rotate();
    if (!rotated.ok()) Close();
    return rotated;
  }
  if (ftruncate(fd_, static_cast<off_t>(*good_bytes)) != 0) return Failed("cannot cut off");
  if (lseek(fd_, 0, SEEK_END) < 0) return Failed("cannot seek in");
  size_bytes_ = *good_bytes;
  return *good_bytes == 0 ? Begin() : absl::OkStatus();
}

bool RotatedFile::IsOurs() const {
  const std::string magic = DecisionLogHeader().substr(0, 8);
  char begin[8];
  const ssize_t got = pread(fd_, begin, sizeof(begin), 0);
  return got >= 0 && magic.starts_with(std::string_view(begin, static_cast<size_t>(got)));
}

std::optional<uint64_t> RotatedFile::FindGoodBytes() const {
  uint64_t position = 0;
  DecisionLogReader reader([&](char* out, size_t bytes) {
    size_t got = 0;
    while (got < bytes) {
      const ssize_t some = pread(fd_, out + got, bytes - got, static_cast<off_t>(position));
      if (some < 0 && errno == EINTR) continue;
      if (some <= 0) break;
      got += static_cast<size_t>(some);
      position += static_cast<uint64_t>(some);
    }
    return got;
  });
  for (;;) {
    const auto record = reader.Next();
    if (!record.ok()) return std::nullopt;
    if (!*record) return position - reader.CutOffBytes();
  }
}

absl::Status RotatedFile::Begin() {
  const std::string header = DecisionLogHeader();
  KVR_RETURN_IF_ERROR(Write(header));
  size_bytes_ = header.size();
  return absl::OkStatus();
}

absl::Status RotatedFile::MakeRoomFor(uint64_t bytes) {
  if (fd_ < 0 || size_bytes_ == 0) KVR_RETURN_IF_ERROR(Open());  // 0: its header failed
  const bool begun = size_bytes_ > DecisionLogHeader().size();
  return begun && !HasRoomFor(bytes) ? Rotate() : absl::OkStatus();
}

// The file stays open until it is put aside: while that fails it is full, and known to be.
absl::Status RotatedFile::Rotate() {
  if (options_.files == 1) {
    if (std::remove(options_.path.c_str()) != 0 && errno != ENOENT) return Failed("cannot remove");
  }
  for (uint32_t number = options_.files - 1; number >= 1; --number) {
    const std::string from = number == 1 ? options_.path : Aside(number - 1);
    if (std::rename(from.c_str(), Aside(number).c_str()) != 0 && errno != ENOENT)
      return Failed("cannot put aside");
  }
  ++rotations_;
  Close();
  return Open();
}

absl::Status RotatedFile::Append(std::string_view records) {
  if (fd_ < 0 || size_bytes_ == 0) KVR_RETURN_IF_ERROR(Open());  // 0: its header failed
  const absl::Status written = Write(records);
  if (written.ok()) {
    size_bytes_ += records.size();
    return written;
  }
  // Half of it must not stay: what is written next would be taken for its other half.
  if (ftruncate(fd_, static_cast<off_t>(size_bytes_)) != 0 || lseek(fd_, 0, SEEK_END) < 0) Close();
  return written;
}

absl::Status RotatedFile::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed("cannot write");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace kvrouter
