#include "daemon/plan_log.h"

#include <spdlog/spdlog.h>

#include <string>
#include <string_view>

namespace kvrouter {
namespace {

// Callers choose their ids; a line stays a line.
std::string OneWord(std::string_view id) {
  std::string text(id);
  for (char& c : text) {
    if (c <= ' ' || c == '\x7f') c = '_';
  }
  return text;
}

void LogSpill(const RouteRequest& request, const RouteDecision& decision,
              const MigrationPlan& migration) {
  spdlog::info(
      "KVMIGRATE_SPILL request_id={} source={}/{} target={}/{} tokens={} migratable_tokens={} "
      "mode={}",
      OneWord(request.request_id), static_cast<uint64_t>(migration.source->worker),
      migration.source->dp_rank, static_cast<uint64_t>(decision.target.worker),
      decision.target.dp_rank, decision.isl_tokens, migration.migratable_tokens,
      migration.migrate ? "migrate" : "dry");
}

}  // namespace

void PlanLog::OnDecision(const RouteRequest& request, const RouteDecision& decision) {
  next_->OnDecision(request, decision);
  if (!decision.booked || !decision.planning) return;
  const Planning& planning = *decision.planning;
  if (planning.gate && spdlog::should_log(spdlog::level::debug)) {
    spdlog::debug("event=gate request_id={} target={}/{} plan={} {}", OneWord(request.request_id),
                  static_cast<uint64_t>(decision.target.worker), decision.target.dp_rank,
                  PlanName(decision.plan), DescribeGate(*planning.gate));
  }
  if (planning.migration && planning.migration->outcome == MigrationOutcome::kPlanned)
    LogSpill(request, decision, *planning.migration);
}

void MigrationLog::OnLeg(const EndedLeg& leg) {
  next_->OnLeg(leg);
  if (leg.kind != LegKind::kKvSource) return;
  spdlog::info("KVMIGRATE: {} request_id={} source={}/{}",
               leg.succeeded ? "handshake obtained" : "producer dispatch failed",
               OneWord(leg.request_id), static_cast<uint64_t>(leg.by.target.worker),
               leg.by.target.dp_rank);
}

void MigrationLog::OnDecodingPulled(std::string_view request_id, const ServedBy& by) {
  next_->OnDecodingPulled(request_id, by);
  spdlog::info("KVMIGRATE: decoding on target request_id={} target={}/{}", OneWord(request_id),
               static_cast<uint64_t>(by.target.worker), by.target.dp_rank);
}

}  // namespace kvrouter
