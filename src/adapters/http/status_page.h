#ifndef KVROUTER_ADAPTERS_HTTP_STATUS_PAGE_H_
#define KVROUTER_ADAPTERS_HTTP_STATUS_PAGE_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "adapters/http/http_server.h"
#include "adapters/http/ops.h"
#include "kvrouter/router.h"
#include "kvrouter/worker.h"
#include "service/feed_monitor.h"
#include "service/routing_service.h"

namespace kvrouter {

// The page for a person who asks how the router is, in a browser, without a dashboard: ready or
// not, what is blind or cold, who has which load, and why the last requests went where they went.
// One HTML document without scripts or anything from elsewhere.

// Sums over booked requests, as the metrics of the same names.
struct StatusHits {
  uint64_t requests = 0;
  double hit_ratio_sum = 0;  // of the requests' ratios
  double overlap_blocks = 0;
  double isl_blocks = 0;
  double overlap_tokens = 0;
  double isl_tokens = 0;
  double best_overlap_tokens = 0;
};

// What was dispatched, since the start.
struct StatusDispatch {
  std::string address;  // of the OpenAI door; empty: there is none
  uint64_t running = 0;
  uint64_t ended = 0;
  uint64_t failed = 0;       // of them: nothing worked, or over the total time
  double prompt_tokens = 0;  // of requests whose engine told what it found cached of them
  double predicted_tokens = 0;
  double delivered_tokens = 0;
};

struct StatusReport {
  std::string version;
  std::chrono::seconds uptime{0};
  Readiness readiness;
  std::vector<PartitionSnapshot> partitions;
  std::vector<WorkerSpec> workers;
  std::vector<FeedReport> feeds;
  StatusHits hits;
  StatusDispatch dispatch;
  std::vector<RecentDecision> recent;  // newest first
};

// A page stays readable; the rest is in /loads and /metrics.
inline constexpr size_t kMaxStatusTargets = 256;
inline constexpr size_t kMaxStatusDecisions = 20;

// Pure. Everything that comes from outside is escaped.
std::string StatusPageHtml(const StatusReport& report);

// GET / and GET /status. `report` is called on the server's threads.
void AddStatusRoutes(HttpServer* server, std::function<StatusReport()> report);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_STATUS_PAGE_H_
