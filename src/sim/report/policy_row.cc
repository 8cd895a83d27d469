#include "sim/report/policy_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

namespace kvrouter::sim {
namespace {

using Json = nlohmann::ordered_json;

struct TextColumn {
  const char* name;
  std::string PolicyRow::*field;
};
struct FigureColumn {
  const char* name;
  std::optional<double> PolicyRow::*field;
  int decimals;
};

constexpr std::array<TextColumn, 3> kTexts = {{
    {"trace", &PolicyRow::trace},
    {"policy", &PolicyRow::policy},
    {"mode", &PolicyRow::mode},
}};
constexpr std::array<FigureColumn, 8> kFigures = {{
    {"router_token_weighted", &PolicyRow::router_token_weighted, 4},
    {"engine_token_weighted", &PolicyRow::engine_token_weighted, 4},
    {"router_block_weighted", &PolicyRow::router_block_weighted, 4},
    {"full_block_hit", &PolicyRow::full_block_hit, 4},
    {"request_weighted", &PolicyRow::request_weighted, 4},
    {"max_over_mean_prefill", &PolicyRow::max_over_mean_prefill, 2},
    {"ttft_p50_s", &PolicyRow::ttft_p50_s, 2},
    {"ttft_p99_s", &PolicyRow::ttft_p99_s, 2},
}};

std::vector<std::string> Cells(const PolicyRow& row) {
  std::vector<std::string> cells;
  for (const TextColumn& column : kTexts) cells.push_back(row.*column.field);
  for (const FigureColumn& column : kFigures) {
    const std::optional<double>& figure = row.*column.field;
    cells.push_back(figure ? fmt::format("{:.{}f}", *figure, column.decimals) : "-");
  }
  return cells;
}

// A name cut behind its underscores into lines of at most `width` characters (a longer word stays
// whole), so that the table fits a terminal.
std::vector<std::string> HeadLines(std::string_view name, size_t width) {
  std::vector<std::string> lines(1);
  while (!name.empty()) {
    const size_t word = std::min(name.find('_'), name.size() - 1) + 1;
    if (!lines.back().empty() && lines.back().size() + word > width) lines.emplace_back();
    lines.back() += name.substr(0, word);
    name.remove_prefix(word);
  }
  return lines;
}

std::vector<std::vector<std::string>> HeadRows() {
  constexpr size_t kHeadWidth = 10;
  std::vector<std::vector<std::string>> columns;
  for (const TextColumn& column : kTexts) columns.push_back({column.name});
  for (const FigureColumn& column : kFigures) columns.push_back(HeadLines(column.name, kHeadWidth));
  size_t height = 0;
  for (const auto& column : columns) height = std::max(height, column.size());
  std::vector<std::vector<std::string>> rows(height);
  for (auto& column : columns) {
    column.insert(column.begin(), height - column.size(), "");
    for (size_t i = 0; i < height; ++i) rows[i].push_back(column[i]);
  }
  return rows;
}

Json RowToJson(const PolicyRow& row) {
  Json json;
  for (const TextColumn& column : kTexts) json[column.name] = row.*column.field;
  for (const FigureColumn& column : kFigures) {
    const std::optional<double>& figure = row.*column.field;
    json[column.name] = figure ? Json(*figure) : Json(nullptr);
  }
  json["details"] = row.details;
  return json;
}

PolicyRow RowFromJson(const Json& json) {
  PolicyRow row;
  for (const TextColumn& column : kTexts)
    row.*column.field = json.at(column.name).get<std::string>();
  for (const FigureColumn& column : kFigures) {
    const Json& figure = json.at(column.name);
    if (!figure.is_null()) row.*column.field = figure.get<double>();
  }
  if (json.contains("details"))
    row.details = json.at("details").get<std::map<std::string, double>>();
  return row;
}

}  // namespace

std::string FormatPolicyTable(const std::vector<PolicyRow>& rows) {
  std::vector<std::vector<std::string>> lines = HeadRows();
  for (const PolicyRow& row : rows) lines.push_back(Cells(row));
  std::vector<size_t> widths(lines.front().size(), 0);
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) {
      if (i > 0) text += "  ";
      // Names to the left, figures to the right.
      text += i < kTexts.size() ? fmt::format("{:<{}}", line[i], widths[i])
                                : fmt::format("{:>{}}", line[i], widths[i]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

std::string PolicyRowsToJson(const std::vector<PolicyRow>& rows) {
  Json list = Json::array();
  for (const PolicyRow& row : rows) list.push_back(RowToJson(row));
  return list.dump(2) + "\n";
}

absl::StatusOr<std::vector<PolicyRow>> PolicyRowsFromJson(std::string_view text) {
  std::vector<PolicyRow> rows;
  try {
    const Json document = Json::parse(text);
    if (!document.is_array()) return absl::InvalidArgumentError("not an array of policy rows");
    for (const Json& row : document) rows.push_back(RowFromJson(row));
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(fmt::format("not an array of policy rows: {}", error.what()));
  }
  return rows;
}

std::optional<double> NearestRank(std::vector<double>& values, double fraction) {
  if (values.empty()) return std::nullopt;
  const double rank = std::ceil(fraction * static_cast<double>(values.size()));
  const auto index =
      static_cast<size_t>(std::clamp(rank, 1.0, static_cast<double>(values.size()))) - 1;
  const auto nth = values.begin() + static_cast<ptrdiff_t>(index);
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

}  // namespace kvrouter::sim
