#ifndef KVROUTER_SERVICE_WORKER_SIGNS_H_
#define KVROUTER_SERVICE_WORKER_SIGNS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "kvrouter/types.h"
#include "kvrouter/worker.h"

namespace kvrouter {

// What about a worker makes the router blind or wrong while everything looks well.
enum class WorkerSign : uint8_t {
  kUnreachable,       // the engine does not answer /health
  kBlockSize,         // the engine's block size is not the declared one: its events are skipped
  kModelName,         // the engine does not serve the declared model
  kPrefixCachingOff,  // nothing is ever cached
  kSilentPublisher,   // the engine computes prompts, and no event comes
  kReplayMissing,     // events without a replay endpoint: every loss costs the rank's blocks
  kEventsIgnored      // it has event endpoints, and this router does not go by events
};
inline constexpr size_t kWorkerSignCount = 7;
std::string_view WorkerSignName(WorkerSign sign);  // "unreachable", "block_size", ...

using WorkerSigns = std::array<bool, kWorkerSignCount>;
inline bool& SignOf(WorkerSigns& signs, WorkerSign sign) {
  return signs[static_cast<size_t>(sign)];
}
// Names of those that are set, in the order of the enum.
std::vector<std::string_view> NamesOf(const WorkerSigns& signs);

// Where whoever asks the engines leaves the signs, and doors and metrics read them. What the
// declaration alone shows (kReplayMissing, kEventsIgnored) is added for every worker, asked or not.
// Without events there is nothing wrong with their absence.
//
// Thread safety: thread-safe. Bound: the workers named in the last Keep, and those put since.
class WorkerSignBoard {
 public:
  explicit WorkerSignBoard(bool uses_events = true) : uses_events_(uses_events) {}

  // Found of this life of the worker; replaces what was found before.
  void Put(WorkerId id, Incarnation incarnation, const WorkerSigns& found);
  // Forgets everybody else.
  void Keep(const std::vector<WorkerSpec>& workers);

  WorkerSigns Of(const WorkerSpec& worker) const;

 private:
  struct Found {
    Incarnation incarnation{};
    WorkerSigns signs{};
  };
  const bool uses_events_;
  mutable Mutex mu_;
  std::map<WorkerId, Found> found_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_WORKER_SIGNS_H_
