#include "adapters/engine_http/http_engine_link.h"

#include <fmt/format.h>

#include <atomic>
#include <unordered_map>
#include <utility>
#include <vector>

#include "adapters/engine_http/engine_lane.h"
#include "adapters/engine_http/engine_link_figures.h"
#include "adapters/engine_http/http_engine_exchange.h"
#include "adapters/engine_http/name_resolver.h"
#include "adapters/tls/tls_client.h"
#include "base/check.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr uint32_t kMaxThreads = 64;
// Addresses whose lane is remembered. Beyond it a name's hash decides, which spreads few engines
// worse.
constexpr size_t kMaxPlaced = 4096;
// No deadline is further away, so that adding it to the time cannot overflow.
constexpr std::chrono::nanoseconds kLongestDelay = std::chrono::hours(24 * 365);

absl::Status CheckConfig(const EngineLinkConfig& config) {
  const auto refuse = [](std::string_view what) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest,
                     fmt::format("engine link: {}", what));
  };
  if (config.threads < 1 || config.threads > kMaxThreads) {
    return refuse(fmt::format("threads {}, must be 1 to {}", config.threads, kMaxThreads));
  }
  if (config.max_connections < 1) return refuse("max_connections 0, must be at least 1");
  if (config.max_head_bytes < 1024) {
    return refuse(fmt::format("max_head_bytes {}, must be at least 1024", config.max_head_bytes));
  }
  for (const auto timeout : {config.connect_timeout, config.head_timeout, config.idle_timeout,
                             config.keep_idle_timeout}) {
    if (timeout.count() <= 0) return refuse("a time-out of 0 ms");
  }
  return absl::OkStatus();
}

}  // namespace

struct HttpEngineLink::Impl {
  explicit Impl(EngineLinkConfig c)
      : config(std::make_shared<const EngineLinkConfig>(c)),
        names(std::make_unique<NameResolver>(config->name_ttl, figures)) {}

  const std::shared_ptr<EngineLane>& LaneOf(const std::string& base_url) {
    MutexLock lock(mu);
    const auto found = placed.find(base_url);
    if (found != placed.end()) return lanes[found->second];
    if (placed.size() >= kMaxPlaced) {
      return lanes[std::hash<std::string>{}(base_url) % lanes.size()];
    }
    const size_t lane = next_lane++ % lanes.size();
    placed.emplace(base_url, lane);
    return lanes[lane];
  }

  const std::shared_ptr<const EngineLinkConfig> config;
  const std::shared_ptr<EngineLinkFigures> figures = std::make_shared<EngineLinkFigures>();
  std::unique_ptr<NameResolver> names;
  std::unique_ptr<TlsClient> tls;                  // from Start on
  std::vector<std::shared_ptr<EngineLane>> lanes;  // from Start on
  std::atomic<size_t> next_timer{0};
  Mutex mu;
  std::unordered_map<std::string, size_t> placed ABSL_GUARDED_BY(mu);
  size_t next_lane ABSL_GUARDED_BY(mu) = 0;
};

EngineLinkCounters EngineLinkFigures::Read() const {
  EngineLinkCounters read{.calls = calls.load(),
                          .cancelled = cancelled.load(),
                          .retried = retried.load(),
                          .exchanges = exchanges.load(),
                          .waiting = waiting.load(),
                          .connections_opened = connections_opened.load(),
                          .connections_reused = connections_reused.load(),
                          .connections = connections.load(),
                          .idle_connections = idle_connections.load(),
                          .idle_timeouts = idle_timeouts.load(),
                          .idle_ended = idle_ended.load(),
                          .idle_surplus = idle_surplus.load(),
                          .sent_bytes = sent_bytes.load(),
                          .received_bytes = received_bytes.load(),
                          .names_asked = names_asked.load(),
                          .names_failed = names_failed.load()};
  for (size_t i = 0; i < ends.size(); ++i) read.ends[i] = ends[i].load();
  return read;
}

HttpEngineLink::HttpEngineLink(EngineLinkConfig config)
    : impl_(std::make_unique<Impl>(std::move(config))) {}

HttpEngineLink::~HttpEngineLink() { Stop(); }

absl::Status HttpEngineLink::Start() {
  KVR_CHECK(impl_->lanes.empty(), "the link was started twice");
  KVR_RETURN_IF_ERROR(CheckConfig(*impl_->config));
  KVR_ASSIGN_OR_RETURN(impl_->tls, TlsClient::Create(impl_->config->tls));
  for (uint32_t i = 0; i < impl_->config->threads; ++i) {
    impl_->lanes.push_back(std::make_shared<EngineLane>(impl_->config, impl_->figures,
                                                        impl_->names.get(), impl_->tls.get()));
    impl_->lanes.back()->Start(i);
  }
  return absl::OkStatus();
}

void HttpEngineLink::Stop() {
  for (const auto& lane : impl_->lanes) lane->Stop();
  impl_->names.reset();  // no lane asks any more
}

std::shared_ptr<EngineExchange> HttpEngineLink::Send(EngineCall call,
                                                     std::shared_ptr<EngineReply> reply) {
  KVR_CHECK(!impl_->lanes.empty(), "{} {} sent before Start", call.method, call.path);
  const std::shared_ptr<EngineLane>& lane = impl_->LaneOf(call.base_url);
  if (call.head_timeout > kLongestDelay) call.head_timeout = kLongestDelay;
  if (call.idle_timeout > kLongestDelay) call.idle_timeout = kLongestDelay;
  auto exchange = std::make_shared<HttpEngineExchange>(lane, std::move(call), std::move(reply));
  Count(&impl_->figures->calls);
  Count(&impl_->figures->exchanges);
  if (!lane->Post([exchange] { exchange->Start(); })) exchange->Drop();
  return exchange;
}

std::function<void()> HttpEngineLink::After(std::chrono::nanoseconds delay,
                                            std::function<void()> task) {
  KVR_CHECK(!impl_->lanes.empty(), "a task was given before Start");
  const std::shared_ptr<EngineLane>& lane =
      impl_->lanes[impl_->next_timer.fetch_add(1) % impl_->lanes.size()];
  auto delayed = std::make_shared<DelayedTask>(lane, std::move(task));
  const SteadyClock::time_point deadline = SteadyClock::now() + std::min(delay, kLongestDelay);
  if (!lane->Post([lane = lane.get(), delayed, deadline] { lane->Arm(delayed, deadline); })) {
    delayed->claimed.store(true);
    delayed->task = nullptr;
  }
  return [delayed] {
    if (delayed->claimed.exchange(true)) return;
    delayed->lane->Post([delayed] {
      delayed->task = nullptr;
      delayed->timer.cancel();
    });
  };
}

void HttpEngineLink::Forget(std::string_view base_url) {
  if (impl_->lanes.empty()) return;
  std::string url(base_url);
  const std::shared_ptr<EngineLane>& lane = impl_->LaneOf(url);
  lane->Post([lane = lane.get(), url] { lane->Forget(url); });
}

EngineLinkCounters HttpEngineLink::Counters() const { return impl_->figures->Read(); }

}  // namespace kvrouter
