// Is what a decision says about itself true? The formula of docs/routing.md#cost is written down
// here once more and fed with nothing but the decision's own terms and weights.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kvrouter/router.h"
#include "support/core_builders.h"

namespace kvrouter {
namespace {

using namespace testing;  // NOLINT: the builders

constexpr uint64_t kWorkers = 6;

double CostByTheBook(const RouteDecision& d, const CandidateCost& c) {
  const double block = d.block_size_tokens;
  const CostWeights& w = d.weights.cost;
  const double lower = w.host_cache_hit_weight * c.host_overlap_blocks +
                       w.disk_cache_hit_weight * c.disk_overlap_blocks;
  double raw_prefill = 0;
  double decay = 1;
  if (d.weights.track_prefill_tokens) {
    const double isl = static_cast<double>(d.isl_tokens);
    const double cached = std::round((c.device_overlap_blocks + lower) * block);
    const double pending = static_cast<double>(c.active_prefill_tokens);
    raw_prefill = (pending + (isl - std::min(cached, isl)) + cached) / block;
    const double excess =
        (pending - static_cast<double>(d.weights.least_active_prefill_tokens)) / block;
    if (isl > 0) decay = 1 / (1 + w.overlap_score_credit_decay * excess / std::ceil(isl / block));
  }
  const double credit = w.overlap_score_credit * decay * c.device_overlap_blocks + lower +
                        w.shared_cache_multiplier * c.shared_overlap_blocks;
  const double prefill = w.prefill_load_scale * std::max(0.0, raw_prefill - credit);
  const double decode = c.active_decode_blocks + static_cast<double>(c.additional_decode_blocks);
  const double requests = w.decode_active_request_weight * static_cast<double>(c.active_requests);
  return (prefill + decode + requests) * c.taint_multiplier;
}

// Random caches, loads, restrictions, overrides and weights.
class RandomFleet {
 public:
  explicit RandomFleet(uint64_t seed) : random_(seed), router_(Config(), nullptr) {
    for (uint64_t id = 1; id <= kWorkers; ++id) {
      WorkerSpec worker = AWorker(id);
      worker.draining = Draw(8) == 0;
      EXPECT_TRUE(router_.UpsertWorker(worker).ok());
    }
  }

  void Step() {
    const std::vector<TokenId> tokens = APrompt();
    if (Draw(3) == 0) {
      KvEvent event = StoredEvent(tokens, TargetOf(1 + Draw(kWorkers)));
      event.tier = static_cast<StorageTier>(Draw(kStorageTierCount));
      router_.Apply(event);
    }
    RouteRequest request = ARequest(tokens);
    request.book = Draw(3) != 0;
    if (Draw(4) == 0) request.excluded.push_back({.worker = WorkerId{1 + Draw(kWorkers)}});
    if (Draw(4) == 0) {
      request.allowed_workers.emplace();
      for (uint64_t id = 1; id <= kWorkers; ++id) {
        if (Draw(3) != 0) request.allowed_workers->push_back(WorkerId{id});
      }
    }
    if (Draw(5) == 0) request.overrides.overlap_score_credit = 0.25 * static_cast<double>(Draw(8));
    if (Draw(5) == 0) request.overrides.prefill_load_scale = 0.5 * static_cast<double>(Draw(4));
    if (Draw(5) == 0) request.overrides.track_prefill_tokens = Draw(2) == 0;
    if (Draw(8) == 0) request.overrides.router_temperature = 0.5;
    const auto submission = router_.Submit(request, {});
    if (!submission.ok()) return;  // nobody eligible
    const auto& decision = std::get<RouteDecision>(*submission);
    ++decisions;
    Check(request, decision);
    if (decision.booked) live_.push_back(decision.booking);
    if (live_.size() > 40 || (Draw(2) == 0 && !live_.empty())) {
      const size_t victim = Draw(live_.size());
      if (Draw(2) == 0) {
        router_.PrefillComplete(live_[victim], {});
      } else {
        router_.Finish(live_[victim], {});
        live_.erase(live_.begin() + static_cast<long>(victim));
      }
    }
  }

  int decisions = 0;
  int regrets = 0;
  int lower_tier_hits = 0;

