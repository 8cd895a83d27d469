#include "daemon/dispatch_door.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <string>
#include <thread>
#include <utility>

#include "adapters/engine_http/engine_url.h"
#include "adapters/tls/tls_files.h"
#include "base/status_macros.h"

namespace kvrouter {
namespace {

using std::chrono::milliseconds;

// For the last answers to reach their clients, behind the grace.
constexpr milliseconds kFlushTime{500};

TlsFiles FilesOf(const TlsServerConfig& tls) {
  return {
      .certificate = {.setting = "dispatch_tls_cert_path", .path = tls.certificate_file},
      .key = {.setting = "dispatch_tls_key_path", .path = tls.key_file},
      .authorities = {.setting = "dispatch_tls_client_ca_cert_path", .path = tls.client_ca_file}};
}

TlsFiles FilesOf(const TlsClientConfig& tls) {
  return {.certificate = {.setting = "engine_tls_cert_path", .path = tls.certificate_file},
          .key = {.setting = "engine_tls_key_path", .path = tls.key_file},
          .authorities = {.setting = "engine_tls_ca_cert_path", .path = tls.ca_file}};
}

void LogReload(const absl::Status& reloaded) {
  if (reloaded.ok()) {
    spdlog::info("event=tls_certificate_reloaded");
  } else {
    const std::string why(reloaded.message());
    spdlog::warn("event=tls_certificate_kept detail=\"{}\"", why);
  }
}

}  // namespace

// Writes the dispatcher's lines, and passes everything else on.
class DispatchDoor::Log final : public DispatchObserver {
 public:
  explicit Log(DispatchObserver* next) : next_(next) {}

  void OnFirstToken(std::string_view path, std::chrono::nanoseconds since_arrival) override {
    next_->OnFirstToken(path, since_arrival);
  }
  void OnLeg(LegKind kind, const Target& target, LegResult result,
             std::chrono::nanoseconds took) override {
    next_->OnLeg(kind, target, result, took);
  }
  void OnFallback(DispatchFallback fallback) override { next_->OnFallback(fallback); }
  void OnOutgrown(OutgrownHold hold) override { next_->OnOutgrown(hold); }
  void OnTokenize(TokenizeOutcome outcome, std::chrono::nanoseconds took) override {
    next_->OnTokenize(outcome, took);
  }
  void OnOverlap(const DeliveredOverlap& overlap) override { next_->OnOverlap(overlap); }
  void OnLeaseLeft(const Target& producer) override { next_->OnLeaseLeft(producer); }
  void OnEnd(const DispatchEnd& end) override { next_->OnEnd(end); }
  void OnLog(LogLevel level, const std::string& line) override {
    switch (level) {
      case LogLevel::kDebug:
        return spdlog::debug("{}", line);
      case LogLevel::kInfo:
        return spdlog::info("{}", line);
      case LogLevel::kWarning:
        return spdlog::warn("{}", line);
    }
  }

