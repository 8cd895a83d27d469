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
inline constexpr std::array<double, 10> kOutputTokensBounds = {0,    100,  210,  430,   880,
                                                               1800, 3700, 7600, 16000, 32000};
inline constexpr std::array<double, 18> kFirstTokenSecondsBounds = {
    0, 0.0022, 0.0047, 0.01, 0.022, 0.047, 0.1, 0.22, 0.47, 1, 2.2, 4.7, 10, 22, 48, 100, 220, 480};
inline constexpr std::array<double, 13> kInterTokenSecondsBounds = {
    0, 0.0019, 0.0035, 0.0067, 0.013, 0.024, 0.045, 0.084, 0.16, 0.3, 0.56, 1.1, 2};

// Ours: what an engine found in its cache beside what was predicted, as a share of the prompt.
inline constexpr std::array<double, 17> kCalibrationBounds = {
    -0.5,  -0.2,  -0.1, -0.05, -0.02, -0.01, -0.005, -0.001, 0,
    0.001, 0.005, 0.01, 0.02,  0.05,  0.1,   0.2,    0.5};
// 0.5 ms … 8 s.
inline constexpr auto kTokenizeSecondsBounds = internal::Geometric<15>(0.0005, 2);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_METRICS_METRIC_BUCKETS_H_
