#include "sim/wire/wire_fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "adapters/http/http_server.h"
#include "base/status_macros.h"
#include "sim/wire/engine_routes.h"
#include "sim/wire/faults.h"
#include "sim/wire/fleet_admin.h"
#include "sim/wire/fleet_loop.h"
#include "sim/wire/wire_engine.h"

namespace kvrouter::sim {
namespace {

std::string EndpointOf(const std::string& host, uint16_t base_port, uint32_t engine) {
  if (base_port == 0) return fmt::format("tcp://{}:*", host);
  return fmt::format("tcp://{}:{}", host, base_port + engine);
}

uint16_t PortOf(const std::string& address) {
  return static_cast<uint16_t>(std::stoul(address.substr(address.rfind(':') + 1)));
}

}  // namespace

KvTransferConfig KvRoleOf(const FleetConfig& fleet, uint64_t engine) {
  KvTransferConfig kv = fleet.kv;
  if (fleet.prefill_engines == 0) return kv;
  kv.producer = engine < fleet.prefill_engines || fleet.kv.producer;
  kv.consumer = engine >= fleet.prefill_engines;
  return kv;
}

struct WireFleet::Impl {
  FleetConfig config;
  FleetLoop loop;
  EventPublisher publisher;
  std::vector<std::unique_ptr<Faults>> faults;       // of each engine
  std::vector<std::unique_ptr<HttpServer>> servers;  // null while an engine refuses
  std::vector<std::string> addresses;                // of the servers, once bound
  std::unique_ptr<FleetAdmin> admin;
  // Its callbacks post to the loop: it goes first.
  KvSideChannel side_channel;

  explicit Impl(FleetConfig fleet)
      : config(std::move(fleet)), loop(config.speedup), side_channel(config.kv_handshake_timeout) {}

  absl::Status AddEngine(uint32_t index);
  absl::Status StartServer(size_t index);
  absl::Status SetListening(size_t index, bool listen);
  absl::Status StartAdmin();
  WireEngine::Config EngineConfigOf(uint32_t index) const;
};

WireEngine::Config WireFleet::Impl::EngineConfigOf(uint32_t index) const {
  WireEngine::Config engine{.model = config.model,
                            .model_name = config.model_name,
                            .dp_rank = config.dp_rank,
                            .hash_seed = {},
                            .max_live_requests = config.max_live_requests,
                            .early_stream_head = config.early_stream_head,
                            .kv = KvRoleOf(config, index)};
  if (config.same_hash_seed) engine.hash_seed = config.hash_seed;
  engine.kv.lease = loop.clock().ToModel(config.kv.lease);
  engine.kv.host = config.side_channel_host.empty() ? config.http_host : config.side_channel_host;
  return engine;
}

absl::Status WireFleet::Impl::AddEngine(uint32_t index) {
  PublisherConfig events = config.events;
  events.live = EndpointOf(config.http_host, config.live_port, index);
  events.replay = EndpointOf(config.http_host, config.replay_port, index);
  KVR_ASSIGN_OR_RETURN(const size_t channel, publisher.AddEngine(events));
  loop.Add(std::make_unique<WireEngine>(
      EngineConfigOf(index), WireEngine::Wires{.publisher = &publisher,
                                               .channel = channel,
                                               .side_channel = &side_channel,
                                               .post = [this, index](FleetLoop::Task task) {
                                                 // Refused: the queue is full of requests, and this
                                                 // one waits until its client leaves.
                                                 (void)loop.Post(index, std::move(task));
                                               }}));
  return absl::OkStatus();
}

// At the address it had before, if it had one.
absl::Status WireFleet::Impl::StartServer(size_t index) {
  HttpServerConfig http;
  http.listen = addresses[index];
  if (http.listen.empty()) {
    const size_t port = config.http_port == 0 ? 0 : config.http_port + index;
    http.listen = fmt::format("{}:{}", config.http_host, port);
  }
  http.max_connections = config.max_live_requests + 64;
  auto server = std::make_unique<HttpServer>(http);
  AddEngineRoutes({.engine = index,
                   .model = {.model_name = config.model_name,
                             .chat_template = config.chat_template,
                             .max_model_len_tokens = config.max_model_len_tokens,
                             .render = config.render_routes},
                   .dp_rank = config.dp_rank,
                   .loop = &loop,
                   .publisher = &publisher,
                   .faults = faults[index].get(),
                   .side_channel = &side_channel},
                  *server);
  KVR_RETURN_IF_ERROR(server->Start());
  if (addresses[index].empty()) addresses[index] = server->Address();
  servers[index] = std::move(server);
  return absl::OkStatus();
}

absl::Status WireFleet::Impl::SetListening(size_t index, bool listen) {
  if (listen == (servers[index] != nullptr)) return absl::OkStatus();
  if (listen) return StartServer(index);
  servers[index]->Stop(std::chrono::milliseconds(0));
  servers[index] = nullptr;
  return absl::OkStatus();
}

absl::Status WireFleet::Impl::StartAdmin() {
  FleetAdmin::Parts parts;
  for (const auto& each : faults) parts.engines.push_back(each.get());
  parts.restart = [this](size_t index) {
    (void)loop.Post(index, [](WireEngine& engine, MonotonicTime) { engine.Restart(); });
  };
  parts.set_listening = [this](size_t index, bool listen) { return SetListening(index, listen); };
  admin = std::make_unique<FleetAdmin>(fmt::format("{}:{}", config.http_host, config.admin_port),
                                       std::move(parts));
  return admin->Start();
}

WireFleet::WireFleet(FleetConfig config) : impl_(std::make_unique<Impl>(std::move(config))) {}

WireFleet::~WireFleet() { Stop(std::chrono::milliseconds(0)); }

absl::Status WireFleet::Start() {
  for (uint32_t i = 0; i < impl_->config.engines; ++i) KVR_RETURN_IF_ERROR(impl_->AddEngine(i));
  // Servers last: their threads read the list of engines, which must not grow any more.
  impl_->servers.resize(impl_->config.engines);
  impl_->addresses.resize(impl_->config.engines);
  for (uint32_t i = 0; i < impl_->config.engines; ++i) {
    impl_->faults.push_back(std::make_unique<Faults>());
    KVR_RETURN_IF_ERROR(impl_->StartServer(i));
    impl_->loop.engine(i).SetSideChannelPort(PortOf(impl_->addresses[i]));
  }
  impl_->publisher.Start();
  impl_->loop.Start();
  return impl_->config.faults ? impl_->StartAdmin() : absl::OkStatus();
}

std::vector<EngineAddresses> WireFleet::Addresses() const {
  std::vector<EngineAddresses> addresses;
  for (size_t i = 0; i < impl_->config.engines; ++i) {
    addresses.push_back({.http = "http://" + impl_->addresses[i],
                         .live = impl_->publisher.LiveEndpoint(i),
                         .replay = impl_->publisher.ReplayEndpoint(i)});
  }
  return addresses;
}

std::string WireFleet::AdminAddress() const {
  return impl_->admin == nullptr ? "" : "http://" + impl_->admin->Address();
}

void WireFleet::Stop(std::chrono::milliseconds grace) {
  const auto deadline = std::chrono::steady_clock::now() + grace;
  if (impl_->admin != nullptr) impl_->admin->Stop();
  for (const auto& server : impl_->servers) {
    if (server == nullptr) continue;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    server->Stop(std::max(left, std::chrono::milliseconds(0)));
  }
  impl_->loop.Stop();
  impl_->publisher.Stop();
}

}  // namespace kvrouter::sim
