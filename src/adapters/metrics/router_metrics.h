#ifndef KVROUTER_ADAPTERS_METRICS_ROUTER_METRICS_H_
#define KVROUTER_ADAPTERS_METRICS_ROUTER_METRICS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "adapters/metrics/decision_figures.h"
#include "adapters/metrics/discovery_figures.h"
#include "adapters/metrics/dispatch_figures.h"
#include "adapters/metrics/http_figures.h"
#include "adapters/metrics/record_figures.h"
#include "adapters/metrics/warm_start_figures.h"
#include "base/clock.h"
#include "kvrouter/decision_sink.h"
#include "kvrouter/phase_observer.h"
#include "kvrouter/router.h"
#include "service/engine_loads.h"
#include "service/feed_monitor.h"
#include "service/published_feeds.h"
#include "service/reported_loads.h"
#include "service/request_observer.h"
#include "service/routing_service.h"
#include "service/worker_registry.h"

namespace kvrouter {

struct MetricsConfig {
  std::string dynamo_namespace = "dynamo";  // DYN_NAMESPACE
  std::string router_id;                    // empty: a stable hash of the host name, decimal
  std::string version;
};

// The figures of the daemon as Prometheus sees them. Names, help texts and buckets are in
// metric_catalogue.cc; what decisions leave is in decision_figures.h and
// overhead_figures.h, what callers report in request_figures.h; everything else is read from
// the sources below at each scrape (scraped_families.h), so that no series outlives its worker.
// Every family is present, at 0 where it has no labels of workers, before the first request.
//
// Thread safety: what router and service call and Text are thread-safe. SetSources: once, before
// the first Text.
class RouterMetrics final : public DecisionSink, public PhaseObserver, public RequestObserver {
 public:
  explicit RouterMetrics(MetricsConfig config);
  ~RouterMetrics() override;

  // Where scrape-time families come from; any may be null. Not used but by Text.
  struct Sources {
    const Router* router = nullptr;
    const RoutingService* service = nullptr;
    const FeedMonitor* feeds = nullptr;
    const WorkerRegistry* workers = nullptr;
    const PublishedFeeds* published = nullptr;
    const ReportedLoads* loads = nullptr;
    const EngineLoads* engine_loads = nullptr;
    const Clock* clock = nullptr;  // of the times in `loads`
    std::function<DiscoveryFigures()> discovery = {};
    std::function<WarmStartFigures()> warm_start = {};
    std::function<RecordFigures()> record = {};
    std::function<DispatchState()> dispatch = {};
    std::function<HttpFigures()> http;
    std::function<bool()> ready;  // as /ready answers
  };
  void SetSources(Sources sources);

  void OnDecision(const RouteRequest& request, const RouteDecision& decision) override;

  // Times the steps of decisions with std::chrono::steady_clock.
  MonotonicTime ReadClock() const override;
  void OnPhases(const PhaseTimes& times) override;

  void OnFirstToken(const ServedBy& by, std::chrono::nanoseconds since_arrival) override;
  void OnOutputBlock(const ServedBy& by, std::chrono::nanoseconds average_inter_token) override;
  void OnEnd(const ServedBy& by, uint64_t output_tokens) override;

  // What the dispatcher tells of its work is counted here; its lines for the log are not. Lives as
  // long as the metrics.
  DispatchObserver* Dispatch();

  HitSums Hits() const;
  DeliveredSums Delivered() const;

  // Prometheus text exposition format 0.0.4.
  std::string Text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_METRICS_ROUTER_METRICS_H_
