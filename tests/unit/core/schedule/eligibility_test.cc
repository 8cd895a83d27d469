#include "core/schedule/eligibility.h"

#include <gtest/gtest.h>

#include "kvrouter/error.h"

namespace kvrouter {
namespace {

using Verdict = EligibilityFilter::Verdict;

constexpr WorkerId kOne{1};
constexpr WorkerId kTwo{2};

TEST(EligibilityTest, WithoutWishesEverybodyIsEligible) {
  const EligibilityFilter filter(RouteRequest{});
  EXPECT_EQ(filter.Judge({kOne, 0}, false), Verdict::kEligible);
  EXPECT_EQ(filter.Judge({kOne, 0}, true), Verdict::kDraining);
}

TEST(EligibilityTest, AbsentAllowedSetMeansAllAndEmptyMeansNobody) {
  RouteRequest request;
  request.allowed_workers = {{kTwo}};
  EXPECT_EQ(EligibilityFilter(request).Judge({kTwo, 3}, false), Verdict::kEligible);
  EXPECT_EQ(EligibilityFilter(request).Judge({kOne, 0}, false), Verdict::kNotAllowed);
  request.allowed_workers->clear();
  EXPECT_EQ(EligibilityFilter(request).Judge({kTwo, 3}, false), Verdict::kNotAllowed);
}

TEST(EligibilityTest, ExclusionsNameWorkersOrSingleRanks) {
  RouteRequest request;
  request.excluded = {{.worker = kOne}, {.worker = kTwo, .dp_rank = 1}};
  const EligibilityFilter filter(request);
  EXPECT_EQ(filter.Judge({kOne, 0}, false), Verdict::kExcluded);
  EXPECT_EQ(filter.Judge({kOne, 7}, false), Verdict::kExcluded);
  EXPECT_EQ(filter.Judge({kTwo, 0}, false), Verdict::kEligible);
  EXPECT_EQ(filter.Judge({kTwo, 1}, false), Verdict::kExcluded);
}

TEST(EligibilityTest, PinNamesAWorkerOrOneRank) {
  RouteRequest request;
  request.pinned = {.worker = kTwo};
  EXPECT_EQ(EligibilityFilter(request).Judge({kTwo, 1}, false), Verdict::kEligible);
  EXPECT_EQ(EligibilityFilter(request).Judge({kOne, 1}, false), Verdict::kNotPinned);
  request.pinned->dp_rank = 0;
  EXPECT_EQ(EligibilityFilter(request).Judge({kTwo, 1}, false), Verdict::kNotPinned);
}

TEST(EligibilityTest, PinOutsideTheAllowedSetIsTheCallersMistake) {
  RouteRequest request;
  request.pinned = {.worker = kTwo};
  EXPECT_TRUE(EligibilityFilter(request).CheckPin().ok());
  request.allowed_workers = {{kOne}};
  const auto status = EligibilityFilter(request).CheckPin();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorReasonOf(status), ErrorReason::kPinnedNotAllowed);
}

TEST(EligibilityTest, NobodyEligibleNamesTheReason) {
  const auto unpinned = EligibilityFilter(RouteRequest{}).NobodyEligible({.draining = 3});
  EXPECT_EQ(ErrorReasonOf(unpinned), ErrorReason::kNoWorkers);
  EXPECT_EQ(unpinned.code(), absl::StatusCode::kUnavailable);
  RouteRequest request;
  request.pinned = {.worker = kTwo, .dp_rank = 5};
  const auto pinned = EligibilityFilter(request).NobodyEligible({.not_pinned = 3});
  EXPECT_EQ(ErrorReasonOf(pinned), ErrorReason::kPinnedUnavailable);
  EXPECT_EQ(pinned.code(), absl::StatusCode::kUnavailable);
}

TEST(EligibilityTest, CountsEveryVerdictApart) {
  FilterCounts counts;
  for (const Verdict v : {Verdict::kEligible, Verdict::kNotPinned, Verdict::kNotAllowed,
                          Verdict::kNotAllowed, Verdict::kExcluded, Verdict::kDraining}) {
    CountVerdict(v, &counts);
  }
  EXPECT_EQ(counts.not_pinned, 1u);
  EXPECT_EQ(counts.not_allowed, 2u);
  EXPECT_EQ(counts.excluded, 1u);
  EXPECT_EQ(counts.draining, 1u);
  EXPECT_EQ(counts.overloaded, 0u);
}

}  // namespace
}  // namespace kvrouter
