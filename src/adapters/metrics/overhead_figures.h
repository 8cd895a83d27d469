#ifndef KVROUTER_ADAPTERS_METRICS_OVERHEAD_FIGURES_H_
#define KVROUTER_ADAPTERS_METRICS_OVERHEAD_FIGURES_H_

#include <array>

#include "adapters/metrics/atomic_histogram.h"
#include "adapters/metrics/metric_families.h"
#include "kvrouter/phase_observer.h"

namespace kvrouter {

// Where decisions spend their time, one histogram per step and one for the whole. A step that a
// decision skipped is not observed: hashes that came with the request were not computed in no time.
//
// Thread safety: thread-safe.
class OverheadFigures {
 public:
  void Observe(const PhaseTimes& times);
  void Show(MetricFamilies* out) const;

 private:
  std::array<AtomicHistogram, kDecisionPhaseCount> phases_{
      AtomicHistogram(Metric::kOverheadBlockHashing),
      AtomicHistogram(Metric::kOverheadSequenceHashing),
      AtomicHistogram(Metric::kOverheadFindMatches), AtomicHistogram(Metric::kOverheadScheduling)};
  AtomicHistogram total_{Metric::kOverheadTotal};
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_METRICS_OVERHEAD_FIGURES_H_
