#include "kvrouter/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "core/decision_description.h"
#include "core/dump_cursor.h"
#include "core/external_tier_cache.h"
#include "core/parked_request.h"
#include "core/partition_directory.h"
#include "core/phase_timer.h"
#include "core/prompt.h"
#include "core/request_course.h"
#include "core/request_planner.h"
#include "core/router_settings.h"
#include "core/schedule/candidate_detail.h"
#include "core/schedule/candidate_filter.h"
#include "core/schedule/effective_weights.h"
#include "core/schedule/shadow.h"
#include "kvrouter/block_hash.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

// What a thread needs for one decision, reused for its next one.
struct Scratch {
  PromptBuffers prompt;
  std::vector<OverlapMatch> overlaps;
  std::vector<LowerTierMatch> lower_overlaps;
  std::vector<BlockRange> shared_hits;
  CandidateTable candidates;
  DetailBuffers detail;
  std::vector<double> shadow_costs;
};

// A very long prompt must not stay in the memory of every thread that ever saw one.
constexpr size_t kMaxKeptBlocks = 65'536;

class ScratchLease {
 public:
  Scratch* operator->() { return &scratch_; }
  Scratch* get() { return &scratch_; }
  ~ScratchLease() {
    const PromptBuffers& prompt = scratch_.prompt;  // either alone may be filled
    if (std::max(prompt.local_hashes.capacity(), prompt.sequence_hashes.capacity()) >
        kMaxKeptBlocks)
      scratch_.prompt = {};
  }

 private:
  static thread_local Scratch scratch_;
};
thread_local Scratch ScratchLease::scratch_;

// What the caller says is cached, in blocks; absent when it says nothing.
absl::StatusOr<std::optional<double>> StatedOverlapBlocks(const ReserveRequest& request,
                                                          const IdentifiedPrompt& prompt) {
  if (!request.effective_prefill_tokens) return std::optional<double>();
  if (*request.effective_prefill_tokens > prompt.isl_tokens) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest,
                     fmt::format("effective_prefill_tokens {} is more than the {} prompt tokens",
                                 *request.effective_prefill_tokens, prompt.isl_tokens));
  }
  const uint64_t cached_tokens = prompt.isl_tokens - *request.effective_prefill_tokens;
  return std::optional<double>(static_cast<double>(cached_tokens) / prompt.block_size_tokens);
}

// Who reads the session of a request: the tables of bindings, the gate, the planner.
bool WantsSessions(const RouterConfig& config) {
  return config.sessions.affinity_ttl || config.gate.length.local_continuations ||
         config.migration.mode != MigrationMode::kOff;
}

RouterConfig Checked(RouterConfig config) {
  const absl::Status status = Validate(config);
  KVR_CHECK(status.ok(), "{}", status.ToString());
  return config;
}

}  // namespace

struct Router::Impl {
  Impl(const RouterConfig& checked_config, DecisionSink* decision_sink,
       PhaseObserver* phase_observer, DecisionRecorder* decision_recorder,
       const SharedCacheView* shared)
      : settings(checked_config),
        sink(decision_sink),
        phases(phase_observer),
        recorder(decision_recorder),
        planner(checked_config),
        directory(checked_config),
        external_tier(&directory),
        shared_cache(SharedCacheOf(checked_config, shared)) {}

  // The one that the embedder brought, else the one of the configuration.
  const SharedCacheView* SharedCacheOf(const RouterConfig& config,
                                       const SharedCacheView* brought) const {
    if (brought != nullptr) return brought;
    const bool is_tier = config.overlap_source.shared_cache_type == SharedCacheType::kExternalTier;
    return is_tier ? &external_tier : nullptr;
  }

