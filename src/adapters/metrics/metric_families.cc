#include "adapters/metrics/metric_families.h"

#include <fmt/format.h>
#include <prometheus/text_serializer.h>

#include <iterator>
#include <sstream>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"

namespace kvrouter {
namespace {

prometheus::MetricType TypeOf(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return prometheus::MetricType::Counter;
    case MetricType::kGauge:
      return prometheus::MetricType::Gauge;
    case MetricType::kHistogram:
      return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

}  // namespace

std::string ValidUtf8(std::string text) { return ValidUtf8(text, "?"); }

MetricLabels WorkerLabels(const TargetLoad& load, const char* worker_label_name) {
  return {{worker_label_name, fmt::format("{}", static_cast<uint64_t>(load.target.worker))},
          {"dp_rank", fmt::format("{}", load.target.dp_rank)},
          {"worker_type", std::string(WorkerTypeLabel(load.role))}};
}

void MetricFamilies::Open(const MetricInfo& info) {
  switch (info.constant) {
    case ConstantLabels::kNone:
      constant_of_open_ = nullptr;
      break;
    case ConstantLabels::kComponent:
      constant_of_open_ = &constant_->component;
      break;
    case ConstantLabels::kRouter:
      constant_of_open_ = &constant_->router;
      break;
    case ConstantLabels::kRouterIdOnly:
      constant_of_open_ = &constant_->router_id;
      break;
  }
  families_.push_back({.name = std::string(info.name),
                       .help = HelpText(info),
                       .type = TypeOf(info.type),
                       .metric = {}});
}

void MetricFamilies::Add(double value, MetricLabels labels) {
  KVR_CHECK(!families_.empty(), "no family open");
  prometheus::ClientMetric series;
  if (families_.back().type == prometheus::MetricType::Counter) {
    series.counter.value = value;
  } else {
    series.gauge.value = value;
  }
  AddSeries(std::move(series), std::move(labels));
}

void MetricFamilies::AddHistogram(prometheus::ClientMetric collected, MetricLabels labels) {
  KVR_CHECK(!families_.empty() && families_.back().type == prometheus::MetricType::Histogram,
            "no histogram family open");
  AddSeries(std::move(collected), std::move(labels));
}

void MetricFamilies::AddSeries(prometheus::ClientMetric series, MetricLabels labels) {
  for (auto& label : labels) label.value = ValidUtf8(std::move(label.value));
  if (constant_of_open_ != nullptr) series.label = *constant_of_open_;
  series.label.insert(series.label.end(), std::make_move_iterator(labels.begin()),
                      std::make_move_iterator(labels.end()));
  families_.back().metric.push_back(std::move(series));
}

std::string MetricFamilies::Text() const {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, families_);
  return std::move(out).str();
}

}  // namespace kvrouter
