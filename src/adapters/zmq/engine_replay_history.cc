#include "adapters/zmq/engine_replay_history.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>
#include <zmq.hpp>

#include "base/clock.h"
#include "base/status_macros.h"
#include "feed/engine_feed.h"
#include "feed/wire_frames.h"

namespace kvrouter {
namespace {

constexpr std::chrono::milliseconds kPollTimeout{50};
constexpr std::chrono::milliseconds kTurnPoll{10};
constexpr int64_t kMaxMessageBytes = 256 << 20;  // as for the sockets of feeds

EngineFeedConfig FeedConfig(const EngineReplayHistoryConfig& config, const WorkerSpec& spec,
                            uint32_t dp_rank) {
  return {.target = {spec.id, dp_rank},
          .incarnation = spec.incarnation,
          .dp_start_rank = spec.dp_start_rank,
          .dp_size = spec.dp_size,
          .block_size_tokens = spec.block_size_tokens,
          .is_eagle = spec.is_eagle,
          .image_token_id = spec.image_token_id,
          .counting = config.store_counting,
          .has_replay = true,
          .replay_timeout = config.timeout,
          .recovery_limit = config.total_timeout};
}

size_t BytesOf(const KvEvent& event) {
  size_t bytes = sizeof(event);
  if (const auto* stored = std::get_if<Stored>(&event.data))
    bytes += stored->blocks.size() * sizeof(StoredBlock);
  if (const auto* removed = std::get_if<Removed>(&event.data))
    bytes += removed->engine_hashes.size() * sizeof(EngineHash);
  return bytes;
}

// One replay after another until the feed has what it wants, on a socket of its own each.
class Fetcher {
 public:
  Fetcher(zmq::context_t* context, const std::string& endpoint, const EngineFeedConfig& feed_config,
          size_t max_bytes, ReplayTurns* turns)
      : context_(context),
        endpoint_(endpoint),
        target_(feed_config.target),
        max_bytes_(max_bytes),
        turn_(turns),
        feed_(feed_config) {}

  absl::StatusOr<RankPicture> Run(MonotonicTime total_timeout,
                                  const std::function<bool()>& cancelled) {
    const Clock& clock = SteadyClock();
    uint64_t completed_before = 0;
    std::optional<MonotonicTime> deadline;  // none while the first replay waits for its turn
    feed_.OnConnected(&out_);
    while (feed_.ReplayRunning()) {
      if (cancelled()) return Failure("cancelled");
      const MonotonicTime now = clock.Now();
      if (deadline && now >= *deadline) return Failure("it did not end in time");
      if (feed_.ReplayWanted() && !TakeTurn(now)) {
        std::this_thread::sleep_for(kTurnPoll);
        continue;
      }
      if (const auto request = feed_.TakeReplayRequest(now)) {
        if (!deadline) deadline = now + total_timeout;
        completed_before = feed_.Counters().replays_completed;
        Ask(request->from_sequence);
      }
      Read();
      feed_.OnTick(clock.Now(), &out_);
      KVR_RETURN_IF_ERROR(Collect());
    }
    // Without the end marker the newest removals may be missing.
    if (feed_.Counters().replays_completed == completed_before) return Failure(feed_.Detail());
    return RankPicture{
        .events = std::move(events_), .missing = feed_.Detail(), .reason = feed_.Reason()};
  }

 private:
  absl::Status Failure(std::string_view why) const {
    return absl::UnavailableError(fmt::format("engine replay {}: {}", endpoint_, why));
  }

  // One that takes the place of another waits for its own.
  bool TakeTurn(MonotonicTime now) {
    if (turn_.Begun()) turn_.End();
    return turn_.MayBegin(now);
  }

  void Ask(uint64_t from_sequence) {
    socket_ = zmq::socket_t(*context_, zmq::socket_type::dealer);
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::maxmsgsize, kMaxMessageBytes);
    socket_.set(zmq::sockopt::rcvhwm, 0);  // else the engine drops the tail, end marker included
    socket_.set(zmq::sockopt::ipv6, endpoint_.find('[') != std::string::npos);
    socket_.connect(endpoint_);
    const std::array<char, 8> sequence = EncodeSequence(from_sequence);
    socket_.send(zmq::message_t(), zmq::send_flags::sndmore);  // the delimiter a REQ would add
    socket_.send(zmq::buffer(sequence), zmq::send_flags::none);
  }

