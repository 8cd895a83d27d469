#ifndef KVROUTER_SERVICE_REPORTED_LOADS_H_
#define KVROUTER_SERVICE_REPORTED_LOADS_H_

#include <map>
#include <vector>

#include "base/mutex.h"
#include "feed/plane_codec.h"
#include "kvrouter/worker.h"

namespace kvrouter {

// What workers say of their own load on the event plane (ActiveLoad), the latest of each rank, for
// the metrics. The core is told separately (Router::ReportLoad). Thread-safe; as many entries as
// registered ranks.
class ReportedLoads {
 public:
  struct Report {
    ActiveLoad load;  // each field as last said
    MonotonicTime at{};
  };

  void Update(const ActiveLoad& load, MonotonicTime at);
  // Keeps what is of ranks that the worker has.
  void SetWorker(const WorkerSpec& spec);
  void RemoveWorker(WorkerId id);

  std::vector<Report> List() const;  // ascending target

 private:
  mutable Mutex mu_;
  std::map<Target, Report> reports_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_REPORTED_LOADS_H_
