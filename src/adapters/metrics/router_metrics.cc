#include "adapters/metrics/router_metrics.h"

#include <fmt/format.h>
#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <unistd.h>

#include <array>
#include <set>
#include <utility>
#include <vector>

#include "adapters/metrics/metric_families.h"
#include "adapters/metrics/process_figures.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

// Parity: buckets 0, 0.05 … 1.0 of Dynamo's kv_hit_rate.
std::vector<double> HitRateBuckets() {
  std::vector<double> bounds;
  for (int i = 0; i <= 20; ++i) bounds.push_back(i / 20.0);
  return bounds;
}

// Parity: buckets 0.25 x 2^k of Dynamo's overlap_blocks_lost.
std::vector<double> BlocksLostBuckets() {
  std::vector<double> bounds;
  for (int k = 0; k < 16; ++k) bounds.push_back(0.25 * static_cast<double>(1 << k));
  return bounds;
}

// Values of worker_type.
constexpr std::array<WorkerRole, 2> kTypedRoles = {WorkerRole::kPrefill, WorkerRole::kDecode};
size_t TypeIndex(WorkerRole role) { return role == WorkerRole::kPrefill ? 0 : 1; }

constexpr std::array<const char*, 3> kEventKinds = {"stored", "removed", "cleared"};

const char* ApplyStatusLabel(ApplyStatus status) {
  switch (status) {
    case ApplyStatus::kOk:
      return "ok";
    case ApplyStatus::kParentBlockNotFound:
      return "parent_block_not_found";
    case ApplyStatus::kBlockNotFound:
      return "block_not_found";
    case ApplyStatus::kInvalidBlock:
      return "invalid_block";
    case ApplyStatus::kStaleIncarnation:
      return "stale_incarnation";
    case ApplyStatus::kUnknownWorker:
      return "unknown_worker";
  }
  return "unknown";
}
// Values of Dynamo's status label that this router has no case for; shown at 0 so that dashboards
// find them.
constexpr std::array<const char*, 5> kForeignStatuses = {
    "capacity_exhausted", "allocation_failed", "ownership_degree_overflow",
    "indexer_invariant_violation", "unsupported_residency_domain"};

constexpr std::array<FeedState, 5> kFeedStates = {FeedState::kNone, FeedState::kConnecting,
                                                  FeedState::kRecovering, FeedState::kLive,
                                                  FeedState::kDegraded};

// FNV-1a over the host name: the same after a restart, different on another host.
std::string HostId() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "0";
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const char* c = name; *c != '\0'; ++c)
    hash = (hash ^ static_cast<unsigned char>(*c)) * 0x100000001b3ull;
  return fmt::format("{}", hash);
}

std::string Str(std::string_view view) { return std::string(view); }
std::string WorkerLabel(Target target) {
  return fmt::format("{}", static_cast<uint64_t>(target.worker));
}
std::string RankLabel(Target target) { return fmt::format("{}", target.dp_rank); }

MetricLabels WithPartition(const PartitionSnapshot& partition) {
  return {{"model", partition.model_name}, {"routing_group", partition.routing_group}};
}

MetricLabels WithLoad(const TargetLoad& load, const char* worker_label_name) {
  return {{worker_label_name, WorkerLabel(load.target)},
          {"dp_rank", RankLabel(load.target)},
          {"worker_type", Str(WorkerTypeLabel(load.role))}};
}

}  // namespace

struct RouterMetrics::Impl {
  explicit Impl(MetricsConfig c) : config(std::move(c)) {
    if (config.router_id.empty()) config.router_id = HostId();
    component_labels = {{"dynamo_namespace", config.dynamo_namespace},
                        {"dynamo_component", "router"},
                        {"dynamo_endpoint", "generate"}};
    router_labels = component_labels;
    router_labels.push_back({"router_id", config.router_id});
  }

  void AddHits(MetricFamilies* out) const;
  void AddRegret(MetricFamilies* out) const;
  void AddRequests(MetricFamilies* out) const;
  void AddEvents(MetricFamilies* out) const;
  void AddWorkers(MetricFamilies* out, const std::vector<PartitionSnapshot>& partitions) const;
  void AddIndex(MetricFamilies* out, const std::vector<PartitionSnapshot>& partitions) const;
  void AddFeeds(MetricFamilies* out) const;
  void AddFeedStates(MetricFamilies* out) const;
  void AddHttp(MetricFamilies* out) const;
  void AddProcess(MetricFamilies* out) const;

