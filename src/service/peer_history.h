#ifndef KVROUTER_SERVICE_PEER_HISTORY_H_
#define KVROUTER_SERVICE_PEER_HISTORY_H_

#include <chrono>
#include <map>

#include "base/clock.h"
#include "base/mutex.h"
#include "service/peer_blocks.h"
#include "service/rank_history.h"

namespace kvrouter {

struct PeerHistoryConfig {
  // Waited before a peer is asked: it hears the same events as we do, but perhaps a moment later,
  // and its answer must not be older than the events that follow it.
  std::chrono::milliseconds settle{1000};
  // A rank that no peer knew is not asked for again for this long: a dump holds all ranks.
  std::chrono::milliseconds unknown_for{60'000};
};

// Other routers, for ranks of the event plane whose engine cannot be asked: those without a replay
// endpoint. What a peer says has no cursor, and may be wrong where the peer lost events itself, so
// the picture is never taken for proved. Thread-safe.
class PeerHistory final : public RankHistory {
 public:
  // Both outlive this object.
  PeerHistory(const PeerHistoryConfig& config, PeerBlockSource* peers, const Clock* clock)
      : config_(config), peers_(peers), clock_(clock) {}

  bool Knows(const WorkerSpec& spec, uint32_t dp_rank) const override;
  bool Proves() const override { return false; }
  absl::StatusOr<RankPicture> Fetch(const WorkerSpec& spec, uint32_t dp_rank,
                                    const std::function<bool()>& cancelled) const override;

 private:
  struct Unknown {
    Incarnation incarnation{};
    MonotonicTime until{};
  };

  bool IsUnknown(const WorkerSpec& spec, uint32_t dp_rank) const;
  void NoteUnknown(const WorkerSpec& spec, uint32_t dp_rank) const;

  const PeerHistoryConfig config_;
  PeerBlockSource* const peers_;
  const Clock* const clock_;

  mutable Mutex mu_;
  mutable std::map<Target, Unknown> unknown_ ABSL_GUARDED_BY(mu_);  // those over go with the next
};

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_PEER_HISTORY_H_
