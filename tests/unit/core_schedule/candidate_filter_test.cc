#include "core/schedule/candidate_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/schedule/scorer.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Facts = CandidateFilter::Facts;
using Verdict = CandidateFilter::Verdict;
using Wishes = CandidateFilter::Wishes;

constexpr WorkerId kOne{1};
constexpr WorkerId kTwo{2};
constexpr WorkerId kThree{3};

Facts On(WorkerId worker, uint32_t dp_rank = 0) {
  return {.target = {.worker = worker, .dp_rank = dp_rank}};
}

Facts Overloaded(WorkerId worker) {
  Facts facts = On(worker);
  facts.overloaded = true;
  return facts;
}

Facts Ejected(WorkerId worker) {
  Facts facts = On(worker);
  facts.ejected = true;
  return facts;
}

absl::Status ErrorOf(const Wishes& wishes, const std::vector<Facts>& targets) {
  const CandidateFilter filter(wishes);
  CandidateFilter::Counts counts{};
  EXPECT_THAT(filter.Candidates(targets, &counts), IsEmpty());
  return filter.NobodyEligible(counts);
}

TEST(CandidateFilterTest, EachReasonHasItsVerdict) {
  const std::vector<std::string> taints = {"a"};
  Facts draining = On(kOne);
  draining.draining = true;
  Facts tainted = On(kOne);
  tainted.taints = taints;
  struct Row {
    Wishes wishes;
    Facts facts;
    Verdict verdict;
  };
  const std::vector<WorkerId> two = {kTwo};
  const std::vector<WorkerId> nobody;
  for (const Row& row : std::vector<Row>{
           {{}, On(kOne), Verdict::kEligible},
           {{.pinned = TargetSelector{.worker = kTwo}}, On(kOne), Verdict::kNotPinned},
           {{.pinned = TargetSelector{.worker = kOne, .dp_rank = 1}},
            On(kOne),
            Verdict::kNotPinned},
           {{.pinned = TargetSelector{.worker = kOne}}, On(kOne, 7), Verdict::kEligible},
           {{.allowed = two}, On(kOne), Verdict::kNotAllowed},
           {{.allowed = nobody}, On(kTwo), Verdict::kNotAllowed},
           {{.excluded = {{.worker = kOne}}}, On(kOne, 3), Verdict::kExcluded},
           {{.excluded = {{.worker = kOne, .dp_rank = 1}}}, On(kOne, 1), Verdict::kExcluded},
           {{.excluded = {{.worker = kOne, .dp_rank = 1}}}, On(kOne, 0), Verdict::kEligible},
           {{}, draining, Verdict::kDraining},
           {{.available = two}, On(kOne), Verdict::kUnavailable},
           {{.available = two}, On(kTwo), Verdict::kEligible},
           {{.available = nobody}, On(kTwo), Verdict::kUnavailable},
           {{.constraints = {.required_taints = {"a"}}}, On(kOne), Verdict::kTaints},
           {{.constraints = {.required_taints = {"a"}}}, tainted, Verdict::kEligible},
           {{.constraints = {.required_taints = {"a", "b"}}}, tainted, Verdict::kTaints},
           {{.lora_replicas = two}, On(kOne), Verdict::kNoLoraReplica},
           {{.allowed = std::vector<WorkerId>{kOne}, .lora_replicas = two},
            On(kTwo),
            Verdict::kNotAllowed},  // narrowed, never widened
           {{}, Overloaded(kOne), Verdict::kOverloaded},
           {{}, Ejected(kOne), Verdict::kEjected},
       }) {
    EXPECT_EQ(VerdictName(CandidateFilter(row.wishes).Judge(row.facts)), VerdictName(row.verdict));
  }
}

TEST(CandidateFilterTest, OverloadSpeaksOnlyOfThoseWhoWouldBeCandidates) {
  Wishes wishes{.lora_replicas = std::vector<WorkerId>{kTwo}};
  EXPECT_EQ(CandidateFilter(wishes).Judge(Overloaded(kOne)), Verdict::kNoLoraReplica);
  Facts both = Overloaded(kTwo);
  both.ejected = true;
  EXPECT_EQ(CandidateFilter(wishes).Judge(both), Verdict::kOverloaded);
}

