#include "adapters/http/selection_plan.h"

#include <chrono>

namespace kvrouter {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::duration_cast;
using std::chrono::milliseconds;

Json TargetJson(const Target& target) {
  return {{"worker_id", static_cast<uint64_t>(target.worker)}, {"dp_rank", target.dp_rank}};
}

Json MillisecondsJson(std::chrono::nanoseconds time) {
  return duration_cast<milliseconds>(time).count();
}

Json LegJson(const Leg& leg) {
  Json json = {{"kind", LegKindName(leg.kind)}};
  json["target"] = leg.where ? TargetJson(leg.where->target) : Json(nullptr);
  json["incarnation"] = leg.where ? static_cast<uint64_t>(leg.where->incarnation) : 0;
  json["address"] = leg.where ? leg.where->address : "";
  json["request_id"] = leg.request_id;
  json["max_tokens"] = leg.max_tokens ? Json(*leg.max_tokens) : Json(nullptr);
  json["kv_migration_source"] = leg.kv_migration_source;
  json["fallback"] = LegFallbackName(leg.fallback);
  json["timeout_ms"] = leg.timeout ? MillisecondsJson(*leg.timeout) : Json(nullptr);
  return json;
}

}  // namespace

Json LegsJson(const RouteDecision& decision) {
  Json legs = Json::array();
  if (!decision.planning) return legs;
  for (const Leg& leg : decision.planning->legs.legs) legs.push_back(LegJson(leg));
  return legs;
}

Json LeaseJson(const RouteDecision& decision) {
  return decision.planning ? MillisecondsJson(decision.planning->legs.lease) : Json(0);
}

void AddPlan(const RouteDecision& decision, Json* answer) {
  if (decision.plan == Plan::kLocal) return;
  (*answer)["plan"] = PlanName(decision.plan);
  (*answer)["phase"] = RequestPhaseName(decision.leg);
  (*answer)["legs"] = LegsJson(decision);
  (*answer)["lease_ms"] = LeaseJson(decision);
}

Json SessionJson(const RouteDecision& decision) {
  const SessionPlacement& session = decision.session;
  if (session.key == kNoSession) return nullptr;
  return {{"key", static_cast<uint64_t>(session.key)},
          {"source", SessionSourceName(session.source)},
          {"outcome", SessionOutcomeName(session.outcome)},
          {"derived_name", session.source == SessionSource::kCaller
                               ? Json(nullptr)
                               : Json(DerivedSessionName(session.key))}};
}

Json GateJson(const RouteDecision& decision) {
  if (!decision.planning || !decision.planning->gate) return nullptr;
  const GateDecision& gate = *decision.planning->gate;
  return {{"remote", gate.remote},
          {"rule", GateRuleName(gate.rule)},
          {"input_missing", gate.input_missing},
          {"text", DescribeGate(gate)}};
}

Json MigrationJson(const RouteDecision& decision) {
  if (!decision.planning || !decision.planning->migration) return nullptr;
  const MigrationPlan& migration = *decision.planning->migration;
  return {{"outcome", MigrationOutcomeName(migration.outcome)},
          {"migrate", migration.migrate},
          {"source", migration.source ? TargetJson(*migration.source) : Json(nullptr)},
          {"migratable_tokens", migration.migratable_tokens},
          {"target_tokens", migration.target_tokens},
          {"text", DescribeMigration(migration)}};
}

}  // namespace kvrouter
