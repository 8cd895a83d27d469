#ifndef KVROUTER_ADAPTERS_NATS_NATS_EVENT_SOURCE_H_
#define KVROUTER_ADAPTERS_NATS_NATS_EVENT_SOURCE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "service/plane_intake.h"

namespace kvrouter {

struct NatsEventSourceConfig {
  // nats://[USER:PASSWORD@]HOST:PORT or tls://..., one after the other until one answers.
  std::vector<std::string> servers{"nats://localhost:4222"};
  std::vector<std::string> subjects;

  // At most one kind of credentials; none is fine, too.
  std::string username;
  std::string password;
  std::string token;
  std::string nkey_seed;
  std::string credentials_file;  // JWT and seed

  // Either one asks for TLS, as a tls:// server does.
  std::string tls_ca_cert_path;  // empty: the system's
  bool tls_insecure = false;     // the server's certificate is not checked

  // Wait before another try: doubles between these, each time a random part of up to a half less,
  // so that a fleet does not come back in step.
  std::chrono::milliseconds reconnect_min{100};
  std::chrono::milliseconds reconnect_max{5000};
  // A server that answers no ping for twice this long is gone.
  std::chrono::milliseconds ping_interval{10000};
  // Messages of one subject that the library may hold before its callback took them.
  int max_pending_messages = 65'536;
  int max_pending_bytes = 64 << 20;
};

// OK, or which setting cannot be used and why: files are read, nothing is connected.
absl::Status Validate(const NatsEventSourceConfig& config);

// Dynamo's event plane over NATS: a thread that keeps a connection with one subscription per
// subject, and callbacks that hand each message's bytes to the intake.
//
// Connections are made here, not by the library, whose own reconnecting gives up after refused
// credentials and does not say when its subscriptions work again: a connection that breaks is
// thrown away, and another one made, for ever. A broker that is not there holds up nothing; the
// ranks show it as their state. Messages that the library drops as a slow consumer are found in its
// counters.
//
// Thread safety: Start and Stop once, from one thread.
class NatsEventSource {
 public:
  // The intake outlives this object and gets path 0.
  NatsEventSource(NatsEventSourceConfig config, PlaneIntake* intake);
  ~NatsEventSource();  // stops

  // Error: a setting that cannot be used. Never because no server answers.
  absl::Status Start();
  // Within the time of one attempt to connect, 1 s.
  void Stop();

  struct Counters {
    uint64_t connects = 0;
    uint64_t failed_connects = 0;
  };
  Counters Read() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_NATS_NATS_EVENT_SOURCE_H_
