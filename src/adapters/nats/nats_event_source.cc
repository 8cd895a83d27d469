#include "adapters/nats/nats_event_source.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>

#include "adapters/nats/nats_connection.h"
#include "adapters/nats/nats_options.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace kvrouter {
namespace {

constexpr uint32_t kPath = 0;
constexpr std::chrono::milliseconds kWatchPeriod{50};
constexpr std::chrono::milliseconds kHour = std::chrono::hours(1);

absl::Status Invalid(std::string message) { return absl::InvalidArgumentError(message); }

absl::Status CheckCredentials(const NatsEventSourceConfig& config) {
  if (config.username.empty() && !config.password.empty())
    return Invalid("nats_auth_password: of no nats_auth_username");
  const int kinds = (config.username.empty() ? 0 : 1) + (config.token.empty() ? 0 : 1) +
                    (config.nkey_seed.empty() ? 0 : 1) + (config.credentials_file.empty() ? 0 : 1);
  if (kinds <= 1) return absl::OkStatus();
  return Invalid(
      "nats_auth_username, nats_auth_token, nats_auth_nkey and nats_auth_credentials_file exclude "
      "each other");
}

}  // namespace

absl::Status Validate(const NatsEventSourceConfig& config) {
  if (config.servers.empty()) return Invalid("nats_server: want at least one");
  if (config.subjects.empty()) return Invalid("no subjects to subscribe to");
  for (const std::string& server : config.servers) {
    if (NatsHost(server).empty())
      return Invalid(fmt::format("nats_server: no host in '{}'", WithoutCredentials(server)));
  }
  if (config.reconnect_min.count() < 1 || config.reconnect_max < config.reconnect_min ||
      config.reconnect_max > kHour) {
    return Invalid(fmt::format("the NATS reconnect wait must be 1..{} ms, got {}..{}",
                               kHour.count(), config.reconnect_min.count(),
                               config.reconnect_max.count()));
  }
  if (absl::Status status = CheckCredentials(config); !status.ok()) return status;
  for (const std::string& server : config.servers) {
    if (auto options = MakeNatsOptions(config, server); !options.ok()) return options.status();
  }
  return absl::OkStatus();
}

struct NatsEventSource::Impl {
  NatsEventSourceConfig config;
  PlaneIntake* intake = nullptr;
  std::atomic<uint64_t> connects{0};
  std::atomic<uint64_t> failed_connects{0};
  std::minstd_rand random{std::random_device()()};

  Mutex mu;
  CondVar wake;
  bool stopping ABSL_GUARDED_BY(mu) = false;
  NatsConnection* current ABSL_GUARDED_BY(mu) = nullptr;

  std::jthread thread;

  void Run(const std::stop_token& stop);
  // Until the connection ends; true if there was one for as long as a broker in order keeps it.
  bool Serve(const std::string& server, const std::stop_token& stop);
  void Watch(NatsConnection* connection, const std::string& server, const std::stop_token& stop);
  void Wait(std::chrono::milliseconds at_most);
};

void NatsEventSource::Impl::Run(const std::stop_token& stop) {
  std::chrono::milliseconds wait = config.reconnect_min;
  for (size_t attempt = 0; !stop.stop_requested(); ++attempt) {
    const bool served = Serve(config.servers[attempt % config.servers.size()], stop);
    if (served) wait = config.reconnect_min;
    Wait(wait);
    wait = std::min(2 * wait, config.reconnect_max);
  }
}

bool NatsEventSource::Impl::Serve(const std::string& server, const std::stop_token& stop) {
  NatsConnection connection(config, intake);
  if (absl::Status status = connection.Open(server); !status.ok()) {
    failed_connects.fetch_add(1, std::memory_order_relaxed);
    intake->PathDown(
        kPath, fmt::format("{}: {}", WithoutCredentials(server), std::string(status.message())));
    return false;
  }
  connects.fetch_add(1, std::memory_order_relaxed);
  intake->PathUp(kPath);
  const MonotonicTime begin = SteadyClock().Now();
  Watch(&connection, server, stop);
  // One that refuses our subscriptions, or throws us out as too slow, lets us connect each time.
  return SteadyClock().Now() - begin >= config.reconnect_max;
}

void NatsEventSource::Impl::Watch(NatsConnection* connection, const std::string& server,
                                  const std::stop_token& stop) {
  {
    MutexLock lock(mu);
    current = connection;
    if (stopping) connection->Interrupt();
  }
  while (!stop.stop_requested()) {
    const auto end = connection->WaitForEnd(kWatchPeriod);
    connection->TellDrops();
    if (!end) continue;
    intake->PathDown(kPath, fmt::format("{}: {}", WithoutCredentials(server), *end));
    break;
  }
  MutexLock lock(mu);
  current = nullptr;
}

void NatsEventSource::Impl::Wait(std::chrono::milliseconds at_most) {
  std::uniform_int_distribution<int64_t> jitter(0, at_most.count() / 2);
  const std::chrono::milliseconds wait = at_most - std::chrono::milliseconds(jitter(random));
  MutexLock lock(mu);
  if (!stopping) wake.WaitFor(mu, wait);
}

NatsEventSource::NatsEventSource(NatsEventSourceConfig config, PlaneIntake* intake)
    : impl_(std::make_unique<Impl>()) {
  impl_->config = std::move(config);
  impl_->intake = intake;
}

NatsEventSource::~NatsEventSource() { Stop(); }

absl::Status NatsEventSource::Start() {
  if (absl::Status status = Validate(impl_->config); !status.ok()) return status;
  try {
    impl_->thread = std::jthread([this](const std::stop_token& stop) { impl_->Run(stop); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(fmt::format("NATS thread: {}", error.what()));
  }
  pthread_setname_np(impl_->thread.native_handle(), "kvr-nats");
  return absl::OkStatus();
}

void NatsEventSource::Stop() {
  if (!impl_->thread.joinable()) return;
  impl_->thread.request_stop();
  {
    MutexLock lock(impl_->mu);
    impl_->stopping = true;
    impl_->wake.NotifyAll();
    if (impl_->current != nullptr) impl_->current->Interrupt();
  }
  impl_->thread.join();
}

NatsEventSource::Counters NatsEventSource::Read() const {
  return {.connects = impl_->connects.load(std::memory_order_relaxed),
          .failed_connects = impl_->failed_connects.load(std::memory_order_relaxed)};
}

}  // namespace kvrouter
