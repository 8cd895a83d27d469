#include "service/published_feeds.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "base/status_macros.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

absl::Status Gone(WorkerId id) {
  return MakeError(absl::StatusCode::kNotFound, ErrorReason::kUnknownWorker,
                   fmt::format("no worker with worker_id {}", fmt::underlying(id)));
}

absl::Status Conflict(absl::StatusCode code, WorkerId id, std::string_view what) {
  return MakeError(code, ErrorReason::kFeedConflict,
                   fmt::format("worker_id {}: {}", fmt::underlying(id), what));
}

bool HasSocket(const WorkerSpec& spec, uint32_t dp_rank) {
  const auto endpoints = spec.events.find(dp_rank);
  return endpoints != spec.events.end() && !endpoints->second.live.empty();
}

absl::Status Stopping() {
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kShuttingDown,
                   "the router is shutting down");
}

}  // namespace

PublishedFeeds::PublishedFeeds(const PublishedFeedsConfig& config, Router* router,
                               FeedMonitor* monitor, const Clock* clock, ReplayTurns* turns)
    : config_(config),
      env_{.router = router, .monitor = monitor, .clock = clock, .turns = turns},
      jitter_seed_(std::random_device()()) {}

absl::Status PublishedFeeds::Check(const PublishStart& start) const {
  if (stopped_) return Stopping();
  const auto worker = workers_.find(start.target.worker);
  if (worker == workers_.end()) return Gone(start.target.worker);
  const WorkerSpec& spec = worker->second;
  if (!config_.uses_events) {
    return Conflict(absl::StatusCode::kFailedPrecondition, spec.id,
                    "this router does not go by KV events (router_kv_events, load_aware, "
                    "router_kv_overlap_score_credit)");
  }
  const uint32_t rank = start.target.dp_rank;
  if (rank < spec.dp_start_rank || rank - spec.dp_start_rank >= spec.dp_size) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest,
                     fmt::format("dp_rank must be one of worker_id {}'s ranks {}..{}, got {}",
                                 fmt::underlying(spec.id), spec.dp_start_rank,
                                 uint64_t{spec.dp_start_rank} + spec.dp_size - 1, rank));
  }
  if (start.incarnation && *start.incarnation != spec.incarnation) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, ErrorReason::kIncarnationConflict,
        fmt::format("worker_id {} is live with incarnation {}, got {}", fmt::underlying(spec.id),
                    fmt::underlying(spec.incarnation), fmt::underlying(*start.incarnation)));
  }
  if (HasSocket(spec, rank)) {
    return Conflict(absl::StatusCode::kFailedPrecondition, spec.id,
                    fmt::format("events of dp_rank {} come from its registered endpoint", rank));
  }
  // A socket is given up on its own thread, a moment after the record has changed. What it takes
  // out of the index then must not be what a stream has put there.
  if (env_.monitor->StateOf(start.target, FeedSource::kSocket) != FeedState::kNone) {
    return Conflict(absl::StatusCode::kFailedPrecondition, spec.id,
                    fmt::format("the endpoint that dp_rank {} had is still being given up", rank));
  }
  return absl::OkStatus();
}

EngineFeedConfig PublishedFeeds::FeedConfig(const WorkerSpec& spec,
                                            const PublishStart& start) const {
  return {.target = start.target,
          .incarnation = spec.incarnation,
          // A stream speaks for its own rank only.
          .dp_start_rank = start.target.dp_rank,
          .dp_size = 1,
          .block_size_tokens = spec.block_size_tokens,
          .is_eagle = spec.is_eagle,
          .image_token_id = spec.image_token_id,
          .counting = start.counting.value_or(config_.store_counting),
          .has_replay = start.can_replay,
          .replay_timeout = config_.replay_timeout,
          .recovery_limit = config_.recovery_limit,
          .max_buffered_batches = config_.max_batches_during_replay,
          .jitter_seed = jitter_seed_};
}