  // Which blocks of the prompt any worker could fetch; nobody looks where they are worth nothing.
  std::span<const BlockRange> FindShared(const RouteRequest& request,
                                         const IdentifiedPrompt& prompt,
                                         const EffectiveWeights& weights,
                                         std::vector<BlockRange>* hits) const {
    if (shared_cache == nullptr || weights.cost.shared_cache_multiplier == 0) return {};
    shared_cache->FindHits(request.model_name, request.routing_group, prompt.local_hashes,
                           prompt.sequence_hashes, hits);
    return *hits;
  }

  absl::StatusOr<std::shared_ptr<Partition>> FindPartition(const RouteRequest& request) const {
    return FindPartition(request.model_name, request.routing_group);
  }

  absl::StatusOr<std::shared_ptr<Partition>> FindPartition(std::string_view model_name,
                                                           std::string_view routing_group) const {
    auto partition = directory.Find(model_name, routing_group);
    if (partition) return partition;
    return MakeError(absl::StatusCode::kNotFound, ErrorReason::kUnknownPartition,
                     fmt::format("no worker was registered for model {} in routing group {}",
                                 model_name, routing_group));
  }

  // None if nobody would want to know.
  static SessionIdentifier::Identity IdentifySession(const RouterConfig& config,
                                                     const RouteRequest& request,
                                                     const IdentifiedPrompt& prompt,
                                                     Partition* partition, MonotonicTime now) {
    if (!WantsSessions(config)) return {};
    PartitionSessions::Request named{
        .caller_id = request.session_id,
        .prompt = {.chain = prompt.sequence_hashes,
                   .isl_tokens = prompt.isl_tokens,
                   .naming = {.block_size_tokens = prompt.block_size_tokens,
                              .is_eagle = prompt.is_eagle,
                              .image_token_id = prompt.image_token_id},
                   .block_seed = BlockSeed(
                       {.lora_name = request.lora_name, .cache_salt = request.cache_salt})},
        .targets = partition->scheduler().OpenTargets(TargetPool::kDecode),
        .book = request.book};
    if (const auto* tokens = std::get_if<TokenPrompt>(&request.prompt)) {
      named.prompt.token_ids = tokens->token_ids;
      named.prompt.multimodal = tokens->multimodal;
    }
    return partition->sessions().Identify(named, now);
  }

  // The blocks by which the ledger knows the prompt: none when it does not count blocks.
  static std::span<const SequenceHash> LedgerChain(const RouterConfig& config,
                                                   const IdentifiedPrompt& prompt) {
    return config.scheduler.track_active_blocks ? prompt.sequence_hashes
                                                : std::span<const SequenceHash>();
  }

  static bool ListsFiltered(const RouterConfig& config) {
    return config.decision_detail == DecisionDetail::kFull;
  }

  static void ExpectToKeep(const RouterConfig& config, Scratch* scratch) {
    if (config.decision_detail == DecisionDetail::kFull) scratch->candidates.seen.ExpectToKeep();
  }

  // The target will hold the prompt, for those sources of overlap that go by bookings.
  static void Remember(Partition* partition, const RouteDecision& decision,
                       const IdentifiedPrompt& prompt, MonotonicTime now) {
    partition->Record(decision.target, decision.incarnation, prompt.local_hashes,
                      prompt.sequence_hashes, now);
  }

  // What another policy would have chosen from the same table, where there was something to choose.
  void TryShadow(const RouteRequest& request, const RouterConfig& config,
                 const Placement& placement, Scratch* scratch, RouteDecision* decision) {
    if (!config.shadow || !IsByCost(placement.reason) || scratch->candidates.seen.size() < 2)
      return;
    const uint64_t number = shadow_number.fetch_add(1, std::memory_order_relaxed);
    decision->shadow =
        ChooseInShadow(scratch->candidates, placement, ShadowWeights(config, request.overrides),
                       config.random_seed + number, &scratch->shadow_costs);
  }

