#include "daemon/open_files.h"

#include <sys/resource.h>

namespace kvrouter {

uint64_t RaiseOpenFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  rlimit raised = limit;
  raised.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &raised) != 0) return limit.rlim_cur;
  return raised.rlim_cur;
}

uint64_t EventRanks(const std::vector<WorkerSpec>& workers) {
  uint64_t ranks = 0;
  for (const WorkerSpec& worker : workers) ranks += worker.events.size();
  return ranks;
}

}  // namespace kvrouter
