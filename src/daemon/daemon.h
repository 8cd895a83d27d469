#ifndef KVROUTER_DAEMON_DAEMON_H_
#define KVROUTER_DAEMON_DAEMON_H_

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "adapters/decision_log/decision_log.h"
#include "adapters/discovery/discovery_journal.h"
#include "adapters/discovery/engine_introspection.h"
#include "adapters/discovery/kubernetes_discovery.h"
#include "adapters/discovery/worker_sources.h"
#include "adapters/discovery/workers_file.h"
#include "adapters/grpc/grpc_server.h"
#include "adapters/http/http_server.h"
#include "adapters/http/indexer_api.h"
#include "adapters/http/ops.h"
#include "adapters/http/selection_api.h"
#include "adapters/http/status_page.h"
#include "adapters/metrics/router_metrics.h"
#include "adapters/openai/route_text_api.h"
#include "adapters/peer/peer_dumps.h"
#include "adapters/snapshot/snapshot_keeper.h"
#include "adapters/zmq/zmq_event_source.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "daemon/config_reload.h"
#include "daemon/daemon_config.h"
#include "daemon/dispatch_door.h"
#include "daemon/event_plane.h"
#include "daemon/plan_log.h"
#include "daemon/readiness.h"
#include "kvrouter/router.h"
#include "service/engine_loads.h"
#include "service/feed_monitor.h"
#include "service/published_feeds.h"
#include "service/replay_turns.h"
#include "service/reported_loads.h"
#include "service/routing_service.h"
#include "service/saved_feeds.h"
#include "service/select_cache.h"
#include "service/selection_workers.h"
#include "service/worker_registry.h"
#include "service/worker_signs.h"

namespace kvrouter {

// The parts of kvrouterd, wired together. Members are in the order of construction; each points
// only to those above it.
//
// Start opens the doors before it registers the workers of the file, so that a second daemon
// started by mistake fails on the taken port without having bothered any engine. Stop goes the
// other way: not ready, no new requests, running calls finish, sockets of the feeds close.
//
// Thread safety: Start and Stop from one thread; signals must be blocked before, since Start
// creates threads.
class Daemon {
 public:
  // `reloader`, if there is one, outlives the daemon, which starts and stops it.
  explicit Daemon(DaemonConfig config, ConfigReloader* reloader = nullptr);
  ~Daemon();

  // On an error nothing is left open. Once.
  absl::Status Start();
  // Within 5 s, also under load, and before that as long as dispatched requests may take to end
  // (dispatch_shutdown_grace_ms). Again: nothing.
  void Stop();

  std::string HttpAddress() const { return http_.Address(); }
  std::string GrpcAddress() const { return grpc_.Address(); }
  // Empty if it is not served.
  std::string IndexerAddress() const { return indexer_http_ ? indexer_http_->Address() : ""; }
  std::string OpenAiAddress() const { return dispatch_.Address(); }

 private:
  absl::Status RegisterWorkers();
  // The settings that a reload may change.
  absl::Status Reconfigure(const DaemonConfig& config);
  RecordFigures ReadRecord() const;
  void LogDecisionLog();
  DiscoveryFigures ReadDiscovery() const;
  absl::Status WriteAddressesFile();
  Readiness CurrentReadiness();   // asked several times a second
  Readiness DescribeReadiness();  // with the OpenAI door, for whoever reads it
  HttpFigures CurrentHttpFigures() const;
  StatusDispatch CurrentDispatch() const;
  StatusReport CurrentStatus();
  void PublishReadiness();
  void LogStateChanges();
  void LogForgotten();
  void LogDiscovery();
  void LoadSnapshot();
  WarmStartFigures ReadWarmStart() const;
  void TendSavedFeeds(MonotonicTime now);
  void LogWarmStart();
  void RunTimers(const std::stop_token& stop);

  const DaemonConfig config_;
  ConfigReloader* const reloader_;
  RouterMetrics metrics_;
  DecisionLog decision_log_;
  PlanLog plan_log_;
  MigrationLog migration_log_;
  Router router_;
  RoutingService service_;
  WorkerRegistry workers_;
  DiscoveryJournal journal_;
  WorkerSources sources_;
  WorkersFile workers_file_;
  KubernetesDiscovery kubernetes_;
  SelectionWorkers selection_workers_;
  SelectCache select_cache_;
  FeedMonitor feeds_;
  ReplayTurns replay_turns_;
  WorkerSignBoard signs_;
  EngineLoads engine_loads_;
  EngineIntrospection introspection_;
  PublishedFeeds published_;
  ReportedLoads loads_;
  SavedFeeds saved_;
  PeerDumps peers_;
  ZmqEventSource zmq_;
  SnapshotKeeper snapshots_;
  EventPlane event_plane_;
  DispatchDoor dispatch_;
  RouteTextApi route_text_;
  GrpcServer grpc_;
  SelectionApi selection_;
  HttpServer http_;
  IndexerApi indexer_;
  std::unique_ptr<HttpServer> indexer_http_;  // null: not served

  const MonotonicTime created_at_ = SteadyClock().Now();
  std::atomic<bool> stopping_{false};
  std::atomic<bool> ready_{false};  // as last published
  Mutex readiness_mu_;
  ReadinessRule readiness_rule_ ABSL_GUARDED_BY(readiness_mu_);

  std::atomic<bool> running_{false};  // Start succeeded
  bool addresses_written_ = false;
  struct Timers;
  std::unique_ptr<Timers> timers_state_;
  std::jthread timers_;
};

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_DAEMON_H_
