#ifndef KVROUTER_SERVICE_FEED_MONITOR_H_
#define KVROUTER_SERVICE_FEED_MONITOR_H_

#include <array>
#include <atomic>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "feed/feed_stats.h"
#include "kvrouter/events.h"
#include "kvrouter/types.h"

namespace kvrouter {

// How a rank's events come in.
enum class FeedSource : uint8_t {
  kSocket,      // the engine's own
  kEventPlane,  // Dynamo's
  kPublished,   // a stream at one of our doors
};

struct FeedReport {
  Target target;  // worker and the rank of the socket
  FeedSource source = FeedSource::kSocket;
  FeedState state = FeedState::kNone;
  DegradedReason reason = DegradedReason::kNone;  // kNone unless degraded
  std::string detail;     // why degraded, last error; empty when all is well
  FeedCounters counters;  // of this worker's life
};

// Where event sources leave what they know, and metrics and status pages read it. Thread-safe.
// Totals keep counting when a worker leaves; the per-target reports go with it. Sources do not know
// each other: of a rank that both report, one without a socket says kNone, and the other counts.
class FeedMonitor {
 public:
  // Replaces the report of one feed; the difference of its counters goes into the totals.
  void Update(const FeedReport& report);
  void Remove(Target target, FeedSource source = FeedSource::kSocket);

  // What a source counted that belongs to no rank, such as unreadable messages; since its start.
  void UpdateUnattributed(FeedSource source, const FeedCounters& counters);

  // One applied KV event, by kind (0 stored, 1 removed, 2 cleared) and result.
  void CountApplied(const KvEvent& event, const ApplyResult& result);

  std::vector<FeedReport> Reports() const;  // ascending target, one each
  // Of the latest report; kNone without one.
  FeedState StateOf(Target target, FeedSource source) const;
  FeedCounters Totals() const;

  struct AppliedCounts {
    std::array<std::array<uint64_t, kApplyStatusCount>, 3> events{};  // [kind][status]
    uint64_t duplicate_store_events = 0;  // events with at least one duplicate block
    uint64_t orphan_blocks = 0;           // blocks of stores whose parent was unknown
  };
  AppliedCounts Applied() const;

 private:
  mutable Mutex mu_;
  std::map<std::pair<Target, FeedSource>, FeedReport> reports_ ABSL_GUARDED_BY(mu_);
  std::map<FeedSource, FeedCounters> unattributed_ ABSL_GUARDED_BY(mu_);
  FeedCounters totals_ ABSL_GUARDED_BY(mu_);
  std::array<std::array<std::atomic<uint64_t>, kApplyStatusCount>, 3> applied_{};
  std::atomic<uint64_t> duplicate_store_events_{0};
  std::atomic<uint64_t> orphan_blocks_{0};
};

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_FEED_MONITOR_H_
