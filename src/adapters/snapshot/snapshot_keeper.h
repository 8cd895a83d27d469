#ifndef KVROUTER_ADAPTERS_SNAPSHOT_SNAPSHOT_KEEPER_H_
#define KVROUTER_ADAPTERS_SNAPSHOT_SNAPSHOT_KEEPER_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "feed/saved_feed.h"
#include "service/saved_feeds.h"

namespace kvrouter {

struct SnapshotConfig {
  std::string path;  // empty: no snapshots are read or written
  // Between the end of one and the start of the next; 0: only when the process ends.
  std::chrono::seconds interval{60};
  // How long what was read waits for its workers to be registered.
  std::chrono::seconds worker_wait{600};
  // For the last one, when the process ends.
  std::chrono::milliseconds final_bound{1500};
  uint64_t max_bytes = uint64_t{4} << 30;
};

// Label values of kvrouter_snapshot_writes_total and kvrouter_snapshot_loads_total.
enum class SnapshotResult : uint8_t {
  kOk,
  kAbsent,   // load: there is no file
  kRefused,  // load: it is no whole snapshot of this version
  kIo,       // the file cannot be opened, read or written
  kTooLarge,
  kBusy,      // write: another process writes to the same file
  kDeadline,  // write: it took too long; the one before stays
};
inline constexpr int kSnapshotResultCount = 7;
std::string_view SnapshotResultName(SnapshotResult result);

// Reads the snapshot when the process starts, and writes it from a thread of its own: on a timer,
// and a last time when the process ends. A failure costs nothing but the snapshot: the one before
// stays, and the next is tried at its time.
//
// Thread safety: Load before Start; Start, BeginFinal and Stop from one thread; Read from any.
class SnapshotKeeper {
 public:
  // Hands over what is to be saved; false: `take` said so, or it took longer than to `deadline`.
  // Takes a second at most to notice that `take` would say so.
  using SaveFeeds = std::function<bool(MonotonicTime deadline,
                                       const std::function<bool(const SavedFeed&)>& take)>;

  // `saved` and `clock` outlive the keeper.
  SnapshotKeeper(SnapshotConfig config, SaveFeeds save, SavedFeeds* saved, const Clock* clock);
  ~SnapshotKeeper();  // stops

  bool Enabled() const { return !config_.path.empty(); }

  // Puts what the file holds into `saved`. A file that is absent or cannot be used leaves that
  // empty; the message of its error is for the log.
  absl::Status Load();

  absl::Status Start();
  // Writes the last one, in the background, within its bound.
  void BeginFinal();
  // Waits for that, or ends without it if BeginFinal was not called.
  void Stop();

  struct Figures {
    std::array<uint64_t, kSnapshotResultCount> loads{};   // by result
    std::array<uint64_t, kSnapshotResultCount> writes{};  // likewise
    std::string failure;                                  // of the last write; empty: it succeeded
    // Of the last one that was written, or read.
    std::optional<MonotonicTime> written_at;
    uint64_t feeds = 0;
    uint64_t blocks = 0;
    uint64_t bytes = 0;
    std::chrono::duration<double> write_time{0};
    std::chrono::milliseconds loaded_age{0};  // of the file that was read, when it was read
  };
  Figures Read() const;

 private:
  enum class Wish : uint8_t { kNone, kFinal, kStop };

  void Run();
  void Write(bool final);
  absl::Status TryWrite(bool final, MonotonicTime deadline, Figures* written);
  Wish WaitFor(std::optional<MonotonicTime> until);

  const SnapshotConfig config_;
  const SaveFeeds save_;
  SavedFeeds* const saved_;
  const Clock* const clock_;

  mutable Mutex mu_;
  CondVar wake_;
  Wish wish_ ABSL_GUARDED_BY(mu_) = Wish::kNone;
  Figures figures_ ABSL_GUARDED_BY(mu_);
  std::jthread thread_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_SNAPSHOT_SNAPSHOT_KEEPER_H_
