#include "daemon/plan_log.h"

#include <spdlog/spdlog.h>

#include <string>

namespace kvrouter {
namespace {

// Callers choose their ids; a line stays a line.
std::string OneWord(std::string text) {
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

}  // namespace kvrouter
