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

template <typename Draw>
Pick LowestCost(std::span<const double> costs, const Draw& draw) {
  Pick pick;
  for (size_t i = 1; i < costs.size(); ++i) {
    if (costs[i] < costs[pick.index]) {
      pick = {.index = i, .tie_size = 1};
    } else if (costs[i] == costs[pick.index]) {
      ++pick.tie_size;
    }
  }
  if (pick.tie_size == 1) return pick;
  pick.draw = draw();
  auto skip = std::min(static_cast<uint32_t>(pick.draw * pick.tie_size), pick.tie_size - 1);
  const double lowest = costs[pick.index];
  while (skip > 0) {
    ++pick.index;
    if (costs[pick.index] == lowest) --skip;
  }
  return pick;
}

template <typename Draw>
Pick BySoftmax(std::span<const double> costs, double temperature, const Draw& draw) {
  const MinMaxScale scale(costs);
  // The normalised cost is divided by the temperature, not the range multiplied by it: the product
  // could underflow.
  const auto weight = [&](double cost) { return std::exp(-scale(cost) / temperature); };
  double total = 0;
  for (const double cost : costs) total += weight(cost);
  Pick pick;
  pick.draw = draw();
  double cumulative = 0;
  for (pick.index = 0; pick.index + 1 < costs.size(); ++pick.index) {
    cumulative += weight(costs[pick.index]) / total;
    if (pick.draw <= cumulative) break;
  }
  return pick;
}

}  // namespace

Pick PickLowestCost(std::span<const double> costs, UniformSource& random) {
  return LowestCost(costs, [&random] { return random.Next(); });
}

Pick PickLowestCost(std::span<const double> costs, double draw) {
  return LowestCost(costs, [draw] { return draw; });
}

Pick PickBySoftmax(std::span<const double> costs, double temperature, UniformSource& random) {
  return BySoftmax(costs, temperature, [&random] { return random.Next(); });
}

Pick PickBySoftmax(std::span<const double> costs, double temperature, double draw) {
  return BySoftmax(costs, temperature, [draw] { return draw; });
}

double DrawOf(uint64_t seed) {  // splitmix64
  uint64_t bits = seed + 0x9e3779b97f4a7c15;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return static_cast<double>((bits ^ (bits >> 31)) >> 11) * 0x1p-53;
}

}  // namespace kvrouter
