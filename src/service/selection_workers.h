#ifndef KVROUTER_SERVICE_SELECTION_WORKERS_H_
#define KVROUTER_SERVICE_SELECTION_WORKERS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "kvrouter/worker.h"
#include "service/worker_registry.h"

namespace kvrouter {

// A worker as the HTTP selection API knows it. The API lets a worker be announced before everything
// is known of it; what is missing is a reason why it is not schedulable yet.
struct SelectionWorker {
  WorkerSpec spec;  // address may be empty and block_size_tokens 0 while incomplete
  // Fields that are kept and shown but do not act on routing yet: JSON text by name.
  std::map<std::string, std::string> traits = {};

  bool IsComplete() const { return !spec.address.empty() && spec.block_size_tokens > 0; }
};

// A change; absent = unchanged. Traits given replace those of the same name.
struct SelectionWorkerPatch {
  WorkerPatch spec;
  std::map<std::string, std::string> traits;
};

// The worker set as the selection API shows it: the registry's workers, whoever registered them,
// and besides the incomplete ones, which the registry does not take. A worker that becomes complete
// moves into the registry; one that stops being complete leaves it.
//
// Thread safety: thread-safe; one mutex serialises changes made here. It is held across calls of
// the registry and so is taken before the registry's. Bound: kMaxIncomplete records; traits only of
// workers that exist.
class SelectionWorkers {
 public:
  explicit SelectionWorkers(WorkerRegistry* registry) : registry_(registry) {}

  static constexpr size_t kMaxIncomplete = 4096;

  // Errors as WorkerRegistry; kLimitReached for one incomplete worker too many.
  absl::StatusOr<SelectionWorker> Upsert(SelectionWorker worker);
  absl::StatusOr<SelectionWorker> Update(WorkerId id, const SelectionWorkerPatch& patch);
  // The record as it was. kUnknownWorker also on the second call.
  absl::StatusOr<SelectionWorker> Remove(WorkerId id);
  std::vector<SelectionWorker> List() const;  // ascending id
  // Registered, that is complete.
  bool Knows(WorkerId id) const { return registry_->Find(id).has_value(); }
  // For a door that refuses a message before it is a worker.
  void CountRefusal(const absl::Status& answer) { registry_->CountRefusal(answer); }

 private:
  absl::StatusOr<SelectionWorker> StoreLocked(SelectionWorker worker)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // What the registry never sees is counted where it counts its own answers.
  absl::Status Refused(absl::Status status);
  absl::Status CheckIncompleteLocked(const WorkerSpec& spec) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropForeignTraitsLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  WorkerRegistry* const registry_;
  mutable Mutex mu_;
  std::map<WorkerId, WorkerSpec> incomplete_ ABSL_GUARDED_BY(mu_);
  std::map<WorkerId, std::map<std::string, std::string>> traits_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_SELECTION_WORKERS_H_
