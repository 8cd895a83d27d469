#ifndef KVROUTER_ADAPTERS_METRICS_METRIC_FAMILIES_H_
#define KVROUTER_ADAPTERS_METRICS_METRIC_FAMILIES_H_

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvrouter {

using MetricLabels = std::vector<prometheus::ClientMetric::Label>;

// The families of one scrape, in the order in which they were opened. A family without a series
// still shows its HELP and TYPE lines, so that a dashboard can tell "nothing yet" from "no such
// metric". Thread-compatible.
class MetricFamilies {
 public:
  // Opens a family; Add puts series into the one opened last. Names are opened once per scrape.
  void Counter(std::string_view name, std::string_view help);
  void Gauge(std::string_view name, std::string_view help);
  void Histogram(std::string_view name, std::string_view help);

  void Add(double value, MetricLabels labels = {});
  void Add(uint64_t value, MetricLabels labels = {}) {
    Add(static_cast<double>(value), std::move(labels));
  }
  void AddHistogram(prometheus::ClientMetric collected, MetricLabels labels);

  // Prometheus text exposition format 0.0.4.
  std::string Text() const;

 private:
  void Open(std::string_view name, std::string_view help, prometheus::MetricType type);

  std::vector<prometheus::MetricFamily> families_;
};

// The text with every byte that is not part of valid UTF-8 replaced by '?': one bad label value,
// such as a model name from outside, would make Prometheus refuse the whole scrape.
std::string ValidUtf8(std::string text);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_METRICS_METRIC_FAMILIES_H_
