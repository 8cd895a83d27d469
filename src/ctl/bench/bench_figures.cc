#include "ctl/bench/bench_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ctl/table.h"

namespace kvrouter::ctl {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::pair<const char*, double> kQuantiles[] = {
    {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1.0}};

double Milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

double QuantileMs(const LatencyHistogram& histogram, double fraction) {
  return Milliseconds(fraction >= 1 ? histogram.max() : histogram.Quantile(fraction));
}

double PerSecond(const BenchRun& run) {
  return run.elapsed_s > 0 ? static_cast<double>(run.tally.answered) / run.elapsed_s : 0;
}

std::string CallName(const BenchOptions& options) {
  return options.call == BenchCall::kRoute ? "Route" : "RouteStream";
}

std::string LoadText(const BenchOptions& options) {
  if (options.rate_per_s > 0) {
    return fmt::format("open loop, {} requests a second, at most {} in flight",
                       Number(options.rate_per_s), options.concurrency);
  }
  return fmt::format("closed loop, {} in flight", options.concurrency);
}

void AddLatencies(const std::string& what, const LatencyHistogram& histogram, Table* table) {
  std::vector<std::string> cells = {what};
  for (const auto& [name, fraction] : kQuantiles) {
    cells.push_back(Number(QuantileMs(histogram, fraction)));
  }
  table->AddRow(std::move(cells));
}

std::string LatencyTable(const BenchOptions& options, const BenchTally& tally) {
  Table table({"ms", "p50", "p90", "p99", "p99.9", "max"});
  AddLatencies("answered after", tally.latency, &table);
  if (options.rate_per_s > 0) AddLatencies("sent late by", tally.late, &table);
  return table.Text();
}

std::string ErrorTable(const BenchTally& tally) {
  Table table({"failed", "code", "reason"});
  for (const auto& [what, count] : tally.errors) {
    table.AddRow({std::to_string(count), what.first, what.second});
  }
  return table.Text();
}

Json LatencyJson(const LatencyHistogram& histogram) {
  Json json;
  for (const auto& [name, fraction] : kQuantiles) json[name] = QuantileMs(histogram, fraction);
  return json;
}

}  // namespace

uint64_t BenchTally::Failed() const {
  uint64_t failed = 0;
  for (const auto& [what, count] : errors) failed += count;
  return failed;
}

void BenchTally::Merge(const BenchTally& other) {
  latency.Merge(other.latency);
  late.Merge(other.late);
  for (const auto& [what, count] : other.errors) errors[what] += count;
  answered += other.answered;
  booked += other.booked;
  freed += other.freed;
  overlap_blocks += other.overlap_blocks;
  isl_blocks += other.isl_blocks;
}

std::string BenchText(const BenchOptions& options, const BenchRun& run) {
  const BenchTally& tally = run.tally;
  std::string text =
      fmt::format("{}: {}; prompts of {} tokens as {}, {} % of each shared by others; seed {}\n",
                  CallName(options), LoadText(options), PromptTokens(options),
                  options.hashes ? "hashes" : "token ids", Number(100 * options.shared_fraction, 1),
                  options.seed);
  text += fmt::format("{} answered in {} s, {} a second; {} failed\n", tally.answered,
                      Number(run.elapsed_s), Number(PerSecond(run), 1), tally.Failed());
  if (tally.answered > 0) text += "\n" + LatencyTable(options, tally);
  if (!tally.errors.empty()) text += "\n" + ErrorTable(tally);
  text += "\n";
  if (tally.isl_blocks > 0) {
    text += fmt::format("The chosen workers held {} % of the prompts' blocks.\n",
                        Number(100.0 * static_cast<double>(tally.overlap_blocks) /
                                   static_cast<double>(tally.isl_blocks),
                               1));
  }
  if (options.advise) return text + "Advice only: nothing was booked.\n";
  return text + fmt::format("{} booked, {} of them freed again, each right after its answer.\n",
                            tally.booked, tally.freed);
}

std::string BenchJson(const BenchOptions& options, const BenchRun& run) {
  const BenchTally& tally = run.tally;
  Json json;
  json["call"] = options.call == BenchCall::kRoute ? "route" : "stream";
  json["loop"] = options.rate_per_s > 0 ? "open" : "closed";
  json["rate_per_s"] = options.rate_per_s;
  json["concurrency"] = options.concurrency;
  json["prompt_tokens"] = PromptTokens(options);
  json["prompt_form"] = options.hashes ? "hashes" : "tokens";
  json["shared_fraction"] = options.shared_fraction;
  json["shared_prefixes"] = options.shared_prefixes;
  json["seed"] = options.seed;
  json["advise"] = options.advise;
  json["elapsed_s"] = run.elapsed_s;
  json["answered"] = tally.answered;
  json["answered_per_s"] = PerSecond(run);
  json["failed"] = tally.Failed();
  json["latency_ms"] = LatencyJson(tally.latency);
  if (options.rate_per_s > 0) json["late_ms"] = LatencyJson(tally.late);
  json["errors"] = Json::array();
  for (const auto& [what, count] : tally.errors) {
    json["errors"].push_back({{"code", what.first}, {"reason", what.second}, {"count", count}});
  }
  json["booked"] = tally.booked;
  json["freed"] = tally.freed;
  json["not_freed"] = run.not_freed;
  json["overlap_blocks"] = tally.overlap_blocks;
  json["isl_blocks"] = tally.isl_blocks;
  json["stopped"] = run.stopped;
  return json.dump(2) + "\n";
}

absl::Status Verdict(const BenchRun& run) {
  const BenchTally& tally = run.tally;
  std::string left;
  if (run.not_freed > 0) {
    left = fmt::format(
        "{} bookings could not be freed; the daemon releases them when they expire (300 s unless "
        "set otherwise)",
        run.not_freed);
  }
  if (run.unreachable) {
    return absl::UnavailableError("stopped: the daemon cannot be reached any more" +
                                  (left.empty() ? left : "; " + left));
  }
  if (!left.empty()) return absl::InternalError(left);
  if (tally.Failed() > 0) {
    const auto most =
        std::max_element(tally.errors.begin(), tally.errors.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    return absl::InternalError(fmt::format("{} of {} requests failed, most often with {} ({})",
                                           tally.Failed(), tally.Failed() + tally.answered,
                                           most->first.first, most->first.second));
  }
  if (run.stopped) return absl::CancelledError("stopped by a signal");
  return absl::OkStatus();
}

}  // namespace kvrouter::ctl