  void Read() {
    zmq::pollitem_t item{.socket = socket_.handle(), .fd = 0, .events = ZMQ_POLLIN, .revents = 0};
    zmq::poll(&item, 1, kPollTimeout);
    while (feed_.ReplayRunning() && !feed_.ReplayWanted() && bytes_ <= max_bytes_) {
      std::vector<zmq::message_t> parts;
      std::vector<std::string_view> frames;
      do {
        zmq::message_t part;
        if (!socket_.recv(part, zmq::recv_flags::dontwait)) return;
        parts.push_back(std::move(part));
      } while (parts.back().more() && parts.size() < kMaxFrames);
      if (parts.back().more()) return;  // not a reply; the rest of it is none either
      for (const zmq::message_t& part : parts) frames.emplace_back(part.data<char>(), part.size());
      const MonotonicTime now = SteadyClock().Now();
      turn_.Moved(now);
      feed_.OnReplayMessage(frames, now, &out_);
      TakeOut();
    }
  }

  void TakeOut() {
    for (KvEvent& event : out_) Take(&event);
    out_.clear();
  }

  // What a batch says of another rank belongs to that one's picture.
  void Take(KvEvent* event) {
    if (event->target != target_) return;
    const bool cleared = std::holds_alternative<Cleared>(event->data);
    bytes_ += BytesOf(*event);
    if (event->staging == Staging::kStaged) {
      if (cleared) staged_.clear();
      staged_.push_back(std::move(*event));
    } else if (event->staging == Staging::kCommit) {
      events_ = std::move(staged_);
      staged_.clear();
    } else {
      if (cleared) events_.clear(), staged_.clear();
      events_.push_back(std::move(*event));
    }
  }

  absl::Status Collect() {
    TakeOut();
    if (bytes_ <= max_bytes_) return absl::OkStatus();
    return Failure(fmt::format("its history takes more than {} bytes", max_bytes_));
  }

  static constexpr size_t kMaxFrames = 16;

  zmq::context_t* const context_;
  const std::string& endpoint_;
  const Target target_;
  const size_t max_bytes_;
  size_t bytes_ = 0;
  ReplayTurns::Turn turn_;
  EngineFeed feed_;
  zmq::socket_t socket_;
  std::vector<KvEvent> out_;
  std::vector<KvEvent> events_;
  std::vector<KvEvent> staged_;
};

const EventEndpoints* Endpoints(const WorkerSpec& spec, uint32_t dp_rank) {
  const auto endpoints = spec.events.find(dp_rank);
  if (endpoints == spec.events.end() || !endpoints->second.live.empty()) return nullptr;
  return endpoints->second.replay.empty() ? nullptr : &endpoints->second;
}

}  // namespace

struct EngineReplayHistory::Impl {
  zmq::context_t context{1};
};

EngineReplayHistory::EngineReplayHistory(const EngineReplayHistoryConfig& config,
                                         ReplayTurns* turns)
    : config_(config), turns_(turns), impl_(std::make_unique<Impl>()) {}

EngineReplayHistory::~EngineReplayHistory() = default;

bool EngineReplayHistory::Knows(const WorkerSpec& spec, uint32_t dp_rank) const {
  return Endpoints(spec, dp_rank) != nullptr;
}

absl::StatusOr<RankPicture> EngineReplayHistory::Fetch(
    const WorkerSpec& spec, uint32_t dp_rank, const std::function<bool()>& cancelled) const {
  const EventEndpoints* const endpoints = Endpoints(spec, dp_rank);
  if (endpoints == nullptr) return absl::NotFoundError("no replay endpoint");
  try {
    Fetcher fetcher(&impl_->context, endpoints->replay, FeedConfig(config_, spec, dp_rank),
                    config_.max_bytes, turns_);
    return fetcher.Run(config_.total_timeout, cancelled);
  } catch (const zmq::error_t& error) {
    return absl::UnavailableError(
        fmt::format("engine replay {}: {}", endpoints->replay, error.what()));
  }
}

}  // namespace kvrouter