 private:
  RouterConfig Config() {
    RouterConfig config;
    CostWeights& weights = config.scheduler.weights;
    weights.overlap_score_credit = 0.5 * static_cast<double>(Draw(4));
    weights.overlap_score_credit_decay = 0.5 * static_cast<double>(Draw(3));
    weights.prefill_load_scale = 0.5 + static_cast<double>(Draw(3));
    weights.decode_active_request_weight = 0.5 * static_cast<double>(Draw(3));
    weights.host_cache_hit_weight = 0.1 * static_cast<double>(Draw(11));
    weights.disk_cache_hit_weight = 0.1 * static_cast<double>(Draw(11));
    config.random_seed = Draw(1000);
    return config;
  }

  uint64_t Draw(uint64_t bound) { return random_() % bound; }

  // A few families of prompts that share beginnings.
  std::vector<TokenId> APrompt() {
    return TokensFrom(static_cast<TokenId>(1000 * Draw(3)), Draw(12 * kBlockSize));
  }

  void Check(const RouteRequest& request, const RouteDecision& d) {
    ASSERT_EQ(d.candidates.size(), d.candidate_count);
    double lowest = std::numeric_limits<double>::max();
    double best_available = 0;
    double chosen_cost = -1;
    uint32_t at_lowest = 0;
    for (const CandidateCost& c : d.candidates) {
      const double cost = CostByTheBook(d, c);
      ASSERT_NEAR(c.cost_blocks, cost, 1e-9 * std::max(1.0, cost));
      at_lowest = c.cost_blocks < lowest ? 1 : at_lowest + (c.cost_blocks == lowest ? 1 : 0);
      lowest = std::min(lowest, c.cost_blocks);
      best_available = std::max(best_available, c.effective_overlap_blocks);
      if (c.target == d.target) chosen_cost = c.cost_blocks;
      lower_tier_hits += c.host_overlap_blocks + c.disk_overlap_blocks > 0 ? 1 : 0;
    }
    ASSERT_GE(chosen_cost, 0) << "the chosen target is among the candidates";
    if (d.temperature == 0) {
      ASSERT_EQ(chosen_cost, lowest);
      ASSERT_EQ(d.tie_size, at_lowest);
    }
    ASSERT_EQ(d.best_available_overlap_blocks, best_available);
    ASSERT_EQ(d.regret_blocks, best_available - d.effective_overlap_blocks);
    ASSERT_GE(d.best_overlap_blocks, best_available) << "eligible or not is more than eligible";
    if (d.regret_blocks > 0) ++regrets;
    CheckBestAvailable(d);
    CheckFiltered(request, d);
  }

  static void CheckBestAvailable(const RouteDecision& d) {
    ASSERT_EQ(d.best_available_overlap_target.has_value(), d.best_available_overlap_blocks > 0);
    if (!d.best_available_overlap_target) return;
    if (d.regret_blocks == 0) {
      ASSERT_EQ(*d.best_available_overlap_target, d.target);
    }
    const auto it = std::find_if(
        d.candidates.begin(), d.candidates.end(),
        [&](const CandidateCost& c) { return c.target == *d.best_available_overlap_target; });
    ASSERT_NE(it, d.candidates.end());
    ASSERT_EQ(it->effective_overlap_blocks, d.best_available_overlap_blocks);
  }

  // Every worker is a candidate or filtered, and the stated reason holds.
  static void CheckFiltered(const RouteRequest& request, const RouteDecision& d) {
    ASSERT_EQ(d.filtered_targets.size() + d.candidates.size(), kWorkers);
    FilterCounts counts;
    for (const FilteredTarget& f : d.filtered_targets) {
      const auto& allowed = request.allowed_workers;
      const bool is_allowed = !allowed || std::find(allowed->begin(), allowed->end(),
                                                    f.target.worker) != allowed->end();
      const bool is_excluded =
          std::any_of(request.excluded.begin(), request.excluded.end(),
                      [&](const TargetSelector& s) { return s.Matches(f.target); });
      switch (f.reason) {
        case FilterReason::kNotAllowed:
          ASSERT_FALSE(is_allowed);
          ++counts.not_allowed;
          break;
        case FilterReason::kExcluded:
          ASSERT_TRUE(is_allowed && is_excluded);
          ++counts.excluded;
          break;
        case FilterReason::kDraining:
          ASSERT_TRUE(is_allowed && !is_excluded);
          ++counts.draining;
          break;
        case FilterReason::kOtherRole:
          FAIL() << "all are aggregated here";
          break;
        case FilterReason::kNotPinned:
          FAIL() << "nothing is pinned here";
        case FilterReason::kTaints:
        case FilterReason::kNoLoraReplica:
        case FilterReason::kOverloaded:
        case FilterReason::kEjected:
          FAIL() << "nothing of that kind here";
      }
      ASSERT_LE(f.device_overlap_blocks, d.best_overlap_blocks);
    }
    ASSERT_EQ(counts.not_allowed, d.filtered.not_allowed);
    ASSERT_EQ(counts.excluded, d.filtered.excluded);
    ASSERT_EQ(counts.draining, d.filtered.draining);
  }

