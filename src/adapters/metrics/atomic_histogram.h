#ifndef KVROUTER_ADAPTERS_METRICS_ATOMIC_HISTOGRAM_H_
#define KVROUTER_ADAPTERS_METRICS_ATOMIC_HISTOGRAM_H_

#include <prometheus/client_metric.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "adapters/metrics/metric_catalogue.h"

namespace kvrouter {

// A histogram for the path of every decision: an observation is a search among the bounds and two
// relaxed atomic additions, where prometheus-cpp's own takes a mutex.
//
// Thread safety: thread-safe. A scrape that meets an observation half done may see its bucket
// before its sum.
class AtomicHistogram {
 public:
  // Bounds ascend; values equal to one belong to its bucket. They outlive the histogram.
  explicit AtomicHistogram(std::span<const double> bounds)
      : bounds_(bounds), counts_(bounds.size() + 1) {}
  explicit AtomicHistogram(Metric metric) : AtomicHistogram(InfoOf(metric).bounds) {}

  void Observe(double value);
  prometheus::ClientMetric Collect() const;

 private:
  const std::span<const double> bounds_;
  std::vector<std::atomic<uint64_t>> counts_;  // by bound, not cumulative; last: beyond all
  std::atomic<double> sum_{0};
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_METRICS_ATOMIC_HISTOGRAM_H_