  void Report(const RouteRequest& request, const RouteDecision& decision,
              const IdentifiedPrompt& prompt, const CandidateTable& table) const {
    if (sink != nullptr) sink->OnDecision(request, decision);
    if (recorder == nullptr) return;
    const TableCandidates all(table);
    const CandidateList candidates(std::shared_ptr<const CandidateSource>(
        std::shared_ptr<const CandidateSource>(), &all));  // owns nothing
    recorder->Record({.request = request,
                      .decision = decision,
                      .candidates = candidates,
                      .sequence_hashes = prompt.sequence_hashes});
  }

  void Pump(Partition* partition, MonotonicTime now, std::vector<Resolved>* resolved);
  // What became of a released request; `scratch` has its candidates.
  absl::StatusOr<RouteDecision> DecisionOf(const Scheduler::Released& released,
                                           const absl::StatusOr<Placement>& placement,
                                           Partition* partition, MonotonicTime now,
                                           Scratch* scratch);

  RouterSettings settings;
  DecisionSink* const sink;
  PhaseObserver* const phases;
  DecisionRecorder* const recorder;
  std::atomic<uint64_t> shadow_number{0};
  RequestPlanner planner;
  PartitionDirectory directory;
  const ExternalTierCache external_tier;
  const SharedCacheView* const shared_cache;  // null: none
};

void Router::Impl::Pump(Partition* partition, MonotonicTime now, std::vector<Resolved>* resolved) {
  std::vector<TicketId> expired;
  partition->scheduler().ExpireWaiting(now, &expired);
  for (const TicketId ticket : expired) {
    resolved->push_back(
        {.ticket = ticket,
         .decision = MakeError(absl::StatusCode::kDeadlineExceeded, ErrorReason::kQueueDeadline,
                               "the request waited in the queue until its deadline")});
  }
  ScratchLease scratch;
  while (auto released = partition->scheduler().PumpOne(&scratch->candidates, now)) {
    auto& parked = static_cast<ParkedRequest&>(*released->request);
    if (!released->placement) {
      parked.LookUpOverlaps([&](auto hashes, auto* overlaps, auto* lower) {
        partition->FindOverlap(hashes, overlaps, lower);
      });
      released->placement.emplace(
          partition->scheduler().PickAndBook(parked.schedule, &scratch->candidates, now));
    }
    resolved->push_back(
        {.ticket = released->ticket,
         .decision = DecisionOf(*released, *released->placement, partition, now, scratch.get())});
    if (const auto& decision = resolved->back().decision; decision.ok() && decision->booked)
      Remember(partition, *decision, parked.prompt, now);
  }
}

// By the weights that were in force when it began to wait.
absl::StatusOr<RouteDecision> Router::Impl::DecisionOf(const Scheduler::Released& released,
                                                       const absl::StatusOr<Placement>& placement,
                                                       Partition* partition, MonotonicTime now,
                                                       Scratch* scratch) {
  KVR_RETURN_IF_ERROR(placement.status());
  const auto& parked = static_cast<const ParkedRequest&>(*released.request);
  absl::StatusOr<RouteDecision> decision(absl::in_place);
  DescribeDecision(parked.prompt, &scratch->candidates, *placement, *parked.settings,
                   &scratch->detail, &*decision);
  decision->waited = released.waited;
  RequestCourse({.request = parked.route,
                 .prompt = parked.prompt,
                 .partition = partition,
                 .planner = &planner,
                 .config = parked.settings->config,
                 .overlaps = parked.schedule.overlaps,
                 .lower_overlaps = parked.schedule.lower_overlaps,
                 .chain = parked.schedule.chain,
                 .now = now},
                parked.course)
      .Describe(*placement, &*decision);
  TryShadow(parked.route, parked.settings->config, *placement, scratch, &*decision);
  Report(parked.route, *decision, parked.prompt, scratch->candidates);
  return decision;
}

Router::Router(RouterConfig config, DecisionSink* sink, PhaseObserver* phases,
               DecisionRecorder* recorder, const SharedCacheView* shared_cache)
    : impl_(std::make_unique<Impl>(Checked(std::move(config)), sink, phases, recorder,
                                   shared_cache)) {}

