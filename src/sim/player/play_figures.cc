#include "sim/player/play_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "client/exposition.h"
#include "client/http_get.h"

namespace kvrouter::sim {
namespace {

constexpr std::chrono::milliseconds kScrapeTimeout{10'000};

absl::Status Read(const std::vector<client::Sample>& samples, std::string_view name, double* sum) {
  const std::optional<double> found = client::SumOf(samples, name);
  if (!found) return absl::NotFoundError(fmt::format("/metrics has no {}", name));
  *sum = *found;
  return absl::OkStatus();
}

std::string WithoutScheme(const std::string& address) {
  const size_t scheme = address.find("://");
  return scheme == std::string::npos ? address : address.substr(scheme + 3);
}

std::optional<double> Ratio(double part, double whole) {
  if (whole <= 0) return std::nullopt;
  return part / whole;
}

std::optional<double> Scaled(std::optional<double> seconds, double speedup) {
  if (seconds) *seconds *= speedup;
  return seconds;
}

void AddEngineFigures(const CounterSums& before, const CounterSums& after,
                      const PlayOutcome& outcome, PolicyRow* row) {
  KVR_CHECK(before.engines.size() == after.engines.size(), "{} engines, then {}",
            before.engines.size(), after.engines.size());
  double queries = 0;
  double hits = 0;
  double most_computed = 0;
  for (size_t i = 0; i < after.engines.size(); ++i) {
    const double engine_queries = after.engines[i].query_tokens - before.engines[i].query_tokens;
    const double engine_hits = after.engines[i].hit_tokens - before.engines[i].hit_tokens;
    queries += engine_queries;
    hits += engine_hits;
    most_computed = std::max(most_computed, engine_queries - engine_hits);
  }
  row->engine_token_weighted = Ratio(hits, queries);
  row->full_block_hit = Ratio(hits, static_cast<double>(outcome.full_block_tokens));
  const double mean_computed = (queries - hits) / static_cast<double>(after.engines.size());
  row->max_over_mean_prefill = Ratio(most_computed, mean_computed);
}

// Prompt tokens that engines computed for each one that clients sent.
double ComputedShare(const CounterSums& before, const CounterSums& after,
                     const PlayOutcome& outcome) {
  double computed = 0;
  for (size_t i = 0; i < after.engines.size(); ++i) {
    computed += after.engines[i].computed_tokens - before.engines[i].computed_tokens;
  }
  return Ratio(computed, static_cast<double>(outcome.isl_tokens)).value_or(0);
}

// Through a door only; otherwise plans are not known here.
size_t PlannedMigrations(const PlayOutcome& outcome) {
  size_t requests = 0;
  for (const auto& [plan, count] : outcome.plans)
    if (plan.starts_with("migrate")) requests += count;
  return requests;
}

}  // namespace

absl::StatusOr<CounterSums> ReadCounters(const std::string& router_text,
                                         const std::vector<std::string>& engine_texts) {
  CounterSums sums;
  const auto router = client::ParseExposition(router_text);
  KVR_RETURN_IF_ERROR(Read(router, "kvrouter_overlap_tokens_total", &sums.overlap_tokens));
  KVR_RETURN_IF_ERROR(Read(router, "kvrouter_isl_tokens_total", &sums.isl_tokens));
  KVR_RETURN_IF_ERROR(
      Read(router, "dynamo_component_router_kv_overlap_blocks_total", &sums.overlap_blocks));
  KVR_RETURN_IF_ERROR(
      Read(router, "dynamo_component_router_kv_isl_blocks_total", &sums.isl_blocks));
  KVR_RETURN_IF_ERROR(Read(router, "dynamo_component_router_kv_hit_rate_sum", &sums.hit_ratio_sum));
  KVR_RETURN_IF_ERROR(
      Read(router, "dynamo_component_router_kv_hit_rate_count", &sums.hit_ratio_count));
  for (const std::string& text : engine_texts) {
    const auto engine = client::ParseExposition(text);
    EngineSums one;
    KVR_RETURN_IF_ERROR(Read(engine, "vllm:prefix_cache_queries_total", &one.query_tokens));
    KVR_RETURN_IF_ERROR(Read(engine, "vllm:prefix_cache_hits_total", &one.hit_tokens));
    one.computed_tokens =
        client::SumOf(engine, "kvrouter_sim_computed_prefill_tokens_total").value_or(0);
    sums.engines.push_back(one);
  }
  return sums;
}

absl::StatusOr<CounterSums> ScrapeCounters(const std::string& router_http,
                                           const std::vector<std::string>& engine_addresses) {
  KVR_ASSIGN_OR_RETURN(const std::string router_text,
                       client::HttpGet(router_http, "/metrics", kScrapeTimeout));
  std::vector<std::string> engine_texts;
  for (const std::string& address : engine_addresses) {
    KVR_ASSIGN_OR_RETURN(std::string text,
                         client::HttpGet(WithoutScheme(address), "/metrics", kScrapeTimeout));
    engine_texts.push_back(std::move(text));
  }
  return ReadCounters(router_text, engine_texts);
}

PolicyRow MakeRow(const CounterSums& before, const CounterSums& after, const PlayOutcome& outcome,
                  double speedup) {
  PolicyRow row;
  row.mode = "live";
  row.router_token_weighted =
      Ratio(after.overlap_tokens - before.overlap_tokens, after.isl_tokens - before.isl_tokens);
  row.router_block_weighted =
      Ratio(after.overlap_blocks - before.overlap_blocks, after.isl_blocks - before.isl_blocks);
  row.request_weighted = Ratio(after.hit_ratio_sum - before.hit_ratio_sum,
                               after.hit_ratio_count - before.hit_ratio_count);
  AddEngineFigures(before, after, outcome, &row);
  std::vector<double> ttft = outcome.ttft_s;
  row.ttft_p50_s = Scaled(NearestRank(ttft, 0.5), speedup);
  row.ttft_p99_s = Scaled(NearestRank(ttft, 0.99), speedup);
  std::vector<double> late = outcome.late_s;
  row.details = {{"requests", static_cast<double>(outcome.sent)},
                 {"completed", static_cast<double>(outcome.completed)},
                 {"failed", static_cast<double>(outcome.failed)},
                 {"speedup", speedup},
                 {"computed_per_prompt_token", ComputedShare(before, after, outcome)},
                 {"planned_migrations", static_cast<double>(PlannedMigrations(outcome))},
                 {"wall_s", outcome.wall_s},
                 {"late_p50_model_s", Scaled(NearestRank(late, 0.5), speedup).value_or(0)},
                 {"late_p99_model_s", Scaled(NearestRank(late, 0.99), speedup).value_or(0)},
                 {"late_max_model_s", Scaled(NearestRank(late, 1), speedup).value_or(0)}};
  return row;
}

}  // namespace kvrouter::sim
