#include "adapters/discovery/file_change.h"

#include <sys/stat.h>

namespace kvrouter {
namespace {

int64_t Nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

std::optional<FileSignature> SignatureOf(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  return FileSignature{.device = status.st_dev,
                       .inode = status.st_ino,
                       .size_bytes = static_cast<uint64_t>(status.st_size),
                       .modified_ns = Nanoseconds(status.st_mtim),
                       .changed_ns = Nanoseconds(status.st_ctim)};
}

FileChange::Verdict FileChange::Look(const std::optional<FileSignature>& now) {
  const bool stable = now && last_look_ == now;
  last_look_ = now;
  if (!now) {
    const bool just_now = !vanished_;
    vanished_ = true;
    read_.reset();  // the same file come back is read again
    return just_now ? Verdict::kVanished : Verdict::kNothing;
  }
  vanished_ = false;
  return stable && read_ != now ? Verdict::kRead : Verdict::kNothing;
}

}  // namespace kvrouter
