#include "adapters/metrics/atomic_histogram.h"

#include <algorithm>
#include <limits>

namespace kvrouter {

void AtomicHistogram::Observe(double value) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  counts_[static_cast<size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

prometheus::ClientMetric AtomicHistogram::Collect() const {
  prometheus::ClientMetric metric;
  prometheus::ClientMetric::Histogram& histogram = metric.histogram;
  for (size_t i = 0; i < counts_.size(); ++i) {
    histogram.sample_count += counts_[i].load(std::memory_order_relaxed);
    histogram.bucket.push_back(
        {.cumulative_count = histogram.sample_count,
         .upper_bound = i < bounds_.size() ? bounds_[i] : std::numeric_limits<double>::infinity()});
  }
  histogram.sample_sum = sum_.load(std::memory_order_relaxed);
  return metric;
}

}  // namespace kvrouter
