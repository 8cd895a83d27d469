#ifndef KVROUTER_ADAPTERS_NATS_NATS_CONNECTION_H_
#define KVROUTER_ADAPTERS_NATS_NATS_CONNECTION_H_

#include <nats/nats.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adapters/nats/nats_event_source.h"
#include "base/mutex.h"

namespace kvrouter {

// One connection with its subscriptions, from the first byte to the last callback. The library
// calls back on threads of its own, until each subscription and the connection have said their last
// word; what these calls touch is shared, so that it lives as long as the last of them, and is cut
// off from the intake when this object goes: a call that is in the intake by then is waited for,
// however long the machine lets its thread wait.
//
// Thread-compatible, but for the callbacks.
class NatsConnection {
 public:
  NatsConnection(const NatsEventSourceConfig& config, PlaneIntake* intake);
  ~NatsConnection();
  NatsConnection(const NatsConnection&) = delete;
  NatsConnection& operator=(const NatsConnection&) = delete;

  // Connects and subscribes; OK once the server has taken the subscriptions. Blocks, up to a second
  // and a bit.
  absl::Status Open(const std::string& server);

  // Waits up to `timeout` for the end of the connection, or for Interrupt; why it ended.
  std::optional<std::string> WaitForEnd(std::chrono::milliseconds timeout);
  // From any thread.
  void Interrupt();

  // Looks after messages that the library dropped and tells the intake of them, in their place
  // after those that it still holds.
  void TellDrops();

 private:
  // Shared with callbacks.
  struct Shared {
    explicit Shared(PlaneIntake* to) : intake(to) {}

    Mutex mu;
    CondVar changed;
    PlaneIntake* intake ABSL_GUARDED_BY(mu);
    std::string failure ABSL_GUARDED_BY(mu);  // the first thing that the library complained of
    bool ended ABSL_GUARDED_BY(mu) = false;
    bool interrupted ABSL_GUARDED_BY(mu) = false;
    int open_callbacks ABSL_GUARDED_BY(mu) = 0;
    int pushing ABSL_GUARDED_BY(mu) = 0;  // calls that are in the intake
  };
  using SharedPtr = std::shared_ptr<Shared>;

  struct Subscription {
    natsSubscription* handle = nullptr;
    int64_t dropped_seen = 0;
    int64_t dropped_untold = 0;
    int64_t tell_at_delivered = 0;
  };

  static void OnMessage(natsConnection* connection, natsSubscription* subscription,
                        natsMsg* message, void* closure);
  static void OnError(natsConnection* connection, natsSubscription* subscription, natsStatus status,
                      void* closure);
  static void OnClosed(natsConnection* connection, void* closure);
  static void OnComplete(void* closure);
  static void EndCallbacks(void* closure);

  absl::Status Subscribe(const std::string& subject);

  const NatsEventSourceConfig& config_;
  PlaneIntake* const intake_;
  const SharedPtr shared_;
  natsConnection* connection_ = nullptr;
  std::vector<Subscription> subscriptions_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_NATS_NATS_CONNECTION_H_
