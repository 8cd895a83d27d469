#include "adapters/grpc/workers_watch.h"

#include <string>
#include <utility>

#include "adapters/grpc/status_convert.h"
#include "adapters/grpc/worker_convert.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

bool Wanted(const std::string& filter, const std::string& name) {
  return filter.empty() || filter == name;
}

}  // namespace

WorkersWatch::WorkersWatch(const WorkerRegistry* workers, grpc::CallbackServerContext* context,
                           const std::atomic<bool>* stopping, const v1::WatchRequest& request)
    : workers_(workers), context_(context), stopping_(stopping), filter_(request) {
  Proceed();
}

void WorkersWatch::OnWriteDone(bool ok) {
  if (!ok) return Finish(grpc::Status::CANCELLED);
  Wait();
}

void WorkersWatch::Proceed() {
  if (context_->IsCancelled()) return Finish(grpc::Status::CANCELLED);
  if (stopping_->load()) {
    return Finish(ToGrpcStatus(MakeError(absl::StatusCode::kUnavailable, ErrorReason::kShuttingDown,
                                         "the router is shutting down"),
                               context_));
  }
  if (!Compare()) return Wait();
  StartWrite(&outgoing_);
}

void WorkersWatch::Wait() {
  alarm_.Set(std::chrono::system_clock::now() + kPeriod, [this](bool /*expired*/) { Proceed(); });
}

bool WorkersWatch::Compare() {
  const uint64_t version =
      workers_->Version();  // before the list: a change in between is seen again
  if (sent_snapshot_ && version == seen_version_) return false;
  seen_version_ = version;
  outgoing_.Clear();
  outgoing_.set_snapshot(!sent_snapshot_);
  std::map<WorkerId, WorkerSpec> now;
  for (WorkerSpec& spec : workers_->List()) {
    if (!Wanted(filter_.model_name(), spec.model_name) ||
        !Wanted(filter_.routing_group(), spec.routing_group)) {
      continue;
    }
    const auto known = sent_.find(spec.id);
    if (known == sent_.end() || known->second != spec) ToProto(spec, outgoing_.add_workers());
    now.emplace(spec.id, std::move(spec));
  }
  for (const auto& [id, spec] : sent_) {
    if (!now.contains(id)) outgoing_.add_removed_worker_ids(static_cast<uint64_t>(id));
  }
  sent_ = std::move(now);
  const bool any =
      !sent_snapshot_ || outgoing_.workers_size() > 0 || outgoing_.removed_worker_ids_size() > 0;
  sent_snapshot_ = true;
  return any;
}

}  // namespace kvrouter
