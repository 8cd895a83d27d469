#include "adapters/grpc/plan_convert.h"

#include <chrono>
#include <string>
#include <string_view>

#include "adapters/grpc/answer_convert.h"

namespace kvrouter {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

v1::LegKind ToProto(LegKind kind) {
  switch (kind) {
    case LegKind::kServe:
      return v1::LEG_KIND_SERVE;
    case LegKind::kPrefill:
      return v1::LEG_KIND_PREFILL;
    case LegKind::kKvSource:
      return v1::LEG_KIND_KV_SOURCE;
    case LegKind::kDecode:
      return v1::LEG_KIND_DECODE;
  }
  return v1::LEG_KIND_UNSPECIFIED;
}

v1::LegFallback ToProto(LegFallback fallback) {
  switch (fallback) {
    case LegFallback::kRetryElsewhere:
      return v1::LEG_FALLBACK_RETRY_ELSEWHERE;
    case LegFallback::kServeLocally:
      return v1::LEG_FALLBACK_SERVE_LOCALLY;
    case LegFallback::kRecompute:
      return v1::LEG_FALLBACK_RECOMPUTE;
    case LegFallback::kFail:
      return v1::LEG_FALLBACK_FAIL;
  }
  return v1::LEG_FALLBACK_UNSPECIFIED;
}

void ToProto(const Leg& leg, v1::Leg* message) {
  message->set_kind(ToProto(leg.kind));
  if (leg.where) {
    ToProto(leg.where->target, message->mutable_target());
    message->set_incarnation(static_cast<uint64_t>(leg.where->incarnation));
    message->set_address(leg.where->address);
  }
  message->set_request_id(leg.request_id);
  if (leg.max_tokens) message->set_max_tokens(*leg.max_tokens);
  message->set_kv_migration_source(leg.kv_migration_source);
  message->set_fallback(ToProto(leg.fallback));
  if (leg.timeout) {
    message->set_timeout_ms(
        static_cast<uint64_t>(duration_cast<milliseconds>(*leg.timeout).count()));
  }
}

std::string Text(std::string_view text) { return std::string(text); }

void ToProto(const GateDecision& gate, v1::GateDecision* message) {
  message->set_remote(gate.remote);
  message->set_rule(Text(GateRuleName(gate.rule)));
  message->set_input_missing(gate.input_missing);
  message->set_text(DescribeGate(gate));
}

void ToProto(const MigrationPlan& migration, v1::MigrationDecision* message) {
  message->set_outcome(Text(MigrationOutcomeName(migration.outcome)));
  message->set_migrate(migration.migrate);
  if (migration.source) ToProto(*migration.source, message->mutable_source());
  message->set_migratable_tokens(migration.migratable_tokens);
  message->set_target_tokens(migration.target_tokens);
  message->set_text(DescribeMigration(migration));
}

void ToProto(const SessionPlacement& session, v1::Session* message) {
  message->set_key(static_cast<uint64_t>(session.key));
  message->set_source(Text(SessionSourceName(session.source)));
  message->set_outcome(Text(SessionOutcomeName(session.outcome)));
  if (session.source != SessionSource::kCaller)
    message->set_derived_name(DerivedSessionName(session.key));
}

}  // namespace

v1::Phase ToProto(RequestPhase phase) {
  switch (phase) {
    case RequestPhase::kWhole:
      break;
    case RequestPhase::kPrefill:
      return v1::PHASE_PREFILL;
    case RequestPhase::kDecode:
      return v1::PHASE_DECODE;
  }
  return v1::PHASE_WHOLE;
}

void PlanToProto(const RouteDecision& decision, v1::RouteResponse* message) {
  message->set_phase(ToProto(decision.leg));
  if (decision.session.key != kNoSession) ToProto(decision.session, message->mutable_session());
  if (!decision.planning) return;
  const Planning& planning = *decision.planning;
  for (const Leg& leg : planning.legs.legs) ToProto(leg, message->add_legs());
  message->set_lease_ms(
      static_cast<uint64_t>(duration_cast<milliseconds>(planning.legs.lease).count()));
  if (planning.gate) ToProto(*planning.gate, message->mutable_gate());
  message->set_prefill_refused(planning.prefill_refused);
  if (planning.migration) ToProto(*planning.migration, message->mutable_migration());
}

}  // namespace kvrouter
