// However the events of Dynamo's event plane reach us (lost, repeated, in disorder over two
// brokers, across restarts), a rank's blocks are never anything that a straightforward reading of
// the same arrivals does not hold, and where nothing was lost they are exactly the worker's own.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "feed/plane_feed.h"
#include "support/dice.h"
#include "support/naive_index.h"
#include "support/plane_payload.h"

namespace kvrouter {
namespace {

constexpr uint64_t kWorker = 7;

// What one rank's publisher said, with what the rank held after it: root blocks only,
// named by their content.
struct Said {
  uint64_t publisher = 0;
  PlaneEventSpec event;
  std::set<uint64_t> held;
};

// One rank of a worker, whose publisher is now and then replaced by a new one with an empty cache.
class Rank {
 public:
  explicit Rank(Dice* dice) : dice_(*dice) {}

  Said Step() {
    if (dice_.Chance(0.02)) {
      ++publisher_;
      next_id_ = 0;
      held_.clear();
    }
    PlaneEventSpec event{.worker_id = kWorker, .event_id = next_id_++};
    const uint32_t what = dice_.Below(20);
    if (what == 0) {
      held_.clear();
    } else if (what < 8 && !held_.empty()) {
      const uint64_t victim =
          *std::next(held_.begin(), dice_.Below(static_cast<uint32_t>(held_.size())));
      held_.erase(victim);
      event.data = PlaneRemoved({victim});
    } else if (what < 10) {
      event.data = PlaneStored({}, {{500 + what, 500 + what}});
      event.storage_tier = what == 8 ? "disk" : "somewhere";
    } else {
      const uint64_t block = 1 + dice_.Below(40);
      held_.insert(block);
      event.data = PlaneStored({}, {{block, block}});
    }
    return {.publisher = publisher_, .event = event, .held = held_};
  }

 private:
  Dice& dice_;
  uint64_t publisher_ = 1;
  uint64_t next_id_ = 0;
  std::set<uint64_t> held_;
};

class Router {
 public:
  explicit Router(MonotonicTime gap_wait) : feed_({.rank = {.gap_wait = gap_wait}}) {
    WorkerSpec spec;
    spec.id = WorkerId{kWorker};
    spec.incarnation = Incarnation{1};
    spec.block_size_tokens = 4;
    feed_.SetWorker(spec, false, &out_);
  }

  void Hear(const Said& said, uint32_t path = 0) {
    feed_.OnMessage(path, EventsEnvelope(said.publisher, 0, {said.event}), now_, &out_);
    Apply();
  }
  void Advance(MonotonicTime by) {
    now_ += by;
    feed_.OnTick(now_, &out_);
    Apply();
  }
  FeedState State() {
    for (const auto& report : feed_.TakeChanges().ranks) state_ = report.state;
    return state_;
  }
  std::set<uint64_t> Held() const {
    std::set<uint64_t> held;
    for (uint64_t block = 1; block <= 520; ++block) {
      if (block > 40 && block < 500) continue;  // never named
      const LocalBlockHash query[] = {LocalBlockHash{block}};
      if (!index_.FindOverlap(query).empty()) held.insert(block);
    }
    return held;
  }

 private:
  void Apply() {
    for (const KvEvent& event : out_) feed_.OnApplyResult(event.target, index_.Apply(event));
    out_.clear();
  }

