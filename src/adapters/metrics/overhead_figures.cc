#include "adapters/metrics/overhead_figures.h"

namespace kvrouter {
namespace {

double Milliseconds(std::chrono::nanoseconds time) {
  return static_cast<double>(time.count()) / 1e6;
}

// By DecisionPhase.
constexpr std::array<Metric, kDecisionPhaseCount> kPhaseMetrics = {
    Metric::kOverheadBlockHashing, Metric::kOverheadSequenceHashing, Metric::kOverheadFindMatches,
    Metric::kOverheadScheduling};

}  // namespace

void OverheadFigures::Observe(const PhaseTimes& times) {
  for (size_t i = 0; i < kDecisionPhaseCount; ++i) {
    if (times.phases[i]) phases_[i].Observe(Milliseconds(*times.phases[i]));
  }
  total_.Observe(Milliseconds(times.total));
}

void OverheadFigures::Show(MetricFamilies* out) const {
  for (size_t i = 0; i < kDecisionPhaseCount; ++i) {
    out->Open(kPhaseMetrics[i]);
    out->AddHistogram(phases_[i].Collect());
  }
  out->Open(Metric::kOverheadTotal);
  out->AddHistogram(total_.Collect());
}

}  // namespace kvrouter