  // `component_labels` plus one: the labels of a Dynamo component family.
  MetricLabels ComponentLabels(MetricLabels own) const {
    own.insert(own.begin(), component_labels.begin(), component_labels.end());
    return own;
  }

  MetricsConfig config;
  MetricLabels component_labels;
  MetricLabels router_labels;
  Sources sources;

  // Moved by OnDecision.
  prometheus::Histogram hit_rate{HitRateBuckets()};
  prometheus::Counter overlap_blocks;
  prometheus::Counter isl_blocks;
  prometheus::Counter overlap_tokens;
  prometheus::Counter isl_tokens;
  prometheus::Counter expected_engine_hit_tokens;
  prometheus::Counter best_overlap_tokens;
  prometheus::Counter regret_blocks;
  std::array<prometheus::Counter, 2> non_max_selections;  // by TypeIndex
  std::array<prometheus::Histogram, 2> blocks_lost{prometheus::Histogram{BlocksLostBuckets()},
                                                   prometheus::Histogram{BlocksLostBuckets()}};
  prometheus::Counter advice;
  std::array<prometheus::Counter, kDecisionReasonCount> decisions;
};

RouterMetrics::RouterMetrics(MetricsConfig config)
    : impl_(std::make_unique<Impl>(std::move(config))) {}
RouterMetrics::~RouterMetrics() = default;

void RouterMetrics::SetSources(Sources sources) { impl_->sources = std::move(sources); }

void RouterMetrics::OnDecision(const RouteRequest& /*request*/, const RouteDecision& decision) {
  if (!decision.booked) {
    impl_->advice.Increment();
    return;
  }
  impl_->decisions[static_cast<size_t>(decision.reason)].Increment();
  if (decision.isl_blocks == 0) return;
  const auto isl_blocks = static_cast<double>(decision.isl_blocks);
  impl_->hit_rate.Observe(decision.effective_overlap_blocks / isl_blocks);
  impl_->overlap_blocks.Increment(decision.effective_overlap_blocks);
  impl_->isl_blocks.Increment(isl_blocks);
  impl_->overlap_tokens.Increment(decision.effective_overlap_blocks * decision.block_size_tokens);
  impl_->isl_tokens.Increment(static_cast<double>(decision.isl_tokens));
  impl_->expected_engine_hit_tokens.Increment(
      static_cast<double>(decision.expected_engine_hit_tokens));
  impl_->best_overlap_tokens.Increment(decision.best_available_overlap_blocks *
                                       decision.block_size_tokens);
  if (decision.regret_blocks <= 0) return;
  impl_->regret_blocks.Increment(decision.regret_blocks);
  const size_t type = TypeIndex(decision.role);
  impl_->non_max_selections[type].Increment();
  impl_->blocks_lost[type].Observe(decision.regret_blocks);
}

std::string RouterMetrics::Text() const {
  std::vector<PartitionSnapshot> partitions;
  if (impl_->sources.router != nullptr) partitions = impl_->sources.router->Snapshot();
  MetricFamilies out;
  impl_->AddHits(&out);
  impl_->AddRegret(&out);
  impl_->AddRequests(&out);
  impl_->AddEvents(&out);
  impl_->AddWorkers(&out, partitions);
  impl_->AddIndex(&out, partitions);
  impl_->AddFeeds(&out);
  impl_->AddFeedStates(&out);
  impl_->AddHttp(&out);
  impl_->AddProcess(&out);
  return out.Text();
}

// ---- Every name and help text, by subject ----

