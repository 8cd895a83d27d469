#include "sim/wire/event_publisher.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "base/bounded_queue.h"
#include "base/check.h"

namespace kvrouter::sim {
namespace {

constexpr size_t kQueueCapacityBatches = 100'000;  // vLLM's max_queue_size
constexpr std::string_view kEndMarker("\xff\xff\xff\xff\xff\xff\xff\xff", 8);

std::string SequenceFrame(uint64_t sequence) {
  std::string frame(8, '\0');
  for (size_t i = 0; i < 8; ++i) frame[i] = static_cast<char>((sequence >> (56 - 8 * i)) & 0xff);
  return frame;
}

uint64_t SequenceOf(std::string_view frame) {
  uint64_t sequence = 0;
  for (const char c : frame) sequence = (sequence << 8) | static_cast<unsigned char>(c);
  return sequence;
}

void Send(zmq::socket_t& socket, std::string_view frame, bool more) {
  // DONTWAIT: PUB and ROUTER drop rather than block, and this thread serves every engine.
  const auto flags =
      zmq::send_flags::dontwait | (more ? zmq::send_flags::sndmore : zmq::send_flags::none);
  (void)socket.send(zmq::const_buffer(frame.data(), frame.size()), flags);
}

absl::Status Bind(zmq::socket_t& socket, const std::string& endpoint) {
  try {
    socket.bind(endpoint);
  } catch (const zmq::error_t& error) {
    return absl::UnavailableError(fmt::format("cannot bind {}: {}", endpoint, error.what()));
  }
  return absl::OkStatus();
}

// What one engine has: sockets and kept batches belong to the socket thread once it runs.
struct Channel {
  PublisherConfig config;
  zmq::socket_t live;
  zmq::socket_t replay;
  std::string live_endpoint;
  std::string replay_endpoint;

  struct Kept {
    uint64_t sequence;
    std::string payload;
  };
  std::deque<Kept> kept;
  uint64_t kept_bytes = 0;

  std::atomic<uint64_t> next_sequence{0};
  std::atomic<uint64_t> refused{0};
  std::atomic<uint64_t> lost{0};
  std::atomic<uint64_t> replays{0};
  std::atomic<uint64_t> bad_requests{0};
  std::atomic<uint64_t> subscriptions{0};

  // XPUB hands up one message a change: a first byte of 1 subscribes, 0 ends it.
  void CountSubscriptions() {
    zmq::message_t change;
    while (live.recv(change, zmq::recv_flags::dontwait)) {
      const std::string_view bytes = change.to_string_view();
      if (bytes.starts_with('\1')) {
        ++subscriptions;
      } else if (bytes.starts_with('\0') && subscriptions > 0) {
        --subscriptions;
      }
    }
  }

  void SendLive(uint64_t sequence, const WireBatch& batch) {
    std::string payload = EncodeBatch(batch, config.event_form);
    if (config.lose_live_every > 0 && (sequence + 1) % config.lose_live_every == 0) {
      ++lost;
    } else {
      Send(live, config.topic, true);
      Send(live, SequenceFrame(sequence), true);
      Send(live, payload, false);
    }
    kept_bytes += payload.size();
    kept.push_back({sequence, std::move(payload)});
    while (kept.size() > config.buffer_batches || kept_bytes > config.buffer_bytes) {
      kept_bytes -= kept.front().payload.size();
      kept.pop_front();
    }
  }

  // One request an iteration: live batches of all engines go out between two replays.
  void AnswerReplay() {
    std::vector<zmq::message_t> request;
    zmq::message_t frame;
    while (replay.recv(frame, zmq::recv_flags::dontwait)) {
      const bool more = frame.more();
      if (request.size() < 4) request.push_back(std::move(frame));
      if (!more) break;
    }
    if (request.empty()) return;
    if (request.size() != 3 || request[1].size() != 0 || request[2].size() != 8) {
      ++bad_requests;
      return;
    }
    const std::string identity = request[0].to_string();
    const uint64_t start = SequenceOf(request[2].to_string_view());
    for (const Kept& batch : kept) {
      if (batch.sequence >= start)
        SendReply(identity, config.topic, SequenceFrame(batch.sequence), batch.payload);
    }
    SendReply(identity, "", kEndMarker, "");
    ++replays;
  }

  void SendReply(std::string_view identity, std::string_view topic, std::string_view sequence,
                 std::string_view payload) {
    Send(replay, identity, true);
    Send(replay, "", true);
    if (config.replay_form == ReplayForm::kWithTopic) Send(replay, topic, true);
    Send(replay, sequence, true);
    Send(replay, payload, false);
  }
};

}  // namespace

struct EventPublisher::Impl {
  struct Queued {
    size_t engine;
    uint64_t sequence;
    WireBatch batch;
    bool restart = false;  // instead: what was kept is forgotten
  };

  zmq::context_t context{1};
  std::vector<std::unique_ptr<Channel>> channels;  // fixed once started
  BoundedQueue<Queued> queue{kQueueCapacityBatches};
  int wake_fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  std::atomic<bool> stopping{false};
  std::jthread thread;

