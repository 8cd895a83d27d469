#include "adapters/snapshot/snapshot_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/status_macros.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

// Closes what it was given.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

absl::Status CannotUse(absl::StatusCode code, const std::string& path, std::string_view why) {
  return MakeError(code, ErrorReason::kUnspecified, fmt::format("{}: {}", path, why));
}

bool ReadAll(int fd, char* out, size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = read(fd, out, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    out += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Whether this name is still that of the open file.
bool IsNamed(int fd, const std::string& path) {
  struct stat opened {};
  struct stat named {};
  return fstat(fd, &opened) == 0 && lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace

absl::StatusOr<SnapshotContents> ReadSnapshotFile(const std::string& path, uint64_t max_bytes) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    const auto code =
        errno == ENOENT ? absl::StatusCode::kNotFound : absl::StatusCode::kUnavailable;
    return CannotUse(code, path, std::strerror(errno));
  }
  struct stat found {};
  if (fstat(file.get(), &found) != 0 || !S_ISREG(found.st_mode))
    return CannotUse(absl::StatusCode::kUnavailable, path, "it is no regular file");
  const auto file_bytes = static_cast<uint64_t>(found.st_size);
  if (file_bytes > max_bytes) {
    return CannotUse(absl::StatusCode::kResourceExhausted, path,
                     fmt::format("it has {} bytes, the limit is {}", file_bytes, max_bytes));
  }
  auto contents = ReadSnapshot(
      file_bytes, [&](char* out, size_t bytes) { return ReadAll(file.get(), out, bytes); });
  if (contents.ok()) return contents;
  return CannotUse(absl::StatusCode::kDataLoss, path,
                   {contents.status().message().data(), contents.status().message().size()});
}

SnapshotFileWriter::SnapshotFileWriter(std::string path, uint64_t max_bytes)
    : path_(std::move(path)), temporary_(path_ + ".tmp"), max_bytes_(max_bytes) {}

SnapshotFileWriter::~SnapshotFileWriter() {
  if (fd_ < 0) return;
  std::remove(temporary_.c_str());  // before the lock goes with the descriptor
  close(fd_);
}

absl::Status SnapshotFileWriter::Failed(std::string_view what) const {
  return CannotUse(absl::StatusCode::kUnavailable, temporary_,
                   fmt::format("{}: {}", what, std::strerror(errno)));
}

absl::Status SnapshotFileWriter::Open(uint64_t created_unix_ms) {
  // Another process may have given the file it had there its name, or removed it, between our open
  // and our lock: what we have then is the snapshot itself, or nothing's name.
  constexpr int kAttempts = 16;
  for (int attempt = 1; fd_ < 0; ++attempt) {
    // What a process that was killed left there stays until we have the lock.
    const int fd = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return Failed("cannot be opened");
    const bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (locked && IsNamed(fd, temporary_)) {
      fd_ = fd;
      continue;
    }
    close(fd);
    if (!locked || attempt == kAttempts)
      return CannotUse(absl::StatusCode::kAborted, temporary_, "another process writes to it");
  }
  if (ftruncate(fd_, 0) != 0) return Failed("cannot be emptied");
  return Write(SnapshotFrames::Header(created_unix_ms));
}

absl::Status SnapshotFileWriter::Append(std::string_view payload) {
  KVR_RETURN_IF_ERROR(Write(frames_.Section(payload)));
  return Write(payload);
}

absl::Status SnapshotFileWriter::Write(std::string_view bytes) {
  if (bytes_ + bytes.size() > max_bytes_) {
    return CannotUse(absl::StatusCode::kResourceExhausted, path_,
                     fmt::format("the snapshot is over {} bytes", max_bytes_));
  }
  bytes_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return Failed("cannot be written");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status SnapshotFileWriter::Commit() {
  KVR_RETURN_IF_ERROR(Write(frames_.End()));
  // In this order: a name must not appear on the disk before what it names.
  if (fsync(fd_) != 0) return Failed("cannot be brought to the disk");
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return Failed("cannot be renamed");
  close(fd_);
  fd_ = -1;
  const Descriptor folder(open(FolderOf(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0 || fsync(folder.get()) != 0) return Failed("its folder cannot be synced");
  return absl::OkStatus();
}

}  // namespace kvrouter
