#ifndef KVROUTER_CORE_SCHEDULE_ELIGIBILITY_H_
#define KVROUTER_CORE_SCHEDULE_ELIGIBILITY_H_

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "kvrouter/decision.h"
#include "kvrouter/types.h"

namespace kvrouter {

// Which targets may serve a request: allowed by it, not excluded by it, not draining, and the
// pinned one if it pins. Built once per request, before the scheduler's lock, so that judging a
// target under it is a few comparisons.
//
// Thread safety: immutable.
class EligibilityFilter {
 public:
  enum class Verdict { kEligible, kNotPinned, kNotAllowed, kExcluded, kDraining };

  explicit EligibilityFilter(const RouteRequest& request);
  // As of a request that pins this one target and restricts nothing else.
  explicit EligibilityFilter(Target pinned);

  // The first reason against it in the order of Verdict.
  Verdict Judge(Target target, bool draining) const {
    return unrestricted_ && !draining ? Verdict::kEligible : JudgeRestricted(target, draining);
  }

  // kPinnedNotAllowed if the request names a worker that it does not allow.
  absl::Status CheckPin() const;

  // Why nobody was eligible, given the counts: kPinnedUnavailable or kNoWorkers.
  absl::Status NobodyEligible(const FilterCounts& filtered) const;

  bool pinned() const { return pinned_.has_value(); }

 private:
  Verdict JudgeRestricted(Target target, bool draining) const;
  bool IsAllowed(WorkerId worker) const;
  bool IsExcluded(Target target) const;

  bool unrestricted_ = false;  // the usual case: nothing below is set
  std::optional<TargetSelector> pinned_;
  std::optional<std::vector<WorkerId>> allowed_;  // sorted
  std::vector<WorkerId> excluded_workers_;        // sorted
  std::vector<Target> excluded_targets_;          // sorted
};

// The verdict as an explanation states it. REQUIRES: verdict is not kEligible.
FilterReason ReasonOf(EligibilityFilter::Verdict verdict);

// Adds a verdict to the counts; kEligible adds nothing.
void CountVerdict(EligibilityFilter::Verdict verdict, FilterCounts* counts);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_SCHEDULE_ELIGIBILITY_H_
