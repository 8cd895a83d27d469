#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "ctl/doctor/diagnose.h"
#include "ctl/doctor/figures.h"

namespace kvrouter::ctl {
namespace {

constexpr char kStarted[] = "dynamo_component_router_requests_started_total";

std::string Share(double part, double whole) { return fmt::format("{:.1f} %", 100 * part / whole); }

void CheckBookings(const Observations& seen, std::vector<Finding>* out) {
  const double started = Total(seen.recent, kStarted);
  const double expired = Total(seen.recent, "kvrouter_bookings_expired_total");
  if (expired > 0) {
    const double share = expired / std::max(started, expired);
    out->push_back({share > 0.01 ? Severity::kWarning : Severity::kNote,
                    "bookings_expire",
                    "callers do not call Free: their load stays on the workers until it expires",
                    {{"kvrouter_bookings_expired_total", Figure(expired), "0"},
                     {"of the requests booked", Share(share, 1), "1 %"}},
                    "Free (DELETE /reservations/ID) at the end of every request, cancelled ones "
                    "included; router_active_request_expiry_secs"});
  }
  const double duplicates = Total(seen.recent, "kvrouter_duplicate_requests_total");
  if (duplicates > 0.01 * std::max(1.0, started)) {
    out->push_back({Severity::kWarning,
                    "duplicate_request_ids",
                    "callers use request ids that are live already: each such request is refused",
                    {{"kvrouter_duplicate_requests_total", Figure(duplicates),
                      fmt::format("1 % of {}", Figure(started))}},
                    "ids unique over all gateways, or none (one is generated)"});
  }
  const double unknown = Total(seen.recent, "kvrouter_unknown_frees_total");
  if (unknown > 0.05 * std::max(1.0, started)) {
    out->push_back({Severity::kNote,
                    "unknown_frees",
                    "callers free what is not booked: freed twice, expired, or booked at another "
                    "router",
                    {{"kvrouter_unknown_frees_total", Figure(unknown),
                      fmt::format("5 % of {}", Figure(started))}},
                    "Free must reach the router that booked"});
  }
}

struct RefusalMeaning {
  const char* reason;
  Severity severity;
  const char* what;
  const char* help;
};
constexpr RefusalMeaning kRefusals[] = {
    {"all_overloaded", Severity::kCritical,
     "requests were refused because all workers were "
     "overloaded",
     "more workers; the thresholds of overload"},
    {"pinned_overloaded", Severity::kWarning,
     "requests were refused because their pinned worker "
     "was overloaded",
     "pin less, or let callers fall back"},
    {"queue_limit", Severity::kCritical, "requests were refused because too many wait",
     "more workers; the limits of the queue"},
    {"limit_reached", Severity::kCritical, "requests were refused at a bound of the daemon",
     "max_bookings; docs/operations.md#bounds"},
    {"no_workers", Severity::kWarning,
     "requests were refused for want of a worker that could "
     "serve them",
     "kvrouterctl workers: draining, or in another routing_group"},
    {"unknown_partition", Severity::kWarning,
     "requests name a model or routing group that no "
     "worker has",
     "model_name and routing_group of callers and workers must be equal"},
    {"block_naming_conflict", Severity::kWarning,
     "requests say of EAGLE what their workers are "
     "not",
     "is_eagle of callers and workers must be equal"},
};

void CheckRefusals(const Observations& seen, std::vector<Finding>* out) {
  for (const RefusalMeaning& refusal : kRefusals) {
    const double count =
        TotalWith(seen.recent, "kvrouter_requests_refused_total", "reason", refusal.reason);
    if (count <= 0) continue;
    out->push_back(
        {refusal.severity,
         fmt::format("refused_{}", refusal.reason),
         refusal.what,
         {{fmt::format("kvrouter_requests_refused_total{{reason=\"{}\"}}", refusal.reason),
           Figure(count), "0"},
          {"requests booked", Figure(Total(seen.recent, kStarted)), "-"}},
         refusal.help});
  }
}

// Workers of one model and group between which one draws nearly everything.
void CheckBalance(const Observations& seen, std::vector<Finding>* out) {
  constexpr double kEnoughRequests = 16;
  constexpr double kMost = 0.9;
  std::map<std::string, double> active;  // by worker
  for (const client::Sample& sample : seen.metrics) {
    if (sample.name == "kvrouter_worker_active_requests")
      active[std::string(sample.Label("worker_id"))] += sample.value;
  }
  std::map<std::pair<std::string, std::string>, std::vector<const SeenWorker*>> partitions;
  for (const SeenWorker& worker : seen.workers) {
    if (!worker.draining) partitions[{worker.model_name, worker.routing_group}].push_back(&worker);
  }
  for (const auto& [key, workers] : partitions) {
    double sum = 0, most = 0;
    const SeenWorker* busiest = nullptr;
    for (const SeenWorker* worker : workers) {
      const double requests = active[std::to_string(worker->worker_id)];
      sum += requests;
      if (requests > most) {
        most = requests;
        busiest = worker;
      }
    }
    if (workers.size() < 2 || sum < kEnoughRequests || most < kMost * sum) continue;
    out->push_back({Severity::kWarning,
                    "one_worker_draws_all",
                    fmt::format("worker {} has nearly all requests of model {} in group {}, {} "
                                "others next to none",
                                busiest->worker_id, key.first, key.second, workers.size() - 1),
                    {{"kvrouter_worker_active_requests",
                      fmt::format("{} of {}", Figure(most), Figure(sum)), Share(kMost, 1)}},
                    "kvrouterctl explain ID shows the costs: a prefix that all prompts share, "
                    "prefill not reported complete (PrefillComplete), or "
                    "router_kv_overlap_score_credit too high"});
  }
}

void CheckGivenUp(const Observations& seen, std::vector<Finding>* out) {
  constexpr double kEnoughTokens = 100'000;
  const double best = Total(seen.recent, "kvrouter_best_overlap_tokens_total");
  const double got = Total(seen.recent, "kvrouter_overlap_tokens_total");
  if (best < kEnoughTokens || got >= 0.7 * best) return;
  out->push_back(
      {Severity::kNote,
       "overlap_given_up",
       "much cached overlap is given up for the sake of load",
       {{"kvrouter_overlap_tokens_total", Figure(got), fmt::format("70 % of {}", Figure(best))}},
       "more workers, or a higher router_kv_overlap_score_credit; callers must report "
       "PrefillComplete, else workers look busier than they are"});
}

}  // namespace

void CheckTraffic(const Observations& seen, std::vector<Finding>* out) {
  CheckBookings(seen, out);
  CheckRefusals(seen, out);
  CheckBalance(seen, out);
  CheckGivenUp(seen, out);
}

}  // namespace kvrouter::ctl
