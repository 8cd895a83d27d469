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

const std::vector<std::string> kChatOnly = {"chat"};
const std::vector<std::string> kNoAdapter;

Facts Serving(WorkerId worker, const std::vector<std::string>& adapters) {
  Facts facts = On(worker);
  facts.adapters = &adapters;
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
           {{.constraints = {.required_taints = {"a"}}}, On(kOne), Verdict::kTaints},
           {{.constraints = {.required_taints = {"a"}}}, tainted, Verdict::kEligible},
           {{.constraints = {.required_taints = {"a", "b"}}}, tainted, Verdict::kTaints},
           {{.adapter = "sql"}, Serving(kOne, kChatOnly), Verdict::kNoLoraReplica},
           {{.adapter = "chat"}, Serving(kOne, kChatOnly), Verdict::kEligible},
           {{.adapter = "sql"}, On(kOne), Verdict::kEligible},  // it does not say
           {{}, Serving(kOne, kNoAdapter), Verdict::kEligible},
           {{.allowed = std::vector<WorkerId>{kOne}, .adapter = "chat"},
            Serving(kTwo, kChatOnly),
            Verdict::kNotAllowed},  // narrowed, never widened
           {{.may_overload = true}, Overloaded(kOne), Verdict::kEligible},
           {{.may_overload = true}, Ejected(kOne), Verdict::kEligible},
           {{}, Overloaded(kOne), Verdict::kOverloaded},
           {{}, Ejected(kOne), Verdict::kEjected},
       }) {
    EXPECT_EQ(VerdictName(CandidateFilter(row.wishes).Judge(row.facts)), VerdictName(row.verdict));
  }
}

TEST(CandidateFilterTest, OverloadSpeaksOnlyOfThoseWhoWouldBeCandidates) {
  Wishes wishes{.adapter = "chat"};
  Facts without = Overloaded(kOne);
  without.adapters = &kNoAdapter;
  EXPECT_EQ(CandidateFilter(wishes).Judge(without), Verdict::kNoLoraReplica);
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
  pinned.adapter = "sql";
  EXPECT_EQ(ErrorOf(pinned, {Serving(kTwo, kChatOnly)}).message(),
            "pinned worker 2 is without the adapter");
  pinned.adapter.clear();
  pinned.constraints.required_taints = {"a"};
  EXPECT_EQ(ErrorOf(pinned, {On(kTwo)}).message(), "pinned worker 2 is without a required taint");
  pinned.allowed = std::vector<WorkerId>{kOne};
  EXPECT_EQ(ErrorReasonOf(CandidateFilter(pinned).CheckPin()), ErrorReason::kPinnedNotAllowed);
  pinned.allowed->push_back(kTwo);
  EXPECT_TRUE(CandidateFilter(pinned).CheckPin().ok());
}

TEST(CandidateFilterTest, EjectedTargetsServeWhenNobodyElseIsLeft) {
  CandidateFilter::Counts counts{};
  const CandidateFilter filter(Wishes{});
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

TEST(CandidateFilterTest, EveryVerdictHasACountAndAReasonOfItsOwn) {
  CandidateFilter::Counts counts{};
  for (size_t i = 0; i < counts.size(); ++i) counts[i] = static_cast<uint32_t>(10 + i);
  const FilterCounts shown = FilterCountsOf(counts);
  const auto of = [&](Verdict verdict) { return counts[static_cast<size_t>(verdict)]; };
  EXPECT_EQ(shown.not_pinned, of(Verdict::kNotPinned));
  EXPECT_EQ(shown.not_allowed, of(Verdict::kNotAllowed));
  EXPECT_EQ(shown.excluded, of(Verdict::kExcluded));
  EXPECT_EQ(shown.draining, of(Verdict::kDraining));
  EXPECT_EQ(shown.taints, of(Verdict::kTaints));
  EXPECT_EQ(shown.no_lora_replica, of(Verdict::kNoLoraReplica));
  EXPECT_EQ(shown.overloaded, of(Verdict::kOverloaded));
  EXPECT_EQ(shown.ejected, of(Verdict::kEjected));
  for (size_t i = 1; i < counts.size(); ++i) {
    const auto verdict = static_cast<Verdict>(i);
    EXPECT_EQ(FilterReasonName(ReasonOf(verdict)), VerdictName(verdict));
  }
}

}  // namespace
}  // namespace kvrouter
