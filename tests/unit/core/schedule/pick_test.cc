#include "core/schedule/pick.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace kvrouter {
namespace {

constexpr int kDraws = 40'000;

// Six standard deviations of a binomial count: a wrong probability fails, the fixed seeds below
// never do by chance.
double Tolerance(double probability) {
  return 6 * std::sqrt(kDraws * probability * (1 - probability)) + 1;
}

TEST(PickLowestCostTest, StrictlyLowestWinsWithoutADraw) {
  UniformSource random(1);
  const std::array costs = {3.0, 1.0, 2.0};
  const Pick pick = PickLowestCost(costs, random);
  EXPECT_EQ(pick.index, 1u);
  EXPECT_EQ(pick.tie_size, 1u);
  EXPECT_EQ(pick.draw, 0);
  UniformSource untouched(1);
  EXPECT_EQ(random.Next(), untouched.Next()) << "nothing was drawn";
}

TEST(PickLowestCostTest, TiesAreDrawnUniformly) {
  UniformSource random(2);
  const std::array costs = {5.0, 1.0, 1.0, 7.0, 1.0, 1.0 + 1e-15};
  std::array<int, 6> counts{};
  for (int i = 0; i < kDraws; ++i) {
    const Pick pick = PickLowestCost(costs, random);
    ASSERT_EQ(pick.tie_size, 3u);
    ASSERT_GE(pick.draw, 0);
    ASSERT_LT(pick.draw, 1);
    ++counts[pick.index];
  }
  for (const size_t tied : {1u, 2u, 4u}) {
    EXPECT_NEAR(counts[tied], kDraws / 3.0, Tolerance(1.0 / 3)) << tied;
  }
  EXPECT_EQ(counts[0] + counts[3] + counts[5], 0) << "equal means exactly equal";
}

TEST(PickLowestCostTest, TheDrawExplainsThePick) {
  UniformSource random(3);
  const std::array costs = {1.0, 1.0, 1.0, 1.0};
  for (int i = 0; i < 1000; ++i) {
    const Pick pick = PickLowestCost(costs, random);
    ASSERT_EQ(pick.index, static_cast<size_t>(pick.draw * 4));
  }
}

TEST(PickBySoftmaxTest, WorkedCheckAAtTemperatureOne) {
  UniformSource random(4);
  const std::array costs = {6.0, 8.0};
  int first = 0;
  for (int i = 0; i < kDraws; ++i) first += PickBySoftmax(costs, 1, random).index == 0;
  EXPECT_NEAR(first, kDraws * 0.7310586, Tolerance(0.731));
}

TEST(PickBySoftmaxTest, FrequenciesFollowTheNormalisedCosts) {
  const std::array costs = {10.0, 30.0, 20.0, 10.0};
  for (const double temperature : {0.2, 1.0, 5.0}) {
    SCOPED_TRACE(temperature);
    const std::array<double, 4> normalised = {0, 1, 0.5, 0};
    double total = 0;
    for (const double n : normalised) total += std::exp(-n / temperature);
    std::array<int, 4> counts{};
    UniformSource random(5);
    for (int i = 0; i < kDraws; ++i) ++counts[PickBySoftmax(costs, temperature, random).index];
    for (size_t i = 0; i < costs.size(); ++i) {
      const double p = std::exp(-normalised[i] / temperature) / total;
      EXPECT_NEAR(counts[i], kDraws * p, Tolerance(p)) << i;
    }
  }
}

TEST(PickBySoftmaxTest, EqualCostsAreUniform) {
  UniformSource random(6);
  const std::array costs = {4.0, 4.0, 4.0, 4.0};
  std::array<int, 4> counts{};
  for (int i = 0; i < kDraws; ++i) ++counts[PickBySoftmax(costs, 0.5, random).index];
  for (const int count : counts) EXPECT_NEAR(count, kDraws / 4.0, Tolerance(0.25));
}

TEST(PickBySoftmaxTest, ATinyTemperatureIsGreedy) {
  UniformSource random(7);
  const std::array costs = {2.0, 1.0, 2.0};
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(PickBySoftmax(costs, std::numeric_limits<double>::denorm_min(), random).index, 1u);
  }
}

TEST(PickBySoftmaxTest, ARangeBeyondDoubleIsScaledFirst) {
  UniformSource random(8);
  const double huge = std::numeric_limits<double>::max();
  const std::array costs = {huge, -huge};
  int second = 0;
  for (int i = 0; i < kDraws; ++i) second += PickBySoftmax(costs, 1, random).index == 1;
  EXPECT_NEAR(second, kDraws * 0.7310586, Tolerance(0.731));
}

TEST(PickBySoftmaxTest, OneCandidateIsPicked) {
  UniformSource random(9);
  EXPECT_EQ(PickBySoftmax(std::vector{3.0}, 1, random).index, 0u);
}

TEST(UniformSourceTest, SameSeedSameNumbersInTheUnitInterval) {
  UniformSource a(42);
  UniformSource b(42);
  UniformSource c(43);
  double sum = 0;
  bool differs = false;
  for (int i = 0; i < 10'000; ++i) {
    const double u = a.Next();
    ASSERT_EQ(u, b.Next());
    differs |= u != c.Next();
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
  }
  EXPECT_TRUE(differs);
  EXPECT_NEAR(sum / 10'000, 0.5, 0.02);
}

}  // namespace
}  // namespace kvrouter
