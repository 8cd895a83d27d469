#ifndef KVROUTER_DAEMON_EVENT_PLANE_H_
#define KVROUTER_DAEMON_EVENT_PLANE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "adapters/nats/nats_event_source.h"
#include "adapters/zmq/engine_replay_history.h"
#include "adapters/zmq/plane_event_source.h"
#include "service/peer_history.h"
#include "service/plane_intake.h"
#include "service/reported_loads.h"

namespace kvrouter {

// Dynamo's event plane, as far as settings go.
struct EventPlaneConfig {
  std::string transport = "none";  // none, nats or zmq
  bool kv_events = true;           // false: only what workers say of their loads is subscribed to
  std::string component;           // empty: all
  std::string endpoint;            // empty: all
  PlaneIntakeConfig intake;
  std::chrono::milliseconds repair_patience{10'000};
  std::chrono::milliseconds doubt_grace{1000};
  // How long an event that came early waits for those before it, where several brokers carry it.
  std::chrono::milliseconds gap_wait{1000};
  NatsEventSourceConfig nats;
  PlaneEventSourceConfig zmq;
  std::string zmq_broker_url;  // as Dynamo's variable
};

// "xsub=tcp://a:5555[;...] , xpub=tcp://a:5556[;...]": the addresses that subscribers connect to.
absl::StatusOr<std::vector<std::string>> BrokerEndpoints(const std::string& broker_url);

// The subjects on NATS of what workers publish, their KV events or only their loads: of the whole
// namespace, of one component, or of one endpoint.
std::vector<std::string> PlaneSubjects(const PlaneScope& scope, bool kv_events = true);

// OK, or what is wrong with the settings together.
absl::Status Validate(const EventPlaneConfig& config, const std::string& dynamo_namespace);

// The event plane that was asked for, or nothing. Thread-compatible but for the listener.
class EventPlane {
 public:
  // Those behind the pointers outlive this object. `loads` is filled. Engines are asked for their
  // history when it is their turn; ranks whose engine cannot tell what it holds are asked of
  // `peers`.
  EventPlane(const EventPlaneConfig& config, const std::string& dynamo_namespace,
             const EngineReplayHistoryConfig& replay, ReplayTurns* turns, PeerBlockSource* peers,
             Router* router, FeedMonitor* monitor, ReportedLoads* loads, const Clock* clock);

  // What has to hear of workers and of published ranks before their other sources do; null without
  // a plane.
  PlaneIntake* Listener() { return intake_.get(); }

  // PlaneIntake's; true without a plane.
  bool InitialRecoveryDone() const { return !intake_ || intake_->InitialRecoveryDone(); }

  // Error: a setting that cannot be used, or no thread; never a broker that is not there.
  absl::Status Start();
  void Stop();

 private:
  EngineReplayHistory engine_replay_;
  PeerHistory peer_history_;
  std::unique_ptr<PlaneIntake> intake_;
  std::unique_ptr<NatsEventSource> nats_;
  std::unique_ptr<PlaneEventSource> zmq_;
};

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_EVENT_PLANE_H_
