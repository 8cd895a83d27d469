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

// Which targets may serve a request, and why the others may not: what EligibilityFilter says, and
// availability, taints, LoRA replicas, overload and ejection.
//
// Overload is judged last but one, so "overloaded" means: would be a candidate otherwise. That
// keeps "all are overloaded" (try again, another router may do better) and "nobody is there" apart.
//
// Ejection (outlier_ejection.h) is judged last and is no reason to fail: if only ejected targets
// are left, they are the candidates.
//
// Built once per request, before the scheduler's lock. Thread safety: immutable.
class CandidateFilter {
 public:
  // In the order in which reasons are looked for.
  enum class Verdict : uint8_t {
    kEligible,
    kNotPinned,
    kNotAllowed,
    kExcluded,
    kDraining,
    kUnavailable,    // not in the availability set
    kTaints,         // lacks a required taint
    kNoLoraReplica,  // does not serve the adapter
    kOverloaded,
    kEjected,
  };
  static constexpr size_t kVerdictCount = 10;

  // How many targets got which verdict.
  using Counts = std::array<uint32_t, kVerdictCount>;

  struct Wishes {
    std::optional<TargetSelector> pinned = {};
    std::optional<std::vector<WorkerId>> allowed = {};  // absent: all; empty: nobody
    std::vector<TargetSelector> excluded = {};
    std::optional<std::vector<WorkerId>> available = {};  // absent: all; empty: nobody
    // Of the request's adapter; absent: no adapter, or nobody knows. Narrows, never widens.
    std::optional<std::vector<WorkerId>> lora_replicas = {};
    RoutingConstraints constraints = {};
  };

  // A target as it is judged.
  struct Facts {
    Target target;
    bool draining = false;
    bool overloaded = false;  // its worker is
    bool ejected = false;
    std::span<const std::string> taints = {};  // TaintsOf its worker
  };

  explicit CandidateFilter(Wishes wishes);

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

  bool pinned() const { return wishes_.pinned.has_value(); }

  // The weights of preferred taints that a worker carries, for TaintMultiplier. 0 with a pin, whose
  // cost decides nothing.
  double PreferredTaintWeight(std::span<const std::string> taints) const;

 private:
  bool IsExcluded(Target target) const;

  Wishes wishes_;              // lists sorted
  bool unrestricted_ = false;  // the usual case: nothing is wished
};

// E.g. "no_lora_replica".
std::string_view VerdictName(CandidateFilter::Verdict verdict);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_SCHEDULE_CANDIDATE_FILTER_H_
