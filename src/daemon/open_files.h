#ifndef KVROUTER_DAEMON_OPEN_FILES_H_
#define KVROUTER_DAEMON_OPEN_FILES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kvrouter/worker.h"

namespace kvrouter {

// What a rank with events takes: the connection, and what its live socket and the two ends of that
// one's monitor are woken by. A replay takes two more.
inline constexpr uint64_t kOpenFilesPerEventRank = 4;
inline constexpr uint64_t kOpenFilesPerReplay = 2;
// Doors, log, ZMQ itself.
inline constexpr uint64_t kOtherOpenFiles = 256;
inline constexpr uint64_t kZmqSocketsPerEventRank = 3;

// Raises the process's limit of open files as far as it may without privileges; returns the limit
// then in force. Limits of 1,024 are common, for programs that use select(); nothing here does.
uint64_t RaiseOpenFileLimit();

// What a process may have.
struct SocketLimits {
  uint64_t open_files = 0;
  uint64_t zmq_sockets = 0;
  uint64_t replays_at_once = 0;
};
// Error when a fleet with so many event ranks cannot have its sockets: known at start is better
// than ranks that stay dark one by one.
absl::Status CheckSocketsFit(uint64_t event_ranks, const SocketLimits& limits);

// Ranks of these workers that publish events.
uint64_t EventRanks(const std::vector<WorkerSpec>& workers);

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_OPEN_FILES_H_
