#include "adapters/zmq/feed_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <utility>

namespace kvrouter {
namespace {

// Slow readers. ZMQ's default of 1,000 messages per socket is a second of a busy engine; beyond it
// the kernel's buffers fill, then the engine's own queue, and then PUB and ROUTER drop in silence.
// Live: as much as engines keep on their side. What is lost beyond that shows as a gap and is
// replayed, so memory may have a bound here.
constexpr int kLiveHighWaterMark = 100'000;
// Replay: none. A ROUTER has room for 1,000 messages and drops the rest of the answer, its end
// marker included, as soon as we leave anything unread. The engine's own history bounds the answer,
// and ReplayTurns how many there are at once.
constexpr int kReplayHighWaterMark = 0;
// The kernel's receive buffers are left to its tuning, which goes beyond what a fixed size
// (ZMQ_RCVBUF) may be without privileges.
// ZMQ would allocate whatever a peer announces. Larger messages end the connection.
constexpr int64_t kMaxMessageBytes = 256 << 20;
constexpr std::chrono::milliseconds kMaxHeartbeatTtl{6'553'500};  // 16 bits of tenths of a second
constexpr int kMessagesPerTurn = 64;
constexpr MonotonicTime kReportPeriod = std::chrono::milliseconds(50);

int Millis(std::chrono::milliseconds duration) { return static_cast<int>(duration.count()); }

// Those behind holes included. A block that was stored several times counts as often.
uint64_t BlocksIn(const std::vector<SavedEvent>& events) {
  uint64_t blocks = 0;
  for (const SavedEvent& event : events) {
    if (const auto* stored = std::get_if<Stored>(&event.data)) blocks += stored->blocks.size();
    if (const auto* removed = std::get_if<Removed>(&event.data))
      blocks -= removed->engine_hashes.size();
  }
  return blocks;
}

std::string UniqueMonitorAddress() {
  static std::atomic<uint64_t> next{0};
  return fmt::format("inproc://kvr-feed-monitor-{}", next.fetch_add(1, std::memory_order_relaxed));
}

}  // namespace

FeedConnection::FeedConnection(const Env& env, const EngineFeedConfig& feed_config,
                               EventEndpoints endpoints)
    : env_(env),
      target_(feed_config.target),
      endpoints_(std::move(endpoints)),
      feed_(feed_config),
      turn_(env.turns),
      retry_wait_(env.config->reconnect_min) {
  TryOpenLive();
}

FeedConnection::~FeedConnection() {
  CloseLive();
  if (restoration_open_) env_.saved->Settle(RestoreOutcome::kUnproved, saved_blocks_);
}

void FeedConnection::TryOpenLive() {
  try {
    OpenLive();
    failure_.clear();
    changed_ = true;
  } catch (const zmq::error_t& error) {
    Fail(fmt::format("live endpoint '{}'", endpoints_.live), error);
  }
}

void FeedConnection::OpenLive() {
  live_.emplace(*env_.context, zmq::socket_type::sub);
  ApplyCommon(&*live_);
  live_->set(zmq::sockopt::rcvhwm, kLiveHighWaterMark);
  live_->set(zmq::sockopt::subscribe,
             "");  // one socket per engine, so the topic tells nothing more
  // The monitor first: it must not miss the handshake.
  const std::string address = UniqueMonitorAddress();
  if (zmq_socket_monitor(live_->handle(), address.c_str(),
                         ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED) != 0) {
    throw zmq::error_t();
  }
  monitor_.emplace(*env_.context, zmq::socket_type::pair);
  monitor_->set(zmq::sockopt::linger, 0);
  monitor_->set(zmq::sockopt::rcvhwm, 0);  // a full pipe, too, would stop the I/O thread
  monitor_->connect(address);
  live_->connect(endpoints_.live);
}

// The I/O thread writes notices into the monitor's pipe and waits while nobody can take them; with
// the reading end closed first it would wait for ever, and every socket of the process with it.
void FeedConnection::CloseLive() {
  if (live_) zmq_socket_monitor(live_->handle(), nullptr, 0);  // from here on it writes none
  live_.reset();
  monitor_.reset();
}

void FeedConnection::ApplyCommon(zmq::socket_t* socket) const {
  const ZmqEventSourceConfig& config = *env_.config;
  socket->set(zmq::sockopt::linger, 0);
  socket->set(zmq::sockopt::maxmsgsize, kMaxMessageBytes);
  socket->set(zmq::sockopt::reconnect_ivl, Millis(config.reconnect_min));
  socket->set(zmq::sockopt::reconnect_ivl_max, Millis(config.reconnect_max));
  socket->set(zmq::sockopt::heartbeat_ivl, Millis(config.heartbeat_interval));
  socket->set(zmq::sockopt::heartbeat_timeout, Millis(config.heartbeat_timeout));
  socket->set(zmq::sockopt::heartbeat_ttl,
              Millis(std::min(config.heartbeat_timeout, kMaxHeartbeatTtl)));
  socket->set(zmq::sockopt::tcp_keepalive, 1);
  // With IPv6 on, ZMQ resolves names to IPv6 first and tries nothing else;
  // engines usually bind IPv4.
  socket->set(zmq::sockopt::ipv6, endpoints_.live.find('[') != std::string::npos);
}

void FeedConnection::OpenReplay(uint64_t from_sequence) {
  replay_.emplace(*env_.context, zmq::socket_type::dealer);
  ApplyCommon(&*replay_);
  replay_->set(zmq::sockopt::rcvhwm, kReplayHighWaterMark);
  replay_->connect(endpoints_.replay);
  const std::array<char, 8> sequence = EncodeSequence(from_sequence);
  replay_->send(zmq::message_t(), zmq::send_flags::sndmore);  // the delimiter that a REQ would add
  replay_->send(zmq::buffer(sequence), zmq::send_flags::none);
}

void FeedConnection::CloseReplay() {
  replay_.reset();
  turn_.End();
}

void FeedConnection::Fail(std::string_view what, const zmq::error_t& error) {
  failure_ = fmt::format("{}: {}", what, error.what());
  CloseLive();
  CloseReplay();
  feed_.OnDisconnected();
  changed_ = true;
}

size_t FeedConnection::PollItemCount() const { return live_ ? (replay_ ? 3 : 2) : 0; }

void FeedConnection::AppendPollItems(std::vector<zmq::pollitem_t>* items) const {
  if (!live_) return;
  for (const auto* socket : {&live_, &monitor_, &replay_}) {
    if (*socket) {
      items->push_back({.socket = const_cast<void*>((*socket)->handle()),
                        .fd = 0,
                        .events = ZMQ_POLLIN,
                        .revents = 0});
    }
  }
}

void FeedConnection::OnPolled(const zmq::pollitem_t* items, MonotonicTime now) {
  if (!live_) return;
  const bool replay_readable = replay_ && items[2].revents != 0;
  try {
    if (items[1].revents != 0) ReadMonitor();
    if (replay_readable) ReadReplay(now);
    if (items[0].revents != 0) ReadLive();
  } catch (const zmq::error_t& error) {
    if (error.num() != ETERM) Fail("socket", error);
  }
}

void FeedConnection::ReadLive() {
  for (int i = 0; i < kMessagesPerTurn && Receive(&*live_); ++i) {
    // Whatever happened to the connection before this message came is in the monitor by now. Not so
    // the other way round: a message of a new life of the engine must not be taken before the
    // notice that the old one is gone.
    ReadMonitor();
    feed_.OnLiveMessage(frames_, &events_);
    ApplyEvents();
  }
}

void FeedConnection::ReadMonitor() {
  zmq::message_t event, address;
  while (monitor_->recv(event, zmq::recv_flags::dontwait)) {
    if (event.more()) (void)monitor_->recv(address, zmq::recv_flags::dontwait);
    if (event.size() < sizeof(uint16_t)) continue;
    uint16_t kind = 0;
    std::memcpy(&kind, event.data(), sizeof(kind));
    if (kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
      retry_wait_ = env_.config->reconnect_min;
      feed_.OnConnected(&events_);
    }
    if (kind == ZMQ_EVENT_DISCONNECTED) feed_.OnDisconnected();
    ApplyEvents();
  }
}

void FeedConnection::ReadReplay(MonotonicTime now) {
  turn_.Moved(now);
  for (int i = 0; i < kMessagesPerTurn && replay_ && Receive(&*replay_); ++i) {
    feed_.OnReplayMessage(frames_, now, &events_);
    ApplyEvents();
  }
}

bool FeedConnection::Receive(zmq::socket_t* socket) {
  frames_.clear();
  zmq::message_t surplus;
  for (size_t i = 0;; ++i) {
    zmq::message_t& part = i < parts_.size() ? parts_[i] : surplus;
    if (!socket->recv(part, zmq::recv_flags::dontwait)) return false;
    if (i < parts_.size()) {
      frames_.emplace_back(static_cast<const char*>(part.data()), part.size());
    }
    if (!part.more()) break;
  }
  return true;
}

void FeedConnection::StartReplay(MonotonicTime now) {
  if (!feed_.ReplayWanted() || !turn_.MayBegin(now)) return;
  const auto request = feed_.TakeReplayRequest(now);
  try {
    OpenReplay(request->from_sequence);
  } catch (const zmq::error_t& error) {
    CloseReplay();
    feed_.OnReplayImpossible(
        fmt::format("replay endpoint '{}': {}", endpoints_.replay, error.what()), &events_);
  }
  ApplyEvents();
}

void FeedConnection::OnTick(MonotonicTime now) {
  if (!live_) {
    if (!retry_at_) {
      retry_at_ = now + retry_wait_;
      const MonotonicTime longest =
          std::max(env_.config->reconnect_min, env_.config->reconnect_max);
      retry_wait_ = std::min(2 * retry_wait_, longest);
    } else if (now >= *retry_at_) {
      retry_at_.reset();
      TryOpenLive();
    }
    return;
  }
  feed_.OnTick(now, &events_);
  ApplyEvents();
}

void FeedConnection::DropBlocks() {
  feed_.DropBlocks(&events_);
  ApplyEvents();
}

void FeedConnection::Restore(SavedProgress saved) {
  saved_blocks_ = HeldBlocks(saved);
  restoration_open_ = true;
  feed_.Restore(std::move(saved));
}

std::optional<SavedProgress> FeedConnection::Save() const {
  std::optional<SavedProgress> saved = feed_.Save();
  if (!saved || feed_.RestorationState() == EngineFeed::Restoration::kPending) return saved;
  for (SavedRank& rank : saved->ranks) {
    const bool intact =
        env_.router->SaveTarget({target_.worker, rank.dp_rank}, [&](const KvEvent& event) {
          SavedEvent& part = rank.blocks.emplace_back(SavedEvent{.tier = event.tier, .data = {}});
          if (const auto* stored = std::get_if<Stored>(&event.data)) part.data = *stored;
          if (const auto* removed = std::get_if<Removed>(&event.data)) part.data = *removed;
        });
    if (!intact) return std::nullopt;
    rank.held_blocks = BlocksIn(rank.blocks);
  }
  return saved;
}

bool FeedConnection::WantsPeerBlocks() const {
  return !peers_asked_ && live_ && env_.peers != nullptr && env_.peers->HasPeers() &&
         feed_.LacksBeginning();
}

void FeedConnection::BeginPeerRequest(uint64_t request) {
  peers_asked_ = true;
  peer_request_ = request;
  peer_merge_.emplace(target_);
}

void FeedConnection::OnPeerAnswer(uint64_t request, const absl::StatusOr<PeerRankBlocks>& answer) {
  if (!peer_merge_ || peer_request_ != request) return;
  const PeerMerge merge = *std::exchange(peer_merge_, std::nullopt);
  changed_ = true;
  if (!answer.ok()) return;  // the source has counted it
  if (merge.Void() || !feed_.LacksBeginning())
    return env_.peers->CountUse(PeerBlockSource::Use::kOutdone, 0);
  uint64_t blocks = 0;
  for (const KvEvent& event : merge.Keep(answer->events))
    blocks += env_.router->Apply(event).blocks_stored;
  feed_.OnPeerBlocks(target_.dp_rank, answer->peer, blocks);
  env_.peers->CountUse(PeerBlockSource::Use::kTaken, blocks);
}

void FeedConnection::SettleRestoration(uint64_t blocks) {
  using Restoration = EngineFeed::Restoration;
  const Restoration state = feed_.RestorationState();
  if (state == Restoration::kPending) return;
  restoration_open_ = false;
  const RestoreOutcome outcome = state == Restoration::kProved      ? RestoreOutcome::kProved
                                 : state == Restoration::kRestarted ? RestoreOutcome::kRestarted
                                                                    : RestoreOutcome::kUnproved;
  env_.saved->Settle(outcome, outcome == RestoreOutcome::kProved ? blocks : saved_blocks_);
}

void FeedConnection::ApplyEvents() {
  uint64_t blocks = 0;
  for (const KvEvent& event : events_) {
    if (peer_merge_) peer_merge_->Note(event);
    const ApplyResult result = env_.router->Apply(event);
    env_.monitor->CountApplied(event, result);
    feed_.OnApplyResult(event, result);
    blocks += result.blocks_stored;
    blocks -= result.blocks_removed;
  }
  events_.clear();
  // The message that proves it brings nothing else.
  if (restoration_open_) SettleRestoration(blocks);
  changed_ = true;
  // A replay that ended, or that another one replaced, needs its socket no more; one that is no
  // longer wanted needs no turn.
  if (!feed_.ReplayRunning() || (replay_ && feed_.ReplayWanted())) CloseReplay();
}

FeedState FeedConnection::State() const {
  return failure_.empty() ? feed_.State() : FeedState::kDegraded;
}

void FeedConnection::Report(MonotonicTime now) {
  const FeedState state = State();
  if (state != FeedState::kConnecting && state != FeedState::kRecovering && !peer_merge_ &&
      !WantsPeerBlocks())
    initial_recovery_done_ = true;
  if (!changed_) return;
  if (reported_at_ && state == reported_state_ && now - *reported_at_ < kReportPeriod) return;
  changed_ = false;
  reported_at_ = now;
  reported_state_ = state;
  ReportLast();
}

void FeedConnection::ReportLast() {
  env_.monitor->Update({.target = target_,
                        .state = State(),
                        .reason = failure_.empty() ? feed_.Reason() : DegradedReason::kNoSocket,
                        .detail = failure_.empty() ? feed_.Detail() : failure_,
                        .counters = feed_.Counters()});
}

}  // namespace kvrouter
