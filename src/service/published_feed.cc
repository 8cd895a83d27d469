#include "service/published_feed.h"

#include <chrono>
#include <numeric>

namespace kvrouter {
namespace {

constexpr MonotonicTime kReportPeriod = std::chrono::milliseconds(50);

bool IsSettled(FeedState state) {
  return state != FeedState::kConnecting && state != FeedState::kRecovering;
}

}  // namespace

template <typename Input>
void PublishedFeed::Take(const PublishStream* stream, const Input& input,
                         std::optional<uint64_t> replay_id) {
  MutexLock lock(mu_);
  if (stream_ != stream || (replay_id && *replay_id != last_replay_id_)) return;
  const MonotonicTime now = env_.clock->Now();
  input(&feed_, now, &events_);
  if (replay_id) turn_.Moved(now);
  ApplyEvents(now);
}

// ---- One publisher ----

void PublishStream::OnLive(const FeedBatch& batch) {
  feed_->Take(this, [&](EngineFeed* feed, MonotonicTime, std::vector<KvEvent>* out) {
    feed->OnLiveBatch(batch, out);
  });
}

void PublishStream::OnReplayed(uint64_t replay_id, const FeedBatch& batch) {
  feed_->Take(
      this,
      [&](EngineFeed* feed, MonotonicTime now, std::vector<KvEvent>* out) {
        feed->OnReplayedBatch(batch, now, out);
      },
      replay_id);
}

void PublishStream::OnReplayEnd(uint64_t replay_id) {
  feed_->Take(
      this,
      [](EngineFeed* feed, MonotonicTime, std::vector<KvEvent>* out) { feed->OnReplayEnd(out); },
      replay_id);
}

void PublishStream::OnBadMessage() {
  feed_->Take(this,
              [](EngineFeed* feed, MonotonicTime, std::vector<KvEvent>*) { feed->OnBadMessage(); });
}

std::optional<PublishStatus> PublishStream::TakeStatus() { return feed_->TakeStatus(this); }

absl::Status PublishStream::Ended() const { return feed_->Ended(this); }

void PublishStream::Close() { feed_->Detach(this); }

// ---- Who has the feed ----

PublishedFeed::StreamPtr PublishedFeed::Attach(PublishStream* stream, const absl::Status& reason) {
  MutexLock lock(mu_);
  StreamPtr before = LetGo(reason);
  stream_ = stream;
  feed_.OnConnected(&events_);
  ApplyEvents(env_.clock->Now());
  return before;
}

void PublishedFeed::Detach(const PublishStream* stream) {
  MutexLock lock(mu_);
  if (stream_ != stream) return;
  stream_ = nullptr;
  OnLetGo();
}

PublishedFeed::StreamPtr PublishedFeed::Disconnect(const absl::Status& reason) {
  MutexLock lock(mu_);
  return LetGo(reason);
}

PublishedFeed::StreamPtr PublishedFeed::End(const absl::Status& reason) {
  MutexLock lock(mu_);
  StreamPtr before = LetGo(reason);
  // Of a worker that has left, or of an older life, the core refuses this: it has dropped the
  // blocks itself.
  feed_.DropBlocks(&events_);
  ApplyEvents(env_.clock->Now());
  Report(env_.clock->Now(), /*at_once=*/true);
  env_.monitor->Remove(config_.target, FeedSource::kPublished);
  over_ = true;
  return before;
}

PublishedFeed::StreamPtr PublishedFeed::LetGo(const absl::Status& reason) {
  if (stream_ == nullptr) return nullptr;
  PublishStream* const stream = std::exchange(stream_, nullptr);
  stream->ended_ = reason;
  OnLetGo();
  return stream->weak_from_this().lock();  // null: it is just being destroyed
}

void PublishedFeed::OnLetGo() {
  feed_.OnDisconnected();
  turn_.End();
  changed_ = true;
  settled_.store(true, std::memory_order_relaxed);
  Report(env_.clock->Now(), /*at_once=*/true);
}

// ---- What comes in and out ----

PublishedFeed::StreamPtr PublishedFeed::Tick() {
  MutexLock lock(mu_);
  if (over_) return nullptr;
  const MonotonicTime now = env_.clock->Now();
  feed_.OnTick(now, &events_);
  const bool quiet = events_.empty() && !feed_.ReplayWanted();
  if (!quiet) ApplyEvents(now);
  // A replay that times out may change nothing but the state.
  changed_ = changed_ || feed_.State() != reported_state_;
  Settle();
  Report(now, /*at_once=*/false);
  if (stream_ == nullptr) return nullptr;
  const bool news = stream_->replay_to_tell_ || stream_->told_ != StatusLocked();
  return news ? stream_->weak_from_this().lock() : nullptr;
}

void PublishedFeed::ApplyEvents(MonotonicTime now) {
  for (const KvEvent& event : events_) {
    const ApplyResult result = env_.router->Apply(event);
    env_.monitor->CountApplied(event, result);
    feed_.OnApplyResult(event, result);
  }
  events_.clear();
  changed_ = true;
  // Over, or replaced by one that has to wait for its own turn.
  if (!feed_.ReplayRunning() || (feed_.ReplayWanted() && turn_.Begun())) turn_.End();
  if (stream_ != nullptr && feed_.ReplayWanted() && turn_.MayBegin(now)) {
    if (const auto request = feed_.TakeReplayRequest(now)) {
      stream_->replay_to_tell_ = {.id = ++last_replay_id_, .from_sequence = request->from_sequence};
    }
  }
  Settle();
  Report(now, /*at_once=*/false);
}

void PublishedFeed::Settle() {
  if (IsSettled(feed_.State())) settled_.store(true, std::memory_order_relaxed);
}

void PublishedFeed::Report(MonotonicTime now, bool at_once) {
  if (!changed_ || over_) return;
  const FeedState state = feed_.State();
  if (!at_once && reported_at_ && state == reported_state_ && now - *reported_at_ < kReportPeriod) {
    return;
  }
  changed_ = false;
  reported_at_ = now;
  reported_state_ = state;
  env_.monitor->Update({.target = config_.target,
                        .source = FeedSource::kPublished,
                        .state = state,
                        .reason = feed_.Reason(),
                        .detail = feed_.Detail(),
                        .counters = feed_.Counters()});
}

// ---- What the publisher is told ----

PublishStatus PublishedFeed::StatusLocked() const {
  const SkipCounts& skipped = feed_.Counters().skipped;
  return {.acknowledged_sequence = feed_.LastSequence(),
          .replay = std::nullopt,
          .state = feed_.State(),
          .detail = feed_.Detail(),
          .skipped = std::accumulate(skipped.begin(), skipped.end(), uint64_t{0})};
}

std::optional<PublishStatus> PublishedFeed::TakeStatus(PublishStream* stream) {
  MutexLock lock(mu_);
  if (stream_ != stream) return std::nullopt;
  if (!feed_.ReplayRunning()) stream->replay_to_tell_.reset();  // it timed out before it was told
  PublishStatus status = StatusLocked();
  if (stream->told_ == status && !stream->replay_to_tell_) return std::nullopt;
  stream->told_ = status;
  status.replay = std::exchange(stream->replay_to_tell_, std::nullopt);
  return status;
}

absl::Status PublishedFeed::Ended(const PublishStream* stream) const {
  MutexLock lock(mu_);
  return stream->ended_;
}

}  // namespace kvrouter
