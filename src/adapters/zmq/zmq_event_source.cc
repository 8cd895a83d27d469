#include "adapters/zmq/zmq_event_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "adapters/zmq/event_thread.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

// How long an event thread may be busy otherwise before saving is given up.
constexpr MonotonicTime kSaveWait = std::chrono::seconds(1);
constexpr uint32_t kMaxThreads = 64;
constexpr std::chrono::milliseconds kMaxDuration = std::chrono::hours(24);

absl::Status Validate(const ZmqEventSourceConfig& config) {
  const auto invalid = [](std::string message) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest, message);
  };
  if (config.threads < 1 || config.threads > kMaxThreads) {
    return invalid(fmt::format("event threads must be 1..{}, got {}", kMaxThreads, config.threads));
  }
  if (config.max_live_batches_during_replay < 1) {
    return invalid("max_live_batches_during_replay must be >= 1, got 0");
  }
  const struct {
    const char* name;
    std::chrono::milliseconds value;
    int64_t min_ms;
  } kDurations[] = {{"replay_timeout", config.replay_timeout, 1},
                    {"recovery_limit", config.recovery_limit, 1},
                    {"reconnect_min", config.reconnect_min, 1},
                    {"reconnect_max", config.reconnect_max, 1},
                    {"heartbeat_interval", config.heartbeat_interval, 0},  // 0: none
                    {"heartbeat_timeout", config.heartbeat_timeout, 0}};   // 0: the interval
  for (const auto& duration : kDurations) {
    if (duration.value.count() < duration.min_ms || duration.value > kMaxDuration) {
      return invalid(fmt::format("{} must be {}..{} ms, got {}", duration.name, duration.min_ms,
                                 kMaxDuration.count(), duration.value.count()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

struct ZmqEventSource::Impl {
  ZmqEventSourceConfig config;
  const Clock* clock = nullptr;
  zmq::context_t context{1};
  std::optional<ReplayTurns> own_turns;
  std::vector<std::unique_ptr<EventThread>> threads;  // closed before the context

  EventThread& ThreadOf(WorkerId id) {
    return *threads[static_cast<uint64_t>(id) % threads.size()];
  }
};

ZmqEventSource::ZmqEventSource(ZmqEventSourceConfig config, Router* router, FeedMonitor* monitor,
                               const Clock* clock, ReplayTurns* turns, SavedFeeds* saved,
                               PeerBlockSource* peers)
    : impl_(std::make_unique<Impl>()) {
  impl_->config = config;
  impl_->clock = clock;
  // Four sockets per rank while it replays; ZMQ's default of 1,023 would do for 255 ranks.
  impl_->context.set(zmq::ctxopt::max_sockets, static_cast<int>(MaxSockets()));
  if (turns == nullptr) turns = &impl_->own_turns.emplace(ReplayTurnsConfig{});
  const FeedConnection::Env env{.context = &impl_->context,
                                .router = router,
                                .monitor = monitor,
                                .config = &impl_->config,
                                .turns = turns,
                                .jitter_seed = std::random_device()(),
                                .saved = saved,
                                .peers = peers};
  const uint32_t threads = std::clamp(config.threads, 1u, kMaxThreads);
  for (uint32_t i = 0; i < threads; ++i) {
    impl_->threads.push_back(
        std::make_unique<EventThread>(fmt::format("kvr-events-{}", i), env, clock));
  }
}

ZmqEventSource::~ZmqEventSource() { Stop(); }

uint64_t ZmqEventSource::MaxSockets() {
  zmq::context_t context;
  return static_cast<uint64_t>(context.get(zmq::ctxopt::socket_limit));
}

absl::Status ZmqEventSource::Start() {
  if (absl::Status status = Validate(impl_->config); !status.ok()) return status;
  for (const auto& thread : impl_->threads) {
    if (absl::Status status = thread->Start(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void ZmqEventSource::Stop() {
  for (auto thread = impl_->threads.rbegin(); thread != impl_->threads.rend(); ++thread)
    (*thread)->Stop();
}

bool ZmqEventSource::SaveFeeds(MonotonicTime deadline,
                               const std::function<bool(const SavedFeed&)>& take) {
  for (const auto& thread : impl_->threads) {
    std::optional<Target> after;
    for (;;) {
      const EventThread::Saved saved =
          thread->SaveNext(after, std::min(deadline, impl_->clock->Now() + kSaveWait));
      if (!saved.answered) return false;
      if (!saved.feed) break;
      if (!take(*saved.feed)) return false;
      after = Target{saved.feed->spec.id, saved.feed->rank};
    }
  }
  return true;
}

void ZmqEventSource::OnWorkerChanged(const WorkerSpec& spec) {
  impl_->ThreadOf(spec.id).Post(spec.id, spec);
}

void ZmqEventSource::OnWorkerRemoved(WorkerId id, Incarnation) {
  impl_->ThreadOf(id).Post(id, std::nullopt);
}

bool ZmqEventSource::InitialRecoveryDone() const {
  return std::all_of(impl_->threads.begin(), impl_->threads.end(),
                     [](const auto& thread) { return thread->InitialRecoveryDone(); });
}

}  // namespace kvrouter
