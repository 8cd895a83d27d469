#include "feed/plane_rank_feed.h"

#include <gtest/gtest.h>

#include <chrono>
#include <utility>
#include <variant>
#include <vector>

#include "support/naive_index.h"

namespace kvrouter {
namespace {

constexpr Target kTarget{WorkerId{7}, 0};
constexpr MonotonicTime kGapWait = std::chrono::seconds(1);

class PlaneRankFeedTest : public testing::Test {
 protected:
  explicit PlaneRankFeedTest(MonotonicTime gap_wait = {})
      : feed_({.target = kTarget,
               .incarnation = Incarnation{3},
               .gap_wait = gap_wait,
               .max_early_events = 4}) {}

  static PlaneEvent Stores(uint64_t id, uint64_t block, std::optional<uint64_t> parent = {}) {
    Stored stored;
    if (parent) stored.parent = EngineHash{*parent};
    stored.blocks = {{EngineHash{block}, LocalBlockHash{block}}};
    return {.target = kTarget, .event_id = id, .data = stored};
  }
  static PlaneEvent Removes(uint64_t id, uint64_t block) {
    return {.target = kTarget, .event_id = id, .data = Removed{{EngineHash{block}}}};
  }
  static PlaneEvent Clears(uint64_t id) { return {.target = kTarget, .event_id = id}; }
  static PlaneEvent Unreadable(uint64_t id) {
    return {.target = kTarget, .event_id = id, .unreadable = true};
  }
  static PlaneEvent Ignored(uint64_t id, SkipReason why) {
    PlaneEvent event = Removes(id, 1);
    event.ignored = why;
    return event;
  }

  void Hear(PlaneEvent event, uint64_t publisher = 1) {
    feed_.OnEvent(publisher, std::move(event), now_, &out_);
    ApplyAll();
  }
  void Advance(MonotonicTime by) {
    now_ += by;
    feed_.OnTick(now_, &out_);
    ApplyAll();
  }
  void ApplyAll() {
    for (const KvEvent& event : out_) {
      EXPECT_EQ(event.target, kTarget);
      EXPECT_EQ(event.incarnation, Incarnation{3});
      EXPECT_EQ(event.counting, StoreCounting::kSet);
      clears_ += std::holds_alternative<Cleared>(event.data) ? 1 : 0;
      tiers_.push_back(event.tier);
      feed_.OnApplyResult(index_.Apply(event));
    }
    out_.clear();
  }
  uint64_t Blocks() const { return index_.HolderBlocks(kTarget); }
  uint64_t Skipped(SkipReason reason) const {
    return feed_.Counters().skipped[static_cast<size_t>(reason)];
  }

