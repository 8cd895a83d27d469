#include "service/worker_signs.h"

#include <algorithm>
#include <utility>

namespace kvrouter {

std::string_view WorkerSignName(WorkerSign sign) {
  switch (sign) {
    case WorkerSign::kUnreachable:
      return "unreachable";
    case WorkerSign::kBlockSize:
      return "block_size";
    case WorkerSign::kModelName:
      return "model_name";
    case WorkerSign::kPrefixCachingOff:
      return "prefix_caching_off";
    case WorkerSign::kSilentPublisher:
      return "silent_publisher";
    case WorkerSign::kReplayMissing:
      return "replay_missing";
    case WorkerSign::kEventsIgnored:
      return "events_ignored";
  }
  return "unknown";
}

std::vector<std::string_view> NamesOf(const WorkerSigns& signs) {
  std::vector<std::string_view> names;
  for (size_t i = 0; i < kWorkerSignCount; ++i) {
    if (signs[i]) names.push_back(WorkerSignName(static_cast<WorkerSign>(i)));
  }
  return names;
}

void WorkerSignBoard::Put(WorkerId id, Incarnation incarnation, const WorkerSigns& found) {
  MutexLock lock(mu_);
  found_[id] = {incarnation, found};
}

void WorkerSignBoard::Keep(const std::vector<WorkerSpec>& workers) {
  std::map<WorkerId, Found> kept;
  MutexLock lock(mu_);
  for (const WorkerSpec& worker : workers) {
    const auto found = found_.find(worker.id);
    if (found != found_.end() && found->second.incarnation == worker.incarnation)
      kept.insert(*found);
  }
  found_ = std::move(kept);
}

WorkerSigns WorkerSignBoard::Of(const WorkerSpec& worker) const {
  WorkerSigns signs{};
  {
    MutexLock lock(mu_);
    const auto found = found_.find(worker.id);
    if (found != found_.end() && found->second.incarnation == worker.incarnation)
      signs = found->second.signs;
  }
  const auto any_rank = [&worker](auto has) {
    return std::any_of(worker.events.begin(), worker.events.end(),
                       [&has](const auto& rank) { return has(rank.second); });
  };
  if (uses_events_) {
    SignOf(signs, WorkerSign::kReplayMissing) = any_rank(
        [](const EventEndpoints& rank) { return !rank.live.empty() && rank.replay.empty(); });
  } else {
    SignOf(signs, WorkerSign::kSilentPublisher) = false;
    SignOf(signs, WorkerSign::kEventsIgnored) = any_rank(
        [](const EventEndpoints& rank) { return !rank.live.empty() || !rank.replay.empty(); });
  }
  return signs;
}

}  // namespace kvrouter
