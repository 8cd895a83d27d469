#ifndef KVROUTER_CORE_SCHEDULE_CANDIDATE_FILTER_H_
#define KVROUTER_CORE_SCHEDULE_CANDIDATE_FILTER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "core/schedule/taints.h"
#include "kvrouter/decision.h"
#include "kvrouter/types.h"

namespace kvrouter {

// Which targets may serve a request, and why the others may not: allowed by it, not excluded by it,
// the pinned one if it pins, not draining, with the taints it requires and the adapter it names,
// not overloaded, not taken out for failing.
//
// Overload is judged last but one, so "overloaded" means: would be a candidate otherwise. That
// keeps "all are overloaded" (try again, another router may do better) and "nobody is there" apart.
//
// Ejection (outlier_ejection.h) is judged last and is no reason to fail: if only ejected targets
// are left, they are the candidates.
//
// Built once per request, before the scheduler's lock, so that judging a target under it is a few
// comparisons. Thread safety: immutable.
class CandidateFilter {
 public:
  // In the order in which reasons are looked for.
  enum class Verdict : uint8_t {
    kEligible,
    kNotPinned,
    kNotAllowed,
    kExcluded,
    kDraining,
    kTaints,         // lacks a required taint
    kNoLoraReplica,  // declares its adapters, and the request's is not among them
    kOverloaded,
    kEjected,
    kOtherRole,  // for the scheduler to say, which asks one pool: before all others
  };
  static constexpr size_t kVerdictCount = 10;

  // How many targets got which verdict.
  using Counts = std::array<uint32_t, kVerdictCount>;

  struct Wishes {
    std::optional<TargetSelector> pinned = {};
    std::optional<std::vector<WorkerId>> allowed = {};  // absent: all; empty: nobody
    std::vector<TargetSelector> excluded = {};
    std::string adapter = {};  // empty: the base model. Narrows, never widens
    RoutingConstraints constraints = {};
    // Takes overloaded and ejected targets as they are: whoever asks has chosen already.
    bool may_overload = false;
  };

  // A target as it is judged.
  struct Facts {
    Target target;
    bool draining = false;
    bool overloaded = false;  // its worker is
    bool ejected = false;
    std::span<const std::string> taints = {};  // TaintsOf its worker
    // Of its worker, sorted. Null: not declared, it may serve any.
    const std::vector<std::string>* adapters = nullptr;
  };

  explicit CandidateFilter(Wishes wishes);
  explicit CandidateFilter(const RouteRequest& request);
  // Of a booking on a target that the caller chose: whatever its load, and no wish but this.
  explicit CandidateFilter(Target chosen);

  // The first reason against it.
  Verdict Judge(const Facts& facts) const;

  // The candidates among `targets`, as indexes, ascending; counts what the others got. If all that
  // remain are ejected, they are the candidates and count as kEjected all the same.
  std::vector<uint32_t> Candidates(std::span<const Facts> targets, Counts* counts) const;

  // kPinnedNotAllowed if the pin names a worker that is not allowed.
  absl::Status CheckPin() const;

  // Why nobody is eligible:
  //   pinned    kPinnedOverloaded (RESOURCE_EXHAUSTED), else kPinnedUnavailable (UNAVAILABLE)
  //   unpinned  kAllOverloaded (RESOURCE_EXHAUSTED) if overload alone stood in somebody's way, else
  //             kNoWorkers (UNAVAILABLE)
  absl::Status NobodyEligible(const Counts& counts) const;

  const std::optional<TargetSelector>& pin() const { return wishes_.pinned; }
  bool pinned() const { return wishes_.pinned.has_value(); }
  // Nothing is wished: every target is as good that is not draining, overloaded or ejected.
  bool unrestricted() const { return unrestricted_; }
  bool may_overload() const { return wishes_.may_overload; }
  // Whether PreferredTaintWeight may be other than 0.
  bool has_preferences() const {
    return !wishes_.pinned && !wishes_.constraints.preferred_taints.empty();
  }

  // The weights of preferred taints that a worker carries, for TaintMultiplier. 0 with a pin, whose
  // cost decides nothing.
  double PreferredTaintWeight(std::span<const std::string> taints) const;

 private:
  bool IsExcluded(Target target) const;

  Wishes wishes_;              // lists sorted
  bool unrestricted_ = false;  // the usual case
};

// E.g. "no_lora_replica".
std::string_view VerdictName(CandidateFilter::Verdict verdict);

// The verdict as an explanation states it. REQUIRES: it is not kEligible.
FilterReason ReasonOf(CandidateFilter::Verdict verdict);

FilterCounts FilterCountsOf(const CandidateFilter::Counts& counts);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_SCHEDULE_CANDIDATE_FILTER_H_
