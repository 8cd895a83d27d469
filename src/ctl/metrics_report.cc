#include "ctl/metrics_report.h"

#include <fmt/format.h>

#include <cmath>
#include <compare>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "ctl/table.h"

namespace kvrouter::ctl {
namespace {

using client::Sample;
using client::SumOf;
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

// Series that belong to one target. Worker ids as numbers first, so that worker 9 comes before
// worker 10.
struct TargetId {
  uint64_t worker_id = 0;
  uint64_t dp_rank = 0;
  friend auto operator<=>(const TargetId&, const TargetId&) = default;
};
struct TargetFigures {
  std::map<std::string, double> figures;  // by family
  std::map<std::string, std::string>
      states;  // families that are 1 for the state they are in, 0 for the others
};
using ByTarget = std::map<TargetId, TargetFigures>;

bool IsOfTarget(const Sample& sample) { return !sample.Label("worker_id").empty(); }

uint64_t Whole(std::string_view text) {
  return std::strtoull(std::string(text).c_str(), nullptr, 10);
}

ByTarget TargetSeries(const std::vector<Sample>& samples) {
  ByTarget targets;
  for (const Sample& sample : samples) {
    if (!IsOfTarget(sample)) continue;
    TargetFigures& target =
        targets[{Whole(sample.Label("worker_id")), Whole(sample.Label("dp_rank"))}];
    const std::string_view state = sample.Label("state");
    if (state.empty()) {
      target.figures[sample.name] += sample.value;
    } else if (sample.value == 1) {
      target.states[sample.name] = state;
    }
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
  std::set<std::string> figures, states;
  for (const auto& [id, target] : targets) {
    for (const auto& [family, value] : target.figures) figures.insert(family);
    for (const auto& [family, state] : target.states) states.insert(family);
  }
  std::vector<std::string> titles = {"WORKER", "RANK"};
  for (const std::string& family : states) titles.push_back(ShortName(family));
  for (const std::string& family : figures) titles.push_back(ShortName(family));
  Table table(std::move(titles));
  for (const auto& [id, target] : targets) {
    std::vector<std::string> cells = {std::to_string(id.worker_id), std::to_string(id.dp_rank)};
    for (const std::string& family : states) {
      const auto it = target.states.find(family);
      cells.push_back(it == target.states.end() ? "-" : it->second);
    }
    for (const std::string& family : figures) {
      const auto it = target.figures.find(family);
      cells.push_back(it == target.figures.end() ? "-" : Number(it->second));
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
  for (const auto& [id, target] : TargetSeries(samples)) {
    targets.push_back({{"worker_id", id.worker_id},
                       {"dp_rank", id.dp_rank},
                       {"states", target.states},
                       {"figures", target.figures}});
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
