#ifndef KVROUTER_ADAPTERS_METRICS_ROUTER_METRICS_H_
#define KVROUTER_ADAPTERS_METRICS_ROUTER_METRICS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kvrouter/decision_sink.h"
#include "kvrouter/router.h"
#include "service/feed_monitor.h"
#include "service/routing_service.h"
#include "service/worker_registry.h"

namespace kvrouter {

struct MetricsConfig {
  std::string dynamo_namespace = "dynamo";  // DYN_NAMESPACE
  std::string router_id;                    // empty: a stable hash of the host name, decimal
  std::string version;
};

// What the HTTP server counts, handed over by the daemon since adapters do not know each other.
struct HttpFigures {
  uint64_t requests = 0;
  uint64_t connections_refused = 0;
  uint64_t timeouts = 0;
  uint64_t bad_requests = 0;
  uint64_t streams_overflowed = 0;
  // Of the selection API's cache of /select inputs.
  uint64_t selections_cached = 0;
  uint64_t selections_cached_bytes = 0;
  uint64_t selections_evicted = 0;
  uint64_t selections_expired = 0;
};

// Every metric name, help text and bucket of the daemon, in router_metrics.cc.
//
// The hit rule, one for histogram and counters so that they cannot drift apart: a decision that
// booked, with isl_blocks > 0, adds its effective overlap (fractions kept) and its isl_blocks to
// the counters and observes their ratio once. The best overlap that was available and what the choice
// gave up of it (regret) follow the same rule, so that they can be set beside the overlap.
//
// Two kinds: counters and histograms that OnDecision moves (handles resolved once, at
// construction), and families that are read from the sources below at each scrape, so that no
// series outlives its worker. Every family is present, at 0 where it has no labels of workers,
// before the first request.
//
// Thread safety: OnDecision and Text are thread-safe. SetSources: once, before the first Text.
class RouterMetrics final : public DecisionSink {
 public:
  explicit RouterMetrics(MetricsConfig config);
  ~RouterMetrics() override;

  // Where scrape-time families come from; any may be null. Not used but by Text.
  struct Sources {
    const Router* router = nullptr;
    const RoutingService* service = nullptr;
    const FeedMonitor* feeds = nullptr;
    const WorkerRegistry* workers = nullptr;
    std::function<HttpFigures()> http;
    std::function<bool()> ready;  // as /ready answers
  };
  void SetSources(Sources sources);

  void OnDecision(const RouteRequest& request, const RouteDecision& decision) override;

  // Prometheus text exposition format 0.0.4.
  std::string Text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_METRICS_ROUTER_METRICS_H_
