#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "ctl/doctor/diagnose.h"
#include "ctl/doctor/figures.h"

namespace kvrouter::ctl {
namespace {

void CheckReadiness(const Observations& seen, std::vector<Finding>* out) {
  if (seen.workers.empty()) {
    out->push_back({Severity::kCritical,
                    "no_workers",
                    "no worker is registered: every request is refused",
                    {{"workers", "0", ">= 1"}},
                    "kvrouterctl register ID --address URL --block-size N, `workers` in the "
                    "configuration file, or a discovery source"});
    return;
  }
  const auto draining =
      static_cast<size_t>(std::count_if(seen.workers.begin(), seen.workers.end(),
                                        [](const SeenWorker& worker) { return worker.draining; }));
  if (draining == seen.workers.size()) {
    out->push_back({Severity::kCritical,
                    "no_schedulable_workers",
                    "all workers are draining: every request is refused",
                    {{"schedulable workers", "0", ">= 1"},
                     {"draining workers", std::to_string(draining), "-"}},
                    "PATCH /workers/ID {\"draining\":false}, or give instances of the indexer's "
                    "port an address"});
    return;
  }
  if (seen.ready == false) {
    out->push_back({Severity::kCritical,
                    "not_ready",
                    fmt::format("/ready says no: {}", seen.not_ready_reason),
                    {{"kvrouter_ready", "0", "1"}},
                    "during recovery it ends by itself within ready_bound_ms; kvrouterctl workers "
                    "shows which feeds are not there yet"});
  }
}

// Two workers of one engine: its blocks count twice, its load half.
void CheckDuplicates(const Observations& seen, std::vector<Finding>* out) {
  std::map<std::string, Names> by_endpoint, by_address;
  for (const SeenWorker& worker : seen.workers) {
    if (!worker.address.empty()) by_address[worker.address].Add(worker);
    for (const auto& [rank, endpoints] : worker.events) {
      if (!endpoints.live.empty()) by_endpoint[endpoints.live].Add(worker, rank);
    }
  }
  for (const auto& [endpoint, ranks] : by_endpoint) {
    if (ranks.count() < 2) continue;
    out->push_back({Severity::kCritical,
                    "duplicate_event_endpoint",
                    fmt::format("{} listen to one engine's events: requests go where their blocks "
                                "are not",
                                ranks.Text()),
                    {{endpoint, std::to_string(ranks.count()), "1 rank"}},
                    "give each rank its own socket; rank r of vLLM publishes on port + r"});
  }
  for (const auto& [address, workers] : by_address) {
    if (workers.count() < 2) continue;
    out->push_back({Severity::kWarning,
                    "duplicate_address",
                    fmt::format("workers {} have one address: the load of one engine is counted "
                                "as that of several",
                                workers.Text()),
                    {{address, std::to_string(workers.count()), "1 worker"}},
                    "one worker_id per engine, the same over its restarts; kvrouterctl remove ID"});
  }
}

// What the daemon noticed by itself when it asked its engines (kvrouter_worker_sign). It sees them
// from where it runs, which may be more than the doctor sees; what both see is found once.
struct SignMeaning {
  const char* reason;
  Severity severity;
  const char* id;
  const char* what;
  const char* help;
};
constexpr SignMeaning kSigns[] = {
    {"block_size", Severity::kCritical, "block_size_mismatch",
     "have another block size than they were registered with",
     "set the worker's block_size to the engine's --block-size"},
    {"silent_publisher", Severity::kCritical, "silent_publisher",
     "compute blocks and announce nothing",
     "vLLM: --kv-events-config '{\"enable_kv_cache_events\":true,...}'; is the port that of the "
     "PUB "
     "socket?"},
    {"prefix_caching_off", Severity::kCritical, "prefix_caching_off",
     "cache nothing: there is nothing to route by", "vLLM: --enable-prefix-caching"},
    {"replay_missing", Severity::kWarning, "replay_missing", "have no replay endpoint",
     "replay_endpoint of the worker, and in vLLM's --kv-events-config"},
    {"model_name", Severity::kWarning, "model_mismatch",
     "do not serve the model they were registered for", "model_name of the worker"},
    {"events_ignored", Severity::kWarning, "events_ignored",
     "have event endpoints, and this router does not go by events",
     "router_kv_events, load_aware, router_kv_overlap_score_credit of the router"},
    {"unreachable", Severity::kWarning, "engine_unreachable",
     "do not answer /health when the daemon asks", "the engine; network policies"},
};

void CheckSigns(const Observations& seen, std::vector<Finding>* out) {
  for (const SignMeaning& sign : kSigns) {
    const bool known = std::any_of(out->begin(), out->end(),
                                   [&](const Finding& finding) { return finding.id == sign.id; });
    Names workers;
    for (const client::Sample& sample : seen.metrics) {
      if (sample.name == "kvrouter_worker_sign" && sample.value > 0 &&
          sample.Label("reason") == sign.reason)
        workers.Add(std::string(sample.Label("worker_id")));
    }
    if (known || workers.empty()) continue;
    out->push_back({sign.severity,
                    sign.id,
                    fmt::format("workers {} {}", workers.Text(), sign.what),
                    {{fmt::format("kvrouter_worker_sign{{reason=\"{}\"}}", sign.reason),
                      std::to_string(workers.count()), "0"}},
                    sign.help});
  }
}

}  // namespace

void CheckFleet(const Observations& seen, std::vector<Finding>* out) {
  CheckReadiness(seen, out);
  CheckDuplicates(seen, out);
}

void CheckDiscovery(const Observations& seen, std::vector<Finding>* out) {
  CheckSigns(seen, out);
  for (const client::Sample& sample : seen.metrics) {
    const std::string source(sample.Label("source"));
    if (sample.name == "kvrouter_discovery_current" && sample.value == 0) {
      out->push_back(
          {Severity::kWarning,
           "discovery_stale",
           fmt::format("the source of workers \"{}\" does not answer: the set in force "
                       "is an older one",
                       source),
           {{fmt::format("kvrouter_discovery_current{{source=\"{}\"}}", source), "0", "1"}},
           "the daemon's log says what failed; the file, or the API server's address, "
           "rights and certificate"});
    }
    if (sample.name != "kvrouter_discovery_workers" || sample.value <= 0) continue;
    const std::string state(sample.Label("state"));
    if (state != "conflict" && state != "refused") continue;
    out->push_back(
        {Severity::kWarning,
         fmt::format("discovery_{}", state),
         state == "conflict"
             ? fmt::format("source \"{}\" names worker ids that somebody else holds", source)
             : fmt::format("workers of source \"{}\" are refused by the registry", source),
         {{fmt::format("kvrouter_discovery_workers{{source=\"{}\",state=\"{}\"}}", source, state),
           Figure(sample.value), "0"}},
         state == "conflict" ? "one worker_id, one owner: take it out of the file, or "
                               "kvrouterctl remove ID"
                             : "the daemon's log names worker and reason; block_size of all "
                               "workers of a model must be one"});
  }
  const double refused = TotalWith(seen.recent, "kvrouter_registrations_refused_total", "reason",
                                   "block_size_conflict") +
                         TotalWith(seen.recent, "kvrouter_registrations_refused_total", "reason",
                                   "block_naming_conflict");
  if (refused > 0) {
    out->push_back({Severity::kWarning,
                    "registrations_refused",
                    "workers were refused because their model has another block size or naming",
                    {{"kvrouter_registrations_refused_total{reason=\"block_size_conflict\"}",
                      Figure(refused), "0"}},
                    "the same --block-size for all engines of a model, or a routing_group of their "
                    "own"});
  }
}

}  // namespace kvrouter::ctl