void RouterMetrics::Impl::AddHits(MetricFamilies* out) const {
  out->Histogram("dynamo_component_router_kv_hit_rate",
                 "Predicted hit ratio of each booked request, in 0..1, one observation per request "
                 "whatever its length: "
                 "its mean is request-weighted and is not the hit rate of the fleet. Use the block "
                 "counters for that.");
  out->AddHistogram(hit_rate.Collect(), router_labels);
  out->Counter("dynamo_component_router_kv_overlap_blocks_total",
               "Prompt blocks of booked requests found cached on the chosen worker, tier-weighted; "
               "in blocks. "
               "Over kv_isl_blocks_total: the block-weighted predicted hit rate.");
  out->Add(overlap_blocks.Value(), router_labels);
  out->Counter("dynamo_component_router_kv_isl_blocks_total",
               "Prompt blocks of booked requests, a partial last block counted whole; in blocks.");
  out->Add(isl_blocks.Value(), router_labels);
  out->Counter("kvrouter_overlap_tokens_total",
               "Prompt tokens of booked requests found cached on the chosen worker (overlap blocks "
               "times block size); in "
               "tokens. Over kvrouter_isl_tokens_total: the token-weighted predicted hit rate, "
               "comparable with an engine's.");
  out->Add(overlap_tokens.Value());
  out->Counter("kvrouter_isl_tokens_total", "Prompt tokens of booked requests; in tokens.");
  out->Add(isl_tokens.Value());
  out->Counter("kvrouter_expected_engine_hit_tokens_total",
               "Hits the engine is expected to count: as kvrouter_overlap_tokens_total, but a "
               "fully cached prompt counts "
               "without its last block, since engines recompute at least one token; in tokens.");
  out->Add(expected_engine_hit_tokens.Value());
}

void RouterMetrics::Impl::AddRegret(MetricFamilies* out) const {
  const auto router_labels_and = [this](WorkerRole role) {
    MetricLabels labels = router_labels;
    labels.push_back({"worker_type", Str(WorkerTypeLabel(role))});
    return labels;
  };
  out->Counter("kvrouter_best_overlap_tokens_total",
               "Prompt tokens of booked requests cached on the eligible worker that holds most of "
               "them; in tokens. Beside kvrouter_overlap_tokens_total: what routing gave up for "
               "the sake of load; beside kvrouter_isl_tokens_total: how warm the caches are.");
  out->Add(best_overlap_tokens.Value());
  out->Counter("kvrouter_regret_blocks_total",
               "Overlap of the best eligible worker minus that of the chosen one, over booked "
               "requests, tier-weighted; in blocks.");
  out->Add(regret_blocks.Value());
  out->Counter("dynamo_component_router_non_max_overlap_selections_total",
               "Booked requests whose worker holds less of the prompt than another eligible one; "
               "equal overlap and pins do not count. By type of the chosen worker.");
  for (const WorkerRole role : kTypedRoles) {
    out->Add(non_max_selections[TypeIndex(role)].Value(), router_labels_and(role));
  }
  out->Histogram("dynamo_component_router_overlap_blocks_lost",
                 "Overlap given up by each request that non_max_overlap_selections_total counts; "
                 "in blocks.");
  for (const WorkerRole role : kTypedRoles) {
    out->AddHistogram(blocks_lost[TypeIndex(role)].Collect(), router_labels_and(role));
  }
}

