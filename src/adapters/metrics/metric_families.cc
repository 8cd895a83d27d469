#include "adapters/metrics/metric_families.h"

#include <fmt/format.h>
#include <prometheus/text_serializer.h>

#include <iterator>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace kvrouter {
namespace {

// Length of the UTF-8 sequence at `at`, 0 if there is none (overlong, surrogate, cut short, stray
// byte).
size_t SequenceLength(std::string_view text, size_t at) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                        : (lead & 0xF0) == 0xE0        ? 3
                        : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                       : 0;
  if (length == 0 || text.size() - at < length) return 0;
  for (size_t i = at + 1; i < at + length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned char second = byte(at + 1);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool surrogate = lead == 0xED && second >= 0xA0;
  const bool too_large = lead == 0xF4 && second >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

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

std::string ValidUtf8(std::string text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = SequenceLength(text, at);
    if (length == 0) text[at] = '?';
    at += length == 0 ? 1 : length;
  }
  return text;
}

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
