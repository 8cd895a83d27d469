#ifndef KVROUTER_TESTS_PROPERTY_TRUTH_PLANE_BUS_H_
#define KVROUTER_TESTS_PROPERTY_TRUTH_PLANE_BUS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "feed/plane_feed.h"
#include "kvrouter/router.h"
#include "property/truth/dice.h"
#include "property/truth/plane_publisher.h"
#include "property/truth/timeline.h"

namespace kvrouter::truth {

// The event plane between the Dynamo workers and one router's feed. One broker keeps each
// publisher's order; two carry every message, each in its own time. A broker's connection to the
// router may break; what is published meanwhile does not come by it.
class PlaneBus : public std::enable_shared_from_this<PlaneBus> {
 public:
  PlaneBus(uint32_t brokers, Router* router, Timeline* timeline, uint64_t seed);

  void SetWorker(const WorkerSpec& spec);
  void RemoveWorker(WorkerId id);
  void Publish(const PlaneMessage& message);
  void Tick();

  // Faults. Each concerns one of the brokers, drawn.
  void LoseNext(Target target, uint32_t messages) { trouble_[target].lose += messages; }
  void MangleNext(Target target, uint32_t messages) { trouble_[target].mangle += messages; }
  void RepeatNext(Target target, uint32_t messages) { trouble_[target].repeat += messages; }
  void Stall(Target target, MonotonicTime delay);
  void BreakBroker(MonotonicTime down);
  void Heal();

  // Prints what the feed is given of this rank and where it then stands.
  void SetTrace(Target target) { traced_ = target; }

  // What the feed says of a rank.
  const PlaneFeed::RankReport* Report(Target target) const;

  // When a batch's events, or later ones, arrived; nothing if they did not.
  std::optional<MonotonicTime> NoticedAt(Target target, Said said) const;
  // Every message of the publisher's present life arrived in time.
  bool NothingMissed(Target target, const Engine& engine) const;

 private:
  struct Broker {
    bool up = true;
    std::map<Target, MonotonicTime> last_arrival;
  };
  struct Trouble {
    uint32_t lose = 0;
    uint32_t mangle = 0;
    uint32_t repeat = 0;
  };
  struct Seen {
    std::vector<std::pair<MonotonicTime, Said>> notices;  // ascending in both
    uint64_t life = 0;
    bool harmed = false;
  };

  void BeginLife(Target target, bool from_its_first);
  void Send(uint32_t broker, const PlaneMessage& message, MonotonicTime delay);
  void Deliver(uint32_t broker, const PlaneMessage& message);
  void Harm(Target target) { seen_[target].harmed = true; }
  void Drain();
  void Trace(Target target, const std::string& what) const;

  Timeline& timeline_;
  Router& router_;
  Dice dice_;
  PlaneFeed feed_;
  std::vector<KvEvent> out_;
  std::vector<Broker> brokers_;
  std::map<Target, Trouble> trouble_;
  std::map<Target, Seen> seen_;
  std::map<Target, PlaneFeed::RankReport> reports_;
  std::optional<Target> traced_;
};

}  // namespace kvrouter::truth

#endif  // KVROUTER_TESTS_PROPERTY_TRUTH_PLANE_BUS_H_
