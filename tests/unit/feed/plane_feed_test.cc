#include "feed/plane_feed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "support/naive_index.h"
#include "support/plane_payload.h"

namespace kvrouter {
namespace {

class PlaneFeedTest : public testing::Test {
 protected:
  static WorkerSpec Spec(uint64_t id, uint32_t dp_size = 1, uint64_t incarnation = 1) {
    WorkerSpec spec;
    spec.id = WorkerId{id};
    spec.incarnation = Incarnation{incarnation};
    spec.block_size_tokens = 4;
    spec.dp_size = dp_size;
    return spec;
  }
  void SetWorker(const WorkerSpec& spec, bool reset = false) {
    feed_.SetWorker(spec, reset, &out_);
    ApplyAll();
  }
  void Hear(const std::string& envelope, uint32_t path = 0) {
    feed_.OnMessage(path, envelope, {}, &out_);
    ApplyAll();
  }
  void HearEvents(const std::vector<PlaneEventSpec>& events, uint64_t publisher = 1,
                  uint32_t path = 0) {
    Hear(EventsEnvelope(publisher, sequence_++, events), path);
  }
  void ApplyAll() {
    for (const KvEvent& event : out_) feed_.OnApplyResult(event.target, index_.Apply(event));
    out_.clear();
  }
  uint64_t Blocks(uint64_t worker, uint32_t rank = 0) const {
    return index_.HolderBlocks({WorkerId{worker}, rank});
  }
  uint64_t Skipped(SkipReason reason) const {
    return feed_.Unattributed().skipped[static_cast<size_t>(reason)];
  }
  // Last reported state of a rank.
  FeedState State(uint64_t worker, uint32_t rank = 0) {
    const auto changes = feed_.TakeChanges();
    for (const auto& gone : changes.gone) states_.erase(gone.target);
    for (const auto& report : changes.ranks) states_[report.target] = report.state;
    const auto it = states_.find({WorkerId{worker}, rank});
    return it == states_.end() ? FeedState::kNone : it->second;
  }
  static PlaneEventSpec Store(uint64_t worker, uint64_t id, uint64_t block, uint32_t rank = 0) {
    return {.worker_id = worker,
            .dp_rank = rank,
            .event_id = id,
            .data = PlaneStored({}, {{block, block}})};
  }

