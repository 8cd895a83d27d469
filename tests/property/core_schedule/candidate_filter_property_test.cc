#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "core/schedule/candidate_filter.h"
#include "kvrouter/error.h"
#include "reference_scheduler.h"

namespace kvrouter {
namespace {

using reference::Failure;
using reference::Place;

// A random fleet and a random request, as the reference and as the filter take them.
class RandomChoice {
 public:
  explicit RandomChoice(uint64_t seed) : random_(seed) {
    MakeWorkers();
    Restrict();
  }

  void Compare() {
    Failure failure = Failure::kNone;
    const auto expected = fleet_.Eligible(request_, &failure);
    const CandidateFilter filter(wishes_);
    CandidateFilter::Counts counts{};
    std::vector<Place> eligible;
    for (const uint32_t i : filter.Candidates(facts_, &counts)) {
      const Target target = facts_[i].target;
      eligible.push_back({.worker = static_cast<uint64_t>(target.worker), .rank = target.dp_rank});
    }
    if (failure == Failure::kPinNotAllowed) {
      ASSERT_EQ(ErrorReasonOf(filter.CheckPin()), ErrorReason::kPinnedNotAllowed);
      return;
    }
    ASSERT_TRUE(filter.CheckPin().ok());
    ASSERT_EQ(eligible, expected);
    if (failure == Failure::kNone) return;
    const ErrorReason reason = failure == Failure::kPinOverloaded   ? ErrorReason::kPinnedOverloaded
                               : failure == Failure::kAllOverloaded ? ErrorReason::kAllOverloaded
                               : wishes_.pinned ? ErrorReason::kPinnedUnavailable
                                                : ErrorReason::kNoWorkers;
    ASSERT_EQ(ErrorReasonOf(filter.NobodyEligible(counts)), reason);
  }

 private:
  uint64_t Draw(uint64_t bound) { return random_() % bound; }
  std::string ATaint() { return std::string(1, static_cast<char>('a' + Draw(3))); }

  void MakeWorkers() {
    for (uint64_t id = 1, workers = Draw(6); id <= workers; ++id) {
      reference::Worker worker{.id = id,
                               .first_rank = static_cast<uint32_t>(Draw(3)),
                               .ranks = static_cast<uint32_t>(1 + Draw(3)),
                               .draining = Draw(6) == 0,
                               .available = Draw(4) != 0,
                               .overloaded = Draw(3) == 0,
                               .serves_lora = Draw(3) != 0};
      for (uint64_t i = Draw(4); i > 0; --i) worker.taints.insert(ATaint());
      fleet_.workers.push_back(worker);
    }
    taints_.resize(fleet_.workers.size());
    for (size_t i = 0; i < fleet_.workers.size(); ++i) {
      const reference::Worker& worker = fleet_.workers[i];
      taints_[i].assign(worker.taints.begin(), worker.taints.end());
      for (uint32_t r = worker.first_rank; r < worker.first_rank + worker.ranks; ++r) {
        facts_.push_back({.target = {.worker = WorkerId{worker.id}, .dp_rank = r},
                          .draining = worker.draining || !worker.available,
                          .overloaded = worker.overloaded,
                          .taints = taints_[i],
                          .adapters = worker.serves_lora ? serving_[worker.id % 2] : &none_});
      }
    }
    request_.wants_lora = Draw(3) == 0;
    if (request_.wants_lora) wishes_.adapter = "adapter";
  }

  void Restrict() {
    const auto a_worker = [&] { return 1 + Draw(6); };
    if (Draw(4) == 0) {
      request_.allowed.emplace();
      wishes_.allowed.emplace();
      for (uint64_t i = Draw(5); i > 0; --i) {
        const uint64_t worker = a_worker();
        request_.allowed->insert(worker);
        wishes_.allowed->push_back(WorkerId{worker});
      }
    }
    for (uint64_t i = Draw(4); i > 0; --i) {
      const Place place{.worker = a_worker(), .rank = static_cast<uint32_t>(Draw(5))};
      if (Draw(3) == 0) {
        request_.excluded_workers.insert(place.worker);
        wishes_.excluded.push_back({.worker = WorkerId{place.worker}});
      } else {
        request_.excluded_places.insert(place);
        wishes_.excluded.push_back({.worker = WorkerId{place.worker}, .dp_rank = place.rank});
      }
    }
    if (Draw(4) == 0) {
      request_.pinned_worker = a_worker();
      wishes_.pinned = TargetSelector{.worker = WorkerId{*request_.pinned_worker}};
      if (Draw(2) == 0) {
        request_.pinned_rank = static_cast<uint32_t>(Draw(5));
        wishes_.pinned->dp_rank = request_.pinned_rank;
      }
    }
    for (uint64_t i = Draw(3); i > 0; --i) {
      const std::string taint = ATaint();
      request_.required_taints.insert(taint);
      wishes_.constraints.required_taints.push_back(taint);
    }
  }

  std::mt19937_64 random_;
  reference::Fleet fleet_;
  reference::Request request_;
  CandidateFilter::Wishes wishes_;
  std::vector<std::vector<std::string>> taints_;
  const std::vector<std::string> adapters_ = {"adapter", "other"};
  const std::vector<std::string> none_;
  const std::vector<std::string>* serving_[2] = {nullptr, &adapters_};  // undeclared, declared
  std::vector<CandidateFilter::Facts> facts_;
};

TEST(CandidateFilterPropertyTest, EligibilityAgreesWithTheReference) {
  for (uint64_t seed = 0; seed < 100'000; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    RandomChoice(seed).Compare();
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace kvrouter
