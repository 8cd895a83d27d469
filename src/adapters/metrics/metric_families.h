#ifndef KVROUTER_ADAPTERS_METRICS_METRIC_FAMILIES_H_
#define KVROUTER_ADAPTERS_METRICS_METRIC_FAMILIES_H_

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "adapters/metrics/metric_catalogue.h"
#include "kvrouter/router.h"

namespace kvrouter {

using MetricLabels = std::vector<prometheus::ClientMetric::Label>;

// The families of one scrape, in the order in which they were opened. A family without a series
// still shows its HELP and TYPE lines, so that a dashboard can tell "nothing yet" from "no such
// metric". Thread-compatible.
class MetricFamilies {
 public:
  // What ConstantLabels stands for in this process; must outlive the object.
  struct LabelSets {
    MetricLabels component;  // dynamo_namespace, dynamo_component, dynamo_endpoint
    MetricLabels router;     // these and router_id
    MetricLabels router_id;
  };
  explicit MetricFamilies(const LabelSets* constant) : constant_(constant) {}

  // Opens a family; Add puts series into the one opened last. Each is opened once per scrape.
  void Open(Metric metric) { Open(InfoOf(metric)); }
  void Open(const MetricInfo& info);

  // `labels` beside the constant ones, which are added here.
  void Add(double value, MetricLabels labels = {});
  void Add(uint64_t value, MetricLabels labels = {}) {
    Add(static_cast<double>(value), std::move(labels));
  }
  // Instead of Add for a histogram.
  void AddHistogram(prometheus::ClientMetric collected, MetricLabels labels = {});

  // For a family of one series.
  void Show(Metric metric, double value) {
    Open(metric);
    Add(value);
  }
  void Show(Metric metric, uint64_t value) { Show(metric, static_cast<double>(value)); }

  // Prometheus text exposition format 0.0.4.
  std::string Text() const;

 private:
  void AddSeries(prometheus::ClientMetric series, MetricLabels labels);

  const LabelSets* constant_;
  const MetricLabels* constant_of_open_ = nullptr;  // null: none
  std::vector<prometheus::MetricFamily> families_;
};

// Those of a rank of a worker; Dynamo has two names for the first.
MetricLabels WorkerLabels(const TargetLoad& load, const char* worker_label_name);

// The text with every byte that is not part of valid UTF-8 replaced by '?': one bad label value,
// such as a model name from outside, would make Prometheus refuse the whole scrape.
std::string ValidUtf8(std::string text);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_METRICS_METRIC_FAMILIES_H_
