#include <fmt/format.h>

#include <string>

#include "base/ascii.h"
#include "ctl/doctor/diagnose.h"
#include "ctl/doctor/figures.h"

namespace kvrouter::ctl {
namespace {

bool Says(const std::optional<std::string>& value, std::string_view word) {
  return value && EqualsIgnoringCase(*value, word);
}

// Hybrid models pad: what the events count in is the effective size where the engine names one.
bool SameBlockSize(const SeenWorker& worker) {
  const auto declared = std::to_string(worker.block_size_tokens);
  const auto plain = CacheConfig(*worker.engine, "block_size");
  const auto effective = CacheConfig(*worker.engine, "effective_attention_block_size");
  return !plain || *plain == declared || (effective && *effective == declared);
}

void CheckHealth(const Observations& seen, std::vector<Finding>* out) {
  Names sick, unreachable;
  std::string error;
  size_t asked = 0;
  for (const SeenWorker& worker : seen.workers) {
    if (!worker.engine) continue;
    ++asked;
    if (!worker.engine->health_status) {
      unreachable.Add(worker);
      error = worker.engine->error;
    } else if (*worker.engine->health_status >= 400 && *worker.engine->health_status != 404) {
      sick.Add(worker);
    }
  }
  if (!sick.empty()) {
    out->push_back(
        {Severity::kCritical,
         "engine_unhealthy",
         fmt::format("/health of workers {} says no, and they still get requests", sick.Text()),
         {{"unhealthy workers", std::to_string(sick.count()), "0"}},
         "kvrouterctl drain ID; the engine's log"});
  }
  if (!unreachable.empty()) {
    out->push_back(
        {Severity::kWarning,
         "engine_unreachable",
         fmt::format("workers {} cannot be reached from here: {}", unreachable.Text(), error),
         {{"unreachable workers", fmt::format("{} of {}", unreachable.count(), asked), "0"}},
         "if callers reach them from elsewhere, run the doctor there, or with "
         "--skip-workers; else kvrouterctl remove ID"});
  }
}

void CheckCacheConfig(const Observations& seen, std::vector<Finding>* out) {
  Names caching_off;
  for (const SeenWorker& worker : seen.workers) {
    if (!worker.engine) continue;
    if (!SameBlockSize(worker)) {
      out->push_back({Severity::kCritical,
                      "block_size_mismatch",
                      fmt::format("worker {} was registered with another block size than its "
                                  "engine has: nothing of it can be indexed",
                                  worker.worker_id),
                      {{"registered block_size", std::to_string(worker.block_size_tokens),
                        *CacheConfig(*worker.engine, "block_size")}},
                      fmt::format("register worker {} with block_size {}", worker.worker_id,
                                  *CacheConfig(*worker.engine, "block_size"))});
    }
    if (Says(CacheConfig(*worker.engine, "enable_prefix_caching"), "false"))
      caching_off.Add(worker);
  }
  if (caching_off.empty()) return;
  out->push_back({Severity::kCritical,
                  "prefix_caching_off",
                  fmt::format("prefix caching is off in the engines of workers {}: there is "
                              "nothing to route by",
                              caching_off.Text()),
                  {{"enable_prefix_caching", "False", "True"}},
                  "vLLM: --enable-prefix-caching"});
}

// The router's promise against what the engines counted, both in tokens.
void CheckHitRates(const Observations& seen, std::vector<Finding>* out) {
  constexpr double kEnoughTokens = 100'000;
  constexpr double kGap = 0.1;
  const double isl = Total(seen.metrics, "kvrouter_isl_tokens_total");
  double queries = 0, hits = 0;
  for (const SeenWorker& worker : seen.workers) {
    if (!worker.engine) continue;
    queries += Total(worker.engine->metrics, "vllm:prefix_cache_queries_total");
    hits += Total(worker.engine->metrics, "vllm:prefix_cache_hits_total");
  }
  if (isl < kEnoughTokens || queries < kEnoughTokens) return;
  const double router = Total(seen.metrics, "kvrouter_expected_engine_hit_tokens_total") / isl;
  const double engines = hits / queries;
  if (std::abs(router - engines) <= kGap) return;
  const bool router_higher = router > engines;
  out->push_back(
      {Severity::kWarning,
       "hit_rate_gap",
       router_higher
           ? "the router counts on more cached tokens than the engines find: they evict while "
             "requests queue, or the router's picture is too rich"
           : "the engines find more cached tokens than the router knows of: it is partly blind, or "
             "they serve requests that did not come through it",
       {{"router, token-weighted since its start", fmt::format("{:.3f}", router),
         fmt::format("within {:.1f} of the engines'", kGap)},
        {"engines, token-weighted since theirs", fmt::format("{:.3f}", engines), "-"}},
       router_higher ? "engine memory (total_kv_blocks); --feed-store-counting set if requests use "
                       "kv_cache_report_mode full"
                     : "degraded feeds and skipped events above; lora_name, cache_salt and images "
                       "must be given to the router as to the engine"});
}

}  // namespace

void CheckEngines(const Observations& seen, std::vector<Finding>* out) {
  CheckHealth(seen, out);
  CheckCacheConfig(seen, out);
  CheckHitRates(seen, out);
}

}  // namespace kvrouter::ctl