Router::~Router() = default;

absl::StatusOr<uint64_t> Router::Reconfigure(const RouterConfig& config) {
  return impl_->settings.Change(config, [&] { impl_->directory.Reconfigure(config); });
}

uint64_t Router::ConfigGeneration() const { return impl_->settings.Current()->generation; }

std::shared_ptr<const RouterConfig> Router::Config() const {
  const auto version = impl_->settings.Current();
  return {version, &version->config};
}

absl::StatusOr<Router::Submission> Router::Submit(const RouteRequest& request, MonotonicTime now) {
  PhaseTimer timer(impl_->phases);
  KVR_RETURN_IF_ERROR(ValidateRequest(request));
  KVR_ASSIGN_OR_RETURN(const auto partition, impl_->FindPartition(request));
  ScratchLease scratch;
  const auto settings = impl_->settings.Current();  // once: no request sees half of a change
  const RouterConfig& config = settings->config;
  Impl::ExpectToKeep(config, scratch.get());

  // identify
  KVR_ASSIGN_OR_RETURN(const IdentifiedPrompt prompt,
                       IdentifyPrompt(request, partition->naming(), &scratch->prompt, &timer));
  // overlap
  const EffectiveWeights weights = ResolveWeights(config.scheduler, request.overrides);
  partition->ForgetRouted(now);
  partition->FindOverlap(prompt.local_hashes, &scratch->overlaps, &scratch->lower_overlaps);
  const auto shared_hits = impl_->FindShared(request, prompt, weights, &scratch->shared_hits);
  timer.End(DecisionPhase::kFindMatches);
  // affinity
  const SessionIdentifier::Identity session =
      Impl::IdentifySession(config, request, prompt, partition.get(), now);
  // eligible, gate, score and book: each pick and its booking are one critical section
  RequestCourse course({.request = request,
                        .prompt = prompt,
                        .partition = partition.get(),
                        .planner = &impl_->planner,
                        .config = config,
                        .overlaps = scratch->overlaps,
                        .lower_overlaps = scratch->lower_overlaps,
                        .shared_hits = shared_hits,
                        .chain = Impl::LedgerChain(config, prompt),
                        .list_filtered = Impl::ListsFiltered(config),
                        .now = now},
                       session);
  KVR_ASSIGN_OR_RETURN(const Placement placement, course.Place(&scratch->candidates));
  if (placement.must_wait) {
    auto parked = std::make_shared<ParkedRequest>(request, prompt, course.filter(),
                                                  course.scheduled(), settings);
    parked->course = course.state();
    KVR_ASSIGN_OR_RETURN(const TicketId ticket,
                         partition->scheduler().Park(*placement.must_wait, std::move(parked), now));
    return ticket;
  }
  timer.End(DecisionPhase::kScheduling);
  // report
  absl::StatusOr<Submission> submission(absl::in_place, std::in_place_type<RouteDecision>);
  auto& decision = std::get<RouteDecision>(*submission);
  DescribeDecision(prompt, &scratch->candidates, placement, *settings, &scratch->detail, &decision);
  // migrate, legs
  course.Describe(placement, &decision);
  impl_->TryShadow(request, config, placement, scratch.operator->(), &decision);
  if (decision.booked) Impl::Remember(partition.get(), decision, prompt, now);
  timer.Finish();
  impl_->Report(request, decision, prompt, scratch->candidates);
  return submission;
}

