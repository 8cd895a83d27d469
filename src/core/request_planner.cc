#include "core/request_planner.h"

namespace kvrouter {
namespace {

std::unique_ptr<RecentContinuations> ContinuationsFor(const LengthGate& gate) {
  if (!gate.local_continuations) return nullptr;
  return std::make_unique<RecentContinuations>(
      RecentContinuations::Options{.window = gate.continuation_window});
}

// Sessions are told apart within a partition; the planner's memory is one for all.
SessionKey GlobalKey(SessionKey session, uint32_t partition) {
  return KeyOfHash(MixBits(static_cast<uint64_t>(session) ^ MixBits(uint64_t{partition} + 1)));
}

// Migration knows workers, not ranks, as the source; `worker` null: it has left.
MigrationPeer PeerOf(const Target& target, double overlap_blocks, const WorkerSpec* worker,
                     bool overloaded) {
  MigrationPeer peer{.target = target,
                     .overlap_blocks = overlap_blocks,
                     .alive = worker != nullptr,
                     .overloaded = overloaded};
  if (worker == nullptr) return peer;
  peer.kv_role = worker->kv_role;
  peer.engine_version = worker->engine_version;
  peer.block_size_tokens = worker->block_size_tokens;
  return peer;
}

}  // namespace

RequestPlanner::RequestPlanner(const RouterConfig& config)
    : continuations_(ContinuationsFor(config.gate.length)) {}

std::optional<std::chrono::nanoseconds> RequestPlanner::SessionIdle(SessionKey session,
                                                                    uint32_t partition, bool book,
                                                                    MonotonicTime now) {
  if (session == kNoSession || continuations_ == nullptr) return std::nullopt;
  const SessionKey key = GlobalKey(session, partition);
  MutexLock lock(mu_);
  return book ? continuations_->Touch(key, now) : continuations_->Peek(key, now);
}

ConfigOverride DecodeLegOverrides(const RouterConfig& config, ConfigOverride overrides) {
  overrides.assume_kv_reuse = false;
  overrides.track_prefill_tokens = false;
  if (!config.gate.conditional.enabled) overrides.overlap_score_credit = 0.0;
  return overrides;
}

MigrationPlan Migrate(const MigrationConfig& config, Target target,
                      const MigrationContext& context) {
  const Placement& placement = *context.placement;
  MigrationInput input{
      .has_prefill_result = context.has_prefill_result,
      .has_session = context.has_session,
      .isl_tokens = context.isl_tokens,
      .target = PeerOf(target, context.target_overlap_blocks, placement.worker.get(), false)};
  if (placement.best_overlap_target) {
    input.best_overlap = PeerOf(*placement.best_overlap_target, placement.best_overlap_blocks,
                                context.best.get(), context.best_overloaded);
    input.best_overlap->pending_prefill_tokens = context.best_pending_prefill_tokens;
    // A worker that has left had blocks of the partition's size.
    if (!context.best) input.best_overlap->block_size_tokens = context.block_size_tokens;
  }
  if (context.home) {
    input.kv_home = PeerOf(*context.home, 0, context.home_worker.get(), context.home_overloaded);
    input.kv_home->pending_prefill_tokens = context.home_pending_prefill_tokens;
    if (!context.home_worker) input.kv_home->block_size_tokens = context.block_size_tokens;
  }
  return PlanMigration(config, input);
}

LegPlanConfig LegConfigOf(const RouterConfig& config) {
  return {.strict_disaggregation = config.strict_disaggregation,
          .kv_source_timeout = config.kv_source_timeout,
          .lease = config.scheduler.active_request_expiry};
}

RequestPlanner::Figures RequestPlanner::GetFigures() const {
  if (continuations_ == nullptr) return {};
  MutexLock lock(mu_);
  const RecentContinuations::Stats stats = continuations_->GetStats();
  return {.continuations = stats.sessions, .continuations_evicted_total = stats.evicted_total};
}

LegTarget LegTargetOf(const Target& target, const WorkerSpec& worker) {
  return {.target = target, .incarnation = worker.incarnation, .address = worker.address};
}

}  // namespace kvrouter
