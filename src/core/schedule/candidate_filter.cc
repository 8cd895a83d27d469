#include "core/schedule/candidate_filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

using Verdict = CandidateFilter::Verdict;

constexpr std::array<std::string_view, CandidateFilter::kVerdictCount> kVerdictNames = {
    "eligible", "not_pinned",      "not_allowed", "excluded", "draining",
    "taints",   "no_lora_replica", "overloaded",  "ejected",  "other_role"};
static_assert(kVerdictNames.size() == static_cast<size_t>(Verdict::kOtherRole) + 1);

bool Names(const std::optional<std::vector<WorkerId>>& workers, WorkerId worker) {
  return !workers || std::binary_search(workers->begin(), workers->end(), worker);
}

// Adapters null: not declared.
bool Serves(const std::vector<std::string>* adapters, const std::string& adapter) {
  return adapters == nullptr || adapter.empty() ||
         std::binary_search(adapters->begin(), adapters->end(), adapter);
}

bool Before(const TargetSelector& a, const TargetSelector& b) {
  return a.worker != b.worker ? a.worker < b.worker : a.dp_rank < b.dp_rank;
}

uint32_t CountOf(const CandidateFilter::Counts& counts, Verdict verdict) {
  return counts[static_cast<size_t>(verdict)];
}

std::string Describe(const TargetSelector& selector) {
  const auto worker = static_cast<uint64_t>(selector.worker);
  return selector.dp_rank ? fmt::format("worker {} rank {}", worker, *selector.dp_rank)
                          : fmt::format("worker {}", worker);
}

// What stood in the way of a pinned target, other than overload.
std::string_view WhyPinFails(const CandidateFilter::Counts& counts) {
  if (CountOf(counts, Verdict::kExcluded) > 0) return "excluded";
  if (CountOf(counts, Verdict::kDraining) > 0) return "draining";
  if (CountOf(counts, Verdict::kTaints) > 0) return "without a required taint";
  if (CountOf(counts, Verdict::kNoLoraReplica) > 0) return "without the adapter";
  if (CountOf(counts, Verdict::kOtherRole) > 0)
    return "unknown, of another role, or its rank is out of range";
  return "unknown or its rank is out of range";
}

}  // namespace

std::string_view VerdictName(Verdict verdict) {
  return kVerdictNames[static_cast<size_t>(verdict)];
}

FilterReason ReasonOf(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOtherRole:
      return FilterReason::kOtherRole;
    case Verdict::kNotPinned:
      return FilterReason::kNotPinned;
    case Verdict::kNotAllowed:
      return FilterReason::kNotAllowed;
    case Verdict::kExcluded:
      return FilterReason::kExcluded;
    case Verdict::kDraining:
      return FilterReason::kDraining;
    case Verdict::kTaints:
      return FilterReason::kTaints;
    case Verdict::kNoLoraReplica:
      return FilterReason::kNoLoraReplica;
    case Verdict::kOverloaded:
      return FilterReason::kOverloaded;
    case Verdict::kEjected:
      return FilterReason::kEjected;
    case Verdict::kEligible:
      break;
  }
  KVR_CHECK(false, "an eligible target has no filter reason");
  return FilterReason::kNotAllowed;
}

FilterCounts FilterCountsOf(const CandidateFilter::Counts& counts) {
  return {.other_role = CountOf(counts, Verdict::kOtherRole),
          .not_allowed = CountOf(counts, Verdict::kNotAllowed),
          .excluded = CountOf(counts, Verdict::kExcluded),
          .draining = CountOf(counts, Verdict::kDraining),
          .overloaded = CountOf(counts, Verdict::kOverloaded),
          .not_pinned = CountOf(counts, Verdict::kNotPinned),
          .taints = CountOf(counts, Verdict::kTaints),
          .no_lora_replica = CountOf(counts, Verdict::kNoLoraReplica),
          .ejected = CountOf(counts, Verdict::kEjected)};
}

CandidateFilter::CandidateFilter(Wishes wishes) : wishes_(std::move(wishes)) {
  if (wishes_.allowed) std::sort(wishes_.allowed->begin(), wishes_.allowed->end());
  std::sort(wishes_.excluded.begin(), wishes_.excluded.end(), Before);
  unrestricted_ = !wishes_.pinned && !wishes_.allowed && wishes_.excluded.empty() &&
                  wishes_.adapter.empty() && wishes_.constraints.required_taints.empty();
}

