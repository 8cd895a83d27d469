#ifndef KVROUTER_CTL_BENCH_LATENCY_HISTOGRAM_H_
#define KVROUTER_CTL_BENCH_LATENCY_HISTOGRAM_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace kvrouter::ctl {

// Durations in buckets that are at most 1/128 of their value wide, so that a long run costs no more
// memory than a short one. The maximum is exact. Thread-compatible.
class LatencyHistogram {
 public:
  // Less than nothing counts as nothing.
  void Add(std::chrono::nanoseconds latency);
  void Merge(const LatencyHistogram& other);

  uint64_t count() const { return count_; }
  std::chrono::nanoseconds max() const { return std::chrono::nanoseconds(max_ns_); }
  // The least latency that `fraction` of all did not exceed, rounded up to its bucket's end. 0
  // without any. REQUIRES: 0 <= fraction <= 1.
  std::chrono::nanoseconds Quantile(double fraction) const;

 private:
  // Values below 256 have a bucket each; then each doubling has 128.
  static constexpr size_t kSubBuckets = 128;
  static constexpr size_t kBuckets = 2 * kSubBuckets + 56 * kSubBuckets;

  static size_t BucketOf(uint64_t ns);
  static uint64_t EndOf(size_t bucket);

  std::array<uint64_t, kBuckets> counts_{};
  uint64_t count_ = 0;
  int64_t max_ns_ = 0;
};

}  // namespace kvrouter::ctl

#endif  // KVROUTER_CTL_BENCH_LATENCY_HISTOGRAM_H_