absl::StatusOr<RouteDecision> Router::Reserve(const ReserveRequest& request, MonotonicTime now) {
  PhaseTimer timer(impl_->phases);
  const RouteRequest& route = request.route;
  KVR_RETURN_IF_ERROR(ValidateRequest(route));
  KVR_ASSIGN_OR_RETURN(const auto partition, impl_->FindPartition(route));
  ScratchLease scratch;
  const auto settings = impl_->settings.Current();
  const RouterConfig& config = settings->config;
  Impl::ExpectToKeep(config, scratch.get());
  KVR_ASSIGN_OR_RETURN(const IdentifiedPrompt prompt,
                       IdentifyPrompt(route, partition->naming(), &scratch->prompt, &timer));
  KVR_ASSIGN_OR_RETURN(const std::optional<double> stated_overlap_blocks,
                       StatedOverlapBlocks(request, prompt));
  partition->ForgetRouted(now);
  partition->FindOverlap(prompt.local_hashes, &scratch->overlaps, &scratch->lower_overlaps);
  timer.End(DecisionPhase::kFindMatches);
  const CandidateFilter only_target(request.target);
  // Whoever names the target knows what it is for.
  const auto worker = partition->FindWorker(request.target.worker);
  const TargetPool pool = PoolOf(worker ? worker->role : WorkerRole::kAggregated);
  const SessionIdentifier::Identity session =
      Impl::IdentifySession(config, route, prompt, partition.get(), now);
  EffectiveWeights weights = ResolveWeights(config.scheduler, route.overrides);
  if (request.effective_prefill_tokens) weights.track_prefill_tokens = true;
  if (request.track_prefill_tokens) weights.track_prefill_tokens = *request.track_prefill_tokens;
  const auto shared_hits = impl_->FindShared(route, prompt, weights, &scratch->shared_hits);
  KVR_ASSIGN_OR_RETURN(
      const Placement placement,
      partition->scheduler().PickAndBook(
          {.filter = &only_target,
           .weights = weights,
           .overload = &config.scheduler.overload,
           .overlaps = scratch->overlaps,
           .lower_overlaps = scratch->lower_overlaps,
           .shared_hits = shared_hits,
           .chain = Impl::LedgerChain(config, prompt),
           .isl_tokens = prompt.isl_tokens,
           .block_size_tokens = prompt.block_size_tokens,
           .pool = pool,
           .book = true,
           .list_filtered = Impl::ListsFiltered(config),
           .expected_output_tokens = route.expected_output_tokens,
           .session = {.key = session.key, .pins = session.Pins(), .pinned_by_caller = true},
           .stated_overlap_blocks = stated_overlap_blocks},
          &scratch->candidates, now));
  timer.End(DecisionPhase::kScheduling);
  RouteDecision decision;
  DescribeDecision(prompt, &scratch->candidates, placement, *settings, &scratch->detail, &decision);
  decision.session = DescribeSession(session, placement);
  if (decision.role == WorkerRole::kPrefill) decision.leg = RequestPhase::kPrefill;
  Impl::Remember(partition.get(), decision, prompt, now);
  timer.Finish();
  impl_->Report(route, decision, prompt, scratch->candidates);
  return decision;
}

std::vector<Router::Resolved> Router::Pump(MonotonicTime now) {
  std::vector<Resolved> resolved;
  for (const auto& partition : impl_->directory.All()) {
    if (partition->scheduler().WaitingCount() > 0) impl_->Pump(partition.get(), now, &resolved);
  }
  return resolved;
}

bool Router::Cancel(TicketId ticket) {
  const auto partition = impl_->directory.OfBooking(BookingId{static_cast<uint64_t>(ticket)});
  return partition && partition->scheduler().Cancel(ticket);
}

void Router::ReportLoad(const ReportedLoad& load) {
  const auto partition = impl_->directory.OfWorker(load.target.worker);
  if (partition) partition->scheduler().ReportLoad(load);
}

void Router::ReportLeg(const LegReport& leg, MonotonicTime now) {
  const auto partition = impl_->directory.OfWorker(leg.target.worker);
  if (partition) partition->scheduler().ReportLeg(leg, now);
}

bool Router::PrefillComplete(BookingId booking, MonotonicTime now) {
  const auto partition = impl_->directory.OfBooking(booking);
  return partition && partition->scheduler().PrefillComplete(booking, now);
}

