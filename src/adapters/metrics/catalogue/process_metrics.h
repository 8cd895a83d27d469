#ifndef KVROUTER_ADAPTERS_METRICS_CATALOGUE_PROCESS_METRICS_H_
#define KVROUTER_ADAPTERS_METRICS_CATALOGUE_PROCESS_METRICS_H_

#include <array>

#include "adapters/metrics/catalogue/row_words.h"

namespace kvrouter::catalogue {

// The process itself.

// clang-format off
inline constexpr auto kProcessMetrics = std::to_array<MetricInfo>({
{.metric = Metric::kReady, .name = "kvrouter_ready", .type = kGauge, .unit = "flag",
 .weighting = kLevel, .origin = kOurs,
 .meaning = "1 when /ready answers 200.",
 .moves = "With /ready."},
{.metric = Metric::kBuildInfo, .name = "kvrouter_build_info", .type = kGauge,
 .labels = "version, compiler", .unit = "flag", .weighting = kLevel, .origin = kOurs,
 .meaning = "Always 1; what is running.",
 .moves = "Never."},
{.metric = Metric::kProcessCpuSeconds, .name = "process_cpu_seconds_total", .type = kCounter,
 .unit = "seconds", .weighting = kEach, .origin = kPrometheus,
 .meaning = "User and system CPU time.",
 .moves = "While the process works."},
{.metric = Metric::kProcessResidentBytes, .name = "process_resident_memory_bytes",
 .type = kGauge, .unit = "bytes", .weighting = kLevel, .origin = kPrometheus,
 .meaning = "Resident memory.",
 .moves = "Read from the system at the scrape, like the rest of this group."},
{.metric = Metric::kProcessVirtualBytes, .name = "process_virtual_memory_bytes", .type = kGauge,
 .unit = "bytes", .weighting = kLevel, .origin = kPrometheus,
 .meaning = "Virtual memory.",
 .moves = "Read at the scrape."},
{.metric = Metric::kProcessStartTime, .name = "process_start_time_seconds", .type = kGauge,
 .unit = "seconds", .weighting = kLevel, .origin = kPrometheus,
 .meaning = "Start of the process since the Unix epoch.",
 .moves = "Never."},
{.metric = Metric::kProcessOpenFds, .name = "process_open_fds", .type = kGauge, .unit = "files",
 .weighting = kLevel, .origin = kPrometheus,
 .meaning = "Open file descriptors.",
 .moves = "Read at the scrape."},
{.metric = Metric::kProcessMaxFds, .name = "process_max_fds", .type = kGauge, .unit = "files",
 .weighting = kLevel, .origin = kPrometheus,
 .meaning = "Limit of open file descriptors.",
 .moves = "Read at the scrape."},
{.metric = Metric::kProcessThreads, .name = "process_threads", .type = kGauge, .unit = "threads",
 .weighting = kLevel, .origin = kPrometheus,
 .meaning = "Threads of the process.",
 .moves = "Read at the scrape."},
});
// clang-format on

}  // namespace kvrouter::catalogue

#endif  // KVROUTER_ADAPTERS_METRICS_CATALOGUE_PROCESS_METRICS_H_
