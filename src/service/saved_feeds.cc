#include "service/saved_feeds.h"

#include <fmt/format.h>

#include <utility>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "feed/saved_feed_codec.h"

namespace kvrouter {
namespace {

// Nothing: it can be asked for.
std::optional<RestoreOutcome> WhyNot(const SavedFeed& saved, const WorkerSpec& spec,
                                     uint32_t rank) {
  const WorkerSpec& was = saved.spec;
  if (was.incarnation != spec.incarnation) return RestoreOutcome::kOtherIncarnation;
  if (!SameBlocks(was, spec) || was.dp_start_rank != spec.dp_start_rank ||
      was.dp_size != spec.dp_size)
    return RestoreOutcome::kOtherBlocks;
  const auto now = spec.events.find(rank);
  if (now == spec.events.end()) return RestoreOutcome::kOtherEndpoint;
  if (now->second.replay.empty()) return RestoreOutcome::kNoReplay;
  if (now->second != was.events.at(rank)) return RestoreOutcome::kOtherEndpoint;
  return std::nullopt;
}

}  // namespace

std::string_view RestoreOutcomeName(RestoreOutcome outcome) {
  switch (outcome) {
    case RestoreOutcome::kProved:
      return "proved";
    case RestoreOutcome::kRestarted:
      return "engine_restarted";
    case RestoreOutcome::kUnproved:
      return "unproved";
    case RestoreOutcome::kNoReplay:
      return "no_replay";
    case RestoreOutcome::kOtherEndpoint:
      return "other_endpoint";
    case RestoreOutcome::kOtherBlocks:
      return "other_blocks";
    case RestoreOutcome::kOtherIncarnation:
      return "other_incarnation";
    case RestoreOutcome::kWorkerAbsent:
      return "worker_absent";
  }
  return "invalid";
}

uint64_t HeldBlocks(const SavedProgress& progress) {
  uint64_t blocks = 0;
  for (const SavedRank& rank : progress.ranks) blocks += rank.held_blocks;
  return blocks;
}

absl::Status SavedFeeds::Load(std::vector<std::string> payloads) {
  std::map<Target, Entry> loaded;
  for (std::string& payload : payloads) {
    // In full, so that nothing can turn out unreadable later; what is kept is the bytes.
    KVR_ASSIGN_OR_RETURN(SavedFeed feed, DecodeFeed(payload));
    const uint64_t blocks = HeldBlocks(feed.progress);
    feed.progress = {};
    const Target target{feed.spec.id, feed.rank};
    loaded.insert_or_assign(
        target, Entry{.head = std::move(feed), .payload = std::move(payload), .blocks = blocks});
  }
  MutexLock lock(mu_);
  waiting_ = std::move(loaded);
  figures_.waiting_feeds = waiting_.size();
  figures_.waiting_bytes = 0;
  figures_.waiting_blocks = 0;
  for (const auto& [target, entry] : waiting_) {
    figures_.waiting_bytes += entry.payload.size();
    figures_.waiting_blocks += entry.blocks;
  }
  return absl::OkStatus();
}

std::map<WorkerId, Incarnation> SavedFeeds::Incarnations() const {
  MutexLock lock(mu_);
  std::map<WorkerId, Incarnation> lives;
  for (const auto& [target, entry] : waiting_) lives[target.worker] = entry.head.spec.incarnation;
  return lives;
}

std::optional<SavedProgress> SavedFeeds::Claim(const WorkerSpec& spec, uint32_t rank) {
  Entry entry;
  {
    MutexLock lock(mu_);
    const auto found = waiting_.find({spec.id, rank});
    if (found == waiting_.end()) return std::nullopt;
    entry = std::move(found->second);
    waiting_.erase(found);
    figures_.waiting_feeds = waiting_.size();
    figures_.waiting_bytes -= entry.payload.size();
    figures_.waiting_blocks -= entry.blocks;
    if (const auto why_not = WhyNot(entry.head, spec, rank)) {
      SettleLocked(*why_not, entry.blocks);
      return std::nullopt;
    }
  }
  absl::StatusOr<SavedFeed> feed = DecodeFeed(entry.payload);
  KVR_CHECK(feed.ok(), "worker {} rank {}: was read before", fmt::underlying(spec.id), rank);
  return std::move(feed->progress);
}

void SavedFeeds::Settle(RestoreOutcome outcome, uint64_t blocks) {
  MutexLock lock(mu_);
  SettleLocked(outcome, blocks);
}

void SavedFeeds::SettleLocked(RestoreOutcome outcome, uint64_t blocks) {
  ++figures_.feeds[static_cast<size_t>(outcome)];
  figures_.blocks[static_cast<size_t>(outcome)] += blocks;
}

void SavedFeeds::GiveUp() {
  MutexLock lock(mu_);
  for (const auto& [target, entry] : waiting_)
    SettleLocked(RestoreOutcome::kWorkerAbsent, entry.blocks);
  waiting_.clear();
  figures_.waiting_feeds = 0;
  figures_.waiting_blocks = 0;
  figures_.waiting_bytes = 0;
}

std::optional<SavedFeeds::Waiting> SavedFeeds::NextWaiting(std::optional<Target> after) const {
  MutexLock lock(mu_);
  const auto next = after ? waiting_.upper_bound(*after) : waiting_.begin();
  if (next == waiting_.end()) return std::nullopt;
  return Waiting{
      .feed = next->first, .payload = next->second.payload, .blocks = next->second.blocks};
}

SavedFeeds::Figures SavedFeeds::Read() const {
  MutexLock lock(mu_);
  return figures_;
}

}  // namespace kvrouter
