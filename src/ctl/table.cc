#include "ctl/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace kvrouter::ctl {
namespace {

bool IsNumeric(std::string_view cell) {
  return cell == "-" || cell == "nan" ||
         (!cell.empty() && cell.find_first_not_of("0123456789.+-e%") == std::string_view::npos);
}

}  // namespace

Table::Table(std::vector<std::string> titles) { rows_.push_back(std::move(titles)); }

void Table::AddRow(std::vector<std::string> cells) {
  KVR_CHECK(cells.size() == rows_.front().size(), "{} cells for {} columns", cells.size(),
            rows_.front().size());
  rows_.push_back(std::move(cells));
}

std::string Table::Text() const {
  const size_t columns = rows_.front().size();
  std::vector<size_t> widths(columns, 0);
  std::vector<bool> numeric(columns, true);
  for (const auto& row : rows_) {
    for (size_t c = 0; c < columns; ++c) {
      widths[c] = std::max(widths[c], row[c].size());
      if (&row != &rows_.front() && !IsNumeric(row[c])) numeric[c] = false;
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t c = 0; c < columns; ++c) {
      if (c > 0) line += "  ";
      line += numeric[c] ? fmt::format("{:>{}}", row[c], widths[c])
                         : fmt::format("{:<{}}", row[c], widths[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string Number(double value, int decimals) {
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

}  // namespace kvrouter::ctl
