#include <fmt/format.h>

#include <array>
#include <string>

#include "adapters/metrics/scraped_families.h"

namespace kvrouter {
namespace {

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
    case ApplyStatus::kParentForgotten:
      return "parent_forgotten";
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

}  // namespace

void ShowEvents(const FeedMonitor::AppliedCounts& applied, const FeedCounters& totals,
                MetricFamilies* out) {
  out->Open(Metric::kEventsApplied);
  for (size_t kind = 0; kind < kEventKinds.size(); ++kind) {
    for (size_t status = 0; status < kApplyStatusCount; ++status) {
      out->Add(applied.events[kind][status],
               {{"event_type", kEventKinds[kind]},
                {"status", ApplyStatusLabel(static_cast<ApplyStatus>(status))}});
    }
    for (const char* status : kForeignStatuses) {
      out->Add(0.0, {{"event_type", kEventKinds[kind]}, {"status", status}});
    }
  }
  out->Open(Metric::kEventWarnings);
  out->Add(applied.duplicate_store_events, {{"warning_kind", "duplicate_store"}});
  out->Show(Metric::kOrphanBlocks, applied.orphan_blocks);
  out->Show(Metric::kZmqIngressBatches, totals.batches_applied);
}

void ShowFeeds(const FeedCounters& totals, MetricFamilies* out) {
  out->Show(Metric::kFeedMessages, totals.messages);
  out->Show(Metric::kFeedBatchesApplied, totals.batches_applied);
  out->Show(Metric::kFeedEventsApplied, totals.events_applied);
  out->Open(Metric::kFeedSkipped);
  for (size_t i = 0; i < totals.skipped.size(); ++i) {
    out->Add(totals.skipped[i],
             {{"reason", std::string(SkipReasonName(static_cast<SkipReason>(i)))}});
  }
  out->Show(Metric::kFeedGaps, totals.gaps);
  out->Show(Metric::kFeedReplaysStarted, totals.replays_started);
  out->Open(Metric::kFeedReplays);
  out->Add(totals.replays_completed, {{"outcome", "completed"}});
  out->Add(totals.replays_failed, {{"outcome", "failed"}});
  out->Show(Metric::kFeedRestarts, totals.restarts);
  out->Show(Metric::kFeedReconnects, totals.reconnects);
  out->Show(Metric::kFeedLiveDropped, totals.live_dropped);
  out->Show(Metric::kFeedHashMemoryFull, totals.hash_memory_full);
}

void ShowFeedStates(const std::vector<FeedReport>& reports, MetricFamilies* out) {
  out->Open(Metric::kFeedState);
  for (const FeedReport& report : reports) {
    for (const FeedState state : kFeedStates) {
      out->Add(report.state == state ? 1.0 : 0.0,
               {{"worker_id", fmt::format("{}", static_cast<uint64_t>(report.target.worker))},
                {"dp_rank", fmt::format("{}", report.target.dp_rank)},
                {"state", std::string(FeedStateName(state))}});
    }
  }
  out->Open(Metric::kFeedDegraded);
  for (const FeedReport& report : reports) {
    if (report.state != FeedState::kDegraded) continue;
    out->Add(1.0, {{"worker_id", fmt::format("{}", static_cast<uint64_t>(report.target.worker))},
                   {"dp_rank", fmt::format("{}", report.target.dp_rank)},
                   {"reason", std::string(DegradedReasonName(report.reason))}});
  }
}

}  // namespace kvrouter
