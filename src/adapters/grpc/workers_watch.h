#ifndef KVROUTER_ADAPTERS_GRPC_WORKERS_WATCH_H_
#define KVROUTER_ADAPTERS_GRPC_WORKERS_WATCH_H_

#include <grpcpp/alarm.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>

#include "kvrouter/v1/workers.pb.h"
#include "service/worker_registry.h"

namespace kvrouter {

// One Workers.Watch call: the whole set first, then what changed, at most once per period.
//
//   compare the set with what was sent ─> write the difference ─> wait a period ─┐
//        ▲          └ nothing changed ──────────────────────────> wait a period ─┤
//        └───────────────────────────────────────────────────────────────────────┘
//
// There is no queue: a watcher that is slow to read is told the difference to what it was told
// last, however much happened in between. Its memory is one copy of the set.
//
// One thing is outstanding at a time, a write or the alarm, so the state needs no lock. A call that
// was cancelled is noticed at the next of them, a period later at most. Deletes itself.
class WorkersWatch final : public grpc::ServerWriteReactor<v1::WatchResponse> {
 public:
  static constexpr std::chrono::milliseconds kPeriod{100};

  // All outlive the call; `stopping` ends it.
  WorkersWatch(const WorkerRegistry* workers, grpc::CallbackServerContext* context,
               const std::atomic<bool>* stopping, const v1::WatchRequest& request);

  void OnWriteDone(bool ok) override;
  void OnDone() override { delete this; }

 private:
  void Proceed();
  void Wait();
  // Whether there is anything to tell.
  bool Compare();

  const WorkerRegistry* const workers_;
  grpc::CallbackServerContext* const context_;
  const std::atomic<bool>* const stopping_;
  const v1::WatchRequest filter_;

  grpc::Alarm alarm_;
  v1::WatchResponse outgoing_;
  bool sent_snapshot_ = false;
  uint64_t seen_version_ = 0;
  std::map<WorkerId, WorkerSpec> sent_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_GRPC_WORKERS_WATCH_H_
