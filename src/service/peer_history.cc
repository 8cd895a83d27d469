#include "service/peer_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace kvrouter {
namespace {

constexpr std::chrono::milliseconds kLook{50};  // between two looks at whether it is still wanted

// The answer may come after the question was withdrawn, so it has a place of its own.
struct Box {
  Mutex mu;
  CondVar filled;
  std::optional<absl::StatusOr<PeerRankBlocks>> answer ABSL_GUARDED_BY(mu);
};

}  // namespace

bool PeerHistory::Knows(const WorkerSpec& spec, uint32_t dp_rank) const {
  const auto endpoints = spec.events.find(dp_rank);
  const bool engine_tells = endpoints != spec.events.end() && !endpoints->second.replay.empty();
  return !engine_tells && peers_->HasPeers();
}

absl::StatusOr<RankPicture> PeerHistory::Fetch(const WorkerSpec& spec, uint32_t dp_rank,
                                               const std::function<bool()>& cancelled) const {
  if (IsUnknown(spec, dp_rank)) return absl::NotFoundError("no peer knows the rank");
  for (const MonotonicTime end = clock_->Now() + config_.settle; clock_->Now() < end;) {
    if (cancelled()) return absl::CancelledError("cancelled");
    std::this_thread::sleep_for(std::min<MonotonicTime>(kLook, config_.settle));
  }
  const auto box = std::make_shared<Box>();
  peers_->Request(spec, dp_rank, [box](absl::StatusOr<PeerRankBlocks> answer) {
    MutexLock lock(box->mu);
    box->answer.emplace(std::move(answer));
    box->filled.NotifyAll();
  });
  while (true) {
    {
      MutexLock lock(box->mu);
      if (!box->answer) box->filled.WaitFor(box->mu, kLook);
      if (box->answer) break;
    }
    if (cancelled()) return absl::CancelledError("cancelled");
  }
  MutexLock lock(box->mu);
  absl::StatusOr<PeerRankBlocks>& answer = *box->answer;
  if (!answer.ok()) {
    if (answer.status().code() == absl::StatusCode::kNotFound) NoteUnknown(spec, dp_rank);
    return answer.status();
  }
  const auto count = [peers = peers_, blocks = answer->blocks](bool used) {
    peers->CountUse(used ? PeerBlockSource::Use::kTaken : PeerBlockSource::Use::kOutdone,
                    used ? blocks : 0);
  };
  return RankPicture{
      .events = std::move(answer->events),
      .missing = fmt::format("known from the peer {} only: not proved by the engine", answer->peer),
      .reason = DegradedReason::kUnproved,
      .settled = count};
}

bool PeerHistory::IsUnknown(const WorkerSpec& spec, uint32_t dp_rank) const {
  MutexLock lock(mu_);
  const auto known = unknown_.find({spec.id, dp_rank});
  return known != unknown_.end() && known->second.incarnation == spec.incarnation &&
         clock_->Now() < known->second.until;
}

void PeerHistory::NoteUnknown(const WorkerSpec& spec, uint32_t dp_rank) const {
  const MonotonicTime now = clock_->Now();
  MutexLock lock(mu_);
  std::erase_if(unknown_, [now](const auto& entry) { return entry.second.until <= now; });
  unknown_[{spec.id, dp_rank}] = {.incarnation = spec.incarnation,
                                  .until = now + config_.unknown_for};
}

}  // namespace kvrouter
