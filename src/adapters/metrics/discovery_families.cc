#include <string>

#include "adapters/metrics/discovery_figures.h"
#include "adapters/metrics/scraped_families.h"

namespace kvrouter {

void ShowDiscovery(const DiscoveryFigures& discovery, MetricFamilies* out) {
  const auto show = [&](Metric metric, uint64_t (*figure)(const WorkerSourceFigures&)) {
    out->Open(metric);
    for (const WorkerSourceFigures& source : discovery.sources)
      out->Add(figure(source), {{"source", std::string(source.name)}});
  };
  const auto show_by = [&](Metric metric, const char* label, auto WorkerSourceFigures::*counts) {
    out->Open(metric);
    for (const WorkerSourceFigures& source : discovery.sources) {
      for (const auto& [value, count] : source.*counts)
        out->Add(count, {{"source", std::string(source.name)}, {label, std::string(value)}});
    }
  };
  show(Metric::kDiscoveryCurrent,
       [](const WorkerSourceFigures& source) { return uint64_t{source.current}; });
  show_by(Metric::kDiscoveryWorkers, "state", &WorkerSourceFigures::workers);
  show_by(Metric::kDiscoveryUpdates, "outcome", &WorkerSourceFigures::attempts);
  show(Metric::kDiscoveryConflicts,
       [](const WorkerSourceFigures& source) { return source.conflicts; });
  show(Metric::kDiscoveryRefusals,
       [](const WorkerSourceFigures& source) { return source.refusals; });
  out->Show(Metric::kDiscoveryLogLinesDropped, discovery.log_lines_dropped);
  out->Open(Metric::kWorkerSign);
  for (const auto& [id, signs] : discovery.signs) {
    const std::string worker_id = std::to_string(static_cast<uint64_t>(id));
    for (size_t i = 0; i < kWorkerSignCount; ++i) {
      out->Add(uint64_t{signs[i]},
               {{"worker_id", worker_id},
                {"reason", std::string(WorkerSignName(static_cast<WorkerSign>(i)))}});
    }
  }
}

}  // namespace kvrouter
