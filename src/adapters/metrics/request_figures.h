#ifndef KVROUTER_ADAPTERS_METRICS_REQUEST_FIGURES_H_
#define KVROUTER_ADAPTERS_METRICS_REQUEST_FIGURES_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "adapters/metrics/atomic_histogram.h"
#include "adapters/metrics/metric_families.h"
#include "base/mutex.h"
#include "kvrouter/decision.h"
#include "kvrouter/router.h"
#include "service/request_observer.h"

namespace kvrouter {

// What callers' reports on booked requests leave in the metrics: latencies and lengths over all
// workers, and the latest figure of each.
//
// The latest figures are kept by target and shown while that life of the worker is registered. They
// are tidied at the scrape; between two scrapes at most kMaxTargets are kept, and what more targets
// report is not noted.
//
// Thread safety: thread-safe.
class RequestFigures {
 public:
  static constexpr size_t kMaxTargets = 65'536;

  void Book(const RouteDecision& decision);
  void FirstToken(const ServedBy& by, std::chrono::nanoseconds since_arrival);
  void OutputBlock(const ServedBy& by, std::chrono::nanoseconds average_inter_token);
  void End(uint64_t output_tokens);

  void ShowRequests(MetricFamilies* out) const;
  // Shows the latest figures of the targets in `partitions` and forgets all others.
  void ShowLatest(const std::vector<PartitionSnapshot>& partitions, MetricFamilies* out);

 private:
  struct Latest {
    Incarnation incarnation{};
    std::optional<double> first_token_seconds = {};
    std::optional<double> input_tokens = {};
    std::optional<double> inter_token_seconds = {};
  };

  void Note(const ServedBy& by, std::optional<double> Latest::*figure, double value);

  AtomicHistogram first_token_seconds_{Metric::kTimeToFirstToken};
  AtomicHistogram inter_token_seconds_{Metric::kInterTokenLatency};
  AtomicHistogram input_tokens_{Metric::kInputSequenceTokens};
  AtomicHistogram output_tokens_{Metric::kOutputSequenceTokens};
  Mutex mu_;
  std::map<Target, Latest> latest_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_METRICS_REQUEST_FIGURES_H_
