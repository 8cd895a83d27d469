#ifndef KVROUTER_TESTS_PROPERTY_TRUTH_FLEET_H_
#define KVROUTER_TESTS_PROPERTY_TRUTH_FLEET_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvrouter/router.h"
#include "property/truth/engine.h"
#include "property/truth/engine_link.h"
#include "property/truth/fault_plan.h"
#include "property/truth/oracle.h"
#include "property/truth/plane_bus.h"
#include "property/truth/plane_publisher.h"
#include "property/truth/prompt_tree.h"
#include "property/truth/timeline.h"

namespace kvrouter::truth {

// A router with eight engine ranks of six workers, all drawn from the seed: caches, dialects, how
// much history is kept, who can replay, who is a Dynamo worker. In virtual time it goes twice
// through traffic with faults and a quiet point. Thread-compatible.
class Fleet {
 public:
  static constexpr uint32_t kRanks = 8;

  struct Outcome {
    std::optional<std::string> failure;
    uint32_t ranks_checked = 0;  // at quiet points
    uint32_t ranks_live = 0;     // of them
    uint32_t restored = 0;       // feeds that went on from a snapshot
    FeedCounters counters;       // of all feeds that ever were
    MonotonicTime end{};
  };

  explicit Fleet(uint64_t seed);

  static MonotonicTime FaultsEnd();  // faults may be planned up to here
  Outcome Run(const FaultPlan& plan);
  // Prints what happens between this rank and its feed.
  void SetTrace(uint32_t rank) {
    traced_ = rank;
    bus_->SetTrace(ranks_[rank].feed.target);
  }

 private:
  struct Rank {
    uint32_t worker = 0;  // index
    EngineFeedConfig feed;
    std::unique_ptr<Engine> engine;
    std::shared_ptr<EngineLink> link;           // if it has sockets of its own
    std::unique_ptr<PlanePublisher> publisher;  // if it is on the event plane
    std::optional<MonotonicTime> due;           // the engine has something to do then
    std::optional<std::string> saved;           // the router's last snapshot of it
    Witness::Memory saved_witness;              // at that moment
    Incarnation saved_incarnation{};
  };
  struct Worker {
    WorkerSpec spec;
    bool on_plane = false;
    bool registered = false;
    std::vector<uint32_t> ranks;
  };

  void AddWorker(uint32_t dp_size, bool on_plane);
  void OpenBus();
  void Register(uint32_t worker);
  void OpenLink(Rank* rank, MonotonicTime delay);
  void RestoreLink(Rank* rank);
  void CloseLink(Rank* rank);
  void Drive(uint32_t rank);
  void SendTraffic(uint32_t rank);
  void Ask(uint32_t rank, NodeId node);
  void Tick();
  void Watch();
  void Inject(const Fault& fault);
  void InjectOnLink(const Fault& fault, EngineLink* link);
  void InjectOnPlane(const Fault& fault, Target target);
  void RestartEngine(Rank* rank, MonotonicTime down);
  void FlapWorker(uint32_t worker, MonotonicTime gone);
  void MoveWorker(uint32_t worker, MonotonicTime delay);
  void ReplaceWorker(uint32_t worker, MonotonicTime delay);
  void SaveRouter();
  void RestartRouter(MonotonicTime down, bool warm);

  void RunFor(MonotonicTime length) { timeline_.RunUntil(timeline_.Now() + length); }
  void BecomeQuiet();
  bool AllLive() const;
  std::optional<Subject> SubjectOf(const Rank& rank) const;
  std::vector<Subject> Subjects() const;

  const uint64_t seed_;
  Dice dice_;
  Timeline timeline_;
  PromptTree tree_;
  std::unique_ptr<Router> router_;
  bool router_is_up_ = true;
  bool restoring_ = false;  // links that open now go on from the snapshot
  std::shared_ptr<PlaneBus> bus_;
  std::vector<Worker> workers_;
  std::vector<Rank> ranks_;
  // Links of pods that were replaced: what is in flight still arrives.
  std::vector<std::shared_ptr<EngineLink>> orphans_;
  uint64_t links_opened_ = 0;
  std::optional<uint32_t> traced_;
  MonotonicTime traffic_end_{};
  MonotonicTime tick_period_{};
  Outcome outcome_;
};

}  // namespace kvrouter::truth

#endif  // KVROUTER_TESTS_PROPERTY_TRUTH_FLEET_H_
