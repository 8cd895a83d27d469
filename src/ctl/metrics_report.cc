#include "ctl/metrics_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "ctl/table.h"

namespace kvrouter::ctl {
namespace {

using Json = nlohmann::ordered_json;

struct HitRate {
  const char* weighting;
  const char* what;
  const char* numerator;
  const char* denominator;
};

// The three weightings of one fact. The request-weighted one counts a one-block prompt like a
// thousand-block one.
constexpr HitRate kHitRates[] = {
    {"token", "prompt tokens found / prompt tokens", "kvrouter_overlap_tokens_total",
     "kvrouter_isl_tokens_total"},
    {"block", "prompt blocks found / prompt blocks",
     "dynamo_component_router_kv_overlap_blocks_total",
     "dynamo_component_router_kv_isl_blocks_total"},
    {"request", "mean of the ratio per request", "dynamo_component_router_kv_hit_rate_sum",
     "dynamo_component_router_kv_hit_rate_count"},
};

constexpr char kWhyTheyDiffer[] =
    "The rates differ by design: token- and block-weighted say how much work is saved (compare the "
    "token-weighted\n"
    "one with the engines' own); request-weighted counts short and long prompts alike.\n";

std::optional<double> Ratio(const std::vector<Sample>& samples, const HitRate& rate) {
  const double denominator = SumOf(samples, rate.denominator).value_or(0);
  if (denominator <= 0) return std::nullopt;
  return SumOf(samples, rate.numerator).value_or(0) / denominator;
}

// Series that belong to one target: (worker id, rank) -> family -> value.
using ByTarget =
    std::map<std::tuple<uint64_t, std::string, std::string>, std::map<std::string, double>>;

bool IsOfTarget(const Sample& sample) { return !sample.Label("worker_id").empty(); }

ByTarget TargetSeries(const std::vector<Sample>& samples) {
  ByTarget targets;
  for (const Sample& sample : samples) {
    if (!IsOfTarget(sample)) continue;
    const std::string worker(sample.Label("worker_id"));
    std::string column = sample.name;
    for (const auto& [label, value] : sample.labels) {
      if (label == "state" || label == "reason") column += fmt::format("{{{}}}", value);
    }
    // The number first, so that worker 9 comes before worker 10.
    targets[{std::strtoull(worker.c_str(), nullptr, 10), worker,
             std::string(sample.Label("dp_rank"))}][column] += sample.value;
  }
  return targets;
}

// "dynamo_frontend_worker_active_decode_blocks" -> "active_decode_blocks".
std::string ShortName(std::string_view name) {
  for (const std::string_view prefix :
       {"dynamo_frontend_worker_", "dynamo_component_router_", "kvrouter_worker_", "kvrouter_"}) {
    if (name.substr(0, prefix.size()) == prefix) return std::string(name.substr(prefix.size()));
  }
  return std::string(name);
}

std::string LabelText(const Sample& sample) {
  std::string text;
  for (const auto& [label, value] : sample.labels) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", label, value);
  }
  return text;
}

// Constant labels say nothing inside one daemon's figures.
bool IsConstantLabel(const std::string& label) {
  return label == "dynamo_namespace" || label == "dynamo_component" || label == "dynamo_endpoint" ||
         label == "router_id";
}

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// What is left once hit rates, targets and buckets have been shown; zeros of labelled series say
// nothing.
std::vector<Sample> OtherFigures(const std::vector<Sample>& samples) {
  std::set<std::string_view> shown;
  for (const HitRate& rate : kHitRates) shown.insert({rate.numerator, rate.denominator});
  std::vector<Sample> others;
  for (const Sample& sample : samples) {
    if (IsOfTarget(sample) || EndsWith(sample.name, "_bucket") || shown.count(sample.name) > 0)
      continue;
    if (sample.name.rfind("process_", 0) == 0) continue;
    Sample other = sample;
    for (auto it = other.labels.begin(); it != other.labels.end();) {
      it = IsConstantLabel(it->first) ? other.labels.erase(it) : std::next(it);
    }
    if (other.value == 0 && !other.labels.empty()) continue;
    others.push_back(std::move(other));
  }
  return others;
}

std::string TargetsText(const ByTarget& targets) {
  std::set<std::string> columns;
  for (const auto& [target, values] : targets) {
    for (const auto& [column, value] : values) columns.insert(column);
  }
  std::vector<std::string> titles = {"WORKER", "RANK"};
  for (const std::string& column : columns) titles.push_back(ShortName(column));
  Table table(std::move(titles));
  for (const auto& [target, values] : targets) {
    const auto& [number, worker, dp_rank] = target;
    std::vector<std::string> cells = {worker, dp_rank.empty() ? "-" : dp_rank};
    for (const std::string& column : columns) {
      const auto it = values.find(column);
      cells.push_back(it == values.end() ? "-" : Number(it->second));
    }
    table.AddRow(std::move(cells));
  }
  return table.Text();
}

Json SeriesArray(const std::vector<Sample>& samples) {
  Json array = Json::array();
  for (const Sample& sample : samples) {
    // JSON has no infinity; the value of a sample may be one.
    array.push_back({{"name", sample.name},
                     {"labels", sample.labels},
                     {"value", std::isfinite(sample.value) ? Json(sample.value) : Json(nullptr)}});
  }
  return array;
}

std::vector<Sample> WithPrefix(const std::vector<Sample>& samples, std::string_view prefix) {
  std::vector<Sample> found;
  for (const Sample& sample : samples) {
    if (sample.name.compare(0, prefix.size(), prefix) == 0) found.push_back(sample);
  }
  return found;
}

}  // namespace

