#include "core/request_course.h"

#include <cmath>
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "core/schedule/effective_weights.h"
#include "core/schedule/taints.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

CandidateCost ChosenOf(const CandidateTable& table, const Placement& placement) {
  return ScoreSeen(table.seen[placement.index], table.context, table.LowerOf(placement.index));
}

// What a request asks of the targets of one of its legs.
CandidateFilter::Wishes WishesOf(const RouteRequest& request,
                                 const std::optional<TargetSelector>& pinned) {
  return {.pinned = pinned,
          .allowed = request.allowed_workers,
          .excluded = request.excluded,
          .adapter = request.lora_name,
          .constraints = request.constraints};
}

QueueWish QueueWishOf(const RouteRequest& request) {
  return {.policy_class = request.policy_class,
          .strict_priority = request.strict_priority,
          .priority_jump = request.priority_jump,
          .deadline = request.deadline.value_or(MonotonicTime::max())};
}

bool IsCapacityError(const absl::Status& status) {
  return status.code() == absl::StatusCode::kResourceExhausted;
}

}  // namespace

absl::StatusOr<Placement> RequestCourse::Place(CandidateTable* table) {
  switch (request().phase) {
    case RequestPhase::kPrefill:
      return PickForPrefill(request().book, table);
    case RequestPhase::kDecode:
      return PickForDecode(/*second_leg=*/!request().prefill_here, request().book, table);
    case RequestPhase::kWhole:
      break;
  }
  const Scheduler& scheduler = parts_.partition->scheduler();
  // Nobody could decode: the pick below says so.
  const bool is_strict = parts_.config.strict_disaggregation && scheduler.HasDecodeWorkers();
  if ((is_strict || HasGate(parts_.config, scheduler.OpenTargets(TargetPool::kPrefill))) &&
      scheduler.OpenTargets(TargetPool::kDecode) > 0 && !request().prefill_here) {
    state_.gate = Gate(table);
  }
  if (is_strict && lacks_prefill_pool_) {
    return NoPrefillLeg(MakeError(absl::StatusCode::kUnavailable, ErrorReason::kNoWorkers,
                                  "no prefill worker takes requests"));
  }
  if (state_.gate && state_.gate->remote) {
    absl::StatusOr<Placement> remote = PlaceRemote(table);
    if (remote.ok() || IsCapacityError(remote.status())) return remote;
    if (parts_.config.strict_disaggregation) return NoPrefillLeg(remote.status());
    const auto why = remote.status().message();
    state_.prefill_refused = std::string(why.data(), why.size());
    state_.leg = RequestPhase::kWhole;
  }
  return PlaceLocally(table);
}

absl::StatusOr<Placement> RequestCourse::PlaceLocally(CandidateTable* table) {
  filter_.emplace(request());
  queue_ = QueueWishOf(request());
  scheduled_ = Schedule({.pool = TargetPool::kDecode,
                         .book = request().book,
                         .queue = request().may_wait ? &queue_ : nullptr},
                        *filter_);
  return parts_.partition->scheduler().PickAndBook(*scheduled_, table, parts_.now);
}

absl::Status RequestCourse::NoPrefillLeg(const absl::Status& why) {
  Leg prefill;
  prefill.kind = LegKind::kPrefill;
  return ErrorOfFailedLeg(prefill, why);
}

GateDecision RequestCourse::Gate(CandidateTable* table) {
  const GateConfig& gate = parts_.config.gate;
  GateInput input{
      .prefill_pool_active = parts_.partition->scheduler().OpenTargets(TargetPool::kPrefill) > 0,
      .prefill_pinned = request().pinned_prefill.has_value(),
      .isl_tokens = parts_.prompt.isl_tokens,
      .session_idle = parts_.planner->SessionIdle(state_.session.key, parts_.partition->number(),
                                                  request().book, parts_.now)};
  const bool may_be_remote = input.prefill_pool_active || parts_.config.strict_disaggregation;
  if (may_be_remote && WantsDecodeAdvice(gate)) input.decode = AdviseDecode(table);
  if (input.prefill_pool_active && WantsPrefillAdvice(gate)) input.prefill = AdvisePrefill(table);
  GateDecision decision = DecideGate(gate, input);
  if (may_be_remote && !input.prefill_pool_active) {
    input.prefill_pool_active = true;
    lacks_prefill_pool_ = DecideGate(gate, input).remote;
  }
  return decision;
}