bool Router::OutputTokens(BookingId booking, uint64_t output_tokens,
                          std::optional<double> decay_fraction, MonotonicTime now) {
  const auto partition = impl_->directory.OfBooking(booking);
  return partition &&
         partition->scheduler().OutputTokens(booking, output_tokens, decay_fraction, now);
}

bool Router::OutputBlock(BookingId booking, std::optional<double> decay_fraction,
                         MonotonicTime now) {
  const auto partition = impl_->directory.OfBooking(booking);
  return partition && partition->scheduler().OutputBlock(booking, decay_fraction, now);
}

bool Router::KeepAlive(BookingId booking, MonotonicTime now) {
  const auto partition = impl_->directory.OfBooking(booking);
  return partition && partition->scheduler().KeepAlive(booking, now);
}

bool Router::Finish(BookingId booking, MonotonicTime now) {
  const auto partition = impl_->directory.OfBooking(booking);
  return partition && partition->scheduler().Finish(booking, now);
}

bool Router::DropSession(BookingId booking) {
  const auto partition = impl_->directory.OfBooking(booking);
  return partition && partition->scheduler().DropSession(booking);
}

bool Router::IsLive(BookingId booking) const {
  const auto partition = impl_->directory.OfBooking(booking);
  return partition && partition->scheduler().IsLive(booking);
}

std::vector<BookingId> Router::Expire(MonotonicTime now) {
  std::vector<BookingId> expired;
  for (const auto& partition : impl_->directory.All()) {
    partition->scheduler().Expire(now, &expired);
  }
  return expired;
}

ApplyResult Router::Apply(const KvEvent& event) {
  const auto partition = impl_->directory.OfWorker(event.target.worker);
  if (!partition) return {.status = ApplyStatus::kUnknownWorker};
  return partition->Apply(event);
}

void Router::ForgetRouted(MonotonicTime now) {
  for (const auto& partition : impl_->directory.All()) {
    while (partition->ForgetRouted(now)) {
    }
  }
}

absl::Status Router::UpsertWorker(const WorkerSpec& spec) {
  return impl_->directory.UpsertWorker(spec);
}

bool Router::RemoveWorker(WorkerId id) { return impl_->directory.RemoveWorker(id); }

std::vector<PartitionSnapshot> Router::Snapshot() const {
  std::vector<PartitionSnapshot> snapshots;
  const auto config = Config();
  for (const auto& partition : impl_->directory.All())
    snapshots.push_back(partition->Snapshot(config->scheduler));
  return snapshots;
}

PlanningFigures Router::PlanningState() const {
  const RequestPlanner::Figures planner = impl_->planner.GetFigures();
  PlanningFigures figures{.continuations = planner.continuations,
                          .continuations_evicted_total = planner.continuations_evicted_total};
  for (const auto& partition : impl_->directory.All()) {
    figures.kv_homes += partition->sessions().Homes();
    figures.kv_homes_evicted_total += partition->sessions().HomesEvictedTotal();
  }
  return figures;
}

absl::StatusOr<std::vector<TargetOverlap>> Router::FindOverlap(const RouteRequest& request) const {
  KVR_RETURN_IF_ERROR(ValidateRequest(request));
  KVR_ASSIGN_OR_RETURN(const auto partition, impl_->FindPartition(request));
  ScratchLease scratch;
  PhaseTimer untimed(nullptr);  // looking only
  KVR_ASSIGN_OR_RETURN(const IdentifiedPrompt prompt,
                       IdentifyPrompt(request, partition->naming(), &scratch->prompt, &untimed));
  partition->FindOverlap(prompt.local_hashes, &scratch->overlaps, &scratch->lower_overlaps);
  std::vector<TargetOverlap> overlaps;
  auto device = scratch->overlaps.begin();
  const auto devices_end = scratch->overlaps.end();
  const auto push_devices_before = [&](const LowerTierMatch* lower) {
    for (; device != devices_end && (lower == nullptr || device->target < lower->target); ++device)
      overlaps.push_back({.target = device->target, .device_blocks = device->blocks});
  };
  for (const LowerTierMatch& lower : scratch->lower_overlaps) {
    push_devices_before(&lower);
    const bool on_device = device != devices_end && device->target == lower.target;
    overlaps.push_back({.target = lower.target,
                        .device_blocks = on_device ? (device++)->blocks : 0,
                        .host_blocks = lower.host_blocks,
                        .disk_blocks = lower.disk_blocks,
                        .external_blocks = lower.external_blocks});
  }
  push_devices_before(nullptr);
  return overlaps;
}