 private:
  DispatchObserver* const next_;
};

absl::Status Validate(const DispatchDoorConfig& config) {
  KVR_RETURN_IF_ERROR(Validate(config.dispatch));
  KVR_RETURN_IF_ERROR(CheckTlsPair(FilesOf(config.engines.tls)));
  const TlsServerConfig& door = config.http.tls;
  KVR_RETURN_IF_ERROR(CheckTlsPair(FilesOf(door)));
  if (!door.client_ca_file.empty() && !door.Enabled()) {
    return absl::InvalidArgumentError(
        fmt::format("dispatch_tls_client_ca_cert_path: \"{}\" needs dispatch_tls_cert_path, which "
                    "is empty: certificates of clients are asked for in TLS only",
                    door.client_ca_file));
  }
  return absl::OkStatus();
}

DispatchDoor::DispatchDoor(const DispatchDoorConfig& config, const Parts& parts)
    : config_(config), log_(std::make_unique<Log>(parts.metrics)) {
  if (!config_.NeedsDispatcher()) return;
  link_ = std::make_unique<HttpEngineLink>(config_.engines);
  dispatcher_ =
      std::make_unique<Dispatcher>(config_.dispatch, Dispatcher::Parts{.routing = parts.routing,
                                                                       .workers = parts.workers,
                                                                       .link = link_.get(),
                                                                       .clock = parts.clock,
                                                                       .observer = log_.get()});
  if (!config_.enabled) return;
  HttpServerConfig http = config_.http;
  http.tls.on_reload = LogReload;
  door_ = std::make_unique<OpenAiDoor>(
      http, [this](DispatchRequest request, std::shared_ptr<ClientReply> reply) {
        dispatcher_->Serve(std::move(request), std::move(reply));
      });
}

DispatchDoor::~DispatchDoor() { Stop(); }

absl::Status DispatchDoor::Start() {
  if (!config_.NeedsDispatcher()) return absl::OkStatus();
  KVR_RETURN_IF_ERROR(CheckTlsFiles(FilesOf(config_.engines.tls)));
  if (config_.enabled) KVR_RETURN_IF_ERROR(CheckTlsFiles(FilesOf(config_.http.tls)));
  running_ = true;  // so that Stop undoes what an error leaves half done
  KVR_RETURN_IF_ERROR(link_->Start());
  return door_ ? door_->Start() : absl::OkStatus();
}

void DispatchDoor::Stop() {
  if (!std::exchange(running_, false)) return;
  const auto stop_door = [this] { door_->Stop(config_.shutdown_grace + kFlushTime); };
  std::jthread closing;  // the door closes its ears while the dispatcher waits for what runs
  if (door_) closing = std::jthread(stop_door);
  dispatcher_->Stop(config_.shutdown_grace);
  if (closing.joinable()) closing.join();
  link_->Stop();
}

std::optional<OpenAiDoorState> DispatchDoor::Describe(std::span<const WorkerSpec> workers,
                                                      bool stopping) const {
  if (!door_) return std::nullopt;
  OpenAiDoorState state{.address = door_->Address(), .tls = config_.http.tls.Enabled()};
  for (const WorkerSpec& worker : workers)
    state.engines += !worker.draining && ParseEngineUrl(worker.address).ok() ? 1 : 0;
  if (stopping) {
    state.problem = "it is stopping";
  } else if (state.address.empty()) {
    state.problem = "it does not listen yet";
  } else if (state.engines == 0) {
    state.problem = workers.empty() ? "no worker is registered"
                                    : "no worker that takes requests has an http:// or https:// "
                                      "address";
  }
  return state;
}

RouteTextFunction DispatchDoor::RouteText() {
  if (dispatcher_ == nullptr) return nullptr;
  return
      [dispatcher = dispatcher_.get()](RouteTextRequest request, Dispatcher::RouteTextDone done) {
        return dispatcher->RouteText(std::move(request), std::move(done));
      };
}

absl::Status DispatchDoor::CheckChange(const DispatchDoorConfig& config) const {
  return dispatcher_ ? dispatcher_->CheckChange(config.dispatch) : absl::OkStatus();
}

void DispatchDoor::Change(const DispatchDoorConfig& config) {
  if (dispatcher_) dispatcher_->Change(config.dispatch);
}

DispatchState DispatchDoor::State() const {
  DispatchState state;
  if (dispatcher_ == nullptr) {
    for (int i = 0; i < kEngineEndCount; ++i)
      state.engines.ends.emplace_back(EngineEndName(static_cast<EngineEnd>(i)), 0);
    state.engines.ends.emplace_back("cancelled", 0);
    return state;
  }
  state.counters = dispatcher_->Counters();
  const EngineLinkCounters link = link_->Counters();
  EngineCallFigures& out = state.engines;
  for (int i = 0; i < kEngineEndCount; ++i) {
    out.ends.emplace_back(EngineEndName(static_cast<EngineEnd>(i)),
                          link.ends[static_cast<size_t>(i)]);
  }
  out.ends.emplace_back("cancelled", link.cancelled);
  out.retried = link.retried;
  // Each figure is read by itself: between two of them a call may have ended.
  const auto rest = [](uint64_t all, uint64_t part) { return all > part ? all - part : 0; };
  out.running = rest(link.exchanges, link.waiting);
  out.waiting = link.waiting;
  out.busy_connections = rest(link.connections, link.idle_connections);
  out.idle_connections = link.idle_connections;
  out.opened = link.connections_opened;
  out.reused = link.connections_reused;
  out.closed_idle = link.idle_timeouts;
  out.closed_ended = link.idle_ended;
  out.closed_surplus = link.idle_surplus;
  out.sent_bytes = link.sent_bytes;
  out.received_bytes = link.received_bytes;
  out.names_answered = rest(link.names_asked, link.names_failed);
  out.names_failed = link.names_failed;
  return state;
}

HttpServerCounters DispatchDoor::HttpCounters() const {
  return door_ ? door_->Counters() : HttpServerCounters{};
}

void DispatchDoor::OnWorkerChanged(const WorkerSpec& spec) {
  if (link_ == nullptr) return;
  std::string left;
  {
    MutexLock lock(mu_);
    Known& known = known_[spec.id];
    if (known.address != spec.address || known.incarnation != spec.incarnation)
      left = std::exchange(known.address, spec.address);
    known.incarnation = spec.incarnation;
  }
  if (!left.empty()) link_->Forget(left);
}

void DispatchDoor::OnWorkerRemoved(WorkerId id, Incarnation /*incarnation*/) {
  if (link_ == nullptr) return;
  std::string left;
  {
    MutexLock lock(mu_);
    const auto found = known_.find(id);
    if (found == known_.end()) return;
    left = std::move(found->second.address);
    known_.erase(found);
  }
  if (!left.empty()) link_->Forget(left);
}

}  // namespace kvrouter
