#ifndef KVROUTER_CORE_SCHEDULE_OUTLIER_EJECTION_H_
#define KVROUTER_CORE_SCHEDULE_OUTLIER_EJECTION_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "kvrouter/admission.h"
#include "kvrouter/types.h"

namespace kvrouter {

// Takes targets out for a while whose requests fail fast. Such a target frees what it was given at
// once, so it always has the least load and would draw everything.
//
//   in ── N fast failures in a row ──> out ── its time is over ──> on trial ── a success ──> in
//                                       ^                             │
//                                       └── one fast failure: twice the time, up to a bound
//
// A failure is fast if it comes within fast_failure of the dispatch; a slow one holds its load as
// long and draws nothing, so it says nothing here. A success ends a row. After N successes in a row
// earlier ejections are forgotten.
//
// Never the last one: at most max_ejected_share of the targets, and never all, are out at once; a
// refusal is counted, and the target is looked at again with its next failure. What fails
// everywhere is not an outlier.
//
// Bounded by the targets: whoever removes a target calls Forget. Thread safety: thread-compatible;
// guarded by the scheduler's mutex.
class OutlierEjection {
 public:
  using Options = OutlierEjectionConfig;

  enum class Effect : uint8_t {
    kNone,
    kEjected,
    kRefused,  // it would have been, but too many are out
  };

  struct Status {
    bool ejected = false;
    bool on_trial = false;
    MonotonicTime until{};   // while ejected
    uint32_t ejections = 0;  // since it was last healthy for long
    uint32_t failures_in_row = 0;
  };

  struct Record {
    uint32_t failures_in_row = 0;
    uint32_t successes_in_row = 0;
    uint32_t ejections = 0;  // since it was last healthy for long
    bool on_trial = false;   // or out
    std::optional<MonotonicTime> until;
  };

  explicit OutlierEjection(const Options& options) : options_(options) {}

  // From now on; who is out stays out for its time, but for N = 0, which lets everybody in.
  void SetOptions(const Options& options) {
    options_ = options;
    if (options_.consecutive_failures == 0) records_.clear();
  }

  // A leg on the target ended well.
  void ReportSuccess(Target target, MonotonicTime now);

  // A leg failed `after` its dispatch. `targets`: how many the partition has.
  Effect ReportFailure(Target target, std::chrono::nanoseconds after, uint64_t targets,
                       MonotonicTime now);

  // Nothing is known of anybody, so nobody is out.
  bool IsQuiet() const { return records_.empty(); }
  bool IsEjected(Target target, MonotonicTime now) const;

  Status StatusOf(Target target, MonotonicTime now) const;
  // For who has no time to compare with.
  Record RecordOf(Target target) const {
    const auto it = records_.find(target);
    return it == records_.end() ? Record{} : it->second;
  }

  // The target is gone, or lives anew.
  void Forget(Target target) { records_.erase(target); }

  uint64_t EjectedCount(MonotonicTime now) const;
  uint64_t EjectionsTotal() const { return ejections_total_; }
  uint64_t RefusedTotal() const { return refused_total_; }

 private:
  Effect Eject(Record* record, uint64_t targets, MonotonicTime now);

  Options options_;
  absl::flat_hash_map<Target, Record> records_;
  uint64_t ejections_total_ = 0;
  uint64_t refused_total_ = 0;
};

// OK, or INVALID_ARGUMENT naming the setting, the value and the range.
absl::Status Validate(const OutlierEjection::Options& options);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_SCHEDULE_OUTLIER_EJECTION_H_
