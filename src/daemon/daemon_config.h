#ifndef KVROUTER_DAEMON_DAEMON_CONFIG_H_
#define KVROUTER_DAEMON_DAEMON_CONFIG_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "adapters/decision_log/decision_log.h"
#include "adapters/discovery/engine_introspection.h"
#include "adapters/discovery/kubernetes_discovery.h"
#include "adapters/discovery/workers_file.h"
#include "adapters/grpc/grpc_server.h"
#include "adapters/http/http_server.h"
#include "adapters/metrics/router_metrics.h"
#include "adapters/peer/peer_dumps.h"
#include "adapters/snapshot/snapshot_keeper.h"
#include "adapters/zmq/zmq_event_source.h"
#include "daemon/dispatch_door.h"
#include "daemon/event_plane.h"
#include "kvrouter/config.h"
#include "kvrouter/worker.h"
#include "service/replay_turns.h"
#include "service/routing_service.h"
#include "service/select_cache.h"

namespace kvrouter {

// Everything the daemon is told at start, as plain data. The defaults of the product are here and
// in the parts' own configs; option_table.cc reads them from a default-constructed DaemonConfig, so
// there is no second list.
struct DaemonConfig {
  DaemonConfig() {
    http.listen = "127.0.0.1:8092";
    grpc.listen = "127.0.0.1:8093";
  }

  RouterConfig router;
  bool load_aware = false;  // a preset: what it asks for is in `router` already
  uint64_t min_initial_workers = 0;
  ServiceConfig service;
  SelectCacheConfig select_cache;
  GrpcServerConfig grpc;
  HttpServerConfig http;
  ZmqEventSourceConfig zmq;
  ReplayTurnsConfig replay_turns;
  EventPlaneConfig event_plane;
  MetricsConfig metrics;
  std::vector<WorkerSpec> workers;
  WorkersFileConfig workers_file;
  KubernetesConfig kubernetes;
  IntrospectionConfig introspection;

  DispatchDoorConfig dispatch;

  // The indexer's API, served as `http` says otherwise; empty: not served.
  std::string indexer_listen;

  DecisionLogConfig decision_log;
  // key=value[,...] of the choice's settings (ParsePolicyChange); becomes router.shadow.
  std::string shadow_policy;
  // How often the config file is looked at; 0: read again at SIGHUP only.
  std::chrono::milliseconds config_poll{1000};
  // What router_conditional_disagg_config says, as text; LoadOptions puts it into `router`.
  std::string conditional_disagg_json;

  SnapshotConfig snapshot;
  PeerDumpsConfig peers;

  std::string policy_file;  // of the queue's classes, read into router.scheduler.queue; empty: none

  std::string addresses_file;  // empty: not written
  std::string log_level = "info";
  // /ready waits at most this long for the event feeds' first replay.
  std::chrono::milliseconds ready_bound{10000};
  // How long running calls may take to finish at the end. Together with what follows it stays under
  // 5 s.
  std::chrono::milliseconds shutdown_grace{2500};
};

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_DAEMON_CONFIG_H_