TEST(CandidateFilterTest, AllOverloadedAndNobodyThereAreApart) {
  const auto overloaded = ErrorOf({}, {Overloaded(kOne), Overloaded(kTwo)});
  EXPECT_EQ(ErrorReasonOf(overloaded), ErrorReason::kAllOverloaded);
  EXPECT_EQ(overloaded.code(), absl::StatusCode::kResourceExhausted);

  const auto nobody = ErrorOf({}, {});
  EXPECT_EQ(ErrorReasonOf(nobody), ErrorReason::kNoWorkers);
  EXPECT_EQ(nobody.code(), absl::StatusCode::kUnavailable);

  Wishes other{.allowed = std::vector<WorkerId>{kThree}};
  EXPECT_EQ(ErrorReasonOf(ErrorOf(other, {Overloaded(kOne), On(kTwo)})), ErrorReason::kNoWorkers)
      << "an overloaded worker that was not wanted anyway";
  Wishes one{.allowed = std::vector<WorkerId>{kOne}};
  EXPECT_EQ(ErrorReasonOf(ErrorOf(one, {Overloaded(kOne), On(kTwo)})), ErrorReason::kAllOverloaded);
}

TEST(CandidateFilterTest, PinnedTargetsHaveTheirOwnErrors) {
  Wishes pinned{.pinned = TargetSelector{.worker = kTwo}};
  const auto overloaded = ErrorOf(pinned, {On(kOne), Overloaded(kTwo)});
  EXPECT_EQ(ErrorReasonOf(overloaded), ErrorReason::kPinnedOverloaded);
  EXPECT_EQ(overloaded.code(), absl::StatusCode::kResourceExhausted);
  const auto unknown = ErrorOf(pinned, {On(kOne)});
  EXPECT_EQ(ErrorReasonOf(unknown), ErrorReason::kPinnedUnavailable);
  EXPECT_EQ(unknown.message(), "pinned worker 2 is unknown or its rank is out of range");
  pinned.available = std::vector<WorkerId>{kOne};
  EXPECT_EQ(ErrorOf(pinned, {On(kTwo)}).message(), "pinned worker 2 is not available");
  pinned.available.reset();
  pinned.constraints.required_taints = {"a"};
  EXPECT_EQ(ErrorOf(pinned, {On(kTwo)}).message(), "pinned worker 2 is without a required taint");
  pinned.allowed = std::vector<WorkerId>{kOne};
  EXPECT_EQ(ErrorReasonOf(CandidateFilter(pinned).CheckPin()), ErrorReason::kPinnedNotAllowed);
  pinned.allowed->push_back(kTwo);
  EXPECT_TRUE(CandidateFilter(pinned).CheckPin().ok());
}

TEST(CandidateFilterTest, EjectedTargetsServeWhenNobodyElseIsLeft) {
  CandidateFilter::Counts counts{};
  const CandidateFilter filter({});
  EXPECT_THAT(filter.Candidates(std::vector{Ejected(kOne), On(kTwo), Ejected(kThree)}, &counts),
              ElementsAre(1));
  EXPECT_EQ(counts[static_cast<size_t>(Verdict::kEjected)], 2u);
  EXPECT_THAT(
      filter.Candidates(std::vector{Ejected(kOne), Overloaded(kTwo), Ejected(kThree)}, &counts),
      ElementsAre(0, 2));
  EXPECT_EQ(counts[static_cast<size_t>(Verdict::kEjected)], 2u);
  EXPECT_EQ(counts[static_cast<size_t>(Verdict::kOverloaded)], 1u);
}

TEST(CandidateFilterTest, PreferredTaintsMultiplyTheCostUnlessPinned) {
  const std::vector<std::string> taints = {"near"};
  Wishes wishes{.constraints = {.preferred_taints = {{"near", 2.0}, {"fast", 1.0}}}};
  EXPECT_EQ(CandidateFilter(wishes).PreferredTaintWeight(taints), 2.0);
  EXPECT_EQ(CandidateFilter(wishes).PreferredTaintWeight({}), 0);
  EXPECT_LT(TaintMultiplier(CandidateFilter(wishes).PreferredTaintWeight(taints)), 1);
  wishes.pinned = TargetSelector{.worker = kOne};
  EXPECT_EQ(TaintMultiplier(CandidateFilter(wishes).PreferredTaintWeight(taints)), 1);
}

}  // namespace
}  // namespace kvrouter
