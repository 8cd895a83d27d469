#include "adapters/zmq/plane_event_source.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stop_token>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <zmq.hpp>

namespace kvrouter {
namespace {

constexpr int kHighWaterMark = 100'000;  // as Dynamo's own on both sides
constexpr int64_t kMaxMessageBytes = 64 << 20;
constexpr std::chrono::milliseconds kPollTimeout{50};
constexpr int kMessagesPerTurn = 256;

int Millis(std::chrono::milliseconds duration) { return static_cast<int>(duration.count()); }

// Messages and connection events of one endpoint.
class PlaneSocket {
 public:
  PlaneSocket(const PlaneEventSourceConfig& config, std::string endpoint, uint32_t path,
              zmq::context_t* context, PlaneIntake* intake)
      : endpoint_(std::move(endpoint)),
        path_(path),
        kv_events_(config.kv_events),
        intake_(intake),
        monitor_(*context, zmq::socket_type::pair),
        socket_(*context, zmq::socket_type::sub) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::rcvhwm, kHighWaterMark);
    socket_.set(zmq::sockopt::maxmsgsize, kMaxMessageBytes);
    socket_.set(zmq::sockopt::reconnect_ivl, Millis(config.reconnect_min));
    socket_.set(zmq::sockopt::reconnect_ivl_max, Millis(config.reconnect_max));
    socket_.set(zmq::sockopt::heartbeat_ivl, Millis(config.heartbeat_interval));
    socket_.set(zmq::sockopt::heartbeat_timeout, Millis(config.heartbeat_timeout));
    socket_.set(zmq::sockopt::tcp_keepalive, 1);
    socket_.set(zmq::sockopt::ipv6, endpoint_.find('[') != std::string::npos);
    if (config.brokers.empty()) {
      if (kv_events_) socket_.set(zmq::sockopt::subscribe, kKvEventsTopic);
      socket_.set(zmq::sockopt::subscribe, kKvMetricsTopic);
    } else {
      // As far as a prefix can tell; the rest of the scope is looked at message by message.
      socket_.set(zmq::sockopt::subscribe,
                  PlaneSubject({config.scope.dynamo_namespace, "", ""}, ""));
      for (const std::string_view topic : {kKvEventsTopic, kKvMetricsTopic}) {
        if (kv_events_ || topic != kKvEventsTopic) AddSubjects(config.scope, topic);
      }
    }
    const std::string address = fmt::format("inproc://kvr-plane-monitor-{}", path);
    if (zmq_socket_monitor(socket_.handle(), address.c_str(),
                           ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED) != 0) {
      throw zmq::error_t();
    }
    monitor_.set(zmq::sockopt::linger, 0);
    monitor_.set(zmq::sockopt::rcvhwm, 0);  // a full pipe would stop the I/O thread
    monitor_.connect(address);
    socket_.connect(endpoint_);
    intake_->PathDown(path_, fmt::format("{}: not connected yet", endpoint_));
  }
  // As in FeedConnection: the monitor's writer must not be left to wait for a reader that is gone.
  ~PlaneSocket() { zmq_socket_monitor(socket_.handle(), nullptr, 0); }
  PlaneSocket(const PlaneSocket&) = delete;
  PlaneSocket& operator=(const PlaneSocket&) = delete;

  void AppendPollItems(std::vector<zmq::pollitem_t>* items) {
    for (zmq::socket_t* socket : {&socket_, &monitor_}) {
      items->push_back({.socket = socket->handle(), .fd = 0, .events = ZMQ_POLLIN, .revents = 0});
    }
  }

  void ReadMonitor() {
    zmq::message_t event, address;
    while (monitor_.recv(event, zmq::recv_flags::dontwait)) {
      if (event.more()) (void)monitor_.recv(address, zmq::recv_flags::dontwait);
      uint16_t kind = 0;
      if (event.size() < sizeof(kind)) continue;
      std::memcpy(&kind, event.data(), sizeof(kind));
      if (kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) intake_->PathUp(path_);
      if (kind == ZMQ_EVENT_DISCONNECTED)
        intake_->PathDown(path_, fmt::format("{}: connection lost", endpoint_));
    }
  }

  void ReadMessages() {
    for (int i = 0; i < kMessagesPerTurn && Receive(); ++i) {
      // What became of the connection before this message must be known before it.
      ReadMonitor();
      const auto message = ParsePlaneFrames(frames_);
      if (!message) {
        intake_->PushBadFraming();
      } else if (IsForUs(message->subject)) {
        intake_->Push(path_, message->envelope);
      }
    }
  }

 private:
  void AddSubjects(const PlaneScope& scope, std::string_view topic) {
    if (!scope.component.empty()) subjects_.push_back(PlaneSubject(scope, topic));
    leaves_.push_back(fmt::format(".{}", topic));
  }