std::optional<DecodeAdvice> RequestCourse::AdviseDecode(CandidateTable* table) {
  const auto placement = PickForDecode(/*second_leg=*/false, /*book=*/false, table);
  if (!placement.ok()) return std::nullopt;
  const CandidateCost chosen = ChosenOf(*table, *placement);
  const uint64_t request_blocks = (parts_.prompt.isl_tokens + parts_.prompt.block_size_tokens - 1) /
                                  parts_.prompt.block_size_tokens;
  const uint64_t uncounted_blocks = request_blocks - parts_.chain.size();
  return DecodeAdvice{
      .cached_tokens = static_cast<uint64_t>(
          std::llround(chosen.effective_overlap_blocks * parts_.prompt.block_size_tokens)),
      .potential_decode_blocks = chosen.active_decode_blocks +
                                 static_cast<double>(chosen.additional_decode_blocks) +
                                 static_cast<double>(uncounted_blocks),
      .total_kv_blocks = placement->worker->total_kv_blocks};
}

std::optional<PrefillAdvice> RequestCourse::AdvisePrefill(CandidateTable* table) {
  const auto placement = PickForPrefill(/*book=*/false, table);
  if (!placement.ok()) {
    if (!IsCapacityError(placement.status())) return std::nullopt;
    return PrefillAdvice{.queue_rejected = true};
  }
  return PrefillAdvice{.active_prefill_tokens = ChosenOf(*table, *placement).active_prefill_tokens,
                       .max_num_batched_tokens = placement->worker->max_num_batched_tokens};
}

absl::StatusOr<Placement> RequestCourse::PlaceRemote(CandidateTable* table) {
  state_.leg = RequestPhase::kPrefill;
  KVR_ASSIGN_OR_RETURN(Placement placement, PickForPrefill(request().book, table));
  if (!request().fixed_plan) return placement;
  const absl::Status decode = PlaceDecodeLeg(placement);
  if (decode.ok()) return placement;
  if (placement.booking != kNoBooking) {
    // A session that this very booking bound has gone nowhere.
    if (placement.session == SessionOutcome::kInitialised ||
        placement.session == SessionOutcome::kReplaced)
      parts_.partition->scheduler().DropSession(placement.booking);
    parts_.partition->scheduler().Finish(placement.booking, parts_.now);
  }
  return decode;
}

absl::Status RequestCourse::PlaceDecodeLeg(const Placement& prefill) {
  prefiller_ = prefill.worker;
  CandidateTable table;
  KVR_ASSIGN_OR_RETURN(const Placement decode,
                       PickForDecode(/*second_leg=*/true, request().book, &table));
  state_.decode_booking = decode.booking;
  state_.decode_target = LegTargetOf(table.seen[decode.index].target(), *decode.worker);
  return absl::OkStatus();
}

absl::StatusOr<Placement> RequestCourse::PickForPrefill(bool book, CandidateTable* table) const {
  const auto& pinned =
      request().phase == RequestPhase::kPrefill ? request().pinned : request().pinned_prefill;
  return Pick({.pool = TargetPool::kPrefill, .book = book},
              CandidateFilter(WishesOf(request(), pinned)), table);
}

std::shared_ptr<const WorkerSpec> RequestCourse::Prefiller() const {
  if (prefiller_ || !request().prefilled_by) return prefiller_;
  return parts_.partition->FindWorker(request().prefilled_by->worker);
}

absl::StatusOr<Placement> RequestCourse::PickForDecode(bool second_leg, bool book,
                                                       CandidateTable* table) const {
  const Pool pool{.pool = TargetPool::kDecode, .second_leg = second_leg, .book = book};
  const auto prefiller = second_leg ? Prefiller() : nullptr;
  if (!prefiller || prefiller->topology.kv_transfer_domain.empty())
    return Pick(pool, CandidateFilter(request()), table);
  CandidateFilter::Wishes wishes = WishesOf(request(), request().pinned);
  KVR_RETURN_IF_ERROR(AddTopologyConstraint(prefiller->topology, &wishes.constraints));
  return Pick(pool, CandidateFilter(std::move(wishes)), table);
}

ScheduleRequest RequestCourse::Schedule(const Pool& pool, const CandidateFilter& filter) const {
  const ConfigOverride& overrides = request().overrides;
  return {.filter = &filter,
          .queue = pool.queue,
          .weights = ResolveWeights(
              parts_.config.scheduler,
              pool.second_leg ? DecodeLegOverrides(parts_.config, overrides) : overrides),
          .overload = &parts_.config.scheduler.overload,
          .overlaps = parts_.overlaps,
          .lower_overlaps = parts_.lower_overlaps,
          .shared_hits = parts_.shared_hits,
          .chain = parts_.chain,
          .isl_tokens = parts_.prompt.isl_tokens,
          .block_size_tokens = parts_.prompt.block_size_tokens,
          .pool = pool.pool,
          .decode_pool = pool.second_leg,
          .book = pool.book,
          .list_filtered = parts_.list_filtered,
          .expected_output_tokens = request().expected_output_tokens,
          .session = {.key = state_.session.key,
                      .pins = state_.session.Pins(),
                      .pinned_by_caller = filter.pinned()}};
}

