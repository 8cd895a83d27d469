#ifndef KVROUTER_DAEMON_DISPATCH_DOOR_H_
#define KVROUTER_DAEMON_DISPATCH_DOOR_H_

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "adapters/engine_http/http_engine_link.h"
#include "adapters/http/http_server.h"
#include "adapters/http/ops.h"
#include "adapters/metrics/dispatch_figures.h"
#include "adapters/openai/openai_door.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "dispatch/dispatcher.h"
#include "service/routing_service.h"
#include "service/worker_registry.h"

namespace kvrouter {

struct DispatchDoorConfig {
  DispatchDoorConfig() {
    http.listen = "127.0.0.1:8080";
    http.max_connections = 16'384;
    http.write_timeout = std::chrono::milliseconds(60'000);
  }

  bool enabled = false;     // the OpenAI door
  bool route_text = false;  // RouteText without it
  HttpServerConfig http;
  DispatchConfig dispatch;
  EngineLinkConfig engines;
  // How long streams may go on at the end.
  std::chrono::milliseconds shutdown_grace{10'000};

  bool NeedsDispatcher() const { return enabled || route_text; }
};

// INVALID_ARGUMENT naming the setting.
absl::Status Validate(const DispatchDoorConfig& config);

// Dispatch, as the daemon runs it: link to the engines, dispatcher and OpenAI door. Without
// `enabled` there is no door, without NeedsDispatcher() nothing at all.
//
// Stop: the door takes no more connections and the dispatcher no more requests; running ones may
// end up to the grace, the rest is told so; then what is left of connections closes.
//
// Thread safety: Start and Stop from one thread; the rest from any.
class DispatchDoor final : public WorkerListener {
 public:
  struct Parts {
    RoutingService* routing = nullptr;
    const WorkerRegistry* workers = nullptr;
    const Clock* clock = nullptr;
    DispatchObserver* metrics = nullptr;
  };
  // Parts outlive it.
  DispatchDoor(const DispatchDoorConfig& config, const Parts& parts);
  ~DispatchDoor() override;

  absl::Status Start();
  // Takes up to the grace while requests run, and little without. Again: nothing.
  void Stop();

  // Empty: there is no door.
  std::string Address() const { return door_ ? door_->Address() : ""; }
  // Of these workers, the registered ones; nothing: there is no door.
  std::optional<OpenAiDoorState> Describe(std::span<const WorkerSpec> workers, bool stopping) const;
  // Null: text is not routed.
  RouteTextFunction RouteText();

  // Of what the dispatcher can change while it runs; the rest stays as it was built.
  absl::Status CheckChange(const DispatchDoorConfig& config) const;
  // REQUIRES: CheckChange(config).ok().
  void Change(const DispatchDoorConfig& config);

  DispatchState State() const;
  HttpServerCounters HttpCounters() const;

  // Connections to a worker that moved, restarted or went are of no use any more.
  void OnWorkerChanged(const WorkerSpec& spec) override;
  void OnWorkerRemoved(WorkerId id, Incarnation incarnation) override;

 private:
  class Log;
  struct Known {
    std::string address;
    Incarnation incarnation{};
  };

  const DispatchDoorConfig config_;
  const std::unique_ptr<Log> log_;
  // In the order of construction.
  std::unique_ptr<HttpEngineLink> link_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::unique_ptr<OpenAiDoor> door_;
  bool running_ = false;

  Mutex mu_;
  std::map<WorkerId, Known> known_ ABSL_GUARDED_BY(mu_);  // the registered workers
};

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_DISPATCH_DOOR_H_
