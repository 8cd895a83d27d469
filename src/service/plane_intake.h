#ifndef KVROUTER_SERVICE_PLANE_INTAKE_H_
#define KVROUTER_SERVICE_PLANE_INTAKE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "feed/plane_feed.h"
#include "kvrouter/router.h"
#include "service/feed_monitor.h"
#include "service/published_feeds.h"
#include "service/rank_repairs.h"
#include "service/reported_loads.h"
#include "service/worker_registry.h"

namespace kvrouter {

struct PlaneIntakeConfig {
  PlaneFeedConfig feed;
  // Messages received and not yet applied. Parity: DYN_ZMQ_EVENT_SUBSCRIBER_CHANNEL_CAPACITY.
  size_t max_queued_messages = 100'000;
  size_t max_queued_bytes = 256u << 20;
  size_t repair_threads = 4;  // repairs at once
};

// What lies between the sockets of Dynamo's event plane and the core: a bounded queue, and a thread
// that takes messages through PlaneFeed to the router and tells the monitor.
//
// Sockets and callbacks only queue. When the queue is full the newest message is dropped, and a
// note of it takes the place in the queue where the next one fits, so that every rank's doubt
// begins after what it did get. Changes of the worker set wait for the messages that came before
// them.
//
// One rank has one source: a socket of its own goes before a publisher at one of our doors, and
// that before the event plane. When another source takes a rank, what came from here goes out of
// the index before OnWorkerChanged or OnRankPublished returns, and nothing of the rank is applied
// after it; when the other source has given it up, the rank begins anew here.
//
// Thread safety: thread-safe; Start and Stop once, from one thread. Lock order: those of the
// registry and of PublishedFeeds, then apply_mu_, then the router's.
class PlaneIntake final : public WorkerListener, public PublishedRankListener {
 public:
  // All outlive this object. `histories` are asked in their order for ranks that lost events.
  PlaneIntake(const PlaneIntakeConfig& config, Router* router, FeedMonitor* monitor,
              ReportedLoads* loads, const Clock* clock,
              std::vector<const RankHistory*> histories = {});
  ~PlaneIntake() override;  // stops

  absl::Status Start();
  // No event is applied after it; what is still queued is thrown away.
  void Stop();

  // For the sockets. `path`: see PlaneFeed.
  void Push(uint32_t path, std::string_view envelope);
  void PushBadFraming();
  void PathUp(uint32_t path);
  void PathDown(uint32_t path, std::string_view why);
  // Messages that the transport itself dropped on this side.
  void Dropped(uint64_t messages);

  void OnWorkerChanged(const WorkerSpec& spec) override;
  void OnWorkerRemoved(WorkerId id, Incarnation incarnation) override;
  void OnRankPublished(Target target, Incarnation incarnation) override;
  void OnRankGivenBack(Target target) override;

  size_t QueuedMessages() const;

  // As ZmqEventSource: of every rank that is fed from here, what can be had at the start was had,
  // or refused. Ranks that nobody can be asked about are not waited for, nor their first event: it
  // may never come.
  bool InitialRecoveryDone() const;

 private:
  struct RepairAnswer {
    uint64_t ticket = 0;
    absl::StatusOr<RankPicture> picture;
  };
  struct Item {
    enum class Kind : uint8_t {
      kMessage,
      kBadFraming,
      kPathUp,
      kPathDown,
      kDrop,
      kFedElsewhere,
      kGivenBack,
      kRepaired
    };
    Kind kind = Kind::kMessage;
    uint32_t path = 0;
    uint64_t dropped = 0;
    std::string text;  // the envelope, or what is wrong with the path
    Target target{};   // the last three
    std::unique_ptr<RepairAnswer> answer = nullptr;
  };

  // What is wanted of a worker; absent spec = it is gone. The newest per worker, with what an older
  // one ended.
  struct Wish {
    std::optional<WorkerSpec> spec;
    bool reset = false;
    uint64_t position = 0;  // items queued before it
  };
  using Wishes = std::map<WorkerId, Wish>;

  // Who else feeds a rank. Neither: it is about to be given back.
  struct Elsewhere {
    bool socket = false;
    bool published = false;
  };

  void Push(Item item);
  void PushLocked(Item item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Post(WorkerId id, std::optional<WorkerSpec> spec);
  void Run(const std::stop_token& stop);
  // The next items, and the wishes that are due after them; waits for some.
  void Take(const std::stop_token& stop, std::vector<Item>* items, Wishes* wishes);
  void Handle(Item* item);
  std::vector<Target> ElsewhereOf(WorkerId id) const;
  void SetElsewhere(Target target, Incarnation incarnation, bool Elsewhere::*source, bool has_it);
  // The rank may be fed from here again, unless another source has it, or a socket is still being
  // closed.
  void GiveBack(Target target);
  void Fulfil(WorkerId id, const Wish& wish);
  void ApplyEvents();
  void TendRepairs();
  void NoteRecovery();
  void Report();

  const PlaneIntakeConfig config_;
  Router* const router_;
  FeedMonitor* const monitor_;
  ReportedLoads* const loads_;
  const Clock* const clock_;

  mutable Mutex mu_;
  CondVar wake_;
  std::deque<Item> queue_ ABSL_GUARDED_BY(mu_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t dropped_ ABSL_GUARDED_BY(mu_) = 0;  // not in the queue yet
  uint64_t pushed_ ABSL_GUARDED_BY(mu_) = 0;   // items ever queued
  uint64_t taken_ ABSL_GUARDED_BY(mu_) = 0;    // and taken
  Wishes wishes_ ABSL_GUARDED_BY(mu_);
  uint64_t wishes_posted_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t wishes_settled_ ABSL_GUARDED_BY(mu_) = 0;  // so many, with nothing left to recover

  mutable Mutex apply_mu_;  // held while one event is applied
  std::map<Target, Elsewhere> elsewhere_ ABSL_GUARDED_BY(apply_mu_);
  std::set<Target> fed_ ABSL_GUARDED_BY(apply_mu_);  // may have blocks that came from here

  // The thread's own.
  RankRepairs repairs_;
  PlaneFeed feed_;
  std::set<Target> to_give_back_;
  std::vector<KvEvent> events_;

  std::jthread thread_;
};

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_PLANE_INTAKE_H_
