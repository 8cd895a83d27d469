#ifndef KVROUTER_ADAPTERS_GRPC_WORKERS_SERVICE_H_
#define KVROUTER_ADAPTERS_GRPC_WORKERS_SERVICE_H_

#include <atomic>

#include "kvrouter/router.h"
#include "kvrouter/v1/workers.grpc.pb.h"
#include "service/feed_monitor.h"
#include "service/worker_registry.h"
#include "service/worker_signs.h"

namespace kvrouter {

// The door kvrouter.v1.Workers: converts and calls the registry. Thread-safe.
class WorkersGrpcService final : public v1::Workers::CallbackService {
 public:
  // All outlive the door; `feeds` and `signs` may be null.
  WorkersGrpcService(WorkerRegistry* workers, const FeedMonitor* feeds,
                     const WorkerSignBoard* signs, const Router* router)
      : workers_(workers), feeds_(feeds), signs_(signs), router_(router) {}

  grpc::ServerUnaryReactor* Register(grpc::CallbackServerContext* context,
                                     const v1::RegisterRequest* request,
                                     v1::Worker* response) override;
  grpc::ServerUnaryReactor* Update(grpc::CallbackServerContext* context,
                                   const v1::UpdateRequest* request, v1::Worker* response) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const v1::DrainRequest* request, v1::Worker* response) override;
  grpc::ServerUnaryReactor* Remove(grpc::CallbackServerContext* context,
                                   const v1::RemoveRequest* request,
                                   v1::RemoveResponse* response) override;
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const v1::ListRequest* request,
                                 v1::ListResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchResponse>* Watch(grpc::CallbackServerContext* context,
                                                     const v1::WatchRequest* request) override;

  // Ends the watches: they would hold up the server's shutdown.
  void Stop() { stopping_.store(true); }

 private:
  std::atomic<bool> stopping_{false};
  WorkerRegistry* const workers_;
  const FeedMonitor* const feeds_;
  const WorkerSignBoard* const signs_;
  const Router* const router_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_GRPC_WORKERS_SERVICE_H_