void RouterMetrics::Impl::AddRequests(MetricFamilies* out) const {
  const ServiceCounters counters =
      sources.service != nullptr ? sources.service->Counters() : ServiceCounters{};
  out->Counter("dynamo_component_router_requests_started_total", "Requests booked on a worker.");
  out->Add(counters.requests_started, router_labels);
  out->Counter("dynamo_component_router_requests_total",
               "Booked requests that ended: freed, expired, or lost with their worker.");
  out->Add(counters.requests_finished, router_labels);
  out->Counter("kvrouter_decisions_total", "Booked decisions by reason; one per request.");
  for (int i = 0; i < kDecisionReasonCount; ++i) {
    out->Add(decisions[static_cast<size_t>(i)].Value(),
             {{"reason", Str(DecisionReasonName(static_cast<DecisionReason>(i)))}});
  }
  out->Counter("kvrouter_advice_total",
               "Decisions given as advice only: nothing was booked, no hit metric moved.");
  out->Add(advice.Value());
  out->Counter("kvrouter_bookings_expired_total",
               "Bookings released because their request showed no sign of life for the expiry "
               "time. Callers forget to free.");
  out->Add(counters.bookings_expired);
  out->Counter("kvrouter_duplicate_requests_total",
               "Requests refused because a booking of the same id was live.");
  out->Add(counters.duplicate_requests);
  const auto add_by_reason = [out](const RefusalCounts::ByReason& refused) {
    for (size_t i = 0; i < refused.size(); ++i) {
      out->Add(refused[i], {{"reason", Str(ErrorReasonName(static_cast<ErrorReason>(i)))}});
    }
  };
  out->Counter("kvrouter_requests_refused_total",
               "Routing requests, advice included, that were answered with an error, by the reason "
               "the caller got; 0 for the reasons that only other calls can have.");
  add_by_reason(counters.refused);
  out->Counter("kvrouter_registrations_refused_total",
               "Registrations and changes of workers that were refused, by the reason the caller "
               "got.");
  add_by_reason(sources.workers != nullptr ? sources.workers->Refused()
                                           : RefusalCounts::ByReason{});
  out->Counter("kvrouter_unknown_frees_total",
               "Frees of an id that was not live: never booked, already freed, or expired.");
  out->Add(counters.unknown_frees);
  out->Gauge("kvrouter_decision_ring_entries", "Recent decisions kept for Explain.");
  out->Add(counters.decision_ring_entries);
  out->Gauge("kvrouter_decision_ring_bytes",
             "Estimated memory of the recent decisions kept for Explain; in bytes.");
  out->Add(counters.decision_ring_bytes);
  out->Counter("kvrouter_decision_ring_evicted_total",
               "Decisions that left the recent ones because a bound was reached; in steady traffic "
               "this moves with every request.");
  out->Add(counters.decision_ring_evicted);
}

void RouterMetrics::Impl::AddEvents(MetricFamilies* out) const {
  const FeedMonitor::AppliedCounts applied =
      sources.feeds != nullptr ? sources.feeds->Applied() : FeedMonitor::AppliedCounts{};
  out->Counter(
      "dynamo_component_kv_cache_events_applied",
      "KV cache events applied to the index, by kind and by the first problem met; in events.");
  for (size_t kind = 0; kind < kEventKinds.size(); ++kind) {
    for (size_t status = 0; status < kApplyStatusCount; ++status) {
      out->Add(applied.events[kind][status],
               ComponentLabels({{"event_type", kEventKinds[kind]},
                                {"status", ApplyStatusLabel(static_cast<ApplyStatus>(status))}}));
    }
    for (const char* status : kForeignStatuses) {
      out->Add(0.0, ComponentLabels({{"event_type", kEventKinds[kind]}, {"status", status}}));
    }
  }
  out->Counter("dynamo_component_kv_cache_event_warnings",
               "KV cache events that were applied but look odd; duplicate_store: at least one "
               "block was held already.");
  out->Add(applied.duplicate_store_events, ComponentLabels({{"warning_kind", "duplicate_store"}}));
  out->Counter("kvrouter_orphan_blocks_total",
               "Blocks of stores whose parent block was unknown, so that they could not be placed; "
               "in blocks.");
  out->Add(applied.orphan_blocks);
}

void RouterMetrics::Impl::AddWorkers(MetricFamilies* out,
                                     const std::vector<PartitionSnapshot>& partitions) const {
  const auto for_each_load = [&partitions](auto&& add) {
    for (const PartitionSnapshot& partition : partitions) {
      for (const TargetLoad& load : partition.loads) add(load);
    }
  };
  out->Gauge("dynamo_component_router_worker_registered",
             "1 for each rank of a registered worker; the series ends with it.");
  for_each_load([&](const TargetLoad& load) {
    out->Add(1.0, ComponentLabels(WithLoad(load, "router_worker_id")));
  });
  out->Gauge(
      "dynamo_frontend_worker_active_decode_blocks",
      "Blocks booked on the worker by live requests, shared blocks counted once; in blocks.");
  for_each_load([&](const TargetLoad& load) {
    out->Add(load.active_decode_blocks, WithLoad(load, "worker_id"));
  });
  out->Gauge("dynamo_frontend_worker_active_prefill_tokens",
             "Uncached prompt tokens of live requests whose prefill has not completed; in tokens.");
  for_each_load([&](const TargetLoad& load) {
    out->Add(load.active_prefill_tokens, WithLoad(load, "worker_id"));
  });
  out->Gauge("kvrouter_worker_active_requests", "Live bookings on the worker.");
  for_each_load(
      [&](const TargetLoad& load) { out->Add(load.active_requests, WithLoad(load, "worker_id")); });
  out->Gauge("kvrouter_worker_draining", "1 while the worker takes no new requests.");
  for_each_load([&](const TargetLoad& load) {
    out->Add(load.draining ? 1.0 : 0.0, WithLoad(load, "worker_id"));
  });
  out->Gauge("kvrouter_worker_index_blocks",
             "Distinct blocks the index believes the worker holds; in blocks.");
  for_each_load(
      [&](const TargetLoad& load) { out->Add(load.index_blocks, WithLoad(load, "worker_id")); });
}

