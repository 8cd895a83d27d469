// One rank on Dynamo's event plane whose engine can be asked for its history. Messages are delayed,
// lost with and without a notice, the path breaks, the worker restarts, answers come late or not at
// all. Whenever the rank is shown as live and everything said has arrived, the router holds exactly
// what the engine holds; and once the faults end it always comes to that.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "feed/plane_feed.h"
#include "support/naive_index.h"
#include "support/plane_payload.h"

namespace kvrouter {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kWorker = 7;
constexpr Target kTarget{WorkerId{kWorker}, 0};
constexpr uint64_t kBlocks = 30;

// Blocks form a binary tree: block n continues n / 2. Only leaves are evicted, as by an engine.
class EngineModel {
 public:
  explicit EngineModel(std::mt19937_64* random) : random_(*random) {}

  // The next message, with some events.
  std::string Step() {
    std::vector<PlaneEventSpec> events;
    for (uint64_t n = 1 + Below(3); n > 0; --n) events.push_back(Event());
    return EventsEnvelope(publisher_, sequence_++, events);
  }
  void Restart() {
    ++publisher_;
    next_id_ = sequence_ = 0;
    held_.clear();
  }
  RankPicture Picture() const {
    RankPicture picture;
    for (const uint64_t block : held_) {  // ascending: parents first
      Stored stored{.parent = std::nullopt, .blocks = {{EngineHash{block}, LocalBlockHash{block}}}};
      if (block > 1) stored.parent = EngineHash{block / 2};
      picture.events.push_back({.target = kTarget, .data = stored});
    }
    return picture;
  }
  const std::set<uint64_t>& held() const { return held_; }

 private:
  uint64_t Below(uint64_t n) { return std::uniform_int_distribution<uint64_t>(0, n - 1)(random_); }

  PlaneEventSpec Event() {
    PlaneEventSpec event{.worker_id = kWorker, .event_id = next_id_++};
    const uint64_t block = 1 + Below(kBlocks);
    const bool leaf = !held_.contains(2 * block) && !held_.contains(2 * block + 1);
    if (Below(60) == 0) {
      held_.clear();  // as it is: cleared
    } else if (held_.contains(block) && leaf) {
      held_.erase(block);
      event.data = PlaneRemoved({block});
    } else if (!held_.contains(block) && (block == 1 || held_.contains(block / 2))) {
      held_.insert(block);
      event.data =
          PlaneStored(block > 1 ? std::optional(block / 2) : std::nullopt, {{block, block}});
    } else {
      event.data = PlaneRemoved({});  // something that was left out
    }
    return event;
  }

  std::mt19937_64& random_;
  std::set<uint64_t> held_;
  uint64_t publisher_ = 1;
  uint64_t next_id_ = 0;
  uint64_t sequence_ = 0;
};

class Scene {
 public:
  explicit Scene(uint64_t seed) : random_(seed), engine_(&random_), feed_(Config()) {
    WorkerSpec spec;
    spec.id = WorkerId{kWorker};
    spec.incarnation = Incarnation{1};
    spec.block_size_tokens = 4;
    feed_.SetWorker(spec, false, &out_);
    feed_.OnPathUp(0);
    // The router may start after a warm engine.
    for (uint64_t n = Below(3) * 20; n > 0; --n) (void)engine_.Step();
  }

  void FaultyStep() {
    now_ += milliseconds(10);
    if (Chance(0.4)) Say();
    if (Chance(0.004)) engine_.Restart();
    if (Chance(0.01)) {  // the path breaks, with what is on it
      feed_.OnPathDown(0, "broken");
      on_the_way_.clear();
      up_ = false;
    }
    if (!up_ && Chance(0.1)) {
      feed_.OnPathUp(0);
      up_ = true;
    }
    if (Chance(0.02) && !on_the_way_.empty()) {  // the consumer is slow, and is told so
      on_the_way_.pop_back();
      feed_.OnDropped(1);
    }
    if (Chance(0.5)) Deliver();
    Work(/*fail=*/0.3);
  }
  // From here on nothing goes wrong. The next event tells of those that were lost without a trace.
  void EndFaults() {
    if (!up_) feed_.OnPathUp(0);
    up_ = true;
    on_the_way_.push_back(engine_.Step());
  }
  void GoodStep() {
    now_ += milliseconds(10);
    Deliver();
    Work(/*fail=*/0);
  }

