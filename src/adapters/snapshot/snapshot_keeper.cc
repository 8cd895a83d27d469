#include "adapters/snapshot/snapshot_keeper.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "adapters/snapshot/snapshot_file.h"
#include "base/status_macros.h"
#include "feed/saved_feed_codec.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

using std::chrono::milliseconds;

// For one that the timer started: it is in nobody's way, but must not run into the next.
constexpr milliseconds kWriteBound{60'000};

milliseconds UnixTime() {
  return std::chrono::duration_cast<milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
}

SnapshotResult ResultOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return SnapshotResult::kOk;
    case absl::StatusCode::kNotFound:
      return SnapshotResult::kAbsent;
    case absl::StatusCode::kDataLoss:
      return SnapshotResult::kRefused;
    case absl::StatusCode::kResourceExhausted:
      return SnapshotResult::kTooLarge;
    case absl::StatusCode::kAborted:
      return SnapshotResult::kBusy;
    case absl::StatusCode::kDeadlineExceeded:
      return SnapshotResult::kDeadline;
    default:
      return SnapshotResult::kIo;
  }
}

std::string TextOf(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

}  // namespace

std::string_view SnapshotResultName(SnapshotResult result) {
  switch (result) {
    case SnapshotResult::kOk:
      return "ok";
    case SnapshotResult::kAbsent:
      return "absent";
    case SnapshotResult::kRefused:
      return "refused";
    case SnapshotResult::kIo:
      return "io_error";
    case SnapshotResult::kTooLarge:
      return "too_large";
    case SnapshotResult::kBusy:
      return "busy";
    case SnapshotResult::kDeadline:
      return "deadline";
  }
  return "invalid";
}

SnapshotKeeper::SnapshotKeeper(SnapshotConfig config, SaveFeeds save, SavedFeeds* saved,
                               const Clock* clock)
    : config_(std::move(config)), save_(std::move(save)), saved_(saved), clock_(clock) {}

SnapshotKeeper::~SnapshotKeeper() { Stop(); }

absl::Status SnapshotKeeper::Load() {
  auto contents = ReadSnapshotFile(config_.path, config_.max_bytes);
  absl::Status status = contents.status();
  Figures loaded;
  if (status.ok()) {
    for (const std::string& payload : contents->payloads) loaded.bytes += payload.size();
    loaded.feeds = contents->payloads.size();
    const milliseconds created(static_cast<int64_t>(contents->created_unix_ms));
    loaded.loaded_age = std::max(milliseconds::zero(), UnixTime() - created);
    status = saved_->Load(std::move(contents->payloads));
  }
  MutexLock lock(mu_);
  ++figures_.loads[static_cast<size_t>(ResultOf(status))];
  if (!status.ok()) return status;
  figures_.feeds = loaded.feeds;
  figures_.blocks = saved_->Read().waiting_blocks;
  figures_.bytes = loaded.bytes;
  figures_.loaded_age = loaded.loaded_age;
  figures_.written_at = clock_->Now() - loaded.loaded_age;
  return absl::OkStatus();
}

absl::Status SnapshotKeeper::Start() {
  if (!Enabled()) return absl::OkStatus();
  try {
    thread_ = std::jthread([this] { Run(); });
  } catch (const std::system_error& error) {
    return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                     fmt::format("snapshot thread: {}", error.what()));
  }
  pthread_setname_np(thread_.native_handle(), "kvr-snapshot");
  return absl::OkStatus();
}

void SnapshotKeeper::BeginFinal() {
  MutexLock lock(mu_);
  if (wish_ == Wish::kNone) wish_ = Wish::kFinal;
  wake_.NotifyAll();
}

void SnapshotKeeper::Stop() {
  {
    MutexLock lock(mu_);
    if (wish_ == Wish::kNone) wish_ = Wish::kStop;
    wake_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

SnapshotKeeper::Wish SnapshotKeeper::WaitFor(std::optional<MonotonicTime> until) {
  MutexLock lock(mu_);
  while (wish_ == Wish::kNone) {
    if (!until) {
      wake_.Wait(mu_);
      continue;
    }
    const MonotonicTime left = *until - clock_->Now();
    if (left <= MonotonicTime::zero()) break;
    wake_.WaitFor(mu_, left);
  }
  return wish_;
}

void SnapshotKeeper::Run() {
  const bool on_a_timer = config_.interval.count() > 0;
  for (;;) {
    const auto next =
        on_a_timer ? std::optional<MonotonicTime>(clock_->Now() + config_.interval) : std::nullopt;
    const Wish wish = WaitFor(next);
    if (wish == Wish::kStop) return;
    Write(/*final=*/wish == Wish::kFinal);
    if (wish == Wish::kFinal) return;
  }
}

void SnapshotKeeper::Write(bool final) {
  const MonotonicTime begin = clock_->Now();
  Figures written;
  const absl::Status status =
      TryWrite(final, begin + (final ? config_.final_bound : kWriteBound), &written);
  const MonotonicTime end = clock_->Now();
  MutexLock lock(mu_);
  if (!final && wish_ != Wish::kNone) return;  // cut short: the last one follows, or none
  ++figures_.writes[static_cast<size_t>(ResultOf(status))];
  figures_.failure = status.ok() ? "" : TextOf(status);
  if (!status.ok()) return;
  figures_.written_at = end;
  figures_.feeds = written.feeds;
  figures_.blocks = written.blocks;
  figures_.bytes = written.bytes;
  figures_.write_time = end - begin;
}

absl::Status SnapshotKeeper::TryWrite(bool final, MonotonicTime deadline, Figures* written) {
  SnapshotFileWriter file(config_.path, config_.max_bytes);
  KVR_RETURN_IF_ERROR(file.Open(static_cast<uint64_t>(UnixTime().count())));
  absl::Status status;
  // What waits comes first: of a feed that is claimed meanwhile, the later of two counts.
  std::optional<Target> after;
  while (auto waiting = saved_->NextWaiting(after)) {
    after = waiting->feed;
    KVR_RETURN_IF_ERROR(file.Append(waiting->payload));
    ++written->feeds;
    written->blocks += waiting->blocks;
  }
  const auto late = [&] {
    if (clock_->Now() >= deadline) return true;
    MutexLock lock(mu_);
    return !final && wish_ != Wish::kNone;
  };
  const bool whole = save_(deadline, [&](const SavedFeed& feed) {
    status = file.Append(EncodeFeed(feed));
    ++written->feeds;
    written->blocks += HeldBlocks(feed.progress);
    return status.ok() && !late();
  });
  KVR_RETURN_IF_ERROR(status);
  if (!whole) {
    return MakeError(
        absl::StatusCode::kDeadlineExceeded, ErrorReason::kUnspecified,
        fmt::format("{}: the feeds could not be read in time ({} ms at most)", config_.path,
                    (final ? config_.final_bound : kWriteBound).count()));
  }
  KVR_RETURN_IF_ERROR(file.Commit());
  written->bytes = file.bytes();
  return absl::OkStatus();
}

SnapshotKeeper::Figures SnapshotKeeper::Read() const {
  MutexLock lock(mu_);
  return figures_;
}

}  // namespace kvrouter
