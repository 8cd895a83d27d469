#ifndef KVROUTER_ADAPTERS_METRICS_PLAN_FIGURES_H_
#define KVROUTER_ADAPTERS_METRICS_PLAN_FIGURES_H_

#include <prometheus/counter.h>
#include <prometheus/gauge.h>

#include <array>
#include <vector>

#include "adapters/metrics/metric_families.h"
#include "kvrouter/decision.h"
#include "kvrouter/router.h"

namespace kvrouter {

// What booked decisions say of sessions, gate, migration and legs. Each request counts once in
// sessions, gate and plans: with its first leg. Thread safety: thread-safe.
class PlanFigures {
 public:
  void Count(const RouteDecision& decision);

  void Show(MetricFamilies* out) const;

 private:
  std::array<prometheus::Counter, kSessionOutcomeCount> sessions_;
  std::array<prometheus::Counter, kSessionSourceCount> session_sources_;
  std::array<prometheus::Counter, kGateRuleCount> gate_;
  prometheus::Gauge gate_input_missing_;
  std::array<prometheus::Counter, kMigrationOutcomeCount> migrations_;
  std::array<prometheus::Counter, kPlanCount> plans_;
  prometheus::Counter prefill_refused_;
  prometheus::Counter second_legs_;
};

// Bound and derived sessions of each partition, and what plans remember; read at the scrape.
void ShowSessions(const std::vector<PartitionSnapshot>& partitions, MetricFamilies* out);
void ShowPlanning(const PlanningFigures& figures, MetricFamilies* out);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_METRICS_PLAN_FIGURES_H_
