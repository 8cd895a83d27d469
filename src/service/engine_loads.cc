#include "service/engine_loads.h"

#include <iterator>

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
                      EnginePollOutcome outcome, MonotonicTime now,
                      std::optional<MonotonicTime> believed_for) {
  std::vector<std::pair<Target, std::optional<double>>> told;
  {
    MutexLock lock(mu_);
    ++polls_[static_cast<size_t>(outcome)];
    for (uint32_t offset = 0; offset < worker.dp_size; ++offset) {
      const Target target{worker.id, worker.dp_start_rank + offset};
      Entry& entry = entries_[target];
      const bool was_known = entry.load && entry.load->used_blocks;
      const bool other_life = entry.incarnation != worker.incarnation;
      if (other_life) entry = {.incarnation = worker.incarnation, .until = {}, .load = {}};
      const auto rank = ranks.find(target.dp_rank);
      if (rank != ranks.end()) {
        entry.until = now + believed_for.value_or(stale_after_);
        entry.load = rank->second;
        if (was_known || entry.load->used_blocks)
          told.emplace_back(target, entry.load->used_blocks);
      } else if (was_known && other_life) {
        told.emplace_back(target, std::nullopt);
      }
    }
  }
  for (const auto& [target, used_blocks] : told) on_used_blocks_(target, used_blocks);
}

void EngineLoads::Keep(const std::vector<WorkerSpec>& workers) {
  MutexLock lock(mu_);
  auto worker = workers.begin();
  for (auto it = entries_.begin(); it != entries_.end();) {
    const auto& [target, entry] = *it;
    while (worker != workers.end() && worker->id < target.worker) ++worker;
    const bool stays = worker != workers.end() && worker->id == target.worker &&
                       worker->incarnation == entry.incarnation &&
                       target.dp_rank >= worker->dp_start_rank &&
                       target.dp_rank - worker->dp_start_rank < worker->dp_size;
    // What an answer to an earlier life said must not stay on who lives now.
    if (!stays && entry.load && entry.load->used_blocks) forgotten_.push_back(target);
    it = stays ? std::next(it) : entries_.erase(it);
  }
}

void EngineLoads::Expire(MonotonicTime now) {
  std::vector<Target> unknown;
  {
    MutexLock lock(mu_);
    unknown.swap(forgotten_);
    for (auto& [target, entry] : entries_) {
      if (!entry.load || now < entry.until) continue;
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
