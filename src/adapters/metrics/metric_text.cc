// What the catalogue says of itself.
#include <fmt/format.h>

#include "adapters/metrics/metric_catalogue.h"

namespace kvrouter {
namespace {

std::string_view ConstantLabelsName(ConstantLabels labels) {
  switch (labels) {
    case ConstantLabels::kNone:
      return "";
    case ConstantLabels::kComponent:
      return "C";
    case ConstantLabels::kRouter:
      return "R";
    case ConstantLabels::kRouterIdOnly:
      return "I";
  }
  return "";
}

std::string LabelsColumn(const MetricInfo& info) {
  const std::string_view constant = ConstantLabelsName(info.constant);
  if (constant.empty() || info.labels.empty()) return fmt::format("{}{}", constant, info.labels);
  return fmt::format("{}, {}", constant, info.labels);
}

}  // namespace

std::string_view MetricTypeName(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return "counter";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kHistogram:
      return "histogram";
  }
  return "";
}

std::string_view WeightingName(Weighting weighting) {
  switch (weighting) {
    case Weighting::kRequest:
      return "request-weighted";
    case Weighting::kBlock:
      return "block-weighted";
    case Weighting::kToken:
      return "token-weighted";
    case Weighting::kEach:
      return "each counts one";
    case Weighting::kLevel:
      return "level";
  }
  return "";
}

std::string_view MetricOriginName(MetricOrigin origin) {
  switch (origin) {
    case MetricOrigin::kDynamo:
      return "Dynamo";
    case MetricOrigin::kOurs:
      return "ours";
    case MetricOrigin::kPrometheus:
      return "Prometheus";
  }
  return "";
}

std::string HelpText(const MetricInfo& info) {
  return fmt::format("{} ({}; {})", info.meaning, info.unit, WeightingName(info.weighting));
}

std::string MetricCatalogueMarkdown() {
  std::string out =
      "| Metric | Type | Labels | Unit | Weighting | Meaning | Moves | From |\n"
      "|---|---|---|---|---|---|---|---|\n";
  for (const MetricInfo& info : MetricCatalogue()) {
    out += fmt::format("| `{}` | {} | {} | {} | {} | {} | {} | {} |\n", info.name,
                       MetricTypeName(info.type), LabelsColumn(info), info.unit,
                       WeightingName(info.weighting), info.meaning, info.moves,
                       MetricOriginName(info.origin));
  }
  return out;
}

}  // namespace kvrouter
