#include "service/engine_loads.h"

#include <algorithm>

namespace kvrouter {

std::string_view EnginePollOutcomeName(EnginePollOutcome outcome) {
  switch (outcome) {
    case EnginePollOutcome::kOk:
      break;
    case EnginePollOutcome::kFailed:
      return "failed";
    case EnginePollOutcome::kUnreadable:
      return "unreadable";
  }
  return "ok";
}

EngineLoads::EngineLoads(MonotonicTime stale_after, OnUsedBlocks on_used_blocks)
    : stale_after_(stale_after), on_used_blocks_(std::move(on_used_blocks)) {}

void EngineLoads::Put(const WorkerSpec& worker, const std::map<uint32_t, EngineLoad>& ranks,
                      EnginePollOutcome outcome, MonotonicTime now) {
  std::vector<std::pair<Target, double>> told;
  {
    MutexLock lock(mu_);
    ++polls_[static_cast<size_t>(outcome)];
    for (uint32_t offset = 0; offset < worker.dp_size; ++offset) {
      const Target target{worker.id, worker.dp_start_rank + offset};
      Entry& entry = entries_[target];
      if (entry.incarnation != worker.incarnation)
        entry = {.incarnation = worker.incarnation, .at = now, .load = std::nullopt};
      const auto rank = ranks.find(target.dp_rank);
      if (rank == ranks.end()) continue;
      entry.at = now;
      entry.load = rank->second;
      if (entry.load->used_blocks) told.emplace_back(target, *entry.load->used_blocks);
    }
  }
  for (const auto& [target, used_blocks] : told) on_used_blocks_(target, used_blocks);
}

void EngineLoads::Keep(const std::vector<WorkerSpec>& workers) {
  MutexLock lock(mu_);
  auto worker = workers.begin();
  std::erase_if(entries_, [&](const auto& item) {
    const auto& [target, entry] = item;
    while (worker != workers.end() && worker->id < target.worker) ++worker;
    if (worker == workers.end() || worker->id != target.worker) return true;
    return worker->incarnation != entry.incarnation || target.dp_rank < worker->dp_start_rank ||
           target.dp_rank - worker->dp_start_rank >= worker->dp_size;
  });
}

void EngineLoads::Expire(MonotonicTime now) {
  std::vector<Target> unknown;
  {
    MutexLock lock(mu_);
    for (auto& [target, entry] : entries_) {
      if (!entry.load || now - entry.at < stale_after_) continue;
      if (entry.load->used_blocks) unknown.push_back(target);
      entry.load.reset();
    }
  }
  for (const Target& target : unknown) on_used_blocks_(target, std::nullopt);
}

std::vector<EngineLoads::Report> EngineLoads::List() const {
  MutexLock lock(mu_);
  std::vector<Report> reports;
  reports.reserve(entries_.size());
  for (const auto& [target, entry] : entries_)
    reports.push_back({.target = target, .load = entry.load});
  return reports;
}

std::array<uint64_t, kEnginePollOutcomeCount> EngineLoads::Polls() const {
  MutexLock lock(mu_);
  return polls_;
}

}  // namespace kvrouter