  bool Quiet() const { return on_the_way_.empty() && up_; }
  FeedState State() {
    for (const auto& report : feed_.TakeChanges().ranks) state_ = report.state;
    return state_;
  }
  std::set<uint64_t> Held() const {
    std::set<uint64_t> held;
    for (uint64_t block = 1; block <= kBlocks; ++block) {
      std::vector<LocalBlockHash> path;
      for (uint64_t n = block; n > 0; n /= 2) path.insert(path.begin(), LocalBlockHash{n});
      for (const OverlapMatch& match : index_.FindOverlap(path)) {
        if (match.blocks == path.size()) held.insert(block);
      }
    }
    return held;
  }
  const EngineModel& engine() const { return engine_; }

 private:
  static PlaneFeedConfig Config() {
    PlaneFeedConfig config;
    config.rank.repair = {.retry_min = milliseconds(20), .retry_max = milliseconds(200)};
    config.rank.repair_patience = milliseconds(500);
    config.rank.doubt_grace = milliseconds(100);
    config.rank.max_tail_events = 16;
    config.repairable = [](const WorkerSpec&, uint32_t) { return true; };
    return config;
  }
  uint64_t Below(uint64_t n) { return std::uniform_int_distribution<uint64_t>(0, n - 1)(random_); }
  bool Chance(double p) { return std::uniform_real_distribution<double>(0, 1)(random_) < p; }

  void Say() {
    const std::string message = engine_.Step();
    if (up_ && !Chance(0.02)) on_the_way_.push_back(message);
  }
  void Deliver() {
    for (uint64_t n = 1 + Below(3); n > 0 && !on_the_way_.empty() && up_; --n) {
      feed_.OnMessage(0, on_the_way_.front(), now_, &out_);
      on_the_way_.pop_front();
      Apply();
    }
  }
  // Time passes; repairs begin, their picture is taken at some moment, and comes at another.
  void Work(double fail) {
    feed_.OnTick(now_, &out_);
    Apply();
    for (const PlaneFeed::Repair& repair : feed_.TakeRepairs(1, now_))
      repairs_.push_back({.ticket = repair.ticket});
    for (auto it = repairs_.begin(); it != repairs_.end();) {
      if (!it->picture && Chance(0.4)) it->picture = engine_.Picture();
      if (!it->picture || Chance(0.6)) {
        ++it;
        continue;
      }
      if (Chance(fail)) {
        feed_.OnRepairFailed(kTarget, it->ticket, "no");
      } else {
        feed_.OnRepaired(kTarget, it->ticket, *it->picture, now_, &out_);
      }
      it = repairs_.erase(it);
      Apply();
    }
  }
  void Apply() {
    for (const KvEvent& event : out_) feed_.OnApplyResult(event.target, index_.Apply(event));
    out_.clear();
  }

  struct Running {
    uint64_t ticket = 0;
    std::optional<RankPicture> picture = std::nullopt;
  };

  std::mt19937_64 random_;
  EngineModel engine_;
  PlaneFeed feed_;
  NaiveIndex index_;
  std::vector<KvEvent> out_;
  std::deque<std::string> on_the_way_;
  std::vector<Running> repairs_;
  MonotonicTime now_{};
  bool up_ = true;
  FeedState state_ = FeedState::kNone;
};

TEST(PlaneRepairPropertyTest, WhatIsShownAsLiveIsTheEnginesOwnAndItAlwaysGetsThere) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Scene scene(seed);
    for (int phase = 0; phase < 4; ++phase) {
      for (int step = 0; step < 150; ++step) scene.FaultyStep();
      scene.EndFaults();
      int steps = 0;
      for (; steps < 400 && !(scene.Quiet() && scene.State() == FeedState::kLive); ++steps)
        scene.GoodStep();
      ASSERT_LT(steps, 400) << "never came to rest, phase " << phase;
      ASSERT_EQ(scene.Held(), scene.engine().held()) << "phase " << phase;
    }
  }
}

}  // namespace
}  // namespace kvrouter
