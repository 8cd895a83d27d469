#ifndef KVROUTER_ADAPTERS_METRICS_DECISION_FIGURES_H_
#define KVROUTER_ADAPTERS_METRICS_DECISION_FIGURES_H_

#include <prometheus/counter.h>

#include <array>

#include "adapters/metrics/atomic_histogram.h"
#include "adapters/metrics/metric_families.h"
#include "kvrouter/decision.h"

namespace kvrouter {

// The sums behind the hit families, for pages that show ratios.
struct HitSums {
  uint64_t requests = 0;
  double hit_ratio_sum = 0;  // of the requests' ratios
  double overlap_blocks = 0;
  double isl_blocks = 0;
  double overlap_tokens = 0;
  double isl_tokens = 0;
  double best_overlap_tokens = 0;
};

// What decisions leave in the metrics.
//
// The hit rule, one for histogram and counters so that they cannot drift apart: a decision that
// booked, with isl_blocks > 0, adds its effective overlap (fractions kept) and its isl_blocks to
// the counters and observes their ratio once. The best overlap that was available and what the
// choice gave up of it (regret) follow the same rule, so that they can be set beside the overlap.
// Advice moves its own counter and nothing else.
//
// Thread safety: thread-safe.
class DecisionFigures {
 public:
  void Count(const RouteDecision& decision);
  HitSums Sums() const;

  void ShowHits(MetricFamilies* out) const;
  void ShowRegret(MetricFamilies* out) const;
  void ShowDecisions(MetricFamilies* out) const;
  void ShowShadow(MetricFamilies* out) const;

 private:
  AtomicHistogram hit_rate_{Metric::kHitRate};
  prometheus::Counter overlap_blocks_;
  prometheus::Counter isl_blocks_;
  prometheus::Counter overlap_tokens_;
  prometheus::Counter isl_tokens_;
  prometheus::Counter expected_engine_hit_tokens_;
  prometheus::Counter best_overlap_tokens_;
  prometheus::Counter regret_blocks_;
  std::array<prometheus::Counter, 2> non_max_selections_;  // by worker type
  std::array<AtomicHistogram, 2> blocks_lost_{
      AtomicHistogram(Metric::kOverlapBlocksLost),
      AtomicHistogram(Metric::kOverlapBlocksLost)};  // by worker type
  prometheus::Counter advice_;
  // Of decisions that booked and had something to choose.
  struct Shadow {
    prometheus::Counter same, other;
    prometheus::Counter live_overlap_blocks, shadow_overlap_blocks;
    prometheus::Counter live_regret_blocks, shadow_regret_blocks;
  };
  Shadow shadow_;
  std::array<prometheus::Counter, kDecisionReasonCount> decisions_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_METRICS_DECISION_FIGURES_H_