  std::mt19937_64 random_;
  Router router_;
  std::vector<BookingId> live_;
};

TEST(ExplanationPropertyTest, TheStatedTermsGiveTheStatedCostsAndTheChoiceIsAmongTheCheapest) {
  int decisions = 0;
  int regrets = 0;
  int lower_tier_hits = 0;
  for (uint64_t seed = 0; decisions < 10'000; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    ASSERT_LT(seed, 1000u) << "too few requests were decided";
    RandomFleet fleet(seed);
    for (int step = 0; step < 150 && !HasFatalFailure(); ++step) fleet.Step();
    ASSERT_FALSE(HasFatalFailure());
    decisions += fleet.decisions;
    regrets += fleet.regrets;
    lower_tier_hits += fleet.lower_tier_hits;
  }
  EXPECT_GT(lower_tier_hits, 1000);
  EXPECT_GT(regrets, 100) << "load must sometimes win over overlap for this to test anything";
}

TEST(ExplanationTest, FilteredTargetsAreListedUpToTheirBoundAndCountedBeyond) {
  Router router({}, nullptr);
  for (uint64_t id = 1; id <= kMaxFilteredTargets + 10; ++id) {
    ASSERT_TRUE(router.UpsertWorker(AWorker(id)).ok());
  }
  const auto tokens = TokensFrom(0, 2 * kBlockSize);
  router.Apply(StoredEvent(tokens, TargetOf(2)));
  RouteRequest request = ARequest(tokens);
  request.pinned = TargetSelector{.worker = WorkerId{1}};
  const RouteDecision decision = Decide(router, request);
  ASSERT_EQ(decision.filtered_targets.size(), kMaxFilteredTargets);
  EXPECT_EQ(decision.filtered.not_pinned, kMaxFilteredTargets + 9);
  EXPECT_EQ(decision.filtered_targets[0].target, TargetOf(2));
  EXPECT_EQ(decision.filtered_targets[0].reason, FilterReason::kNotPinned);
  EXPECT_EQ(decision.filtered_targets[0].device_overlap_blocks, 2);
  EXPECT_EQ(decision.best_overlap_blocks, 2);
  EXPECT_EQ(decision.best_available_overlap_blocks, 0) << "the pin leaves nothing else";
  EXPECT_EQ(decision.regret_blocks, 0);
}

TEST(ExplanationTest, OnlyTheWinnerMeansNoListOfTheFiltered) {
  RouterConfig config;
  config.decision_detail = DecisionDetail::kWinner;
  Router router(config, nullptr);
  ASSERT_TRUE(router.UpsertWorker(AWorker(1)).ok());
  ASSERT_TRUE(router.UpsertWorker(AWorker(2)).ok());
  const auto tokens = TokensFrom(0, kBlockSize);
  router.Apply(StoredEvent(tokens, TargetOf(2)));
  RouteRequest request = ARequest(tokens);
  request.excluded.push_back({.worker = WorkerId{1}});
  const RouteDecision decision = Decide(router, request);
  EXPECT_TRUE(decision.filtered_targets.empty());
  EXPECT_EQ(decision.filtered.excluded, 1u);
  EXPECT_EQ(decision.best_available_overlap_target, TargetOf(2)) << "figures stay";
}

}  // namespace
}  // namespace kvrouter
