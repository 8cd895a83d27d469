#ifndef KVROUTER_ADAPTERS_METRICS_CATALOGUE_PLAN_METRICS_H_
#define KVROUTER_ADAPTERS_METRICS_CATALOGUE_PLAN_METRICS_H_

#include <array>

#include "adapters/metrics/catalogue/row_words.h"

namespace kvrouter::catalogue {

// Sessions, gate, migration.

// clang-format off
inline constexpr auto kPlanMetrics = std::to_array<MetricInfo>({
{.metric = Metric::kSessionRequests, .name = "kvrouter_session_requests_total",
 .type = kCounter, .labels = "outcome", .unit = "requests", .weighting = kRequest, .origin = kOurs,
 .meaning = "Booked requests that belong to a session, by what it meant for their "
            "target (docs/routing.md#affinity).",
 .moves = "When a request of a session books."},
{.metric = Metric::kSessionSources, .name = "kvrouter_session_sources_total",
 .type = kCounter, .labels = "source", .unit = "requests", .weighting = kRequest, .origin = kOurs,
 .meaning = "The same, by how the session is known: named by the caller, or derived "
            "from the prompt.",
 .moves = "When a request of a session books."},
{.metric = Metric::kGateDecisions, .name = "kvrouter_gate_decisions_total",
 .type = kCounter, .labels = "rule", .unit = "requests", .weighting = kRequest, .origin = kOurs,
 .meaning = "Booked requests that passed the gate, by the rule that decided: "
            "no_prefill_pool, short_prompt, continuation, few_new_tokens and "
            "prefill_busy serve locally, the others remotely.",
 .moves = "When a request books in a partition with prefill workers, or with a "
            "gate configured."},
{.metric = Metric::kGateInputMissing, .name = "kvrouter_gate_input_missing",
 .type = kGauge, .unit = "bool", .weighting = kLevel, .origin = kOurs,
 .meaning = "1: a figure that a configured rule of the gate needs was not known the "
            "last time it decided.",
 .moves = "With every decision of the gate that books."},
{.metric = Metric::kPrefillRefused, .name = "kvrouter_prefill_refused_total",
 .type = kCounter, .unit = "requests", .weighting = kRequest, .origin = kOurs,
 .meaning = "Requests served locally since no prefill worker could be had for the "
            "leg that the gate wanted.",
 .moves = "When such a request books."},
{.metric = Metric::kMigrationDecisions, .name = "kvrouter_migration_decisions_total",
 .type = kCounter, .labels = "outcome", .unit = "requests", .weighting = kRequest, .origin = kOurs,
 .meaning = "Booked requests by what the migration planner said: planned (in dry "
            "mode, too), or what spoke against it.",
 .moves = "When a request books and kv_migration is not off."},
{.metric = Metric::kPlans, .name = "kvrouter_plans_total",
 .type = kCounter, .labels = "plan", .unit = "requests", .weighting = kRequest, .origin = kOurs,
 .meaning = "Booked requests by plan.",
 .moves = kBooks},
{.metric = Metric::kSecondLegs, .name = "kvrouter_second_legs_total",
 .type = kCounter, .unit = "legs", .weighting = kEach, .origin = kOurs,
 .meaning = "Decode legs booked for requests whose prompt another worker computed. "
            "In no other family but loads.",
 .moves = "When such a leg books."},
{.metric = Metric::kSessions, .name = "kvrouter_sessions",
 .type = kGauge, .labels = "model, routing_group, worker_type", .unit = "sessions",
 .weighting = kLevel, .origin = kOurs,
 .meaning = "Sessions bound to a target.",
 .moves = "When sessions begin, move and expire."},
{.metric = Metric::kSessionLeases, .name = "kvrouter_session_leases",
 .type = kGauge, .labels = "model, routing_group, worker_type", .unit = "requests",
 .weighting = kLevel, .origin = kOurs,
 .meaning = "Live bookings of bound sessions.",
 .moves = "When a request of a session books and ends."},
{.metric = Metric::kSessionsExpired, .name = "kvrouter_sessions_expired_total",
 .type = kCounter, .labels = "model, routing_group, worker_type", .unit = "sessions",
 .weighting = kEach, .origin = kOurs,
 .meaning = "Bindings that ended by being idle for "
            "router_session_affinity_ttl_secs.",
 .moves = "Within that time, or 30 s."},
{.metric = Metric::kSessionsEvicted, .name = "kvrouter_sessions_evicted_total",
 .type = kCounter, .labels = "model, routing_group, worker_type", .unit = "sessions",
 .weighting = kEach, .origin = kOurs,
 .meaning = "Idle bindings that made room for others: max_sessions is too small.",
 .moves = "When a session begins at max_sessions."},
{.metric = Metric::kSessionsInvalidated, .name = "kvrouter_sessions_invalidated_total",
 .type = kCounter, .labels = "model, routing_group, worker_type", .unit = "sessions",
 .weighting = kEach, .origin = kOurs,
 .meaning = "Bindings whose target had left, was no candidate any more, or failed a "
            "request.",
 .moves = "When a request of the session finds so, or its failure is reported."},
{.metric = Metric::kSessionsRefused, .name = "kvrouter_sessions_refused_total",
 .type = kCounter, .labels = "model, routing_group, worker_type", .unit = "requests",
 .weighting = kRequest, .origin = kOurs,
 .meaning = "Requests served without a binding since all of max_sessions were in "
            "use.",
 .moves = "When such a request books."},
{.metric = Metric::kLineageEnds, .name = "kvrouter_session_lineage_ends",
 .type = kGauge, .labels = kPartitionLabels, .unit = "prompts",
 .weighting = kLevel, .origin = kOurs,
 .meaning = "Ends of prompts shorter than session_from_prefix_tokens, by which "
            "their next turn is recognised; at most 262,144.",
 .moves = "With booked requests."},
{.metric = Metric::kLineageAliases, .name = "kvrouter_session_lineage_aliases",
 .type = kGauge, .labels = kPartitionLabels, .unit = "sessions",
 .weighting = kLevel, .origin = kOurs,
 .meaning = "Sessions that began shorter than that and have grown past it; at most "
            "262,144.",
 .moves = "With booked requests."},
{.metric = Metric::kLineageEvicted, .name = "kvrouter_session_lineage_evicted_total",
 .type = kCounter, .labels = kPartitionLabels, .unit = "entries",
 .weighting = kEach, .origin = kOurs,
 .meaning = "Ends and aliases that made room for others: the next turn is taken for "
            "a new session.",
 .moves = "With booked requests at those bounds."},
{.metric = Metric::kLineageRefused, .name = "kvrouter_session_lineage_refused_total",
 .type = kCounter, .labels = kPartitionLabels, .unit = "prompts",
 .weighting = kEach, .origin = kOurs,
 .meaning = "Ends not recorded since 1,024 others of different lengths share their "
            "block boundary.",
 .moves = "With booked requests."},
{.metric = Metric::kHotSessions, .name = "kvrouter_hot_sessions",
 .type = kGauge, .labels = kPartitionLabels, .unit = "sessions",
 .weighting = kLevel, .origin = kOurs,
 .meaning = "Derived sessions that are not bound, for they are what many requests "
            "have in common.",
 .moves = "With booked requests."},
{.metric = Metric::kHotSessionsTurned, .name = "kvrouter_hot_sessions_turned_total",
 .type = kCounter, .labels = kPartitionLabels, .unit = "sessions",
 .weighting = kEach, .origin = kOurs,
 .meaning = "How often a session became so.",
 .moves = "With booked requests."},
{.metric = Metric::kContinuations, .name = "kvrouter_continuations",
 .type = kGauge, .unit = "sessions", .weighting = kLevel, .origin = kOurs,
 .meaning = "Sessions seen within the last hour, for local_continuations; at most "
            "4,000,000.",
 .moves = "With booked requests of sessions."},
{.metric = Metric::kContinuationsEvicted, .name = "kvrouter_continuations_evicted_total",
 .type = kCounter, .unit = "sessions", .weighting = kEach, .origin = kOurs,
 .meaning = "Sessions forgotten before their hour was over, for room.",
 .moves = "With booked requests at that bound."},
{.metric = Metric::kKvHomes, .name = "kvrouter_kv_homes",
 .type = kGauge, .unit = "sessions", .weighting = kLevel, .origin = kOurs,
 .meaning = "Sessions of which the migration planner knows where their blocks were "
            "last put; at most 200,000 per partition.",
 .moves = "With booked requests over kv_migration_min_tokens."},
{.metric = Metric::kKvHomesEvicted, .name = "kvrouter_kv_homes_evicted_total",
 .type = kCounter, .unit = "sessions", .weighting = kEach, .origin = kOurs,
 .meaning = "Those that made room for others.",
 .moves = "With booked requests at that bound."},
});
// clang-format on

}  // namespace kvrouter::catalogue

#endif  // KVROUTER_ADAPTERS_METRICS_CATALOGUE_PLAN_METRICS_H_
