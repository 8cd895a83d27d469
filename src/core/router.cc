#include "kvrouter/router.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "core/router_impl.h"

namespace kvrouter {
namespace {

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

RouterConfig Checked(RouterConfig config) {
  const absl::Status status = Validate(config);
  KVR_CHECK(status.ok(), "{}", status.ToString());
  return config;
}

}  // namespace

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
                                                       DecisionScratch* scratch) {
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

void Router::BoundIndex() {
  const uint64_t max_blocks = Config()->max_index_blocks;
  const auto partitions = impl_->directory.All();
  for (;;) {
    uint64_t all = 0;
    uint64_t most = 0;
    Partition* largest = nullptr;
    for (const auto& partition : partitions) {
      const uint64_t size = partition->IndexSize();
      all += size;
      if (size <= most) continue;
      most = size;
      largest = partition.get();
    }
    if (all <= max_blocks) return;
    const auto target = largest->LargestTarget();
    if (!target) return;
    largest->ForgetBlocks(*target);
  }
}

absl::Status Router::UpsertWorker(const WorkerSpec& spec) {
  return impl_->directory.UpsertWorker(spec);
}

bool Router::RemoveWorker(WorkerId id) { return impl_->directory.RemoveWorker(id); }

}  // namespace kvrouter
