#ifndef KVROUTER_SERVICE_SAVED_FEEDS_H_
#define KVROUTER_SERVICE_SAVED_FEEDS_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "feed/saved_feed.h"
#include "kvrouter/types.h"
#include "kvrouter/worker.h"

namespace kvrouter {

// What became of a feed that the snapshot of an earlier process held. Label values of
// kvrouter_snapshot_restored_feeds_total.
enum class RestoreOutcome : uint8_t {
  kProved,            // the engine is still the same one; the blocks are in the index
  kRestarted,         // dropped: the engine no longer has the last batch, or has another one there
  kUnproved,          // dropped: its replay did not answer in time, or could not be asked
  kNoReplay,          // dropped: the rank has no replay endpoint any more, so nothing can be proved
  kOtherEndpoint,     // dropped: the rank's engine is elsewhere now
  kOtherBlocks,       // dropped: other model, routing group, block size, block naming or ranks
  kOtherIncarnation,  // dropped: the worker was registered as another life
  kWorkerAbsent,      // dropped: nobody registered the worker in time
};
inline constexpr int kRestoreOutcomeCount = 8;
std::string_view RestoreOutcomeName(RestoreOutcome outcome);

// The feeds that a snapshot held, from the start of the process until each is claimed by the
// connection of its rank, or given up. They wait as bytes, as they came from the file.
//
// Thread-safe.
class SavedFeeds {
 public:
  // From now on these can be claimed. Of two feeds of one rank the later counts. Error: one cannot
  // be read; then none is taken.
  absl::Status Load(std::vector<std::string> payloads);

  // The workers among them and the lives they had.
  std::map<WorkerId, Incarnation> Incarnations() const;

  // The feed of this rank, if it can be continued as `spec` has it; else it is dropped and counted.
  // Each is given out once; whoever gets it reports what became of it.
  std::optional<SavedProgress> Claim(const WorkerSpec& spec, uint32_t rank);
  void Settle(RestoreOutcome outcome, uint64_t blocks);

  // Drops what nobody has claimed.
  void GiveUp();

  // What waits behind `after` (absent: the first), for the next snapshot: a process that ends
  // before its workers came must not lose what it read.
  struct Waiting {
    Target feed;  // worker, and the rank of its socket
    std::string payload;
    uint64_t blocks = 0;
  };
  std::optional<Waiting> NextWaiting(std::optional<Target> after) const;

  struct Figures {
    uint64_t waiting_feeds = 0;
    uint64_t waiting_blocks = 0;
    uint64_t waiting_bytes = 0;
    std::array<uint64_t, kRestoreOutcomeCount> feeds{};   // by outcome
    std::array<uint64_t, kRestoreOutcomeCount> blocks{};  // likewise
  };
  Figures Read() const;

 private:
  struct Entry {
    SavedFeed head;  // no progress
    std::string payload;
    uint64_t blocks = 0;
  };

  void SettleLocked(RestoreOutcome outcome, uint64_t blocks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable Mutex mu_;
  std::map<Target, Entry> waiting_ ABSL_GUARDED_BY(mu_);
  Figures figures_ ABSL_GUARDED_BY(mu_);
};

// Of all its ranks, as they were counted when it was saved.
uint64_t HeldBlocks(const SavedProgress& progress);

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_SAVED_FEEDS_H_
