#include "core/schedule/eligibility.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/check.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

std::string Describe(const TargetSelector& selector) {
  const auto worker = static_cast<uint64_t>(selector.worker);
  return selector.dp_rank ? fmt::format("worker {} rank {}", worker, *selector.dp_rank)
                          : fmt::format("worker {}", worker);
}

}  // namespace

EligibilityFilter::EligibilityFilter(const RouteRequest& request)
    : pinned_(request.pinned), allowed_(request.allowed_workers) {
  if (allowed_) std::sort(allowed_->begin(), allowed_->end());
  for (const TargetSelector& selector : request.excluded) {
    if (selector.dp_rank) {
      excluded_targets_.push_back({.worker = selector.worker, .dp_rank = *selector.dp_rank});
    } else {
      excluded_workers_.push_back(selector.worker);
    }
  }
  std::sort(excluded_targets_.begin(), excluded_targets_.end());
  std::sort(excluded_workers_.begin(), excluded_workers_.end());
  unrestricted_ = !pinned_ && !allowed_ && excluded_workers_.empty() && excluded_targets_.empty();
}

EligibilityFilter::EligibilityFilter(Target pinned)
    : pinned_(TargetSelector{.worker = pinned.worker, .dp_rank = pinned.dp_rank}) {}

EligibilityFilter::Verdict EligibilityFilter::JudgeRestricted(Target target, bool draining) const {
  if (pinned_ && !pinned_->Matches(target)) return Verdict::kNotPinned;
  if (!IsAllowed(target.worker)) return Verdict::kNotAllowed;
  if (IsExcluded(target)) return Verdict::kExcluded;
  return draining ? Verdict::kDraining : Verdict::kEligible;
}

absl::Status EligibilityFilter::CheckPin() const {
  if (!pinned_ || IsAllowed(pinned_->worker)) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kPinnedNotAllowed,
                   fmt::format("pinned {} is not among the {} allowed workers", Describe(*pinned_),
                               allowed_->size()));
}

absl::Status EligibilityFilter::NobodyEligible(const FilterCounts& filtered) const {
  if (pinned_) {
    const char* const why = filtered.excluded > 0   ? "excluded"
                            : filtered.draining > 0 ? "draining"
                                                    : "unknown or its rank is out of range";
    return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kPinnedUnavailable,
                     fmt::format("pinned {} is {}", Describe(*pinned_), why));
  }
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kNoWorkers,
                   fmt::format("no target can serve this: {} not allowed, {} excluded, {} draining",
                               filtered.not_allowed, filtered.excluded, filtered.draining));
}

bool EligibilityFilter::IsAllowed(WorkerId worker) const {
  return !allowed_ || std::binary_search(allowed_->begin(), allowed_->end(), worker);
}

bool EligibilityFilter::IsExcluded(Target target) const {
  return std::binary_search(excluded_targets_.begin(), excluded_targets_.end(), target) ||
         std::binary_search(excluded_workers_.begin(), excluded_workers_.end(), target.worker);
}

FilterReason ReasonOf(EligibilityFilter::Verdict verdict) {
  using Verdict = EligibilityFilter::Verdict;
  switch (verdict) {
    case Verdict::kNotPinned:
      return FilterReason::kNotPinned;
    case Verdict::kNotAllowed:
      return FilterReason::kNotAllowed;
    case Verdict::kExcluded:
      return FilterReason::kExcluded;
    case Verdict::kDraining:
      return FilterReason::kDraining;
    case Verdict::kEligible:
      break;
  }
  KVR_CHECK(false, "an eligible target has no filter reason");
  return FilterReason::kNotAllowed;
}

void CountVerdict(EligibilityFilter::Verdict verdict, FilterCounts* counts) {
  using Verdict = EligibilityFilter::Verdict;
  switch (verdict) {
    case Verdict::kEligible:
      return;
    case Verdict::kNotPinned:
      ++counts->not_pinned;
      return;
    case Verdict::kNotAllowed:
      ++counts->not_allowed;
      return;
    case Verdict::kExcluded:
      ++counts->excluded;
      return;
    case Verdict::kDraining:
      ++counts->draining;
      return;
  }
}

}  // namespace kvrouter
