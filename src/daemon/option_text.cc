#include "daemon/option_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "daemon/option_table.h"

namespace kvrouter {
namespace {

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace

std::string NearestName(std::string_view name, const std::vector<std::string>& known) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const size_t distance = EditDistance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string Suggestion(std::string_view prefix, std::string_view name,
                       const std::vector<std::string>& known) {
  const std::string nearest = NearestName(name, known);
  return nearest.empty() ? "" : fmt::format(" (did you mean '{}{}'?)", prefix, nearest);
}

namespace {
std::string MeaningOf(const Option& option) {
  return option.help + (option.reloadable ? " Reloads." : "");
}
}  // namespace

std::string OptionsMarkdown() {
  std::string out =
      "| Flag | Environment | YAML key | Default | Allowed | Meaning "
      "|\n|---|---|---|---|---|---|\n";
  for (const Option& option : OptionTable()) {
    const std::string value = option.Default();
    out += fmt::format("| `--{}{}` | `{}` | `{}` | {} | {} | {} |\n",
                       option.is_switch ? "[no-]" : "", option.name, option.environment,
                       option.Key(), value.empty() ? "empty" : fmt::format("`{}`", value),
                       option.range, MeaningOf(option));
  }
  return out;
}

std::string OptionsHelp() {
  std::string out =
      "kvrouterd: routes LLM requests to the engine that already holds most of their prompt.\n\n"
      "Usage: kvrouterd [--config FILE] [--OPTION VALUE | --OPTION=VALUE | --[no-]SWITCH]...\n\n"
      "  --config FILE             YAML file of settings and workers (KVROUTER_CONFIG)\n"
      "  --check-config            say whether the settings are good, without opening a port; exit "
      "0 or 1\n"
      "  --print-effective-config  print every setting with its origin, as a YAML file, and exit\n"
      "  --print-options-markdown  print the table of all settings and exit\n"
      "  --print-metrics-markdown  print the table of all metrics and exit\n"
      "  --version, --help\n\n"
      "A setting comes from its flag, else its environment variable, else the file (key: the flag "
      "with underscores), else\n"
      "its default.\n";
  for (const Option& option : OptionTable()) {
    const std::string value = option.Default();
    out += fmt::format("\n  --{}{}  ({})\n      {}\n      {}; default {}\n",
                       option.is_switch ? "[no-]" : "", option.name, option.environment,
                       MeaningOf(option), option.range, value.empty() ? "empty" : value);
  }
  return out;
}

}  // namespace kvrouter
