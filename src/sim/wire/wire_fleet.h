#ifndef KVROUTER_SIM_WIRE_WIRE_FLEET_H_
#define KVROUTER_SIM_WIRE_WIRE_FLEET_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "sim/model/engine_model.h"
#include "sim/wire/event_publisher.h"
#include "sim/wire/kv_transfer.h"

namespace kvrouter::sim {

struct FleetConfig {
  uint32_t engines = 1;
  EngineConfig model;
  std::string model_name = "sim";
  std::string chat_template;  // name of it, sim_tokenizer.h
  uint64_t max_model_len_tokens = 2'000'000;
  bool render_routes = true;  // /v1/completions/render and its like for chats
  uint32_t dp_rank = 0;       // of all engines here, each behind a port of its own
  KvTransferConfig kv;        // of all engines; the lease in real time; host and port overwritten
  uint32_t prefill_engines = 0;   // the first ones only produce KV, the others only consume
  std::string side_channel_host;  // that handshakes name; empty: http_host
  std::chrono::milliseconds kv_handshake_timeout{30'000};  // real time, for asking a source
  bool early_stream_head = false;
  bool faults = false;      // whether there is an address to break engines at (fleet_admin.h)
  uint16_t admin_port = 0;  // its port, 0 = any
  // Model seconds per real second. Everything an engine does is scaled by it; what happens around
  // it (network, router) is not, so it looks this many times slower.
  double speedup = 1;
  // Bind addresses of engine 0; engine i takes each port + i. Port 0 ("*" in endpoints): any free
  // one, for all.
  std::string http_host = "127.0.0.1";
  uint16_t http_port = 0;
  uint16_t live_port = 0;
  uint16_t replay_port = 0;
  PublisherConfig events;  // endpoints are overwritten
  bool same_hash_seed = false;
  uint64_t hash_seed = 0;  // random per engine unless same_hash_seed
  uint32_t max_live_requests = 4096;
};

// What engine `engine` of such a fleet is.
KvTransferConfig KvRoleOf(const FleetConfig& fleet, uint64_t engine);

struct EngineAddresses {
  std::string http;  // "http://127.0.0.1:8000"
  std::string live;  // "tcp://127.0.0.1:5557"
  std::string replay;
};

// Simulated vLLM engines in one process. Per engine: an HTTP server with its own thread, which
// parses requests; for all of them: one thread that drives the models in real time and answers, one
// that owns the event sockets.
//
//   HTTP threads --tasks--> fleet thread (models) --batches--> socket thread
//                               ^------------- side-channel thread (KV of other engines)
//
// Thread safety: Start and Stop from one thread.
class WireFleet {
 public:
  explicit WireFleet(FleetConfig config);
  ~WireFleet();  // stops

  // Binds everything, or says which address is taken.
  absl::Status Start();
  std::vector<EngineAddresses> Addresses() const;
  std::string AdminAddress() const;  // "http://127.0.0.1:9000"; empty without faults
  void Stop(std::chrono::milliseconds grace);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_WIRE_WIRE_FLEET_H_
