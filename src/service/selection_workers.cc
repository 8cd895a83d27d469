#include "service/selection_workers.h"

#include <fmt/format.h>

#include <utility>

#include "base/status_macros.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

// An incomplete record is checked as a complete one would be, so that a wrong field is refused when
// it is sent and not when the last missing one arrives.
absl::Status ValidateIncomplete(WorkerSpec spec) {
  if (spec.address.empty()) spec.address = "unknown";
  if (spec.block_size_tokens == 0) spec.block_size_tokens = 1;
  return ValidateWorkerSpec(spec);
}

absl::Status UnknownWorker(WorkerId id) {
  return MakeError(absl::StatusCode::kNotFound, ErrorReason::kUnknownWorker,
                   fmt::format("no worker with worker_id {}", fmt::underlying(id)));
}

}  // namespace

absl::StatusOr<SelectionWorker> SelectionWorkers::Upsert(SelectionWorker worker) {
  MutexLock lock(mu_);
  return StoreLocked(std::move(worker));
}

absl::StatusOr<SelectionWorker> SelectionWorkers::Update(WorkerId id,
                                                         const SelectionWorkerPatch& patch) {
  MutexLock lock(mu_);
  SelectionWorker worker;
  const auto incomplete = incomplete_.find(id);
  const std::optional<WorkerSpec> registered = registry_->Find(id);
  if (registered) {
    worker.spec = *registered;
  } else if (incomplete != incomplete_.end()) {
    worker.spec = incomplete->second;
  } else {
    return Refused(UnknownWorker(id));
  }
  if (const auto traits = traits_.find(id); traits != traits_.end()) worker.traits = traits->second;
  for (const auto& [name, json] : patch.traits) worker.traits[name] = json;
  Apply(patch.spec, &worker.spec);
  // One that had no address before (indexer_instances.h) stays where its blocks are.
  const bool stays = registered && (worker.IsComplete() || registered->address.empty());
  if (!stays) return StoreLocked(std::move(worker));
  KVR_ASSIGN_OR_RETURN(worker.spec, registry_->Update(id, patch.spec));
  traits_[id] = worker.traits;
  return worker;
}

absl::StatusOr<SelectionWorker> SelectionWorkers::Remove(WorkerId id) {
  MutexLock lock(mu_);
  SelectionWorker worker;
  if (const auto traits = traits_.extract(id)) worker.traits = traits.mapped();
  const auto incomplete = incomplete_.extract(id);
  const std::optional<WorkerSpec> registered = registry_->Find(id);
  if (registered) {
    worker.spec = *registered;
    KVR_RETURN_IF_ERROR(registry_->Remove(id));
    return worker;
  }
  if (!incomplete) return UnknownWorker(id);
  worker.spec = incomplete.mapped();
  return worker;
}

std::vector<SelectionWorker> SelectionWorkers::List() const {
  MutexLock lock(mu_);
  std::map<WorkerId, SelectionWorker> all;
  for (const auto& [id, spec] : incomplete_) all[id].spec = spec;
  for (WorkerSpec& spec : registry_->List()) all[spec.id].spec = std::move(spec);
  std::vector<SelectionWorker> workers;
  workers.reserve(all.size());
  for (auto& [id, worker] : all) {
    if (const auto traits = traits_.find(id); traits != traits_.end())
      worker.traits = traits->second;
    workers.push_back(std::move(worker));
  }
  return workers;
}

absl::Status SelectionWorkers::Refused(absl::Status status) {
  registry_->CountRefusal(status);
  return status;
}

absl::Status SelectionWorkers::CheckIncompleteLocked(const WorkerSpec& spec) const {
  KVR_RETURN_IF_ERROR(ValidateIncomplete(spec));
  if (incomplete_.contains(spec.id) || incomplete_.size() < kMaxIncomplete) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
      fmt::format("{} incomplete workers, limit {}", incomplete_.size(), kMaxIncomplete));
}

absl::StatusOr<SelectionWorker> SelectionWorkers::StoreLocked(SelectionWorker worker) {
  const WorkerId id = worker.spec.id;
  if (worker.IsComplete()) {
    KVR_ASSIGN_OR_RETURN(worker.spec, registry_->Register(std::move(worker.spec)));
    incomplete_.erase(id);
  } else {
    KVR_RETURN_IF_ERROR(Refused(CheckIncompleteLocked(worker.spec)));
    (void)registry_->Remove(id);  // unknown to it as a rule
    incomplete_[id] = worker.spec;
  }
  if (worker.traits.empty()) {
    traits_.erase(id);
  } else {
    traits_[id] = worker.traits;
    DropForeignTraitsLocked();
  }
  return worker;
}

// Workers can leave through another door, which does not know of the traits.
void SelectionWorkers::DropForeignTraitsLocked() {
  for (auto it = traits_.begin(); it != traits_.end();) {
    const bool exists = incomplete_.contains(it->first) || registry_->Find(it->first).has_value();
    it = exists ? std::next(it) : traits_.erase(it);
  }
}

}  // namespace kvrouter