void RouterMetrics::Impl::AddIndex(MetricFamilies* out,
                                   const std::vector<PartitionSnapshot>& partitions) const {
  const auto for_each = [&](uint64_t PartitionSnapshot::*figure) {
    for (const PartitionSnapshot& partition : partitions) {
      // Empty ones stay in the core until their number is needed; nobody needs to see them.
      if (partition.loads.empty() && partition.bookings == 0) continue;
      out->Add(partition.*figure, WithPartition(partition));
    }
  };
  out->Gauge("kvrouter_bookings", "Live bookings of the partition.");
  for_each(&PartitionSnapshot::bookings);
  out->Gauge("kvrouter_index_blocks",
             "Distinct block positions in the index, however many workers hold them; in blocks.");
  for_each(&PartitionSnapshot::index_unique_blocks);
  out->Gauge("kvrouter_index_holder_blocks",
             "Pairs of worker rank and block in the index; in blocks.");
  for_each(&PartitionSnapshot::index_holder_blocks);
  out->Gauge("kvrouter_index_bytes", "Estimated memory of the index; in bytes.");
  for_each(&PartitionSnapshot::index_bytes);
  out->Gauge("kvrouter_index_nodes", "Nodes of the index.");
  for_each(&PartitionSnapshot::index_nodes);
}

void RouterMetrics::Impl::AddFeeds(MetricFamilies* out) const {
  const FeedCounters totals = sources.feeds != nullptr ? sources.feeds->Totals() : FeedCounters{};
  out->Counter("kvrouter_feed_messages_total",
               "Live messages received from engines' event sockets.");
  out->Add(totals.messages);
  out->Counter("kvrouter_feed_batches_applied_total", "Event batches applied, live and replayed.");
  out->Add(totals.batches_applied);
  out->Counter("kvrouter_feed_events_applied_total",
               "Events handed on to the index, live and replayed.");
  out->Add(totals.events_applied);
  out->Counter(
      "kvrouter_feed_skipped_total",
      "Messages, events or parts of events that were not applied, by reason; the stream goes on.");
  for (int i = 0; i < kSkipReasonCount; ++i) {
    out->Add(totals.skipped[static_cast<size_t>(i)],
             {{"reason", Str(SkipReasonName(static_cast<SkipReason>(i)))}});
  }
  out->Counter("kvrouter_feed_gaps_total",
               "Live sequence numbers that jumped ahead: history is missing until replayed.");
  out->Add(totals.gaps);
  out->Counter("kvrouter_feed_replays_started_total",
               "Replays asked of engines, at connect and after gaps.");
  out->Add(totals.replays_started);
  out->Counter("kvrouter_feed_replays_total",
               "Replays that ended; failed: time-out, or the history was gone.");
  out->Add(totals.replays_completed, {{"outcome", "completed"}});
  out->Add(totals.replays_failed, {{"outcome", "failed"}});
  out->Counter("kvrouter_feed_restarts_total",
               "Engines that began a new life on the same socket; their blocks were dropped.");
  out->Add(totals.restarts);
  out->Counter("kvrouter_feed_reconnects_total",
               "Event sockets that came back after a lost connection.");
  out->Add(totals.reconnects);
  out->Counter("kvrouter_feed_live_dropped_total",
               "Live messages dropped because the buffer during a replay was full; they are "
               "replayed again.");
  out->Add(totals.live_dropped);
  out->Counter(
      "kvrouter_feed_hash_memory_full_total",
      "Hashes of skipped or salted blocks that were not remembered because a rank's memory "
      "for them was full; a later removal or continuation of such a block is misread.");
  out->Add(totals.hash_memory_full);
}