  ~Impl() { ::close(wake_fd); }

  void Wake() {
    const uint64_t one = 1;
    // EAGAIN means that a wake-up is already pending.
    [[maybe_unused]] const ssize_t written = ::write(wake_fd, &one, sizeof one);
  }

  void Run() {
    std::vector<zmq::pollitem_t> items{{nullptr, wake_fd, ZMQ_POLLIN, 0}};
    std::vector<std::function<void()>> on_input{[] {}};
    for (const auto& each : channels) {
      Channel* channel = each.get();
      items.push_back({channel->live.handle(), 0, ZMQ_POLLIN, 0});
      on_input.emplace_back([channel] { channel->CountSubscriptions(); });
      if (channel->replay_endpoint.empty()) continue;
      items.push_back({channel->replay.handle(), 0, ZMQ_POLLIN, 0});
      on_input.emplace_back([channel] { channel->AnswerReplay(); });
    }
    while (!stopping) {
      try {
        zmq::poll(items.data(), items.size(), std::chrono::milliseconds(-1));
      } catch (const zmq::error_t& error) {
        if (error.num() == EINTR) continue;
        KVR_CHECK(false, "zmq_poll: {}", error.what());
      }
      DrainQueue();
      for (size_t i = 1; i < items.size(); ++i) {
        if ((items[i].revents & ZMQ_POLLIN) != 0) on_input[i]();
      }
    }
  }

  void DrainQueue() {
    uint64_t ignored = 0;
    [[maybe_unused]] const ssize_t got = ::read(wake_fd, &ignored, sizeof ignored);
    while (auto queued = queue.TryPop()) {
      Channel& channel = *channels[queued->engine];
      if (queued->restart) {
        channel.kept.clear();
        channel.kept_bytes = 0;
      } else {
        channel.SendLive(queued->sequence, queued->batch);
      }
    }
  }
};

EventPublisher::EventPublisher() : impl_(std::make_unique<Impl>()) {}

EventPublisher::~EventPublisher() { Stop(); }

absl::StatusOr<size_t> EventPublisher::AddEngine(const PublisherConfig& config) {
  auto channel = std::make_unique<Channel>();
  channel->config = config;
  // On the wire the same as the PUB of real engines, but it tells who subscribes.
  channel->live = zmq::socket_t(impl_->context, zmq::socket_type::xpub);
  channel->live.set(zmq::sockopt::xpub_verboser, 1);
  channel->live.set(zmq::sockopt::sndhwm, config.live_high_water_batches);
  channel->live.set(zmq::sockopt::linger, 0);
  if (absl::Status status = Bind(channel->live, config.live); !status.ok()) return status;
  channel->live_endpoint = channel->live.get(zmq::sockopt::last_endpoint);
  if (!config.replay.empty()) {
    channel->replay = zmq::socket_t(impl_->context, zmq::socket_type::router);
    channel->replay.set(zmq::sockopt::sndhwm, config.replay_high_water_batches);
    channel->replay.set(zmq::sockopt::linger, 0);
    if (absl::Status status = Bind(channel->replay, config.replay); !status.ok()) return status;
    channel->replay_endpoint = channel->replay.get(zmq::sockopt::last_endpoint);
  }
  impl_->channels.push_back(std::move(channel));
  return impl_->channels.size() - 1;
}

const std::string& EventPublisher::LiveEndpoint(size_t engine) const {
  return impl_->channels[engine]->live_endpoint;
}
const std::string& EventPublisher::ReplayEndpoint(size_t engine) const {
  return impl_->channels[engine]->replay_endpoint;
}

void EventPublisher::Start() {
  KVR_CHECK(impl_->wake_fd >= 0, "eventfd: {}", std::strerror(errno));
  impl_->thread = std::jthread([impl = impl_.get()] { impl->Run(); });
}

void EventPublisher::Stop() {
  if (!impl_->thread.joinable()) return;
  impl_->stopping = true;
  impl_->Wake();
  impl_->thread.join();
}

void EventPublisher::Publish(size_t engine, WireBatch batch) {
  Channel& channel = *impl_->channels[engine];
  const uint64_t sequence = channel.next_sequence++;
  if (!impl_->queue.TryPush({engine, sequence, std::move(batch)})) ++channel.refused;
  impl_->Wake();
}

void EventPublisher::Restart(size_t engine) {
  Channel& channel = *impl_->channels[engine];
  channel.next_sequence = 0;
  if (!impl_->queue.TryPush({engine, 0, {}, true})) ++channel.refused;
  impl_->Wake();
}

PublisherCounters EventPublisher::Counters(size_t engine) const {
  const Channel& channel = *impl_->channels[engine];
  return {.batches = channel.next_sequence,
          .batches_refused = channel.refused,
          .batches_lost = channel.lost,
          .replays = channel.replays,
          .replay_requests_bad = channel.bad_requests,
          .subscriptions = channel.subscriptions};
}

}  // namespace kvrouter::sim