  PlaneFeed feed_{PlaneFeedConfig{.max_waiting_events_per_rank = 4, .max_waiting_ranks = 2}};
  NaiveIndex index_;
  std::vector<KvEvent> out_;
  uint64_t sequence_ = 0;
  std::map<Target, FeedState> states_;
};

// Found by tests/property/truth: taken for a new life, the leftover made the real one void for
// good.
TEST_F(PlaneFeedTest, WhatAFormerLifeLeftOnTheWayIsVoid) {
  for (const bool leaves_between : {false, true}) {
    const uint64_t worker = leaves_between ? 8 : 7;
    SetWorker(Spec(worker));
    HearEvents({Store(worker, 0, 1)}, /*publisher=*/1);
    if (leaves_between) {
      feed_.RemoveWorker(WorkerId{worker}, &out_);
      ApplyAll();
    }
    SetWorker(Spec(worker, 1, /*incarnation=*/2));
    HearEvents({Store(worker, 0, 2)}, /*publisher=*/2);
    HearEvents({Store(worker, 1, 3)}, /*publisher=*/1);
    EXPECT_EQ(Blocks(worker), 1u);
    HearEvents({Store(worker, 1, 4)}, /*publisher=*/2);
    EXPECT_EQ(Blocks(worker), 2u);
    EXPECT_EQ(State(worker), FeedState::kLive);
  }
}

// Found by tests/property/truth: taken for the newest life, the leftover made the real one void for
// good. Which of the two is older shows on the slower path, when the real one comes by it.
TEST_F(PlaneFeedTest, ALifeFirstHeardByASlowerPathAfterItsSuccessorIsVoidWhenThatOneFollowsThere) {
  SetWorker(Spec(7));
  for (const uint32_t path : {0, 1}) HearEvents({Store(7, 0, 1)}, /*publisher=*/1, path);
  HearEvents({Store(7, 0, 2)}, /*publisher=*/3, /*path=*/0);
  HearEvents({Store(7, 4, 9)}, /*publisher=*/2, /*path=*/1);
  HearEvents({Store(7, 0, 2)}, /*publisher=*/3, /*path=*/1);
  HearEvents({Store(7, 1, 3)}, /*publisher=*/3, /*path=*/0);
  EXPECT_EQ(Blocks(7), 2u);
  EXPECT_EQ(State(7), FeedState::kLive);
  HearEvents({Store(7, 5, 10)}, /*publisher=*/2, /*path=*/0);
  EXPECT_EQ(Blocks(7), 2u);
}

// The record of a new life may be later than its first events.
TEST_F(PlaneFeedTest, APublisherThatOutlivesItsRecordIsHeardOn) {
  SetWorker(Spec(7));
  HearEvents({Store(7, 0, 1)}, /*publisher=*/1);
  HearEvents({Store(7, 0, 2)}, /*publisher=*/2);
  SetWorker(Spec(7, 1, /*incarnation=*/2));
  HearEvents({Store(7, 1, 3)}, /*publisher=*/2);
  EXPECT_EQ(Blocks(7), 1u);
  HearEvents({Store(7, 5, 4)}, /*publisher=*/1);
  EXPECT_EQ(Blocks(7), 1u);
}

TEST_F(PlaneFeedTest, EventsReachTheRankTheyName) {
  SetWorker(Spec(7, 2));
  SetWorker(Spec(8));
  HearEvents({Store(7, 0, 1), Store(7, 0, 2, 1), Store(8, 0, 3), Store(7, 1, 4, 1)});
  EXPECT_EQ(Blocks(7, 0), 1u);
  EXPECT_EQ(Blocks(7, 1), 2u);
  EXPECT_EQ(Blocks(8), 1u);
  EXPECT_EQ(State(7, 1), FeedState::kLive);
}

TEST_F(PlaneFeedTest, RankWithASocketOfItsOwnIsNotFedTwice) {
  WorkerSpec spec = Spec(7, 2);
  spec.events[0].live = "tcp://127.0.0.1:5557";
  SetWorker(spec);
  HearEvents({Store(7, 0, 1, 0), Store(7, 0, 2, 1)});
  EXPECT_EQ(Blocks(7, 0), 0u);
  EXPECT_EQ(Blocks(7, 1), 1u);
  EXPECT_EQ(Skipped(SkipReason::kOtherSource), 1u);
  EXPECT_EQ(State(7, 0), FeedState::kNone);
}

TEST_F(PlaneFeedTest, RankThatGetsASocketOfItsOwnLeavesItsBlocks) {
  WorkerSpec spec = Spec(7);
  SetWorker(spec);
  HearEvents({Store(7, 0, 1)});
  EXPECT_EQ(State(7), FeedState::kLive);
  spec.events[0].live = "tcp://127.0.0.1:5557";
  SetWorker(spec);
  EXPECT_EQ(Blocks(7), 0u);
  EXPECT_EQ(State(7), FeedState::kNone);
}

TEST_F(PlaneFeedTest, EventsBeforeTheRegistrationWaitForIt) {
  HearEvents({Store(7, 0, 1), Store(7, 1, 2)});
  HearEvents({Store(7, 2, 3)});
  SetWorker(Spec(7));
  EXPECT_EQ(Blocks(7), 3u);
  EXPECT_EQ(State(7), FeedState::kLive);
  EXPECT_EQ(Skipped(SkipReason::kUnknownWorker), 0u);
}

TEST_F(PlaneFeedTest, WaitingEventsAreBoundedAndTheOldestGo) {
  for (uint64_t id = 0; id < 6; ++id) HearEvents({Store(7, id, id)});
  EXPECT_EQ(Skipped(SkipReason::kUnknownWorker), 2u);
  HearEvents({Store(8, 0, 1)});
  HearEvents({Store(9, 0, 1)});  // a third rank: the one that waits longest goes
  EXPECT_EQ(Skipped(SkipReason::kUnknownWorker), 6u);
  SetWorker(Spec(7));
  EXPECT_EQ(Blocks(7), 0u);
  SetWorker(Spec(9));
  EXPECT_EQ(Blocks(9), 1u);
  EXPECT_EQ(State(9), FeedState::kLive);
}

TEST_F(PlaneFeedTest, WaitingMemoryIsBounded) {
  PlaneFeed feed{PlaneFeedConfig{.max_waiting_bytes = 1000}};
  PlaneBlocks blocks(100, {1, 1});
  std::vector<KvEvent> out;
  const PlaneEventSpec event{.worker_id = 7, .data = PlaneStored({}, blocks)};
  feed.OnMessage(0, EventsEnvelope(1, 0, {event}), {}, &out);
  EXPECT_EQ(feed.Unattributed().skipped[static_cast<size_t>(SkipReason::kUnknownWorker)], 1u);
}

TEST_F(PlaneFeedTest, RanksOutsideARegisteredWorkerDoNotWait) {
  SetWorker(Spec(7));
  HearEvents({Store(7, 0, 1, 5)});
  EXPECT_EQ(Skipped(SkipReason::kUnknownWorker), 1u);
}

TEST_F(PlaneFeedTest, WaitingEventsOfOtherRanksGoWithTheRegistration) {
  HearEvents({Store(7, 0, 1, 5)});
  SetWorker(Spec(7));
  EXPECT_EQ(Skipped(SkipReason::kUnknownWorker), 1u);
  SetWorker(Spec(7, 6));
  EXPECT_EQ(Blocks(7, 5), 0u);
}

TEST_F(PlaneFeedTest, NewIncarnationBeginsAnew) {
  SetWorker(Spec(7));
  HearEvents({Store(7, 0, 1)});
  SetWorker(Spec(7, 1, 2));
  EXPECT_EQ(Blocks(7), 0u);
  EXPECT_EQ(State(7), FeedState::kConnecting);
  HearEvents({Store(7, 0, 2)}, 2);
  EXPECT_EQ(Blocks(7), 1u);
  EXPECT_EQ(State(7), FeedState::kLive);
}

TEST_F(PlaneFeedTest, DrainingOrANewAddressChangesNothing) {
  WorkerSpec spec = Spec(7);
  SetWorker(spec);
  HearEvents({Store(7, 0, 1)});
  spec.draining = true;
  spec.address = "http://elsewhere:1";
  SetWorker(spec);
  EXPECT_EQ(Blocks(7), 1u);
  EXPECT_EQ(State(7), FeedState::kLive);
}

TEST_F(PlaneFeedTest, RemovedAndAddedAgainInOneStepIsReset) {
  SetWorker(Spec(7));
  HearEvents({Store(7, 0, 1)});
  SetWorker(Spec(7), true);
  EXPECT_EQ(Blocks(7), 0u);
  EXPECT_EQ(State(7), FeedState::kConnecting);
}

TEST_F(PlaneFeedTest, ResetVoidsWhatWaited) {
  HearEvents({Store(7, 0, 1)});
  SetWorker(Spec(7), true);
  EXPECT_EQ(Blocks(7), 0u);
  EXPECT_EQ(Skipped(SkipReason::kUnknownWorker), 1u);
}

TEST_F(PlaneFeedTest, FewerRanksLoseTheirBlocks) {
  SetWorker(Spec(7, 2));
  HearEvents({Store(7, 0, 1, 0), Store(7, 0, 1, 1)});
  SetWorker(Spec(7, 1));
  EXPECT_EQ(Blocks(7, 0), 1u);
  EXPECT_EQ(Blocks(7, 1), 0u);
  EXPECT_EQ(State(7, 1), FeedState::kNone);
}

TEST_F(PlaneFeedTest, BrokenPathConcernsTheRanksOnIt) {
  SetWorker(Spec(7));
  SetWorker(Spec(8));
  HearEvents({Store(7, 0, 1)}, 1, 0);
  HearEvents({Store(8, 0, 1)}, 2, 1);
  feed_.OnPathDown(1, "gone");
  EXPECT_EQ(State(7), FeedState::kLive);
  EXPECT_EQ(State(8), FeedState::kConnecting);
  feed_.OnPathUp(1);
  EXPECT_EQ(State(8), FeedState::kDegraded);
  HearEvents({Store(8, 1, 2)}, 2, 1);
  EXPECT_EQ(State(8), FeedState::kLive);
}

TEST_F(PlaneFeedTest, RankNeverHeardShowsWhenNothingWorks) {
  feed_.OnPathDown(0, "no server");
  SetWorker(Spec(7));
  const auto detail = [this] {
    const auto changes = feed_.TakeChanges();
    return changes.ranks.empty() ? "" : changes.ranks.at(0).detail;
  };
  EXPECT_EQ(detail(), "no server");
  feed_.OnPathUp(0);
  EXPECT_EQ(detail(), "no event yet: what the rank holds is not known");
  feed_.OnPathUp(1);
  feed_.OnPathDown(0, "no server");  // the other one works
  EXPECT_EQ(detail(), "no event yet: what the rank holds is not known");
  feed_.OnPathDown(1, "gone, too");
  EXPECT_EQ(detail(), "gone, too");
  HearEvents({Store(7, 0, 1)}, 1, 0);  // left over from before
  EXPECT_EQ(detail(), "no server");
  feed_.OnPathUp(0);
  EXPECT_EQ(State(7), FeedState::kDegraded);
}

TEST_F(PlaneFeedTest, DroppedMessagesMakeEveryRankSuspect) {
  SetWorker(Spec(7));
  SetWorker(Spec(8));
  HearEvents({Store(7, 0, 1)}, 1);
  HearEvents({Store(8, 0, 1)}, 2);
  feed_.OnDropped(3);
  EXPECT_EQ(feed_.Unattributed().live_dropped, 3u);
  HearEvents({Store(7, 1, 2)}, 1);
  HearEvents({Store(8, 4, 2)}, 2);
  EXPECT_EQ(State(7), FeedState::kLive);
  EXPECT_EQ(State(8), FeedState::kDegraded);
  EXPECT_EQ(Blocks(8), 1u);
}

TEST_F(PlaneFeedTest, MessagesThatCannotBeReadAreCountedAndSuspected) {
  SetWorker(Spec(7));
  HearEvents({Store(7, 0, 1)});
  Hear("not msgpack");
  EXPECT_EQ(Skipped(SkipReason::kBadEnvelope), 1u);
  EXPECT_EQ(State(7), FeedState::kLive);  // may have been anything
  Hear(EnvelopeBytes(1, 1, "kv-events", "\xc1"));
  EXPECT_EQ(Skipped(SkipReason::kBadEnvelope), 2u);
  EXPECT_EQ(State(7), FeedState::kDegraded);
  Hear(EnvelopeBytes(1, 2, "forward-pass-metrics", ""));
  EXPECT_EQ(Skipped(SkipReason::kUnknownTag), 1u);
  HearEvents({Store(7, 1, 2)});
  EXPECT_EQ(State(7), FeedState::kLive);
}

TEST_F(PlaneFeedTest, LoadsOfRegisteredRanksAreKeptFieldByField) {
  const auto load = [](uint64_t worker, const char* field, uint64_t value) {
    return EnvelopeBytes(
        1, 0, "kv_metrics",
        MsgpackWriter().Map(2).Str("worker_id").Uint(worker).Str(field).Uint(value).bytes());
  };
  SetWorker(Spec(7));
  Hear(load(7, "kv_used_blocks", 5));
  Hear(load(7, "active_prefill_tokens", 6));
  Hear(load(7, "kv_used_blocks", 8));
  Hear(load(9, "kv_used_blocks", 7));
  const auto changes = feed_.TakeChanges();
  ASSERT_EQ(changes.loads.size(), 1u);
  EXPECT_EQ(changes.loads[0].kv_used_blocks, 8u);
  EXPECT_EQ(changes.loads[0].active_prefill_tokens, 6u);
  EXPECT_EQ(changes.loads[0].active_decode_blocks, std::nullopt);
  EXPECT_EQ(Skipped(SkipReason::kUnknownWorker), 1u);
  EXPECT_TRUE(feed_.TakeChanges().loads.empty());
}

}  // namespace
}  // namespace kvrouter
