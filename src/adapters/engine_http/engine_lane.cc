#include "adapters/engine_http/engine_lane.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>

namespace kvrouter {
namespace {

namespace asio = boost::asio;
using SteadyClock = std::chrono::steady_clock;

constexpr size_t kReadBytes = 64 * 1024;
// Beyond it pools that nothing refers to are dropped when another one is made.
constexpr size_t kPoolsWithoutSweep = 64;
constexpr std::chrono::milliseconds kLongestSweep{250};

}  // namespace

DelayedTask::DelayedTask(std::shared_ptr<EngineLane> l, std::function<void()> t)
    : lane(std::move(l)), task(std::move(t)), timer(lane->io()) {}

EngineLane::EngineLane(std::shared_ptr<const EngineLinkConfig> config,
                       std::shared_ptr<EngineLinkFigures> figures, NameResolver* names,
                       TlsClient* tls)
    : config_(std::move(config)),
      figures_(std::move(figures)),
      names_(names),
      tls_(tls),
      read_buffer_(kReadBytes) {}

EngineLane::~EngineLane() = default;

void EngineLane::Start(size_t number) {
  work_.emplace(io_.get_executor());
  thread_ = std::jthread([this, number] {
    pthread_setname_np(pthread_self(), fmt::format("kvr-engine-{}", number).c_str());
    io_.run();
  });
}

void EngineLane::Stop() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(post_mu_);
    closed_ = true;
    asio::post(io_, [this] { ShutDown(); });
  }
  work_.reset();
  thread_.join();  // run() returns when the last handler has
}

// Everything that was posted before has run. What is closed here leaves handlers behind that find
// it closed.
void EngineLane::ShutDown() {
  stopping_ = true;
  sweep_timer_.cancel();
  for (const auto& [url, pool] : pools_) pool->ShutDown();
  const auto delayed = std::exchange(delayed_, {});
  for (const auto& entry : delayed) {
    entry->claimed.store(true);
    entry->task = nullptr;
    entry->timer.cancel();
  }
}

absl::StatusOr<EnginePool*> EngineLane::PoolOf(const std::string& base_url) {
  const auto found = pools_.find(base_url);
  if (found != pools_.end()) return found->second.get();
  absl::StatusOr<EngineUrl> url = ParseEngineUrl(base_url);
  if (!url.ok()) return url.status();
  if (pools_.size() >= kPoolsWithoutSweep) {
    std::erase_if(pools_, [](const auto& entry) { return entry.second->Empty(); });
  }
  auto pool = std::make_unique<EnginePool>(this, *std::move(url));
  return pools_.emplace(base_url, std::move(pool)).first->second.get();
}

void EngineLane::Forget(const std::string& base_url) {
  const auto found = pools_.find(base_url);
  if (found == pools_.end()) return;
  names_->Forget(found->second->url().host);
  found->second->Forget();
  if (found->second->Empty()) pools_.erase(found);
}

void EngineLane::SweepLater() {
  if (std::exchange(sweeping_, true)) return;
  const std::chrono::milliseconds period =
      std::clamp(config_->keep_idle_timeout / 8, std::chrono::milliseconds(5), kLongestSweep);
  sweep_timer_.expires_after(period);
  sweep_timer_.async_wait([this](const boost::system::error_code& error) {
    sweeping_ = false;
    if (!error) Sweep();
  });
}

void EngineLane::Sweep() {
  const SteadyClock::time_point oldest = SteadyClock::now() - config_->keep_idle_timeout;
  bool more = false;
  for (const auto& [url, pool] : pools_) {
    pool->CloseIdleBefore(oldest);
    more = more || pool->HasIdle();
  }
  if (more && !stopping_) SweepLater();
}

void EngineLane::Arm(const std::shared_ptr<DelayedTask>& delayed,
                     SteadyClock::time_point deadline) {
  if (delayed->claimed.load() || stopping_) {
    delayed->task = nullptr;
    return;
  }
  delayed_.insert(delayed);
  delayed->timer.expires_at(deadline);
  delayed->timer.async_wait([this, delayed](const boost::system::error_code&) {
    delayed_.erase(delayed);
    const std::function<void()> task = std::exchange(delayed->task, nullptr);
    if (!delayed->claimed.exchange(true)) task();
  });
}

}  // namespace kvrouter
