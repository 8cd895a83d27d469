#ifndef KVROUTER_ADAPTERS_ZMQ_PLANE_EVENT_SOURCE_H_
#define KVROUTER_ADAPTERS_ZMQ_PLANE_EVENT_SOURCE_H_

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "feed/plane_codec.h"
#include "service/plane_intake.h"

namespace kvrouter {

struct PlaneEventSourceConfig {
  // One of the two. Publishers are workers that bind a socket each, whose messages begin with the
  // bare topic; brokers are the XPUB sides of proxies, all of which carry every message, beginning
  // with the whole subject.
  std::vector<std::string> publishers;
  std::vector<std::string> brokers;
  // What of the brokers' subjects is for us; an empty component or endpoint means all.
  PlaneScope scope;
  bool kv_events = true;  // false: only what workers say of their loads
  // ZMQ's own reconnect, exponential between these two.
  std::chrono::milliseconds reconnect_min{100};
  std::chrono::milliseconds reconnect_max{5000};
  // ZMTP ping: a dead peer is noticed within the time-out. Interval 0: none.
  std::chrono::milliseconds heartbeat_interval{5000};
  std::chrono::milliseconds heartbeat_timeout{15000};
};

// OK, or which endpoint cannot be used and why.
absl::Status Validate(const PlaneEventSourceConfig& config);

// Dynamo's event plane over ZMQ: one thread that owns a SUB socket per endpoint and hands each
// message's bytes to the intake, where endpoint i is path i. Peers that are not there hold up
// nothing; ZMQ tries them for ever.
//
// Thread safety: Start and Stop once, from one thread.
class PlaneEventSource {
 public:
  PlaneEventSource(PlaneEventSourceConfig config, PlaneIntake* intake);  // which outlives this
  ~PlaneEventSource();                                                   // stops

  // Error: an endpoint that cannot be used, or no socket or thread to have.
  absl::Status Start();
  void Stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_ZMQ_PLANE_EVENT_SOURCE_H_
