#ifndef KVROUTER_CTL_METRICS_REPORT_H_
#define KVROUTER_CTL_METRICS_REPORT_H_

#include <string>
#include <string_view>
#include <vector>

#include "client/exposition.h"

namespace kvrouter::ctl {

// What `kvrouterctl metrics` says about a scrape of the daemon: the hit rates with their weightings
// side by side, load per target, feeds, and the remaining figures. Pure.
std::string MetricsText(const std::vector<client::Sample>& samples);
std::string MetricsJson(const std::vector<client::Sample>& samples);

// All series whose name begins with `prefix`, buckets included.
std::string SeriesText(const std::vector<client::Sample>& samples, std::string_view prefix);
std::string SeriesJson(const std::vector<client::Sample>& samples, std::string_view prefix);

}  // namespace kvrouter::ctl

#endif  // KVROUTER_CTL_METRICS_REPORT_H_
