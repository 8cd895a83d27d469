#ifndef KVROUTER_DAEMON_OPEN_FILES_H_
#define KVROUTER_DAEMON_OPEN_FILES_H_

#include <cstdint>
#include <vector>

#include "kvrouter/worker.h"

namespace kvrouter {

// What a rank with events takes: its sockets and their signalling.
inline constexpr uint64_t kOpenFilesPerEventRank = 5;

// Raises the process's limit of open files as far as it may without privileges; returns the limit
// then in force. Limits of 1,024 are common, for programs that use select(); nothing here does.
uint64_t RaiseOpenFileLimit();

// Ranks of these workers that publish events.
uint64_t EventRanks(const std::vector<WorkerSpec>& workers);

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_OPEN_FILES_H_
