#ifndef KVROUTER_ADAPTERS_GRPC_GRPC_SERVER_H_
#define KVROUTER_ADAPTERS_GRPC_GRPC_SERVER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "dispatch/dispatcher.h"
#include "kvrouter/router.h"
#include "service/feed_monitor.h"
#include "service/published_feeds.h"
#include "service/routing_service.h"
#include "service/worker_registry.h"
#include "service/worker_signs.h"

namespace kvrouter {

struct GrpcServerConfig {
  std::string listen = "127.0.0.1:0";  // HOST:PORT; port 0 = any
  uint64_t max_message_bytes = 64ull << 20;
  // Of all messages that are being received or sent together; at least two of the largest fit.
  uint64_t max_buffered_bytes = 1ull << 30;
  // 0 = off. Connections are closed gracefully at this age (gRPC adds 10 % jitter) so that an L4
  // balancer rebalances.
  std::chrono::milliseconds max_connection_age{0};
  std::chrono::milliseconds max_connection_age_grace{10000};
  std::chrono::milliseconds keepalive_time{60000};  // server pings an idle client; 0 = off
  std::chrono::milliseconds keepalive_timeout{20000};
  std::chrono::milliseconds min_client_ping_interval{
      10000};  // clients that ping more often are told to calm down
};

// The gRPC doors: kvrouter.v1.Router, Workers and KvEvents, standard health ("" = process,
// "kvrouter.v1.Router" = readiness) and reflection. Converts and calls; every error carries
// kvrouter.v1.ErrorDetail in `kvrouter-error-bin`. grpcpp appears only behind this header.
class GrpcServer {
 public:
  struct Doors {
    RoutingService* routing = nullptr;
    WorkerRegistry* workers = nullptr;
    const FeedMonitor* feeds = nullptr;
    const Router* router = nullptr;
    PublishedFeeds* published = nullptr;     // null: no door for events
    const WorkerSignBoard* signs = nullptr;  // null: none are shown
    // Dispatcher::RouteText; null: text is not routed.
    RouteTextFunction route_text = nullptr;
  };

  GrpcServer(GrpcServerConfig config, Doors doors);
  ~GrpcServer();

  // Binds exclusively (SO_REUSEPORT off). A taken port is an error that names the address.
  absl::Status Start();
  std::string Address() const;  // bound HOST:PORT
  void SetServing(bool ready);  // health of kvrouter.v1.Router
  // No new calls; running ones may finish up to `grace`.
  void Stop(std::chrono::milliseconds grace);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_GRPC_GRPC_SERVER_H_
