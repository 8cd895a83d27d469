#include <string>

#include "adapters/metrics/process_figures.h"
#include "adapters/metrics/scraped_families.h"

namespace kvrouter {

void ShowProcess(bool ready, std::string_view version, MetricFamilies* out) {
  out->Show(Metric::kReady, ready ? 1.0 : 0.0);
  out->Open(Metric::kBuildInfo);
  out->Add(1.0, {{"version", std::string(version)}, {"compiler", __VERSION__}});
  const ProcessFigures process = ReadProcessFigures();
  out->Show(Metric::kProcessCpuSeconds, process.cpu_seconds);
  out->Show(Metric::kProcessResidentBytes, process.resident_bytes);
  out->Show(Metric::kProcessVirtualBytes, process.virtual_bytes);
  out->Show(Metric::kProcessStartTime, process.start_time_seconds);
  out->Show(Metric::kProcessOpenFds, process.open_fds);
  out->Show(Metric::kProcessMaxFds, process.max_fds);
  out->Show(Metric::kProcessThreads, process.threads);
}

}  // namespace kvrouter