absl::StatusOr<std::shared_ptr<PublishStream>> PublishedFeeds::Open(const PublishStart& start,
                                                                    std::function<void()> wake) {
  const absl::Status taken_over =
      Conflict(absl::StatusCode::kAborted, start.target.worker,
               fmt::format("another stream of dp_rank {} has taken over", start.target.dp_rank));
  std::shared_ptr<PublishStream> stream;
  std::shared_ptr<PublishStream> before;
  {
    MutexLock lock(mu_);
    KVR_RETURN_IF_ERROR(Check(start));
    const EngineFeedConfig config = FeedConfig(workers_.at(start.target.worker), start);
    if (listener_ != nullptr && !feeds_.contains(start.target))
      listener_->OnRankPublished(start.target, config.incarnation);
    FeedPtr& feed = feeds_[start.target];
    if (feed && (feed->config().has_replay != config.has_replay ||
                 feed->config().counting != config.counting)) {
      before = feed->End(taken_over);
      feed = nullptr;
    }
    if (!feed) feed = std::make_shared<PublishedFeed>(env_, config);
    stream = std::make_shared<PublishStream>(feed, std::move(wake));
    if (auto attached_before = feed->Attach(stream.get(), taken_over)) {
      before = std::move(attached_before);
    }
  }
  if (before) before->Wake();
  return stream;
}

void PublishedFeeds::Tick() {
  std::vector<FeedPtr> feeds;
  std::vector<std::shared_ptr<PublishStream>> to_wake;
  {
    MutexLock lock(mu_);
    to_wake.swap(to_wake_);
    feeds.reserve(feeds_.size());
    for (const auto& [target, feed] : feeds_) feeds.push_back(feed);
  }
  for (const FeedPtr& feed : feeds) {
    if (auto stream = feed->Tick()) to_wake.push_back(std::move(stream));
  }
  for (const auto& stream : to_wake) stream->Wake();
}

bool PublishedFeeds::InitialRecoveryDone() const {
  MutexLock lock(mu_);
  return std::all_of(feeds_.begin(), feeds_.end(),
                     [](const auto& entry) { return entry.second->InitialRecoveryDone(); });
}

void PublishedFeeds::Stop() {
  std::vector<std::shared_ptr<PublishStream>> to_wake;
  {
    MutexLock lock(mu_);
    stopped_ = true;
    to_wake.swap(to_wake_);
    for (const auto& [target, feed] : feeds_) {
      if (auto stream = feed->Disconnect(Stopping())) to_wake.push_back(std::move(stream));
    }
  }
  for (const auto& stream : to_wake) stream->Wake();
}

void PublishedFeeds::EndFeeds(WorkerId id, const absl::Status& reason,
                              const std::function<bool(uint32_t dp_rank)>& which) {
  for (auto it = feeds_.lower_bound(Target{id, 0}); it != feeds_.end() && it->first.worker == id;) {
    if (!which(it->first.dp_rank)) {
      ++it;
      continue;
    }
    if (auto stream = it->second->End(reason)) to_wake_.push_back(std::move(stream));
    if (listener_ != nullptr) listener_->OnRankGivenBack(it->first);
    it = feeds_.erase(it);
  }
}

void PublishedFeeds::OnWorkerChanged(const WorkerSpec& spec) {
  MutexLock lock(mu_);
  const auto known = workers_.find(spec.id);
  if (known != workers_.end() && !SameFeedBasis(known->second, spec)) {
    EndFeeds(
        spec.id,
        Conflict(absl::StatusCode::kAborted, spec.id, "its record has changed, open a new stream"),
        [](uint32_t) { return true; });
  }
  EndFeeds(
      spec.id,
      Conflict(absl::StatusCode::kAborted, spec.id, "it has an event endpoint for this rank now"),
      [&](uint32_t dp_rank) { return HasSocket(spec, dp_rank); });
  workers_.insert_or_assign(spec.id, spec);
}

void PublishedFeeds::OnWorkerRemoved(WorkerId id, Incarnation) {
  MutexLock lock(mu_);
  workers_.erase(id);
  EndFeeds(id, Gone(id), [](uint32_t) { return true; });
}

}  // namespace kvrouter
