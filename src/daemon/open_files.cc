#include "daemon/open_files.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <string>

#include "kvrouter/error.h"

namespace kvrouter {

uint64_t RaiseOpenFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  rlimit raised = limit;
  raised.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &raised) != 0) return limit.rlim_cur;
  return raised.rlim_cur;
}

absl::Status CheckSocketsFit(uint64_t event_ranks, const SocketLimits& limits) {
  const uint64_t replays = std::min(event_ranks, limits.replays_at_once);
  const uint64_t files =
      event_ranks * kOpenFilesPerEventRank + replays * kOpenFilesPerReplay + kOtherOpenFiles;
  const auto refuse = [&](std::string message) {
    return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached, message);
  };
  if (files > limits.open_files) {
    return refuse(fmt::format(
        "workers: {} ranks with events need {} open files, the limit is {} (ulimit -Hn); raise it",
        event_ranks, files, limits.open_files));
  }
  const uint64_t sockets = event_ranks * kZmqSocketsPerEventRank + replays;
  if (sockets > limits.zmq_sockets) {
    return refuse(
        fmt::format("workers: {} ranks with events need {} ZMQ sockets, the library's limit is {}",
                    event_ranks, sockets, limits.zmq_sockets));
  }
  return absl::OkStatus();
}

uint64_t EventRanks(const std::vector<WorkerSpec>& workers) {
  uint64_t ranks = 0;
  for (const WorkerSpec& worker : workers) ranks += worker.events.size();
  return ranks;
}

}  // namespace kvrouter
