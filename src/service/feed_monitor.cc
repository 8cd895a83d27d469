#include "service/feed_monitor.h"

#include <utility>

namespace kvrouter {
namespace {

// `now` - `before`, field by field. Counters of one report never fall (Remove comes between two
// lives).
FeedCounters Difference(const FeedCounters& now, const FeedCounters& before) {
  FeedCounters d;
  d.messages = now.messages - before.messages;
  d.batches_applied = now.batches_applied - before.batches_applied;
  d.events_applied = now.events_applied - before.events_applied;
  d.gaps = now.gaps - before.gaps;
  d.restarts = now.restarts - before.restarts;
  d.replays_started = now.replays_started - before.replays_started;
  d.replays_completed = now.replays_completed - before.replays_completed;
  d.replays_failed = now.replays_failed - before.replays_failed;
  d.reconnects = now.reconnects - before.reconnects;
  d.live_dropped = now.live_dropped - before.live_dropped;
  d.hash_memory_full = now.hash_memory_full - before.hash_memory_full;
  for (size_t i = 0; i < d.skipped.size(); ++i) d.skipped[i] = now.skipped[i] - before.skipped[i];
  return d;
}

void Add(const FeedCounters& more, FeedCounters* sum) {
  sum->messages += more.messages;
  sum->batches_applied += more.batches_applied;
  sum->events_applied += more.events_applied;
  sum->gaps += more.gaps;
  sum->restarts += more.restarts;
  sum->replays_started += more.replays_started;
  sum->replays_completed += more.replays_completed;
  sum->replays_failed += more.replays_failed;
  sum->reconnects += more.reconnects;
  sum->live_dropped += more.live_dropped;
  sum->hash_memory_full += more.hash_memory_full;
  for (size_t i = 0; i < more.skipped.size(); ++i) sum->skipped[i] += more.skipped[i];
}

}  // namespace

void FeedMonitor::Update(const FeedReport& report) {
  MutexLock lock(mu_);
  FeedReport& current = reports_[{report.target, report.source}];
  Add(Difference(report.counters, current.counters), &totals_);
  current = report;
}

void FeedMonitor::Remove(Target target, FeedSource source) {
  MutexLock lock(mu_);
  reports_.erase({target, source});
}

void FeedMonitor::UpdateUnattributed(FeedSource source, const FeedCounters& counters) {
  MutexLock lock(mu_);
  FeedCounters& current = unattributed_[source];
  Add(Difference(counters, current), &totals_);
  current = counters;
}

void FeedMonitor::CountApplied(const KvEvent& event, const ApplyResult& result) {
  const auto relaxed = std::memory_order_relaxed;
  applied_[event.data.index()][static_cast<size_t>(result.status)].fetch_add(1, relaxed);
  if (result.blocks_duplicate > 0) duplicate_store_events_.fetch_add(1, relaxed);
  if (result.status == ApplyStatus::kParentBlockNotFound) {
    orphan_blocks_.fetch_add(std::get<Stored>(event.data).blocks.size(), relaxed);
  }
}

std::vector<FeedReport> FeedMonitor::Reports() const {
  MutexLock lock(mu_);
  std::vector<FeedReport> reports;
  reports.reserve(reports_.size());
  for (const auto& [key, report] : reports_) {
    const bool both = !reports.empty() && reports.back().target == report.target;
    if (both) reports.pop_back();  // the sources are in ascending precedence
    reports.push_back(report);
  }
  return reports;
}

FeedState FeedMonitor::StateOf(Target target, FeedSource source) const {
  MutexLock lock(mu_);
  const auto report = reports_.find({target, source});
  return report == reports_.end() ? FeedState::kNone : report->second.state;
}

FeedCounters FeedMonitor::Totals() const {
  MutexLock lock(mu_);
  return totals_;
}

FeedMonitor::AppliedCounts FeedMonitor::Applied() const {
  AppliedCounts counts;
  for (size_t kind = 0; kind < applied_.size(); ++kind) {
    for (size_t status = 0; status < applied_[kind].size(); ++status) {
      counts.events[kind][status] = applied_[kind][status].load(std::memory_order_relaxed);
    }
  }
  counts.duplicate_store_events = duplicate_store_events_.load(std::memory_order_relaxed);
  counts.orphan_blocks = orphan_blocks_.load(std::memory_order_relaxed);
  return counts;
}

}  // namespace kvrouter
