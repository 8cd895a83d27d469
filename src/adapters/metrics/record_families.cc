#include <string>

#include "adapters/metrics/record_figures.h"
#include "adapters/metrics/scraped_families.h"

namespace kvrouter {

void ShowRecord(const RecordFigures& figures, MetricFamilies* out) {
  const auto show_by = [&](Metric metric, const char* label, const RecordFigures::Counts& counts) {
    out->Open(metric);
    for (const auto& [value, count] : counts) out->Add(count, {{label, std::string(value)}});
  };
  out->Show(Metric::kDecisionLogRecords, figures.log_records);
  out->Show(Metric::kDecisionLogBytes, figures.log_bytes);
  out->Show(Metric::kDecisionLogIncomplete, figures.log_incomplete);
  show_by(Metric::kDecisionLogDropped, "reason", figures.log_dropped);
  out->Show(Metric::kDecisionLogQueuedBytes, figures.log_queued_bytes);
  out->Show(Metric::kDecisionLogRotations, figures.log_rotations);
  out->Show(Metric::kConfigGeneration, figures.config_generation);
  show_by(Metric::kConfigReloads, "result", figures.reloads);
  out->Show(Metric::kConfigReloadFailed, uint64_t{figures.reload_failed});
}

}  // namespace kvrouter