  // A subscription is a prefix of what comes.
  bool IsForUs(std::string_view subject) const {
    if (leaves_.empty()) return subject == kKvEventsTopic || subject == kKvMetricsTopic;
    const auto ends_well = [subject](std::string_view leaf) { return subject.ends_with(leaf); };
    if (std::none_of(leaves_.begin(), leaves_.end(), ends_well)) return false;
    if (subjects_.empty()) return true;
    return std::any_of(subjects_.begin(), subjects_.end(),
                       [subject](const std::string& wanted) { return InScope(subject, wanted); });
  }

  // The wanted subject itself, or, for a component, any of its endpoints'.
  static bool InScope(std::string_view subject, std::string_view wanted) {
    if (subject == wanted) return true;
    const std::string_view component = wanted.substr(0, wanted.rfind('.') + 1);
    return component.find(".endpoint.") == std::string_view::npos && subject.starts_with(component);
  }

  bool Receive() {
    frames_.clear();
    zmq::message_t surplus;
    for (size_t i = 0;; ++i) {
      zmq::message_t& part = i < parts_.size() ? parts_[i] : surplus;
      if (!socket_.recv(part, zmq::recv_flags::dontwait)) return false;
      frames_.emplace_back(static_cast<const char*>(part.data()),
                           i < parts_.size() ? part.size() : 0);
      if (!part.more()) return true;
    }
  }

  const std::string endpoint_;
  const uint32_t path_;
  const bool kv_events_;
  PlaneIntake* const intake_;
  std::vector<std::string> subjects_;  // empty: every one of the namespace
  std::vector<std::string> leaves_;    // empty: no broker, subjects are bare topics
  zmq::socket_t monitor_;              // outlives the socket, which may be writing to it
  zmq::socket_t socket_;
  std::array<zmq::message_t, 4> parts_;
  std::vector<std::string_view> frames_;
};

}  // namespace

absl::Status Validate(const PlaneEventSourceConfig& config) {
  const auto invalid = [](std::string message) { return absl::InvalidArgumentError(message); };
  if (config.publishers.empty() == config.brokers.empty()) {
    return invalid(
        "event_plane zmq needs either zmq_broker_url or event_plane_publishers: without one of "
        "them "
        "no event would ever come");
  }
  for (const auto* endpoints : {&config.publishers, &config.brokers}) {
    for (const std::string& endpoint : *endpoints) {
      if (endpoint.starts_with("ipc://") && endpoint.size() > 6) continue;
      const size_t colon = endpoint.rfind(':');
      if (endpoint.starts_with("tcp://") && colon > 6 && colon + 1 < endpoint.size() &&
          endpoint.find_first_not_of("0123456789", colon + 1) == std::string::npos) {
        continue;
      }
      return invalid(
          fmt::format("event plane endpoint '{}': want tcp://HOST:PORT or ipc://PATH", endpoint));
    }
  }
  return absl::OkStatus();
}

struct PlaneEventSource::Impl {
  PlaneEventSourceConfig config;
  PlaneIntake* intake = nullptr;
  zmq::context_t context{1};
  std::vector<std::unique_ptr<PlaneSocket>> sockets;  // closed before the context
  std::jthread thread;

  void Open() {
    const auto& endpoints = config.brokers.empty() ? config.publishers : config.brokers;
    context.set(zmq::ctxopt::max_sockets, context.get(zmq::ctxopt::socket_limit));
    for (const std::string& endpoint : endpoints) {
      sockets.push_back(std::make_unique<PlaneSocket>(
          config, endpoint, static_cast<uint32_t>(sockets.size()), &context, intake));
    }
  }

  void Run(const std::stop_token& stop) {
    std::vector<zmq::pollitem_t> items;
    for (const auto& socket : sockets) socket->AppendPollItems(&items);
    while (!stop.stop_requested()) {
      try {
        zmq::poll(items, kPollTimeout);
        for (size_t i = 0; i < sockets.size(); ++i) {
          if (items[2 * i + 1].revents != 0) sockets[i]->ReadMonitor();
          if (items[2 * i].revents != 0) sockets[i]->ReadMessages();
        }
      } catch (const zmq::error_t& error) {
        if (error.num() != EINTR) return;
      }
    }
  }
};

PlaneEventSource::PlaneEventSource(PlaneEventSourceConfig config, PlaneIntake* intake)
    : impl_(std::make_unique<Impl>()) {
  impl_->config = std::move(config);
  impl_->intake = intake;
}

PlaneEventSource::~PlaneEventSource() { Stop(); }

absl::Status PlaneEventSource::Start() {
  if (absl::Status status = Validate(impl_->config); !status.ok()) return status;
  try {
    impl_->Open();
    impl_->thread = std::jthread([this](const std::stop_token& stop) { impl_->Run(stop); });
  } catch (const zmq::error_t& error) {
    return absl::UnavailableError(fmt::format("event plane: {}", error.what()));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(fmt::format("event plane thread: {}", error.what()));
  }
  pthread_setname_np(impl_->thread.native_handle(), "kvr-plane-zmq");
  return absl::OkStatus();
}

void PlaneEventSource::Stop() {
  if (!impl_->thread.joinable()) return;
  impl_->thread.request_stop();
  impl_->thread.join();
}

}  // namespace kvrouter
