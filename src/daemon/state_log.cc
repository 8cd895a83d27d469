#include "daemon/state_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvrouter {
namespace {

uint64_t Number(WorkerId id) { return static_cast<uint64_t>(id); }

std::string Describe(const WorkerSpec& spec) {
  return fmt::format(
      "worker_id={} incarnation={} model={} routing_group={} role={} address={} block_size={} "
      "dp_start_rank={} "
      "dp_size={}",
      Number(spec.id), static_cast<uint64_t>(spec.incarnation), LogValue(spec.model_name),
      LogValue(spec.routing_group), WorkerRoleName(spec.role), LogValue(spec.address),
      spec.block_size_tokens, spec.dp_start_rank, spec.dp_size);
}

}  // namespace

std::vector<StateLog::Line> StateLog::Changes(const std::vector<WorkerSpec>& workers,
                                              const std::vector<FeedReport>& feeds) {
  std::vector<Line> lines;
  WorkerChanges(workers, &lines);
  PlaneChanges(feeds, &lines);
  FeedChanges(feeds, &lines);
  return lines;
}

void StateLog::PlaneChanges(const std::vector<FeedReport>& feeds, std::vector<Line>* lines) {
  constexpr size_t kMaxReasons = 16;
  std::map<std::string, size_t> ranks_by_reason;
  bool nobody_waits = true;
  for (const FeedReport& report : feeds) {
    if (report.source != FeedSource::kEventPlane || report.state != FeedState::kConnecting)
      continue;
    nobody_waits = false;
    const auto before = feeds_.find(report.target);
    const bool told = before == feeds_.end() || before->second.state != report.state;
    if (!told && before->second.detail != report.detail) ++ranks_by_reason[report.detail];
  }
  if (nobody_waits) told_plane_reasons_.clear();
  for (const auto& [reason, ranks] : ranks_by_reason) {
    if (told_plane_reasons_.size() >= kMaxReasons || !told_plane_reasons_.insert(reason).second)
      continue;
    lines->push_back(
        {true, fmt::format("event=event_plane_waits ranks={} detail={}", ranks, LogValue(reason))});
  }
}

void StateLog::WorkerChanges(const std::vector<WorkerSpec>& workers, std::vector<Line>* lines) {
  std::map<WorkerId, WorkerSpec> now;
  for (const WorkerSpec& spec : workers) {
    const auto before = workers_.find(spec.id);
    if (before == workers_.end()) {
      lines->push_back({false, "event=worker_joined " + Describe(spec)});
    } else if (before->second.incarnation != spec.incarnation) {
      lines->push_back({false, "event=worker_restarted " + Describe(spec)});
    } else if (before->second.draining != spec.draining) {
      lines->push_back({false, fmt::format("event={} worker_id={}",
                                           spec.draining ? "worker_draining" : "worker_undrained",
                                           Number(spec.id))});
    } else if (before->second != spec) {
      lines->push_back({false, "event=worker_changed " + Describe(spec)});
    }
    now.emplace(spec.id, spec);
  }
  for (const auto& [id, spec] : workers_) {
    if (!now.contains(id))
      lines->push_back({false, fmt::format("event=worker_left worker_id={}", Number(id))});
  }
  workers_ = std::move(now);
}

void StateLog::FeedChanges(const std::vector<FeedReport>& feeds, std::vector<Line>* lines) {
  std::map<Target, FeedReport> now;
  for (const FeedReport& report : feeds) {
    const FeedReport before =
        feeds_.contains(report.target) ? feeds_.at(report.target) : FeedReport{};
    const std::string where =
        fmt::format("worker_id={} dp_rank={}", Number(report.target.worker), report.target.dp_rank);
    if (report.state != before.state) {
      lines->push_back({report.state == FeedState::kDegraded,
                        fmt::format("event=feed_state {} from={} to={} detail={}", where,
                                    FeedStateName(before.state), FeedStateName(report.state),
                                    LogValue(report.detail))});
    }
    // Counters start again with a new life of the worker, so "more than before" is compared, not
    // subtracted blindly.
    const auto counted = [&](const char* event, uint64_t FeedCounters::*counter) {
      if (report.counters.*counter <= before.counters.*counter) return;
      lines->push_back({true, fmt::format("event={} {} count={} total={}", event, where,
                                          report.counters.*counter - before.counters.*counter,
                                          report.counters.*counter)});
    };
    counted("feed_gap", &FeedCounters::gaps);
    counted("engine_restart", &FeedCounters::restarts);
    counted("replay_failed", &FeedCounters::replays_failed);
    now.emplace(report.target, report);
  }
  feeds_ = std::move(now);
}

std::string LogValue(std::string_view value) {
  const bool plain = !value.empty() && std::all_of(value.begin(), value.end(), [](unsigned char c) {
    return c > 0x20 && c != 0x7f && c != '"' && c != '\\' && c != '=';
  });
  if (plain) return std::string(value);
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace kvrouter
