#include "adapters/metrics/plan_figures.h"

#include <string>
#include <string_view>

namespace kvrouter {
namespace {

template <typename Enum, size_t kCount>
void ShowByName(Metric metric, const std::array<prometheus::Counter, kCount>& counters,
                const char* label, std::string_view (*name)(Enum), MetricFamilies* out) {
  out->Open(metric);
  for (size_t i = 0; i < kCount; ++i)
    out->Add(counters[i].Value(), {{label, std::string(name(static_cast<Enum>(i)))}});
}

template <typename Enum, size_t kCount>
void CountOne(std::array<prometheus::Counter, kCount>* counters, Enum value) {
  (*counters)[static_cast<size_t>(value)].Increment();
}

MetricLabels PartitionLabels(const PartitionSnapshot& partition) {
  return {{"model", partition.model_name}, {"routing_group", partition.routing_group}};
}

bool IsShown(const PartitionSnapshot& partition) {
  return !partition.loads.empty() || partition.bookings > 0;
}

}  // namespace

void PlanFigures::Count(const RouteDecision& decision) {
  if (!decision.booked) return;
  if (decision.planning && decision.planning->migration)
    CountOne(&migrations_, decision.planning->migration->outcome);
  if (decision.leg == RequestPhase::kDecode) {
    second_legs_.Increment();
    return;
  }
  CountOne(&plans_, decision.plan);
  if (decision.session.key != kNoSession) {
    CountOne(&sessions_, decision.session.outcome);
    CountOne(&session_sources_, decision.session.source);
  }
  if (!decision.planning || !decision.planning->gate) return;
  CountOne(&gate_, decision.planning->gate->rule);
  gate_input_missing_.Set(decision.planning->gate->input_missing ? 1 : 0);
  if (!decision.planning->prefill_refused.empty()) prefill_refused_.Increment();
}

void PlanFigures::Show(MetricFamilies* out) const {
  ShowByName<SessionOutcome>(Metric::kSessionRequests, sessions_, "outcome", SessionOutcomeName,
                             out);
  ShowByName<SessionSource>(Metric::kSessionSources, session_sources_, "source", SessionSourceName,
                            out);
  ShowByName<GateRule>(Metric::kGateDecisions, gate_, "rule", GateRuleName, out);
  out->Show(Metric::kGateInputMissing, gate_input_missing_.Value());
  out->Show(Metric::kPrefillRefused, prefill_refused_.Value());
  ShowByName<MigrationOutcome>(Metric::kMigrationDecisions, migrations_, "outcome",
                               MigrationOutcomeName, out);
  ShowByName<Plan>(Metric::kPlans, plans_, "plan", PlanName, out);
  out->Show(Metric::kSecondLegs, second_legs_.Value());
}

void ShowSessions(const std::vector<PartitionSnapshot>& partitions, MetricFamilies* out) {
  const auto show = [&](Metric metric, uint64_t SessionFigures::*figure) {
    out->Open(metric);
    for (const PartitionSnapshot& partition : partitions) {
      if (!IsShown(partition)) continue;
      for (const auto& [role, figures] :
           {std::pair(WorkerRole::kPrefill, &partition.prefill_sessions),
            std::pair(WorkerRole::kDecode, &partition.decode_sessions)}) {
        MetricLabels labels = PartitionLabels(partition);
        labels.push_back({"worker_type", std::string(WorkerTypeLabel(role))});
        out->Add(figures->*figure, std::move(labels));
      }
    }
  };
  show(Metric::kSessions, &SessionFigures::sessions);
  show(Metric::kSessionLeases, &SessionFigures::leases);
  show(Metric::kSessionsExpired, &SessionFigures::expired_total);
  show(Metric::kSessionsEvicted, &SessionFigures::evicted_total);
  show(Metric::kSessionsInvalidated, &SessionFigures::invalidated_total);
  show(Metric::kSessionsRefused, &SessionFigures::refused_total);
  const auto show_derived = [&](Metric metric, uint64_t DerivedSessionFigures::*figure) {
    out->Open(metric);
    for (const PartitionSnapshot& partition : partitions) {
      if (IsShown(partition))
        out->Add(partition.derived_sessions.*figure, PartitionLabels(partition));
    }
  };
  show_derived(Metric::kLineageEnds, &DerivedSessionFigures::ends);
  show_derived(Metric::kLineageAliases, &DerivedSessionFigures::aliases);
  show_derived(Metric::kLineageEvicted, &DerivedSessionFigures::evicted_total);
  show_derived(Metric::kLineageRefused, &DerivedSessionFigures::refused_total);
  show_derived(Metric::kHotSessions, &DerivedSessionFigures::hot);
  show_derived(Metric::kHotSessionsTurned, &DerivedSessionFigures::turned_hot_total);
}

void ShowPlanning(const PlanningFigures& figures, MetricFamilies* out) {
  out->Show(Metric::kContinuations, figures.continuations);
  out->Show(Metric::kContinuationsEvicted, figures.continuations_evicted_total);
  out->Show(Metric::kKvHomes, figures.kv_homes);
  out->Show(Metric::kKvHomesEvicted, figures.kv_homes_evicted_total);
}

}  // namespace kvrouter
