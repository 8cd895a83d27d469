#include "core/schedule/best_candidates.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <vector>

namespace kvrouter {
namespace {

constexpr size_t kBest = 32;

struct Expected {
  std::vector<uint32_t> best;  // ascending
  std::vector<double> others;  // ascending
};

Expected BySorting(const std::vector<double>& costs, size_t best, uint32_t chosen) {
  std::vector<uint32_t> order(costs.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return costs[a] != costs[b] ? costs[a] < costs[b] : a == chosen && b != chosen;
  });
  const auto place = std::find(order.begin(), order.end(), chosen);
  if (place >= order.begin() + static_cast<long>(best)) std::iter_swap(place, &order[best - 1]);
  Expected expected;
  expected.best.assign(order.begin(), order.begin() + static_cast<long>(best));
  for (size_t i = best; i < order.size(); ++i) expected.others.push_back(costs[order[i]]);
  std::sort(expected.best.begin(), expected.best.end());
  std::sort(expected.others.begin(), expected.others.end());
  return expected;
}

template <typename T>
std::vector<T> Sorted(std::span<const T> values) {
  std::vector<T> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

// Costs of many shapes: all equal, few distinct, all distinct, ascending, descending, outliers.
std::vector<double> SomeCosts(std::mt19937_64* random) {
  const auto draw = [&](uint64_t bound) { return (*random)() % bound; };
  std::vector<double> costs(kBest + 1 + draw(draw(2) == 0 ? 40 : 900));
  const uint64_t distinct = std::vector<uint64_t>{1, 2, 5, 100, 1'000'000}[draw(5)];
  for (double& cost : costs) cost = static_cast<double>(draw(distinct));
  switch (draw(4)) {
    case 0:
      std::sort(costs.begin(), costs.end());
      break;
    case 1:
      std::sort(costs.begin(), costs.end(), std::greater<>());
      break;
    case 2:
      costs[draw(costs.size())] = std::numeric_limits<double>::max();
      break;
    default:
      break;
  }
  return costs;
}

TEST(BestCandidatesTest, AreThoseThatSortingFinds) {
  std::mt19937_64 random(1);
  BestCandidates split;
  for (int i = 0; i < 3000; ++i) {
    SCOPED_TRACE(fmt::format("case {} of seed 1", i));
    const std::vector<double> costs = SomeCosts(&random);
    auto chosen = static_cast<uint32_t>(random() % costs.size());
    if (random() % 2 == 0) {
      const auto lowest = std::min_element(costs.begin(), costs.end());
      chosen = static_cast<uint32_t>(lowest - costs.begin());
    }
    split.Split(costs, kBest, chosen);
    const Expected expected = BySorting(costs, kBest, chosen);
    ASSERT_EQ(Sorted(split.best()), expected.best);
    ASSERT_EQ(Sorted(split.other_costs()), expected.others);
  }
}

TEST(BestCandidatesTest, SummaryOfNothingIsEmpty) {
  EXPECT_EQ(Summarise({}).count, 0u);
  EXPECT_EQ(Summarise({}).mean_cost_blocks, 0);
}

TEST(BestCandidatesTest, MeanOfHugeCostsIsFiniteAndBetweenLowestAndHighest) {
  const std::vector<double> costs(77, std::numeric_limits<double>::max());
  const CandidateSummary summary = Summarise(costs);
  EXPECT_EQ(summary.count, 77u);
  EXPECT_EQ(summary.min_cost_blocks, std::numeric_limits<double>::max());
  EXPECT_EQ(summary.mean_cost_blocks, std::numeric_limits<double>::max());
}

TEST(BestCandidatesTest, SummaryStatesExtremesAndMean) {
  const std::vector<double> costs = {4, 1, 7, 2, 6};
  const CandidateSummary summary = Summarise(costs);
  EXPECT_EQ(summary.count, 5u);
  EXPECT_EQ(summary.min_cost_blocks, 1);
  EXPECT_EQ(summary.max_cost_blocks, 7);
  EXPECT_NEAR(summary.mean_cost_blocks, 4, 1e-12);
}

}  // namespace
}  // namespace kvrouter
