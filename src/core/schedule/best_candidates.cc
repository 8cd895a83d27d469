#include "core/schedule/best_candidates.h"

#include <algorithm>
#include <array>

namespace kvrouter {

void BestCandidates::Split(std::span<const double> costs, size_t best, uint32_t chosen) {
  double threshold = GuessThreshold(costs, best);
  best_.resize(costs.size());
  size_t below = 0;
  for (size_t i = 0; i < costs.size(); ++i) {
    // Written every time and only counted if it is below: costs are in no order, so a branch would
    // be mispredicted.
    best_[below] = static_cast<uint32_t>(i);
    below += costs[i] < threshold ? 1 : 0;
  }
  if (below >= best) {
    best_.resize(below);
    TakeFromBelow(costs, best, chosen);
  } else {
    const auto at = static_cast<size_t>(std::count(costs.begin(), costs.end(), threshold));
    if (below + at < best) threshold = ExactThreshold(costs, best);
    TakeAllBelowAndFillUp(costs, best, chosen, threshold);
  }
  InsistOn(chosen, costs);
}

double BestCandidates::GuessThreshold(std::span<const double> costs, size_t best) {
  constexpr size_t kSample = 64;
  constexpr size_t kMargin = 4;  // so that too few below it are rare
  const size_t sampled = std::min(kSample, costs.size());
  const size_t stride = costs.size() / sampled;
  scratch_.resize(sampled);
  for (size_t i = 0; i < sampled; ++i) scratch_[i] = costs[i * stride];
  const size_t rank = std::min(sampled - 1, sampled * (best + best / 2) / costs.size() + kMargin);
  const auto nth = scratch_.begin() + static_cast<ptrdiff_t>(rank);
  std::nth_element(scratch_.begin(), nth, scratch_.end());
  return *nth;
}

double BestCandidates::ExactThreshold(std::span<const double> costs, size_t best) {
  scratch_.assign(costs.begin(), costs.end());
  const auto nth = scratch_.begin() + static_cast<ptrdiff_t>(best - 1);
  std::nth_element(scratch_.begin(), nth, scratch_.end());
  return *nth;
}

void BestCandidates::TakeFromBelow(std::span<const double> costs, size_t best, uint32_t chosen) {
  const auto better = [&](uint32_t a, uint32_t b) {
    if (costs[a] != costs[b]) return costs[a] < costs[b];
    if ((a == chosen) != (b == chosen)) return a == chosen;
    return a < b;
  };
  // The others are what lies between those below, and what is left of those.
  other_costs_.clear();
  size_t next = 0;
  for (const uint32_t i : best_) {
    other_costs_.insert(other_costs_.end(), costs.begin() + next, costs.begin() + i);
    next = i + 1;
  }
  other_costs_.insert(other_costs_.end(), costs.begin() + next, costs.end());
  const auto last = best_.begin() + static_cast<ptrdiff_t>(best - 1);
  std::nth_element(best_.begin(), last, best_.end(), better);
  for (size_t i = best; i < best_.size(); ++i) other_costs_.push_back(costs[best_[i]]);
  best_.resize(best);
}

void BestCandidates::TakeAllBelowAndFillUp(std::span<const double> costs, size_t best,
                                           uint32_t chosen, double threshold) {
  best_.clear();
  other_costs_.clear();
  for (size_t i = 0; i < costs.size(); ++i) {
    if (costs[i] < threshold) best_.push_back(static_cast<uint32_t>(i));
  }
  const bool chosen_is_at = costs[chosen] == threshold;
  if (chosen_is_at) best_.push_back(chosen);
  for (size_t i = 0; i < costs.size(); ++i) {
    if (costs[i] < threshold || (chosen_is_at && i == chosen)) continue;
    if (costs[i] == threshold && best_.size() < best) {
      best_.push_back(static_cast<uint32_t>(i));
    } else {
      other_costs_.push_back(costs[i]);
    }
  }
}

// The last of best_ is the worst of them.
void BestCandidates::InsistOn(uint32_t chosen, std::span<const double> costs) {
  if (std::find(best_.begin(), best_.end(), chosen) != best_.end()) return;
  *std::find(other_costs_.begin(), other_costs_.end(), costs[chosen]) = costs[best_.back()];
  best_.back() = chosen;
}

CandidateSummary Summarise(std::span<const double> costs) {
  if (costs.empty()) return {};
  double min = costs[0];
  double max = costs[0];
  // Shares of the mean are added, not costs, whose sum could overflow. Four sums, so that an
  // addition need not wait for the one before.
  std::array<double, 4> sums = {};
  const double share = 1 / static_cast<double>(costs.size());
  for (size_t i = 0; i < costs.size(); ++i) {
    min = std::min(min, costs[i]);
    max = std::max(max, costs[i]);
    sums[i % sums.size()] += costs[i] * share;
  }
  return {.count = static_cast<uint32_t>(costs.size()),
          .min_cost_blocks = min,
          .max_cost_blocks = max,
          .mean_cost_blocks = std::clamp((sums[0] + sums[1]) + (sums[2] + sums[3]), min, max)};
}

}  // namespace kvrouter