absl::StatusOr<Placement> RequestCourse::Pick(const Pool& pool, const CandidateFilter& filter,
                                              CandidateTable* table) const {
  return parts_.partition->scheduler().PickAndBook(Schedule(pool, filter), table, parts_.now);
}

MigrationPlan RequestCourse::Migrate(const Placement& placement,
                                     const RouteDecision& decision) const {
  Partition& partition = *parts_.partition;
  MigrationContext context{
      .placement = &placement,
      .isl_tokens = parts_.prompt.isl_tokens,
      .target_overlap_blocks = decision.effective_overlap_blocks,
      .block_size_tokens = parts_.prompt.block_size_tokens,
      .has_prefill_result = request().has_prefill_result ||
                            (request().phase == RequestPhase::kDecode && !request().prefill_here),
      .has_session = state_.session.key != kNoSession};
  const auto pending_tokens = [&](const Target& source) -> uint64_t {
    if (parts_.config.migration.prefill_tokens_per_s == 0) return 0;  // nothing is priced
    return partition.scheduler().PendingPrefillTokens(source);
  };
  if (placement.best_overlap_target) {
    context.best = partition.FindWorker(placement.best_overlap_target->worker);
    context.best_overloaded = partition.scheduler().IsOverloaded(*placement.best_overlap_target,
                                                                 parts_.config.scheduler.overload);
    context.best_pending_prefill_tokens = pending_tokens(*placement.best_overlap_target);
  } else if (context.has_session) {
    context.home = partition.sessions().HomeOf(state_.session.key);
    if (context.home) {
      context.home_worker = partition.FindWorker(context.home->worker);
      context.home_overloaded =
          partition.scheduler().IsOverloaded(*context.home, parts_.config.scheduler.overload);
      context.home_pending_prefill_tokens = pending_tokens(*context.home);
    }
  }
  MigrationPlan plan = kvrouter::Migrate(parts_.config.migration, decision.target, context);
  if (plan.set_kv_home && request().book)
    partition.sessions().SetHome(state_.session.key, decision.target);
  return plan;
}

LegPlan RequestCourse::Legs(const Placement& placement, const RouteDecision& decision,
                            const std::optional<MigrationPlan>& migration) const {
  const LegPlanConfig config = LegConfigOf(parts_.config);
  const LegTarget target = LegTargetOf(decision.target, *placement.worker);
  const std::string& id = request().request_id;
  const bool is_all = request().phase == RequestPhase::kDecode && request().prefill_here;
  if (request().phase != RequestPhase::kWhole && !is_all)
    return SingleLegPlan(config, id, request().phase, target, parts_.now);
  if (state_.leg == RequestPhase::kPrefill)
    return RemotePlan(config, id, target, state_.decode_target, parts_.now);
  if (migration && migration->migrate) {
    if (const auto source = parts_.partition->FindWorker(migration->source->worker)) {
      return MigratePlan(config, id, LegTargetOf(*migration->source, *source), target, parts_.now);
    }
  }
  return LocalPlan(config, id, target, parts_.now);
}

SessionPlacement DescribeSession(const SessionIdentifier::Identity& session,
                                 const Placement& placement) {
  if (session.key == kNoSession) return {};
  return {.key = session.key,
          .source = session.source,
          .outcome = session.hot ? SessionOutcome::kHot : placement.session};
}

void RequestCourse::Describe(const Placement& placement, RouteDecision* decision) const {
  decision->leg = state_.leg;
  decision->decode_booking = state_.decode_booking;
  decision->session = DescribeSession(state_.session, placement);
  std::optional<MigrationPlan> migration;
  if (state_.leg != RequestPhase::kPrefill && parts_.config.migration.mode != MigrationMode::kOff)
    migration = Migrate(placement, *decision);
  if (!state_.gate && !migration && request().phase == RequestPhase::kWhole) return;
  Planning planning{.gate = state_.gate,
                    .prefill_refused = state_.prefill_refused,
                    .migration = migration,
                    .legs = Legs(placement, *decision, migration)};
  const LegKind first = planning.legs.legs.front().kind;
  decision->plan = first == LegKind::kServe      ? Plan::kLocal
                   : first == LegKind::kKvSource ? Plan::kMigrate
                                                 : Plan::kRemotePrefill;
  decision->planning = std::make_shared<const Planning>(std::move(planning));
}

}  // namespace kvrouter
