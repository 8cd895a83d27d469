// What the daemon says of its parts: to /metrics and to the status page.
#include <chrono>
#include <cstddef>
#include <iterator>
#include <vector>

#include "daemon/daemon.h"

namespace kvrouter {
namespace {

std::vector<HttpRouteFigure> Figures(const std::vector<ApiRoutes::RouteAnswers>& answers) {
  static constexpr const char* kClasses[] = {"2xx", "4xx", "5xx"};
  std::vector<HttpRouteFigure> figures;
  for (const ApiRoutes::RouteAnswers& route : answers) {
    for (size_t i = 0; i < std::size(kClasses); ++i) {
      figures.push_back({.method = route.method,
                         .route = route.route,
                         .status_class = kClasses[i],
                         .answers = route.counts[i]});
    }
  }
  return figures;
}

}  // namespace

RecordFigures Daemon::ReadRecord() const {
  const DecisionLog::Figures log = decision_log_.Read();
  RecordFigures out{.log_records = log.records,
                    .log_bytes = log.bytes,
                    .log_incomplete = log.without_candidates,
                    .log_queued_bytes = log.queued_bytes,
                    .log_rotations = log.rotations,
                    .config_generation = router_.ConfigGeneration()};
  for (int i = 0; i < kLogDropCount; ++i) {
    out.log_dropped.emplace_back(LogDropName(static_cast<LogDrop>(i)),
                                 log.dropped[static_cast<size_t>(i)]);
  }
  const ConfigReloader::Figures reloads =
      reloader_ != nullptr ? reloader_->Read() : ConfigReloader::Figures{};
  for (int i = 0; i < kReloadResultCount; ++i) {
    out.reloads.emplace_back(ReloadResultName(static_cast<ReloadResult>(i)),
                             reloads.reloads[static_cast<size_t>(i)]);
  }
  out.reload_failed = reloads.failed;
  return out;
}

DiscoveryFigures Daemon::ReadDiscovery() const {
  DiscoveryFigures out;
  out.log_lines_dropped = journal_.DroppedLines();
  std::vector<WorkerSource> active = {WorkerSource::kConfig};
  if (!config_.workers_file.path.empty()) active.push_back(WorkerSource::kFile);
  if (config_.kubernetes.Enabled()) active.push_back(WorkerSource::kKubernetes);
  for (const WorkerSource source : active) {
    const WorkerSources::Figures figures = sources_.Read(source);
    const DiscoveryJournal::Attempts attempts = journal_.Read(source);
    WorkerSourceFigures& row = out.sources.emplace_back();
    row.name = WorkerSourceName(source);
    row.current = attempts.current;
    row.workers = {{"registered", figures.registered},
                   {"conflict", figures.conflicting},
                   {"refused", figures.refused},
                   {"incomplete", figures.incomplete},
                   {"removed_by_caller", figures.removed_by_callers}};
    row.conflicts = figures.conflicts_total;
    row.refusals = figures.refusals_total;
    for (size_t i = 0; i < kSourceOutcomeCount; ++i) {
      row.attempts.emplace_back(SourceOutcomeName(static_cast<SourceOutcome>(i)),
                                attempts.by_outcome[i]);
    }
  }
  for (const WorkerSpec& worker : workers_.List())
    out.signs.emplace_back(worker.id, signs_.Of(worker));
  return out;
}

WarmStartFigures Daemon::ReadWarmStart() const {
  const SavedFeeds::Figures saved = saved_.Read();
  const SnapshotKeeper::Figures snapshots = snapshots_.Read();
  WarmStartFigures out{.waiting_feeds = saved.waiting_feeds, .waiting_bytes = saved.waiting_bytes};
  for (int i = 0; i < kSnapshotResultCount; ++i) {
    const auto name = SnapshotResultName(static_cast<SnapshotResult>(i));
    out.loads.emplace_back(name, snapshots.loads[static_cast<size_t>(i)]);
    out.writes.emplace_back(name, snapshots.writes[static_cast<size_t>(i)]);
  }
  for (int i = 0; i < kRestoreOutcomeCount; ++i) {
    const auto name = RestoreOutcomeName(static_cast<RestoreOutcome>(i));
    out.restored_feeds.emplace_back(name, saved.feeds[static_cast<size_t>(i)]);
    out.restored_blocks.emplace_back(name, saved.blocks[static_cast<size_t>(i)]);
  }
  const PeerDumps::Figures peers = peers_.Read();
  for (int i = 0; i < kPeerDumpResultCount; ++i) {
    out.peer_dumps.emplace_back(PeerDumpResultName(static_cast<PeerDumpResult>(i)),
                                peers.dumps[static_cast<size_t>(i)]);
  }
  for (int i = 0; i < kPeerRankOutcomeCount; ++i) {
    out.peer_ranks.emplace_back(PeerRankOutcomeName(static_cast<PeerRankOutcome>(i)),
                                peers.ranks[static_cast<size_t>(i)]);
  }
  out.peer_blocks = peers.blocks_taken;
  if (snapshots.written_at) {
    const std::chrono::duration<double> age = SteadyClock().Now() - *snapshots.written_at;
    out.on_disk = {.age_seconds = age.count(),
                   .feeds = snapshots.feeds,
                   .blocks = snapshots.blocks,
                   .bytes = snapshots.bytes,
                   .write_seconds = snapshots.write_time.count()};
  }
  return out;
}

HttpFigures Daemon::CurrentHttpFigures() const {
  HttpServerCounters counters = http_.Counters();
  if (indexer_http_) counters += indexer_http_->Counters();
  counters += dispatch_.HttpCounters();
  const SelectCache::Counters selections = select_cache_.Read();
  HttpFigures figures{.requests = counters.requests,
                      .unrouted = counters.unrouted,
                      .connections = counters.connections,
                      .buffered_bytes = counters.buffered_bytes,
                      .connections_accepted = counters.connections_accepted,
                      .connections_refused = counters.connections_refused,
                      .connections_evicted = counters.connections_evicted,
                      .accept_failures = counters.accept_failures,
                      .idle_timeouts = counters.idle_timeouts,
                      .head_timeouts = counters.head_timeouts,
                      .body_timeouts = counters.body_timeouts,
                      .write_timeouts = counters.write_timeouts,
                      .malformed = counters.malformed,
                      .heads_too_large = counters.heads_too_large,
                      .bodies_too_large = counters.bodies_too_large,
                      .bodies_without_room = counters.bodies_without_room,
                      .answers_without_room = counters.answers_without_room,
                      .streams_overflowed = counters.streams_overflowed,
                      .streams_paused = counters.streams_paused,
                      .tls_handshakes_failed = counters.tls_handshakes_failed,
                      .tls_reloads = counters.tls_reloads,
                      .tls_reloads_failed = counters.tls_reloads_failed,
                      .selection_answers = Figures(selection_.Answers()),
                      .indexer_answers = Figures(indexer_.Answers()),
                      .route_text_answers = Figures(route_text_.Answers()),
                      .selections_cached = selections.entries,
                      .selections_cached_bytes = selections.bytes,
                      .selections_evicted = selections.evicted,
                      .selections_expired = selections.expired};
  return figures;
}

StatusDispatch Daemon::CurrentDispatch() const {
  StatusDispatch status{.address = dispatch_.Address()};
  if (status.address.empty()) return status;
  const DispatchCounters counters = dispatch_.State().counters;
  const auto ended = [&counters](DispatchOutcome outcome) {
    return counters.ended[static_cast<size_t>(outcome)];
  };
  const DeliveredSums delivered = metrics_.Delivered();
  status.running = counters.live;
  for (const uint64_t count : counters.ended) status.ended += count;
  status.failed = ended(DispatchOutcome::kFailed) + ended(DispatchOutcome::kDeadline);
  status.prompt_tokens = delivered.prompt_tokens;
  status.predicted_tokens = delivered.predicted_tokens;
  status.delivered_tokens = delivered.delivered_tokens;
  return status;
}

StatusReport Daemon::CurrentStatus() {
  const HitSums hits = metrics_.Hits();
  return {
      .version = config_.metrics.version,
      .uptime = std::chrono::duration_cast<std::chrono::seconds>(SteadyClock().Now() - created_at_),
      .readiness = DescribeReadiness(),
      .partitions = router_.Snapshot(),
      .workers = workers_.List(),
      .feeds = feeds_.Reports(),
      .hits = {.requests = hits.requests,
               .hit_ratio_sum = hits.hit_ratio_sum,
               .overlap_blocks = hits.overlap_blocks,
               .isl_blocks = hits.isl_blocks,
               .overlap_tokens = hits.overlap_tokens,
               .isl_tokens = hits.isl_tokens,
               .best_overlap_tokens = hits.best_overlap_tokens},
      .dispatch = CurrentDispatch(),
      .recent = service_.Recent(kMaxStatusDecisions)};
}

}  // namespace kvrouter