std::string MetricsText(const std::vector<Sample>& samples) {
  Table rates({"HIT RATE", "VALUE", "FOUND", "OF", "MEANING"});
  for (const HitRate& rate : kHitRates) {
    const auto ratio = Ratio(samples, rate);
    rates.AddRow({fmt::format("{}-weighted", rate.weighting),
                  ratio ? fmt::format("{:.4f}", *ratio) : "-",
                  Number(SumOf(samples, rate.numerator).value_or(0)),
                  Number(SumOf(samples, rate.denominator).value_or(0)), rate.what});
  }
  std::string text = rates.Text() + kWhyTheyDiffer;

  const ByTarget targets = TargetSeries(samples);
  if (!targets.empty()) text += "\n" + TargetsText(targets);

  Table others({"FIGURE", "LABELS", "VALUE"});
  for (const Sample& sample : OtherFigures(samples)) {
    others.AddRow({sample.name, LabelText(sample), Number(sample.value)});
  }
  return text + "\n" + others.Text();
}

std::string MetricsJson(const std::vector<Sample>& samples) {
  Json rates;
  for (const HitRate& rate : kHitRates) {
    const auto ratio = Ratio(samples, rate);
    rates[fmt::format("{}_weighted", rate.weighting)] = ratio ? Json(*ratio) : Json(nullptr);
  }
  Json targets = Json::array();
  for (const auto& [target, values] : TargetSeries(samples)) {
    const auto& [number, worker, dp_rank] = target;
    targets.push_back({{"worker_id", number}, {"dp_rank", dp_rank}, {"figures", values}});
  }
  const Json report = {
      {"hit_rates", rates}, {"targets", targets}, {"figures", SeriesArray(OtherFigures(samples))}};
  return report.dump(2) + "\n";
}

std::string SeriesText(const std::vector<Sample>& samples, std::string_view prefix) {
  Table table({"SERIES", "LABELS", "VALUE"});
  for (const Sample& sample : WithPrefix(samples, prefix)) {
    table.AddRow({sample.name, LabelText(sample), Number(sample.value, 6)});
  }
  return table.Text();
}

std::string SeriesJson(const std::vector<Sample>& samples, std::string_view prefix) {
  return SeriesArray(WithPrefix(samples, prefix)).dump(2) + "\n";
}

}  // namespace kvrouter::ctl
