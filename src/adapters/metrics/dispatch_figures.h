#ifndef KVROUTER_ADAPTERS_METRICS_DISPATCH_FIGURES_H_
#define KVROUTER_ADAPTERS_METRICS_DISPATCH_FIGURES_H_

#include <prometheus/counter.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adapters/metrics/atomic_histogram.h"
#include "adapters/metrics/metric_families.h"
#include "base/mutex.h"
#include "dispatch/dispatch_observer.h"
#include "dispatch/dispatcher.h"
#include "kvrouter/router.h"

namespace kvrouter {

// What the link to engines counts, handed over by the daemon since adapters do not know each other.
struct EngineCallFigures {
  std::vector<std::pair<std::string, uint64_t>> ends;  // by how they ended
  uint64_t retried = 0;
  uint64_t running = 0;  // now
  uint64_t waiting = 0;  // now, for a connection
  uint64_t busy_connections = 0;
  uint64_t idle_connections = 0;
  uint64_t opened = 0;
  uint64_t reused = 0;
  uint64_t closed_idle = 0;
  uint64_t closed_ended = 0;
  uint64_t closed_surplus = 0;
  uint64_t sent_bytes = 0;
  uint64_t received_bytes = 0;
  uint64_t names_answered = 0;
  uint64_t names_failed = 0;
};

// Read at the scrape.
struct DispatchState {
  DispatchCounters counters = {};
  EngineCallFigures engines = {};
};

// Of the requests whose engine told.
struct DeliveredSums {
  double prompt_tokens = 0;
  double predicted_tokens = 0;
  double delivered_tokens = 0;
};

// Of the paths that the door serves, and one for all others.
inline constexpr int kDispatchEndpointCount = 7;

// What the dispatcher tells. The calibration histograms are kept by target and shown while it is
// registered; they are tidied at the scrape. Between two scrapes at most kMaxTargets are kept, and
// at most kMaxModels for ever; what more of them tell is not noted.
//
// Thread safety: thread-safe.
class DispatchFigures final : public DispatchObserver {
 public:
  static constexpr size_t kMaxTargets = 65'536;
  static constexpr size_t kMaxModels = 1'024;

  void OnFirstToken(std::string_view path, std::chrono::nanoseconds since_arrival) override;
  void OnLeg(LegKind kind, const Target& target, LegResult result,
             std::chrono::nanoseconds took) override;
  void OnFallback(DispatchFallback fallback) override;
  void OnOutgrown(OutgrownHold hold) override;
  void OnTokenize(TokenizeOutcome outcome, std::chrono::nanoseconds took) override;
  void OnOverlap(const DeliveredOverlap& overlap) override;
  void OnLeaseLeft(const Target& producer) override;
  void OnEnd(const DispatchEnd& end) override;
  void OnLog(LogLevel /*level*/, const std::string& /*line*/) override {}

  DeliveredSums Delivered() const {
    return {prompt_tokens_.Value(), predicted_tokens_.Value(), delivered_tokens_.Value()};
  }

  // Forgets the targets that are not in `partitions`.
  void Show(const DispatchState& state, const std::vector<PartitionSnapshot>& partitions,
            MetricFamilies* out);

 private:
  struct EndpointFigures {
    std::array<prometheus::Counter, kDispatchOutcomeCount> ends;
    AtomicHistogram seconds{Metric::kDispatchRequestTime};
    AtomicHistogram first_token_seconds{Metric::kDispatchFirstTokenTime};
  };
  struct LegFigures {
    std::array<prometheus::Counter, kLegResultCount> results;
    AtomicHistogram seconds{Metric::kDispatchLegTime};
  };

  void ShowRequests(const DispatchCounters& counters, MetricFamilies* out) const;
  void ShowLegs(MetricFamilies* out) const;
  void ShowOverlap(const std::vector<PartitionSnapshot>& partitions, MetricFamilies* out);
  void ShowTokenizing(const DispatchCounters& counters, MetricFamilies* out) const;

  std::array<EndpointFigures, kDispatchEndpointCount> endpoints_;
  std::array<LegFigures, static_cast<size_t>(LegKind::kDecode) + 1> legs_;
  std::array<prometheus::Counter, kDispatchFallbackCount> fallbacks_;
  std::array<prometheus::Counter, kOutgrownHoldCount> outgrown_;
  prometheus::Counter retries_, leases_left_;
  prometheus::Counter prompt_tokens_, predicted_tokens_, delivered_tokens_;
  std::array<prometheus::Counter, kTokenizeOutcomeCount> texts_;
  AtomicHistogram tokenize_seconds_{Metric::kTokenizeTime};

  Mutex mu_;
  std::map<std::string, std::unique_ptr<AtomicHistogram>, std::less<>> cached_by_model_
      ABSL_GUARDED_BY(mu_);
  std::map<Target, std::unique_ptr<AtomicHistogram>> calibration_ ABSL_GUARDED_BY(mu_);
};

// Calls and connections to engines.
void ShowEngineCalls(const EngineCallFigures& engines, MetricFamilies* out);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_METRICS_DISPATCH_FIGURES_H_
