#include "sim/virtual/policy_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "sim/virtual/break_even.h"

namespace kvrouter::sim {
namespace {

// Names are cut at underscores into this many lines, so that a table fits a terminal.
constexpr size_t kHeaderLines = 3;

// "max_over_mean_prefill" -> {"max_over", "mean_", "prefill"}: lines of at most `width` characters.
std::vector<std::string> HeaderLines(std::string_view name, size_t width) {
  std::vector<std::string> lines(1);
  while (!name.empty()) {
    const size_t cut = std::min(name.find('_'), name.size() - 1) + 1;
    if (!lines.back().empty() && lines.back().size() + cut > width) lines.emplace_back();
    lines.back() += name.substr(0, cut);
    name.remove_prefix(cut);
  }
  lines.insert(lines.begin(), kHeaderLines - std::min(kHeaderLines, lines.size()), "");
  return lines;
}

constexpr int kPolicyWidth = 13;
constexpr int kFigureWidth = 10;

}  // namespace

std::string FormatTable(std::span<const PolicyFigures> rows) {
  std::string text;
  for (size_t line = 0; line < kHeaderLines; ++line) {
    text += fmt::format("{:<{}}", line + 1 == kHeaderLines ? "policy" : "", kPolicyWidth);
    for (const FigureColumn& column : FigureColumns()) {
      text += fmt::format(" {:>{}}", HeaderLines(column.name, kFigureWidth)[line], kFigureWidth);
    }
    text += '\n';
  }
  for (const PolicyFigures& row : rows) {
    text += fmt::format("{:<{}}", PolicyName(row.policy), kPolicyWidth);
    for (const FigureColumn& column : FigureColumns()) {
      text += fmt::format(" {:>{}.{}f}", row.*column.figure, kFigureWidth, column.decimals);
    }
    text += '\n';
  }
  return text;
}

std::string FormatSums(std::span<const PolicyFigures> rows) {
  std::string text;
  for (const PolicyFigures& row : rows) {
    const HitSums& sums = row.sums;
    text += fmt::format(
        "{}: expected {} of {} blocks (partial ones counted); found {} of {} full blocks, {} of {} "
        "tokens\n",
        PolicyName(row.policy), sums.overlap_blocks, sums.isl_blocks, sums.hit_blocks,
        sums.full_blocks, sums.engine_hit_tokens, sums.engine_query_tokens);
  }
  return text;
}

std::string FormatMoves(std::span<const PolicyFigures> rows, const SimulationConfig& config) {
  const MigrationConfig& settings = config.router.migration;
  const auto tokens = [](std::optional<uint64_t> from) {
    return from ? fmt::format("from {} tokens on", *from) : "never";
  };
  std::string text;
  for (const PolicyFigures& row : rows) {
    if (row.policy != Policy::kKv || settings.mode == MigrationMode::kOff) continue;
    const MoveSums& moves = row.moves;
    text += "migration planner:";
    for (size_t i = 0; i < moves.outcomes.size(); ++i) {
      if (moves.outcomes[i] == 0) continue;
      text += fmt::format(" {} {}", MigrationOutcomeName(static_cast<MigrationOutcome>(i)),
                          moves.outcomes[i]);
    }
    text += fmt::format(
        "\nmigrations: {} prompts moved, {} blocks pulled; sources too slow: {}, leases ended: "
        "{}\n",
        moves.moved, moves.pulled_blocks, moves.timed_out, moves.leases_ended);
    text += fmt::format(
        "break-even: assumed from {} tokens on (kv_migration_min_tokens), at a gain of {} "
        "(kv_migration_min_gain_tokens); measured between idle engines {}",
        settings.min_tokens, settings.min_gain_tokens.value_or(settings.min_tokens),
        tokens(IdleBreakEvenTokens(config.engine)));
    if (moves.moved > 0) {
      text += fmt::format(", in this run (sources busy for {:.3f} s) {}",
                          moves.source_wait_s / static_cast<double>(moves.moved),
                          tokens(LoadedBreakEvenTokens(config.engine, moves)));
    }
    text += '\n';
  }
  return text;
}

std::string FormatJson(const Trace& trace, std::span<const PolicyFigures> rows) {
  nlohmann::ordered_json document = nlohmann::ordered_json::array();
  for (const PolicyFigures& row : rows) {
    nlohmann::ordered_json object;
    object["trace"] = trace.name;
    object["policy"] = PolicyName(row.policy);
    object["mode"] = "virtual";
    for (const FigureColumn& column : FigureColumns())
      object[std::string(column.name)] = row.*column.figure;
    object["details"] = {
        {"requests", row.sums.requests},
        {"isl_tokens", row.sums.isl_tokens},
        {"isl_blocks", row.sums.isl_blocks},
        {"full_blocks", row.sums.full_blocks},
        {"overlap_blocks", row.sums.overlap_blocks},
        {"hit_blocks", row.sums.hit_blocks},
        {"engine_query_tokens", row.sums.engine_query_tokens},
        {"engine_hit_tokens", row.sums.engine_hit_tokens},
        {"observations", row.sums.observations},
        {"migrations", row.moves.moved},
        {"pulled_blocks", row.moves.pulled_blocks},
    };
    document.push_back(std::move(object));
  }
  return document.dump(2) + "\n";
}

}  // namespace kvrouter::sim
