#ifndef KVROUTER_SERVICE_ENGINE_LOADS_H_
#define KVROUTER_SERVICE_ENGINE_LOADS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "kvrouter/types.h"
#include "kvrouter/worker.h"

namespace kvrouter {

// What an engine says of one of its ranks. Absent: it does not say, or not in a way we know.
struct EngineLoad {
  std::optional<double> running_requests = {};
  std::optional<double> waiting_requests = {};
  std::optional<double> used_blocks = {};  // of live requests, in blocks of the worker's size
  std::optional<double> total_blocks = {};

  friend bool operator==(const EngineLoad&, const EngineLoad&) = default;
};

enum class EnginePollOutcome : uint8_t {
  kOk,
  kFailed,      // no answer in time, or not 200
  kUnreadable,  // none of the ranks' figures was in it
};
inline constexpr size_t kEnginePollOutcomeCount = 3;
std::string_view EnginePollOutcomeName(EnginePollOutcome outcome);  // "ok", "failed", "unreadable"

// Where whoever polls the engines leaves what they say, and metrics and overload read it: the truth
// that the router's own bookings estimate. A figure is believed for as long as whoever put it says,
// else for `stale_after`; then it is unknown until the engine answers again.
//
// Thread safety: thread-safe. Bound: the ranks of the workers named in the last Keep, and those put
// since.
class EngineLoads {
 public:
  // Told of each rank whose used blocks are known anew, or (absent) not any more. Not under a lock.
  using OnUsedBlocks = std::function<void(Target, std::optional<double> used_blocks)>;
  EngineLoads(MonotonicTime stale_after, OnUsedBlocks on_used_blocks);

  // What the worker's engine answered, by rank; none for an answer that says nothing of any.
  void Put(const WorkerSpec& worker, const std::map<uint32_t, EngineLoad>& ranks,
           EnginePollOutcome outcome, MonotonicTime now,
           std::optional<MonotonicTime> believed_for = std::nullopt);
  // Forgets everybody else, and other lives; the next Expire tells of it.
  void Keep(const std::vector<WorkerSpec>& workers);
  // Figures that are too old become unknown. Call a few times per second.
  void Expire(MonotonicTime now);

  struct Report {
    Target target;
    std::optional<EngineLoad> load;  // absent: unknown, it has not answered for too long
  };
  std::vector<Report> List() const;  // ascending target: ranks of workers that were polled

  std::array<uint64_t, kEnginePollOutcomeCount> Polls() const;

 private:
  struct Entry {
    Incarnation incarnation{};
    MonotonicTime until{};  // of load
    std::optional<EngineLoad> load;
  };

  const MonotonicTime stale_after_;
  const OnUsedBlocks on_used_blocks_;
  mutable Mutex mu_;
  std::map<Target, Entry> entries_ ABSL_GUARDED_BY(mu_);
  std::vector<Target> forgotten_ ABSL_GUARDED_BY(mu_);  // by Keep, not yet told of
  std::array<uint64_t, kEnginePollOutcomeCount> polls_ ABSL_GUARDED_BY(mu_) = {};
};

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_ENGINE_LOADS_H_