CandidateFilter::CandidateFilter(const RouteRequest& request)
    : CandidateFilter(Wishes{.pinned = request.pinned,
                             .allowed = request.allowed_workers,
                             .excluded = request.excluded,
                             .adapter = request.lora_name,
                             .constraints = request.constraints}) {}

CandidateFilter::CandidateFilter(Target chosen)
    : CandidateFilter(
          Wishes{.pinned = TargetSelector{.worker = chosen.worker, .dp_rank = chosen.dp_rank},
                 .may_overload = true}) {}

bool CandidateFilter::IsExcluded(Target target) const {
  const auto& excluded = wishes_.excluded;
  const auto has = [&](const TargetSelector& selector) {
    return std::binary_search(excluded.begin(), excluded.end(), selector, Before);
  };
  return !excluded.empty() && (has({.worker = target.worker}) ||
                               has({.worker = target.worker, .dp_rank = target.dp_rank}));
}

Verdict CandidateFilter::Judge(const Facts& facts) const {
  if (!unrestricted_) {
    if (wishes_.pinned && !wishes_.pinned->Matches(facts.target)) return Verdict::kNotPinned;
    if (!Names(wishes_.allowed, facts.target.worker)) return Verdict::kNotAllowed;
    if (IsExcluded(facts.target)) return Verdict::kExcluded;
  }
  if (facts.draining) return Verdict::kDraining;
  if (!unrestricted_) {
    if (!CarriesRequired(wishes_.constraints, facts.taints)) return Verdict::kTaints;
    if (!Serves(facts.adapters, wishes_.adapter)) return Verdict::kNoLoraReplica;
  }
  if (wishes_.may_overload) return Verdict::kEligible;
  if (facts.overloaded) return Verdict::kOverloaded;
  return facts.ejected ? Verdict::kEjected : Verdict::kEligible;
}

std::vector<uint32_t> CandidateFilter::Candidates(std::span<const Facts> targets,
                                                  Counts* counts) const {
  std::vector<uint32_t> candidates;
  std::vector<uint32_t> ejected;
  counts->fill(0);
  for (uint32_t i = 0; i < targets.size(); ++i) {
    const Verdict verdict = Judge(targets[i]);
    ++(*counts)[static_cast<size_t>(verdict)];
    if (verdict == Verdict::kEligible) candidates.push_back(i);
    if (verdict == Verdict::kEjected) ejected.push_back(i);
  }
  return candidates.empty() ? ejected : candidates;
}

absl::Status CandidateFilter::CheckPin() const {
  if (!wishes_.pinned || Names(wishes_.allowed, wishes_.pinned->worker)) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kPinnedNotAllowed,
                   fmt::format("pinned {} is not among the {} allowed workers",
                               Describe(*wishes_.pinned), wishes_.allowed->size()));
}

absl::Status CandidateFilter::NobodyEligible(const Counts& counts) const {
  const uint32_t overloaded = CountOf(counts, Verdict::kOverloaded);
  if (wishes_.pinned && overloaded > 0) {
    return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kPinnedOverloaded,
                     fmt::format("pinned {} is overloaded", Describe(*wishes_.pinned)));
  }
  if (wishes_.pinned) {
    return MakeError(
        absl::StatusCode::kUnavailable, ErrorReason::kPinnedUnavailable,
        fmt::format("pinned {} is {}", Describe(*wishes_.pinned), WhyPinFails(counts)));
  }
  if (overloaded > 0) {
    return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kAllOverloaded,
                     fmt::format("all eligible targets are overloaded: {} of them", overloaded));
  }
  return MakeError(
      absl::StatusCode::kUnavailable, ErrorReason::kNoWorkers,
      fmt::format(
          "no target can serve this: {} not allowed, {} excluded, {} draining, {} without a "
          "required taint, {} without the adapter{}",
          CountOf(counts, Verdict::kNotAllowed), CountOf(counts, Verdict::kExcluded),
          CountOf(counts, Verdict::kDraining), CountOf(counts, Verdict::kTaints),
          CountOf(counts, Verdict::kNoLoraReplica),
          CountOf(counts, Verdict::kOtherRole) == 0
              ? std::string()
              : fmt::format(", {} of another role", CountOf(counts, Verdict::kOtherRole))));
}

double CandidateFilter::PreferredTaintWeight(std::span<const std::string> taints) const {
  return wishes_.pinned ? 0 : PreferredWeight(wishes_.constraints, taints);
}

}  // namespace kvrouter