  PlaneFeed feed_;
  NaiveIndex index_;
  std::vector<KvEvent> out_;
  MonotonicTime now_{};
  FeedState state_ = FeedState::kNone;
};

// The rules in words, over what arrived, with no cursor of its own to go wrong: the whole list of
// arrivals is read anew for each answer.
struct Expected {
  std::set<uint64_t> held;
  bool whole = false;
};
Expected ReadAll(const std::vector<Said>& arrivals) {
  Expected result;
  std::set<uint64_t> old_publishers;
  std::optional<uint64_t> publisher;
  std::optional<uint64_t> last;
  for (const Said& said : arrivals) {
    if (old_publishers.contains(said.publisher)) continue;
    if (publisher != said.publisher) {
      if (publisher) old_publishers.insert(*publisher);
      publisher = said.publisher;
      last.reset();
      result = {.held = {}, .whole = said.event.event_id == 0};
    } else if (said.event.event_id <= *last) {
      continue;
    } else if (said.event.event_id != *last + 1) {
      result = {};
    }
    last = said.event.event_id;
    const std::string& data = said.event.data;
    if (data == PlaneCleared()) {
      result = {.held = {}, .whole = true};
      continue;
    }
    if (said.event.storage_tier != "device") continue;
    for (uint64_t block = 1; block <= 40; ++block) {
      if (data == PlaneStored({}, {{block, block}})) result.held.insert(block);
      if (data == PlaneRemoved({block})) result.held.erase(block);
    }
  }
  return result;
}

TEST(PlaneFeedPropertyTest, OnePathWithLossesAndRepeatsReadsAsStated) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    Rank rank(&dice);
    Router router({});
    std::vector<Said> arrivals;
    const double loss = dice.Below(3) == 0 ? 0 : 0.03;
    for (int step = 0; step < 60; ++step) {
      const Said said = rank.Step();
      if (dice.Chance(loss)) continue;
      for (uint32_t copies = dice.Chance(0.1) ? 2 : 1; copies > 0; --copies) {
        arrivals.push_back(said);
        router.Hear(said);
      }
      if (!arrivals.empty() && dice.Chance(0.05)) {  // an old message again
        arrivals.push_back(arrivals[dice.Below(static_cast<uint32_t>(arrivals.size()))]);
        router.Hear(arrivals.back());
      }
      if (arrivals.empty()) continue;
      const Expected expected = ReadAll(arrivals);
      ASSERT_EQ(router.Held(), expected.held) << step;
      ASSERT_EQ(router.State(), expected.whole ? FeedState::kLive : FeedState::kDegraded) << step;
      if (loss == 0) {
        ASSERT_EQ(router.Held(), said.held) << step;
      }
    }
  }
}

// Two brokers, each of which loses and delays messages of its own accord. Whatever at least one of
// them brings in time is as if nothing had happened.
TEST(PlaneFeedPropertyTest, WhatOneOfTwoBrokersBringsIsEnough) {
  constexpr MonotonicTime kGapWait = std::chrono::milliseconds(100);
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    Rank rank(&dice);
    Router router(kGapWait);
    for (int round = 0; round < 12; ++round) {
      std::vector<Said> said;
      for (uint32_t i = 1 + dice.Below(8); i > 0; --i) said.push_back(rank.Step());
      // Of each publisher in turn, as a new one begins when the old one is gone.
      for (size_t begin = 0; begin < said.size();) {
        size_t end = begin;
        std::vector<std::pair<uint32_t, size_t>> deliveries;
        for (; end < said.size() && said[end].publisher == said[begin].publisher; ++end) {
          const bool lost = dice.Chance(0.3);
          const uint32_t survivor = dice.Below(2);
          for (uint32_t path = 0; path < 2; ++path) {
            if (!lost || path == survivor) deliveries.emplace_back(path, end);
          }
        }
        // The first ever event decides where a publisher begins, so it is not reordered.
        std::vector<std::pair<uint32_t, size_t>> rest(deliveries.begin() + 1, deliveries.end());
        dice.Shuffle(&rest);
        router.Hear(said[begin], deliveries[0].first);
        for (const auto& [path, index] : rest) router.Hear(said[index], path);
        begin = end;
      }
      ASSERT_EQ(router.Held(), said.back().held) << round;
      ASSERT_EQ(router.State(), FeedState::kLive) << round;
      router.Advance(kGapWait);
      ASSERT_EQ(router.State(), FeedState::kLive) << round;
    }
  }
}

}  // namespace
}  // namespace kvrouter
