#include "service/reported_loads.h"

namespace kvrouter {

void ReportedLoads::Update(const ActiveLoad& load, MonotonicTime at) {
  MutexLock lock(mu_);
  Report& report = reports_[load.target];
  MergeLoad(load, &report.load);
  report.at = at;
}

void ReportedLoads::SetWorker(const WorkerSpec& spec) {
  MutexLock lock(mu_);
  for (auto it = reports_.lower_bound({spec.id, 0});
       it != reports_.end() && it->first.worker == spec.id;) {
    const uint32_t dp_rank = it->first.dp_rank;
    const bool known = dp_rank >= spec.dp_start_rank && dp_rank - spec.dp_start_rank < spec.dp_size;
    it = known ? ++it : reports_.erase(it);
  }
}

void ReportedLoads::RemoveWorker(WorkerId id) {
  MutexLock lock(mu_);
  for (auto it = reports_.lower_bound({id, 0}); it != reports_.end() && it->first.worker == id;) {
    it = reports_.erase(it);
  }
}

std::vector<ReportedLoads::Report> ReportedLoads::List() const {
  MutexLock lock(mu_);
  std::vector<Report> reports;
  reports.reserve(reports_.size());
  for (const auto& [target, report] : reports_) reports.push_back(report);
  return reports;
}

}  // namespace kvrouter
