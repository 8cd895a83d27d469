#include "core/schedule/pick.h"

#include <algorithm>
#include <cmath>

namespace kvrouter {
namespace {

// Costs mapped to [0, 1].
class MinMaxScale {
 public:
  explicit MinMaxScale(std::span<const double> costs) {
    const auto [min, max] = std::minmax_element(costs.begin(), costs.end());
    min_ = *min;
    range_ = *max - *min;
    if (std::isinf(range_)) {
      divisor_ = std::max(std::abs(*min), std::abs(*max));
      min_ /= divisor_;
      range_ = *max / divisor_ - min_;
    }
  }
  double operator()(double cost) const {
    return range_ > 0 ? (cost / divisor_ - min_) / range_ : 0;
  }

 private:
  double divisor_ = 1;
  double min_ = 0;
  double range_ = 0;
};

}  // namespace

Pick PickLowestCost(std::span<const double> costs, UniformSource& random) {
  Pick pick;
  for (size_t i = 1; i < costs.size(); ++i) {
    if (costs[i] < costs[pick.index]) {
      pick = {.index = i, .tie_size = 1};
    } else if (costs[i] == costs[pick.index]) {
      ++pick.tie_size;
    }
  }
  if (pick.tie_size == 1) return pick;
  pick.draw = random.Next();
  auto skip = std::min(static_cast<uint32_t>(pick.draw * pick.tie_size), pick.tie_size - 1);
  const double lowest = costs[pick.index];
  while (skip > 0) {
    ++pick.index;
    if (costs[pick.index] == lowest) --skip;
  }
  return pick;
}

Pick PickBySoftmax(std::span<const double> costs, double temperature, UniformSource& random) {
  const MinMaxScale scale(costs);
  // The normalised cost is divided by the temperature, not the range multiplied by it: the product
  // could underflow.
  const auto weight = [&](double cost) { return std::exp(-scale(cost) / temperature); };
  double total = 0;
  for (const double cost : costs) total += weight(cost);
  Pick pick;
  pick.draw = random.Next();
  double cumulative = 0;
  for (pick.index = 0; pick.index + 1 < costs.size(); ++pick.index) {
    cumulative += weight(costs[pick.index]) / total;
    if (pick.draw <= cumulative) break;
  }
  return pick;
}

}  // namespace kvrouter
