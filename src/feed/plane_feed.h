#ifndef KVROUTER_FEED_PLANE_FEED_H_
#define KVROUTER_FEED_PLANE_FEED_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "feed/feed_stats.h"
#include "feed/plane_codec.h"
#include "feed/plane_rank_feed.h"
#include "kvrouter/events.h"
#include "kvrouter/worker.h"

namespace kvrouter {

struct PlaneFeedConfig {
  PlaneRankFeedConfig rank{};  // but for whose it is, and whether it is repairable
  // Whether somebody can be asked for what a rank holds. Empty: nobody for any.
  std::function<bool(const WorkerSpec& spec, uint32_t dp_rank)> repairable = nullptr;
  // And whether the answer proves what it says. Empty: it does.
  std::function<bool(const WorkerSpec& spec, uint32_t dp_rank)> repair_proves = nullptr;
  // Events of ranks that are not registered yet wait for it: discovery is often slower than a
  // worker's first events. The oldest go first, and then those of the rank that waited longest.
  size_t max_waiting_events_per_rank = 1024;
  size_t max_waiting_ranks = 1024;
  size_t max_waiting_bytes = 64u << 20;
};

// Dynamo's event plane for a whole fleet: messages and the worker set in, ordered KV events of
// every rank out. The ranks of a registered worker that have no event socket of their own, and that
// nobody publishes at one of our doors, are fed from here; the others are not, else every event
// would count twice.
//
// A *path* is what messages come by and what can break: the connection to NATS, one broker, one
// publisher's socket; numbered by the caller, who must not invent more than it has. A rank is on
// the path that its last event came by.
//
// Thread-compatible. KV events are appended to `out` in the order in which they must be applied;
// the caller hands each result back with OnApplyResult.
class PlaneFeed {
 public:
  explicit PlaneFeed(const PlaneFeedConfig& config) : config_(config) {}

  // A registered worker, new or changed. `reset`: what came before is void even if the record is
  // the same.
  void SetWorker(const WorkerSpec& spec, bool reset, std::vector<KvEvent>* out);
  void RemoveWorker(WorkerId id, std::vector<KvEvent>* out);

  // Another source has the rank from now on, and its blocks have been taken out of the index; or
  // none has it any more. The rank need not be registered.
  void OnFedElsewhere(Target target);
  void OnFedHere(Target target, std::vector<KvEvent>* out);

  void OnMessage(uint32_t path, std::string_view envelope, MonotonicTime now,
                 std::vector<KvEvent>* out);
  // A message without an envelope in it.
  void OnBadFraming() { CountSkip(SkipReason::kBadFraming, &unattributed_.skipped); }

  void OnPathUp(uint32_t path);
  void OnPathDown(uint32_t path, std::string_view why);
  // Messages were lost on this side, nobody knows whose.
  void OnDropped(uint64_t messages);

  void OnTick(MonotonicTime now, std::vector<KvEvent>* out);
  void OnApplyResult(Target target, const ApplyResult& result);

  // Repairs to be begun now, at most so many; each gets one answer, which may come late.
  struct Repair {
    WorkerSpec spec;
    uint32_t dp_rank = 0;
    uint64_t ticket = 0;

    Target target() const { return {spec.id, dp_rank}; }
  };
  std::vector<Repair> TakeRepairs(size_t at_most, MonotonicTime now);
  // False: nobody waits for the answer any more.
  bool RepairRunning(Target target, uint64_t ticket) const;
  void OnRepaired(Target target, uint64_t ticket, RankPicture picture, MonotonicTime now,
                  std::vector<KvEvent>* out);
  void OnRepairFailed(Target target, uint64_t ticket, std::string_view why);
  // Of every rank, as of the last tick.
  bool InitialRecoveryDone() const;

  // What changed since the last call. A rank that left is in `gone`, with its last counters; it may
  // be in `ranks`, too, if it came back.
  struct RankReport {
    Target target;
    FeedState state = FeedState::kNone;
    DegradedReason reason = DegradedReason::kNone;  // kNone unless degraded
    std::string detail;
    FeedCounters counters;
  };
  struct Changes {
    std::vector<RankReport> gone;
    std::vector<RankReport> ranks;
    std::vector<ActiveLoad> loads;  // of registered ranks, in the order of arrival
  };
  Changes TakeChanges();

  // What belongs to no rank of ours; only grows.
  const FeedCounters& Unattributed() const { return unattributed_; }

 private:
  struct Rank {
    PlaneRankFeed feed;
    std::optional<uint32_t> path;
  };
  struct Worker {
    WorkerSpec spec;
    std::map<uint32_t, Rank> ranks;
  };
  struct WaitingEvent {
    uint32_t path = 0;
    uint64_t publisher_id = 0;
    PlaneEvent event;
  };
  struct WaitingRank {
    uint64_t since = 0;  // order of arrival
    std::deque<WaitingEvent> events;
    size_t bytes = 0;
  };

  void OnEvents(uint32_t path, const PlaneEnvelope& envelope, MonotonicTime now,
                std::vector<KvEvent>* out);
  void OnLoad(std::string_view payload);
  Rank* FindRank(Target target);
  const Rank* FindRank(Target target) const;
  bool Repairable(const WorkerSpec& spec, uint32_t dp_rank) const;
  bool RepairProves(const WorkerSpec& spec, uint32_t dp_rank) const;
  bool IsFedHere(const WorkerSpec& spec, uint32_t dp_rank) const;
  bool AllPathsBroken() const;
  bool Listening(const Rank& rank) const;
  void Deliver(Rank* rank, uint32_t path, uint64_t publisher_id, PlaneEvent event,
               MonotonicTime now, std::vector<KvEvent>* out);
  void Wait(WaitingEvent event);
  void DropWaiting(WorkerId id);
  void DropWaiting(std::map<Target, WaitingRank>::iterator rank);
  void AddRank(Worker* worker, uint32_t dp_rank, std::vector<KvEvent>* out);
  void RemoveRank(Target target, Rank* rank, std::vector<KvEvent>* out);
  static RankReport ReportOf(Target target, const Rank& rank);
  template <typename Visit>
  void ForEachRank(const Visit& visit);

  const PlaneFeedConfig config_;
  std::map<WorkerId, Worker> workers_;
  std::map<uint32_t, std::string> paths_;  // what is wrong with each; empty = nothing
  std::set<Target> elsewhere_;             // as the caller said; its bound is the caller's
  std::map<Target, WaitingRank> waiting_;
  std::map<Target, PublisherOrder> former_publishers_;  // of ranks that left; bounded
  uint64_t next_arrival_ = 0;
  uint64_t next_ticket_ = 0;
  size_t waiting_bytes_ = 0;
  FeedCounters unattributed_;
  std::set<Target> changed_;
  std::vector<RankReport> gone_;  // since the last report; as many as ranks left
  std::map<Target, ActiveLoad> loads_;
  PlaneBatch batch_;  // reused from message to message
};

}  // namespace kvrouter

#endif  // KVROUTER_FEED_PLANE_FEED_H_
