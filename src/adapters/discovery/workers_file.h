#ifndef KVROUTER_ADAPTERS_DISCOVERY_WORKERS_FILE_H_
#define KVROUTER_ADAPTERS_DISCOVERY_WORKERS_FILE_H_

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "adapters/discovery/discovery_journal.h"
#include "adapters/discovery/file_change.h"
#include "adapters/discovery/worker_sources.h"
#include "base/mutex.h"
#include "kvrouter/worker.h"

namespace kvrouter {

struct WorkersFileConfig {
  std::string path;  // empty: no such source
  std::chrono::milliseconds poll_period{200};
  bool may_be_learned = false;  // what a worker's entry leaves open (WorkerSources::Learn)
};

// Reads and parses the file under a path; errors name file and line.
using WorkersFileReader =
    std::function<absl::StatusOr<std::vector<WorkerSpec>>(const std::string& path)>;

// A file that lists workers, followed while the daemon runs. It is looked at by polling: that also
// works where change notices do not come through (network file systems, single-file mounts).
// A file that vanishes or is wrong in any of its workers changes nothing: the set read before stays
// in force, and the journal says so.
//
// Thread safety: Start and Stop from one thread. One thread of its own.
class WorkersFile {
 public:
  WorkersFile(WorkersFileConfig config, WorkersFileReader read, WorkerSources* sources,
              DiscoveryJournal* journal);
  ~WorkersFile();

  // Reads the file for the first time: here a wrong file is an error, and nothing runs.
  absl::Status Start();
  void Stop();

 private:
  absl::StatusOr<std::vector<DeclaredWorker>> ReadOnce();
  void Follow();
  void Fail(SourceOutcome outcome, const std::string& what);
  void Run(const std::stop_token& stop);

  const WorkersFileConfig config_;
  const WorkersFileReader read_;
  WorkerSources* const sources_;
  DiscoveryJournal* const journal_;
  FileChange change_;  // own thread, after Start
  Mutex mu_;
  CondVar wake_;
  std::jthread thread_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_DISCOVERY_WORKERS_FILE_H_
