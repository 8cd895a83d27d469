#ifndef KVROUTER_ADAPTERS_METRICS_METRIC_BUCKETS_H_
#define KVROUTER_ADAPTERS_METRICS_METRIC_BUCKETS_H_

#include <array>
#include <cstddef>

namespace kvrouter {

// Bucket bounds of Dynamo's histograms, so that a dashboard's quantiles mean the same here.

namespace internal {

constexpr std::array<double, 21> TwentiethsToOne() {
  std::array<double, 21> bounds{};
  for (size_t i = 0; i < bounds.size(); ++i) bounds[i] = static_cast<double>(i) / 20.0;
  return bounds;
}

template <size_t kCount>
constexpr std::array<double, kCount> Geometric(double first, double factor) {
  std::array<double, kCount> bounds{};
  double bound = first;
  for (size_t i = 0; i < kCount; ++i, bound *= factor) bounds[i] = bound;
  return bounds;
}

}  // namespace internal

inline constexpr auto kRatioBounds = internal::TwentiethsToOne();            // 0, 0.05 … 1
inline constexpr auto kBlocksLostBounds = internal::Geometric<16>(0.25, 2);  // 0.25 … 8192

inline constexpr auto kComputeMsBounds = internal::Geometric<15>(0.001, 2);  // … 16.384
inline constexpr auto kAsyncMsBounds = internal::Geometric<17>(0.01, 3);     // … 430467.21
inline constexpr std::array<double, 12> kInputTokensBounds = {
    0, 100, 210, 430, 870, 1800, 3600, 7400, 15000, 31000, 63000, 130000};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_METRICS_METRIC_BUCKETS_H_