void RouterMetrics::Impl::AddFeedStates(MetricFamilies* out) const {
  std::vector<FeedReport> reports;
  if (sources.feeds != nullptr) reports = sources.feeds->Reports();
  std::set<WorkerId> known;
  if (sources.workers != nullptr) {
    for (const WorkerSpec& worker : sources.workers->List()) known.insert(worker.id);
  }
  out->Gauge("kvrouter_feed_state",
             "1 for the state the rank's event feed is in, 0 for the others. degraded: live, but "
             "blocks may be missing.");
  for (const FeedReport& report : reports) {
    // A source may still be closing the socket of a worker that has left.
    if (sources.workers != nullptr && !known.contains(report.target.worker)) continue;
    for (const FeedState state : kFeedStates) {
      out->Add(report.state == state ? 1.0 : 0.0, {{"worker_id", WorkerLabel(report.target)},
                                                   {"dp_rank", RankLabel(report.target)},
                                                   {"state", Str(FeedStateName(state))}});
    }
  }
}

void RouterMetrics::Impl::AddHttp(MetricFamilies* out) const {
  const HttpFigures http = sources.http ? sources.http() : HttpFigures{};
  out->Counter("kvrouter_http_requests_total", "HTTP requests answered.");
  out->Add(http.requests);
  out->Counter("kvrouter_http_connections_refused_total",
               "HTTP connections closed at once: too many were open.");
  out->Add(http.connections_refused);
  out->Counter("kvrouter_http_timeouts_total",
               "HTTP connections closed because the client was too slow to send or to read.");
  out->Add(http.timeouts);
  out->Counter("kvrouter_http_bad_requests_total",
               "HTTP requests refused: malformed, or over a size limit.");
  out->Add(http.bad_requests);
  out->Counter("kvrouter_http_streams_overflowed_total",
               "Streamed HTTP answers cut because the client did not keep up.");
  out->Add(http.streams_overflowed);
  out->Gauge("kvrouter_selections_cached",
             "Inputs of /select calls kept for a later booking by selection_id.");
  out->Add(http.selections_cached);
  out->Gauge("kvrouter_selections_cached_bytes",
             "Memory of the kept inputs of /select calls, in bytes.");
  out->Add(http.selections_cached_bytes);
  out->Counter("kvrouter_selections_evicted_total",
               "Kept inputs of /select calls dropped before their time: too many, or too large.");
  out->Add(http.selections_evicted);
  out->Counter("kvrouter_selections_expired_total",
               "Kept inputs of /select calls that nobody booked in time.");
  out->Add(http.selections_expired);
}

void RouterMetrics::Impl::AddProcess(MetricFamilies* out) const {
  const ProcessFigures process = ReadProcessFigures();
  out->Gauge("kvrouter_ready", "1 when /ready answers 200.");
  out->Add(sources.ready && sources.ready() ? 1.0 : 0.0);
  out->Gauge("kvrouter_build_info", "Always 1; what is running.");
  out->Add(1.0, {{"version", config.version}, {"compiler", __VERSION__}});
  out->Counter("process_cpu_seconds_total", "User and system CPU time; in seconds.");
  out->Add(process.cpu_seconds);
  out->Gauge("process_resident_memory_bytes", "Resident memory; in bytes.");
  out->Add(process.resident_bytes);
  out->Gauge("process_virtual_memory_bytes", "Virtual memory; in bytes.");
  out->Add(process.virtual_bytes);
  out->Gauge("process_start_time_seconds",
             "Start of the process since the Unix epoch; in seconds.");
  out->Add(process.start_time_seconds);
  out->Gauge("process_open_fds", "Open file descriptors.");
  out->Add(process.open_fds);
  out->Gauge("process_max_fds", "Limit of open file descriptors.");
  out->Add(process.max_fds);
  out->Gauge("process_threads", "Threads of the process.");
  out->Add(process.threads);
}

}  // namespace kvrouter