absl::StatusOr<std::vector<TargetPotentialLoad>> Router::PotentialLoads(
    const RouteRequest& request) const {
  KVR_RETURN_IF_ERROR(ValidateRequest(request));
  KVR_ASSIGN_OR_RETURN(const auto partition, impl_->FindPartition(request));
  ScratchLease scratch;
  PhaseTimer untimed(nullptr);  // looking only
  KVR_ASSIGN_OR_RETURN(const IdentifiedPrompt prompt,
                       IdentifyPrompt(request, partition->naming(), &scratch->prompt, &untimed));
  partition->FindOverlap(prompt.local_hashes, &scratch->overlaps, &scratch->lower_overlaps);
  const auto config = Config();
  return partition->scheduler().PotentialLoads(
      {.weights = ResolveWeights(config->scheduler, request.overrides),
       .overlaps = scratch->overlaps,
       .lower_overlaps = scratch->lower_overlaps,
       .chain = Impl::LedgerChain(*config, prompt),
       .isl_tokens = prompt.isl_tokens,
       .block_size_tokens = prompt.block_size_tokens,
       .book = false});
}

absl::StatusOr<DumpCounts> Router::Dump(std::string_view model_name, std::string_view routing_group,
                                        const std::function<bool(const KvEvent&)>& emit) const {
  KVR_ASSIGN_OR_RETURN(const auto cursor, OpenDump(model_name, routing_group));
  std::vector<KvEvent> events;
  for (bool more = true; more;) {
    events.clear();
    more = cursor->Next(&events);
    for (const KvEvent& event : events) {
      if (emit(event)) continue;
      DumpCounts counts = cursor->Counts();
      counts.events = event.event_id + 1;
      counts.complete = false;
      return counts;
    }
  }
  return cursor->Counts();
}

absl::StatusOr<BlockNaming> Router::Naming(std::string_view model_name,
                                           std::string_view routing_group) const {
  KVR_ASSIGN_OR_RETURN(const auto partition, impl_->FindPartition(model_name, routing_group));
  return partition->naming();
}

absl::StatusOr<std::unique_ptr<DumpCursor>> Router::OpenDump(std::string_view model_name,
                                                             std::string_view routing_group) const {
  KVR_ASSIGN_OR_RETURN(auto partition, impl_->FindPartition(model_name, routing_group));
  return std::make_unique<DumpCursor>(std::make_unique<DumpCursor::Impl>(std::move(partition)));
}

bool Router::SaveTarget(Target target, const std::function<void(const KvEvent&)>& emit) const {
  const auto partition = impl_->directory.OfWorker(target.worker);
  if (!partition) return false;
  for (int number = 0; number < kStorageTierCount; ++number) {
    const auto tier = static_cast<StorageTier>(number);
    const auto emit_saved = [&](std::variant<Stored, Removed>&& saved) {
      KvEvent event{.target = target, .tier = tier, .data = Cleared{}};
      std::visit([&](auto& data) { event.data = std::move(data); }, saved);
      emit(event);
    };
    if (!partition->index().SaveTarget(target, emit_saved, tier)) return false;
  }
  return true;
}

}  // namespace kvrouter
