#ifndef KVROUTER_ADAPTERS_METRICS_ROUTER_METRICS_H_
#define KVROUTER_ADAPTERS_METRICS_ROUTER_METRICS_H_

#include <cstdint>
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

// Every metric name, help text and bucket of the daemon, in router_metrics.cc.
//
// Two kinds: counters and histograms that OnDecision moves (handles resolved once, at construction), and families that
// are read from the sources below at each scrape, so that no series outlives its worker. Every family is present, at 0
// where it has no labels of workers, before the first request.
//
// Thread safety: OnDecision and Text are thread-safe. SetSources: once, before the first Text.
class RouterMetrics final : public DecisionSink {
 public:
  explicit RouterMetrics(MetricsConfig config);
  ~RouterMetrics() override;

  // Where scrape-time families come from; any may be null. All outlive this object.
  struct Sources {
    const Router* router = nullptr;
    const RoutingService* service = nullptr;
    const FeedMonitor* feeds = nullptr;
    const WorkerRegistry* workers = nullptr;
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
