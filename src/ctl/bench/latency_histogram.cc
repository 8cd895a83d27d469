#include "ctl/bench/latency_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace kvrouter::ctl {

size_t LatencyHistogram::BucketOf(uint64_t ns) {
  if (ns < 2 * kSubBuckets) return static_cast<size_t>(ns);
  const auto doublings = static_cast<size_t>(std::bit_width(ns)) - 8;  // >= 1
  return kSubBuckets * doublings + static_cast<size_t>(ns >> doublings);
}

uint64_t LatencyHistogram::EndOf(size_t bucket) {
  if (bucket < 2 * kSubBuckets) return bucket;
  const size_t doublings = bucket / kSubBuckets - 1;
  const uint64_t first = uint64_t{bucket - kSubBuckets * doublings} << doublings;
  return first + (uint64_t{1} << doublings) - 1;
}

void LatencyHistogram::Add(std::chrono::nanoseconds latency) {
  const int64_t ns = std::max<int64_t>(latency.count(), 0);
  ++counts_[BucketOf(static_cast<uint64_t>(ns))];
  ++count_;
  max_ns_ = std::max(max_ns_, ns);
}

void LatencyHistogram::Merge(const LatencyHistogram& other) {
  for (size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  max_ns_ = std::max(max_ns_, other.max_ns_);
}

std::chrono::nanoseconds LatencyHistogram::Quantile(double fraction) const {
  const auto wanted = std::max<uint64_t>(
      1, static_cast<uint64_t>(std::ceil(fraction * static_cast<double>(count_))));
  uint64_t seen = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    seen += counts_[i];
    if (seen >= wanted) {
      return std::chrono::nanoseconds(std::min(static_cast<int64_t>(EndOf(i)), max_ns_));
    }
  }
  return max();
}

}  // namespace kvrouter::ctl