  PlaneRankFeed feed_;
  NaiveIndex index_;
  MonotonicTime now_{};
  std::vector<KvEvent> out_;
  int clears_ = 0;
  std::vector<StorageTier> tiers_;  // of the events applied
};

class PlaneRankFeedOfManyPathsTest : public PlaneRankFeedTest {
 protected:
  PlaneRankFeedOfManyPathsTest() : PlaneRankFeedTest(kGapWait) {}
};

TEST_F(PlaneRankFeedTest, NothingIsKnownBeforeTheFirstEvent) {
  EXPECT_EQ(feed_.State(), FeedState::kConnecting);
  EXPECT_NE(feed_.Detail(), "");
}

TEST_F(PlaneRankFeedTest, HeardFromTheFirstEventOnItIsLive) {
  Hear(Stores(0, 10));
  Hear(Stores(1, 11, 10));
  Hear(Removes(2, 11));
  EXPECT_EQ(feed_.State(), FeedState::kLive);
  EXPECT_EQ(feed_.Detail(), "");
  EXPECT_EQ(Blocks(), 1u);
}

TEST_F(PlaneRankFeedTest, JoiningLateAppliesAndIsDegradedUntilCleared) {
  Hear(Stores(100, 10));
  EXPECT_EQ(Blocks(), 1u);
  EXPECT_EQ(feed_.State(), FeedState::kDegraded);
  EXPECT_EQ(feed_.Reason(), DegradedReason::kHistoryUnknown);
  EXPECT_NE(feed_.Detail().find("100"), std::string::npos) << feed_.Detail();
  Hear(Clears(101));
  EXPECT_EQ(feed_.State(), FeedState::kLive);
  EXPECT_EQ(Blocks(), 0u);
}

TEST_F(PlaneRankFeedTest, FirstEventThatClearsLeavesNothingUnknown) {
  Hear(Clears(100));
  EXPECT_EQ(feed_.State(), FeedState::kLive);
}

TEST_F(PlaneRankFeedTest, StaleEventsArePassedOver) {
  Hear(Stores(0, 10));
  Hear(Stores(1, 11));
  Hear(Removes(1, 10));
  Hear(Clears(0));
  Hear(Unreadable(1));
  EXPECT_EQ(Blocks(), 2u);
  EXPECT_EQ(feed_.State(), FeedState::kLive);
  EXPECT_EQ(Skipped(SkipReason::kStaleEvent), 3u);
}

TEST_F(PlaneRankFeedTest, LostEventsResetTheRankAndTheEventApplies) {
  Hear(Stores(0, 10));
  Hear(Stores(1, 11));
  Hear(Stores(5, 12));
  EXPECT_EQ(Blocks(), 1u);
  EXPECT_EQ(clears_, 1);
  EXPECT_EQ(feed_.State(), FeedState::kDegraded);
  EXPECT_EQ(feed_.Detail(), "events 2 to 4 lost: the blocks known before were dropped");
  EXPECT_EQ(feed_.Counters().gaps, 1u);
  Hear(Stores(6, 13));
  EXPECT_EQ(Blocks(), 2u);
  EXPECT_EQ(feed_.State(), FeedState::kDegraded);
}

TEST_F(PlaneRankFeedTest, ClearedAheadOfAGapAppliesAtOnceAndMakesItWhole) {
  Hear(Stores(0, 10));
  Hear(Clears(9));
  EXPECT_EQ(Blocks(), 0u);
  EXPECT_EQ(feed_.State(), FeedState::kLive);
  Hear(Stores(10, 11));
  EXPECT_EQ(Blocks(), 1u);
  EXPECT_EQ(feed_.State(), FeedState::kLive);
}

TEST_F(PlaneRankFeedTest, UnreadableEventIsALostOne) {
  Hear(Stores(0, 10));
  Hear(Unreadable(1));
  EXPECT_EQ(Blocks(), 1u);
  EXPECT_EQ(feed_.State(), FeedState::kDegraded);
  Hear(Stores(2, 11));
  EXPECT_EQ(Blocks(), 1u);
  EXPECT_EQ(clears_, 1);
  EXPECT_EQ(feed_.State(), FeedState::kDegraded);
  EXPECT_EQ(Skipped(SkipReason::kBadEvent), 1u);
}

TEST_F(PlaneRankFeedTest, IgnoredEventsMoveTheCursorOnly) {
  Hear(Stores(0, 1));
  Hear(Ignored(1, SkipReason::kUnknownMedium));
  Hear(Ignored(2, SkipReason::kUnknownDomain));
  Hear(Removes(3, 1));
  EXPECT_EQ(Blocks(), 0u);
  EXPECT_EQ(feed_.State(), FeedState::kLive);
  EXPECT_EQ(Skipped(SkipReason::kUnknownMedium), 1u);
  EXPECT_EQ(Skipped(SkipReason::kUnknownDomain), 1u);
}

TEST_F(PlaneRankFeedTest, BlocksOnLowerTiersGoOnWithTheirTier) {
  PlaneEvent on_disk = Stores(0, 10);
  on_disk.tier = StorageTier::kDisk;
  Hear(on_disk);
  PlaneEvent off_disk = Removes(1, 10);
  off_disk.tier = StorageTier::kDisk;
  Hear(off_disk);
  Hear(Stores(2, 10));
  EXPECT_EQ(tiers_, (std::vector{StorageTier::kDisk, StorageTier::kDisk, StorageTier::kDevice}));
  EXPECT_EQ(feed_.State(), FeedState::kLive);
}

TEST_F(PlaneRankFeedTest, AnotherPublisherIsANewLife) {
  Hear(Stores(0, 10));
  Hear(Stores(1, 11));
  Hear(Stores(0, 20), 2);
  EXPECT_EQ(Blocks(), 1u);
  EXPECT_EQ(feed_.State(), FeedState::kLive);
  EXPECT_EQ(feed_.Counters().restarts, 1u);
  Hear(Stores(2, 12), 1);  // late, of the old one
  EXPECT_EQ(Blocks(), 1u);
  EXPECT_EQ(Skipped(SkipReason::kOldPublisher), 1u);
  Hear(Stores(1, 21), 2);
  EXPECT_EQ(Blocks(), 2u);
  EXPECT_EQ(feed_.State(), FeedState::kLive);
}

TEST_F(PlaneRankFeedTest, NewLifeWhoseFirstIdFollowsTheOldOnesIsStillANewLife) {
  Hear(Stores(0, 10));
  Hear(Stores(1, 11), 2);
  EXPECT_EQ(clears_, 1);
  EXPECT_EQ(Blocks(), 1u);
  EXPECT_EQ(feed_.State(), FeedState::kDegraded);  // its event 0 was not heard
}

TEST_F(PlaneRankFeedTest, SuspicionKeepsTheBlocksAndTheNextEventDecides) {
  Hear(Stores(0, 10));
  feed_.OnSuspicion("dropped");
  EXPECT_EQ(feed_.State(), FeedState::kDegraded);
  EXPECT_EQ(Blocks(), 1u);
  Hear(Stores(1, 11));
  EXPECT_EQ(feed_.State(), FeedState::kLive);
  EXPECT_EQ(Blocks(), 2u);
  feed_.OnSuspicion("dropped");
  Hear(Stores(3, 12));
  EXPECT_EQ(feed_.State(), FeedState::kDegraded);
  EXPECT_EQ(Blocks(), 1u);
}

TEST_F(PlaneRankFeedTest, StaleEventsDoNotClearASuspicion) {
  Hear(Stores(0, 10));
  feed_.OnSuspicion("dropped");
  Hear(Stores(0, 10));
  EXPECT_EQ(feed_.State(), FeedState::kDegraded);
}

TEST_F(PlaneRankFeedTest, BrokenPathShowsAndKeepsTheBlocks) {
  Hear(Stores(0, 10));
  feed_.OnPathDown("server gone");
  feed_.OnPathDown("server gone");
  EXPECT_EQ(feed_.State(), FeedState::kConnecting);
  EXPECT_EQ(feed_.Detail(), "server gone");
  EXPECT_EQ(Blocks(), 1u);
  feed_.OnPathUp();
  EXPECT_EQ(feed_.State(), FeedState::kDegraded);
  EXPECT_EQ(feed_.Counters().reconnects, 1u);
  feed_.OnPathUp();
  EXPECT_EQ(feed_.Counters().reconnects, 1u);
  Hear(Removes(1, 10));
  EXPECT_EQ(feed_.State(), FeedState::kLive);
}

TEST_F(PlaneRankFeedTest, StoresThatContinueUnknownBlocksAreShown) {
  Hear(Stores(0, 10));
  Hear(Stores(1, 11, 99));
  EXPECT_EQ(feed_.State(), FeedState::kDegraded);
  EXPECT_EQ(feed_.Detail(), "1 stores continue unknown blocks");
  Hear(Clears(2));
  EXPECT_EQ(feed_.State(), FeedState::kLive);
}

TEST_F(PlaneRankFeedTest, RepeatedStoreNeedsOneRemoval) {
  Hear(Stores(0, 10));
  Hear(Stores(1, 10));
  Hear(Removes(2, 10));
  EXPECT_EQ(Blocks(), 0u);
}

TEST_F(PlaneRankFeedTest, LeavingTakesTheBlocksAlong) {
  Hear(Stores(0, 10));
  feed_.DropBlocks(&out_);
  ApplyAll();
  EXPECT_EQ(Blocks(), 0u);
  feed_.DropBlocks(&out_);
  EXPECT_TRUE(out_.empty());
}

TEST_F(PlaneRankFeedTest, OldPublishersAreRememberedInABoundedWay) {
  for (uint64_t publisher = 1; publisher <= 20; ++publisher) Hear(Stores(0, publisher), publisher);
  EXPECT_EQ(feed_.Counters().restarts, 19u);
  for (uint64_t publisher = 12; publisher < 20; ++publisher) Hear(Stores(1, 99), publisher);
  EXPECT_EQ(Skipped(SkipReason::kOldPublisher), 8u);
  EXPECT_EQ(Blocks(), 1u);
}

TEST_F(PlaneRankFeedOfManyPathsTest, EarlyEventWaitsForThoseBeforeIt) {
  Hear(Stores(0, 10));
  Hear(Stores(2, 12, 11));
  EXPECT_EQ(feed_.State(), FeedState::kRecovering);
  EXPECT_EQ(feed_.Detail(), "waiting for events 1 to 1");
  EXPECT_EQ(Blocks(), 1u);
  Hear(Stores(2, 12, 11));  // by another broker
  Hear(Stores(1, 11, 10));
  EXPECT_EQ(feed_.State(), FeedState::kLive);
  EXPECT_EQ(Blocks(), 3u);
  EXPECT_EQ(clears_, 0);
}

TEST_F(PlaneRankFeedOfManyPathsTest, WhatDoesNotComeInTimeIsGivenUp) {
  Hear(Stores(0, 10));
  Hear(Stores(2, 12));
  Advance(kGapWait / 2);
  Hear(Stores(3, 13));
  EXPECT_EQ(feed_.State(), FeedState::kRecovering);
  Advance(kGapWait / 2);
  EXPECT_EQ(feed_.State(), FeedState::kDegraded);
  EXPECT_EQ(Blocks(), 2u);
  Hear(Stores(1, 11));  // too late
  EXPECT_EQ(Skipped(SkipReason::kStaleEvent), 1u);
}

TEST_F(PlaneRankFeedOfManyPathsTest, OfSeveralHolesTheLastOneCounts) {
  Hear(Stores(0, 10));
  Hear(Stores(2, 12));
  Hear(Stores(4, 14));
  Advance(kGapWait);
  EXPECT_EQ(Blocks(), 1u);
  EXPECT_EQ(feed_.Detail(), "events 3 to 3 lost: the blocks known before were dropped");
}

TEST_F(PlaneRankFeedOfManyPathsTest, SecondHoleGetsItsOwnTime) {
  Hear(Stores(0, 10));
  Hear(Stores(2, 12));
  Advance(kGapWait / 2);
  Hear(Stores(4, 14));
  Hear(Stores(1, 11));
  Advance(kGapWait / 2);
  EXPECT_EQ(feed_.State(), FeedState::kRecovering);
  Hear(Stores(3, 13));
  EXPECT_EQ(feed_.State(), FeedState::kLive);
  EXPECT_EQ(Blocks(), 5u);
}

TEST_F(PlaneRankFeedOfManyPathsTest, TooManyEarlyEventsEndTheWait) {
  Hear(Stores(0, 10));
  for (uint64_t id = 2; id <= 5; ++id) Hear(Stores(id, id));
  EXPECT_EQ(feed_.State(), FeedState::kRecovering);
  Hear(Stores(6, 6));
  EXPECT_EQ(feed_.State(), FeedState::kDegraded);
  EXPECT_EQ(Blocks(), 5u);
}

TEST_F(PlaneRankFeedOfManyPathsTest, ClearedEndsTheWaitAndKeepsWhatComesAfterIt) {
  Hear(Stores(0, 10));
  Hear(Stores(3, 13));
  Hear(Stores(6, 16));
  Hear(Clears(5));
  EXPECT_EQ(Blocks(), 1u);
  EXPECT_EQ(feed_.State(), FeedState::kLive);
}

TEST_F(PlaneRankFeedOfManyPathsTest, NewLifeForgetsEarlyEvents) {
  Hear(Stores(0, 10));
  Hear(Stores(2, 12));
  Hear(Stores(0, 20), 2);
  EXPECT_EQ(feed_.State(), FeedState::kLive);
  EXPECT_EQ(Blocks(), 1u);
}

}  // namespace
}  // namespace kvrouter
