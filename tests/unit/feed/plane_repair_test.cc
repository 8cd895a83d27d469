#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "feed/plane_rank_feed.h"
#include "feed/repair_schedule.h"
#include "support/naive_index.h"

namespace kvrouter {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Target kTarget{WorkerId{7}, 0};
constexpr seconds kPatience{10};
constexpr seconds kGrace{1};
constexpr milliseconds kTick{50};

class PlaneRepairTest : public testing::Test {
 protected:
  PlaneRepairTest()
      : feed_({.target = kTarget,
               .incarnation = Incarnation{3},
               .repairable = true,
               .repair = {.retry_min = milliseconds(200), .retry_max = seconds(5)},
               .repair_patience = kPatience,
               .doubt_grace = kGrace,
               .max_tail_events = 4}) {
    feed_.SetListening(true);
  }

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

  // What an engine that holds these would tell.
  static RankPicture Picture(const std::vector<uint64_t>& blocks, std::string missing = "") {
    RankPicture picture{.events = {}, .missing = std::move(missing)};
    if (!picture.missing.empty()) picture.reason = DegradedReason::kUnproved;
    for (const uint64_t block : blocks) {
      picture.events.push_back(
          {.target = Target{WorkerId{99}, 9},
           .data = Stored{.parent = std::nullopt,
                          .blocks = {{EngineHash{block}, LocalBlockHash{block}}}}});
    }
    return picture;
  }

  void Hear(PlaneEvent event, uint64_t publisher = 1) {
    feed_.OnEvent(publisher, std::move(event), now_, &out_);
    ApplyAll();
  }
  void Advance(MonotonicTime by) {
    for (const MonotonicTime end = now_ + by; now_ < end;) {
      now_ += kTick;
      feed_.OnTick(now_, &out_);
      ApplyAll();
    }
  }
  // The ticket of a repair that is due within `wait`.
  std::optional<uint64_t> Begun(MonotonicTime wait = seconds(8)) {
    for (const MonotonicTime end = now_ + wait; now_ <= end; Advance(kTick)) {
      if (!feed_.RepairDue(now_)) continue;
      feed_.TakeRepair(++ticket_, now_);
      return ticket_;
    }
    return std::nullopt;
  }
  void Answer(uint64_t ticket, RankPicture picture) {
    feed_.OnRepaired(ticket, std::move(picture), now_, &out_);
    ApplyAll();
  }
  void ApplyAll() {
    for (const KvEvent& event : out_) {
      EXPECT_EQ(event.target, kTarget);
      EXPECT_EQ(event.incarnation, Incarnation{3});
      feed_.OnApplyResult(index_.Apply(event));
    }
    out_.clear();
  }
  std::vector<uint64_t> Held() const {
    std::vector<uint64_t> held;
    for (uint64_t block = 1; block < 100; ++block) {
      const LocalBlockHash query[] = {LocalBlockHash{block}};
      if (!index_.FindOverlap(query).empty()) held.push_back(block);
    }
    return held;
  }
  using Blocks = std::vector<uint64_t>;

  // Live with blocks 1 and 2, then event 2 is lost and 3 stores block 4.
  void LoseOne() {
    Hear(Stores(0, 1));
    Hear(Stores(1, 2));
    Hear(Stores(3, 4));
  }

  PlaneRankFeed feed_;
  NaiveIndex index_;
  MonotonicTime now_{};
  uint64_t ticket_ = 0;
  std::vector<KvEvent> out_;
};

TEST_F(PlaneRepairTest, AfterALossOldAnswersStandUntilTheRepairIsWhole) {
  LoseOne();
  EXPECT_EQ(feed_.State(), FeedState::kRecovering);
  EXPECT_NE(feed_.Detail().find("events 2 to 2 lost"), std::string::npos) << feed_.Detail();
  EXPECT_EQ(Held(), (Blocks{1, 2}));
  const auto ticket = Begun(seconds(1));
  ASSERT_TRUE(ticket);
  Hear(Stores(4, 5));
  EXPECT_EQ(Held(), (Blocks{1, 2}));
  Answer(*ticket, Picture({2, 3, 4}));  // block 1 was what event 2 removed, and 3 what it stored
  EXPECT_EQ(Held(), (Blocks{2, 3, 4, 5}));
  EXPECT_EQ(feed_.State(), FeedState::kLive);
  EXPECT_EQ(feed_.Detail(), "");
  EXPECT_EQ(feed_.Counters().replays_completed, 1u);
}

TEST_F(PlaneRepairTest, WithoutAnAnswerInTimeTheRankIsResetAndStillRepairedLater) {
  LoseOne();
  const auto ticket = Begun();
  ASSERT_TRUE(ticket);
  feed_.OnRepairFailed(*ticket, "nobody there");
  Hear(Stores(4, 5));
  Advance(kPatience - kGrace);
  Advance(2 * kGrace);
  EXPECT_EQ(Held(), (Blocks{4, 5}));
  EXPECT_EQ(feed_.State(), FeedState::kDegraded);
  EXPECT_NE(feed_.Detail().find("dropped"), std::string::npos) << feed_.Detail();
  EXPECT_NE(feed_.Detail().find("nobody there"), std::string::npos) << feed_.Detail();
  const auto again = Begun();
  ASSERT_TRUE(again);
  Hear(Stores(5, 6));
  EXPECT_EQ(Held(), (Blocks{4, 5, 6})) << "what comes is applied meanwhile";
  Answer(*again, Picture({2, 4, 5}));
  EXPECT_EQ(Held(), (Blocks{2, 4, 5, 6}));
  EXPECT_EQ(feed_.State(), FeedState::kLive);
}

TEST_F(PlaneRepairTest, AnswerDuringWhichEventsWereLostIsAskedForAgain) {
  LoseOne();
  const auto ticket = Begun();
  ASSERT_TRUE(ticket);
  Hear(Stores(6, 7));
  Answer(*ticket, Picture({2, 3, 4}));
  EXPECT_EQ(Held(), (Blocks{1, 2}));
  EXPECT_EQ(feed_.State(), FeedState::kRecovering);
  const auto again = Begun();
  ASSERT_TRUE(again);
  Answer(*again, Picture({2, 3, 7}));
  EXPECT_EQ(Held(), (Blocks{2, 3, 7}));
  EXPECT_EQ(feed_.State(), FeedState::kLive);
}

TEST_F(PlaneRepairTest, DropsAndBrokenPathsMakeAnAnswerWorthless) {
  LoseOne();
  auto ticket = Begun();
  feed_.OnSuspicion("dropped");
  Answer(*ticket, Picture({50}));
  ticket = Begun();
  ASSERT_TRUE(ticket);
  feed_.OnPathDown("gone");
  feed_.SetListening(false);
  Answer(*ticket, Picture({51}));
  EXPECT_FALSE(Begun()) << "what comes now could not be heard";
  feed_.OnPathUp();
  feed_.SetListening(true);
  ticket = Begun();
  ASSERT_TRUE(ticket);
  Answer(*ticket, Picture({52}));
  EXPECT_EQ(Held(), Blocks{52});
  EXPECT_EQ(feed_.State(), FeedState::kLive);
}

TEST_F(PlaneRepairTest, EventsThatThePictureHasAlreadyChangeNothing) {
  LoseOne();
  const auto ticket = Begun();
  // The engine is ahead: all of this is in the picture, of which block 5 is gone again.
  Hear(Stores(4, 5));
  Hear(Stores(5, 6, 5));
  Hear(Removes(6, 6));
  Answer(*ticket, Picture({1, 2, 4}));
  EXPECT_EQ(Held(), (Blocks{1, 2, 4, 5}));
  Hear(Removes(7, 5));
  Hear(Stores(8, 8, 77));  // late: its parent was removed before the picture was taken
  Hear(Removes(9, 8));
  EXPECT_EQ(Held(), (Blocks{1, 2, 4}));
  EXPECT_EQ(feed_.State(), FeedState::kLive);
}

TEST_F(PlaneRepairTest, StoresThatContinueUnknownBlocksAreRepaired) {
  Hear(Stores(0, 1));
  Hear(Stores(1, 3, 2));
  EXPECT_EQ(feed_.State(), FeedState::kDegraded);
  const auto ticket = Begun();
  ASSERT_TRUE(ticket);
  Answer(*ticket, Picture({1, 2}));
  EXPECT_EQ(feed_.State(), FeedState::kLive);
  Advance(2 * kGrace);
  Hear(Stores(2, 5, 4));
  EXPECT_EQ(feed_.State(), FeedState::kDegraded) << "not late any more";
}

TEST_F(PlaneRepairTest, DoubtThatTheNextEventSettlesAsksNobody) {
  Hear(Stores(0, 1));
  feed_.OnSuspicion("dropped");
  EXPECT_EQ(feed_.State(), FeedState::kDegraded);
  EXPECT_FALSE(Begun(kGrace / 2));
  Hear(Stores(1, 2));
  EXPECT_EQ(feed_.State(), FeedState::kLive);
  EXPECT_FALSE(Begun());
}

TEST_F(PlaneRepairTest, DoubtOfASilentRankIsRepaired) {
  Hear(Stores(0, 1));
  feed_.OnSuspicion("dropped");
  const auto ticket = Begun(2 * kGrace);
  ASSERT_TRUE(ticket);
  Answer(*ticket, Picture({1, 9}));
  EXPECT_EQ(Held(), (Blocks{1, 9}));
  EXPECT_EQ(feed_.State(), FeedState::kLive);
  // Its last events had not come: by their ids they are a gap, and the repair is made again.
  Hear(Stores(3, 10));
  EXPECT_TRUE(Begun());
}

TEST_F(PlaneRepairTest, RankThatWasNeverHeardIsAskedFor) {
  EXPECT_EQ(feed_.State(), FeedState::kConnecting);
  const auto ticket = Begun(2 * kGrace);
  ASSERT_TRUE(ticket);
  EXPECT_EQ(feed_.State(), FeedState::kRecovering);
  Answer(*ticket, Picture({1, 2}));
  EXPECT_EQ(feed_.State(), FeedState::kLive);
  Hear(Removes(500, 1));  // the first one ever heard says nothing about those before it
  EXPECT_EQ(Held(), Blocks{2});
  EXPECT_EQ(feed_.State(), FeedState::kLive);
}

TEST_F(PlaneRepairTest, NeverHeardAndThenInDoubtTheFirstEventDoesNotTell) {
  Answer(*Begun(2 * kGrace), Picture({1, 2}));
  feed_.SetListening(false);
  feed_.SetListening(true);
  EXPECT_EQ(feed_.State(), FeedState::kDegraded);
  Hear(Removes(500, 1));
  EXPECT_EQ(feed_.State(), FeedState::kDegraded);
  Answer(*Begun(), Picture({9}));
  EXPECT_EQ(Held(), Blocks{9});
}

TEST_F(PlaneRepairTest, PublisherThatBeginsVoidsThePictureOfTheLifeBefore) {
  Answer(*Begun(2 * kGrace), Picture({1, 2}));
  Hear(Stores(0, 5));
  EXPECT_EQ(Held(), Blocks{5});
  EXPECT_EQ(feed_.State(), FeedState::kLive);
}

TEST_F(PlaneRepairTest, RunningRepairOfAnOlderLifeIsVoid) {
  LoseOne();
  const auto ticket = Begun();
  Hear(Stores(0, 5), 2);
  EXPECT_FALSE(feed_.RepairRunning(*ticket));
  Answer(*ticket, Picture({1, 2}));
  EXPECT_EQ(Held(), Blocks{5});
  EXPECT_EQ(feed_.State(), FeedState::kLive);
}

TEST_F(PlaneRepairTest, JoinedLateIsRepairedWhileEventsApply) {
  Hear(Stores(100, 10));
  EXPECT_EQ(Held(), Blocks{10});
  const auto ticket = Begun(seconds(1));
  ASSERT_TRUE(ticket);
  Hear(Stores(101, 11));
  EXPECT_EQ(Held(), (Blocks{10, 11}));
  Answer(*ticket, Picture({3, 10}));
  EXPECT_EQ(Held(), (Blocks{3, 10, 11}));
  EXPECT_EQ(feed_.State(), FeedState::kLive);
}

TEST_F(PlaneRepairTest, ClearedAbandonsTheRepairAndWhatWasHeldBack) {
  LoseOne();
  const auto ticket = Begun();
  Hear(Clears(4));
  EXPECT_EQ(Held(), Blocks{});
  EXPECT_EQ(feed_.State(), FeedState::kLive);
  Hear(Stores(5, 6));
  Answer(*ticket, Picture({1}));
  EXPECT_EQ(Held(), Blocks{6});
  EXPECT_FALSE(Begun());
}

TEST_F(PlaneRepairTest, PartialPictureIsTakenAndNotAskedForAgain) {
  LoseOne();
  Answer(*Begun(), Picture({2, 3, 4}, "the engine's history begins late"));
  EXPECT_EQ(Held(), (Blocks{2, 3, 4}));
  EXPECT_EQ(feed_.State(), FeedState::kDegraded);
  EXPECT_NE(feed_.Detail().find("begins late"), std::string::npos);
  EXPECT_FALSE(Begun());
  Hear(Stores(9, 5));
  EXPECT_TRUE(Begun()) << "another loss is another matter";
}

TEST_F(PlaneRepairTest, TooMuchMeanwhileGivesUpTheOldAnswersAndAsksAgain) {
  LoseOne();
  const auto ticket = Begun();
  for (uint64_t id = 4; id < 10; ++id) Hear(Stores(id, 10 + id));
  EXPECT_EQ(Held(), (Blocks{4, 14, 15, 16, 17, 18, 19}));
  EXPECT_EQ(feed_.State(), FeedState::kRecovering);
  Answer(*ticket, Picture({50}));
  EXPECT_EQ(Held(), (Blocks{4, 14, 15, 16, 17, 18, 19}));
  Answer(*Begun(), Picture({50}));
  EXPECT_EQ(Held(), Blocks{50});
}

TEST_F(PlaneRepairTest, NobodyToAskAnyMoreIsAsWithoutRepair) {
  LoseOne();
  feed_.SetRepairable(false);
  Advance(kTick);
  EXPECT_EQ(Held(), Blocks{4});
  EXPECT_EQ(feed_.State(), FeedState::kDegraded);
  EXPECT_FALSE(Begun());
}

TEST(RepairScheduleTest, AttemptsComeApartAndAQuietTimeForgetsThem) {
  RepairSchedule schedule({.retry_min = milliseconds(200), .retry_max = seconds(5)}, 1);
  MonotonicTime now{};
  std::vector<MonotonicTime> starts;
  for (uint64_t ticket = 1; starts.size() < 12; now += milliseconds(10)) {
    schedule.OnTick(MonotonicTime{}, now);
    if (!schedule.Due(now)) continue;
    schedule.Start(ticket, now);
    starts.push_back(now);
    EXPECT_TRUE(schedule.Finish(ticket++));
  }
  for (size_t i = 1; i < starts.size(); ++i) {
    const MonotonicTime least =
        std::min<MonotonicTime>(milliseconds(200) * (1 << std::min<size_t>(i - 1, 10)), seconds(5));
    EXPECT_GE(starts[i] - starts[i - 1], least) << i;
    EXPECT_LE(starts[i] - starts[i - 1], least * 3 / 2 + milliseconds(20)) << i;
  }
  schedule.OnTick(std::nullopt, now + seconds(6));
  schedule.OnTick(MonotonicTime{}, now + seconds(6));
  EXPECT_TRUE(schedule.Due(now + seconds(6)));
}

TEST(RepairScheduleTest, RanksThatLoseTogetherDoNotAskTogether) {
  std::map<MonotonicTime, int> dues;
  for (uint64_t spread = 0; spread < 100; ++spread) {
    RepairSchedule schedule({}, spread * 31);
    schedule.OnTick(seconds(1), MonotonicTime{});
    MonotonicTime due{};
    while (!schedule.Due(due)) due += milliseconds(10);
    ++dues[due];
  }
  EXPECT_GE(dues.size(), 20u);
  EXPECT_GE(dues.begin()->first, seconds(1));
  EXPECT_LE(dues.rbegin()->first, milliseconds(1510));
}

TEST(RepairScheduleTest, SoonerWishIsHeard) {
  RepairSchedule schedule({}, 1);
  schedule.OnTick(seconds(10), MonotonicTime{});
  schedule.OnTick(MonotonicTime{}, seconds(1));
  EXPECT_TRUE(schedule.Due(seconds(1)));
}

TEST(RepairScheduleTest, SpoiledAnswerIsNotToBeUsedAndOthersDoNotCount) {
  RepairSchedule schedule({}, 1);
  schedule.OnTick(MonotonicTime{}, MonotonicTime{});
  schedule.Start(5, MonotonicTime{});
  EXPECT_FALSE(schedule.Finish(4));
  EXPECT_TRUE(schedule.Running(5));
  schedule.Spoil();
  EXPECT_FALSE(schedule.RunningWell());
  EXPECT_FALSE(schedule.Finish(5));
  EXPECT_FALSE(schedule.Running());
}

// ---- The recovery that readiness waits for ----

TEST_F(PlaneRepairTest, RankThatWasNeverHeardIsSettledByTheAnswer) {
  Advance(kTick);
  EXPECT_FALSE(feed_.InitialRecoveryDone());
  const auto ticket = Begun();
  ASSERT_TRUE(ticket);
  Advance(kTick);
  EXPECT_FALSE(feed_.InitialRecoveryDone());
  Answer(*ticket, Picture({1}));
  Advance(kTick);
  EXPECT_TRUE(feed_.InitialRecoveryDone());
  Hear(Stores(7, 7));
  Hear(Stores(9, 9));
  ASSERT_EQ(feed_.State(), FeedState::kRecovering);
  Advance(kTick);
  EXPECT_TRUE(feed_.InitialRecoveryDone()) << "later losses are no matter of the start";
}

TEST_F(PlaneRepairTest, RankThatIsHeardFromItsFirstEventOnIsSettled) {
  Hear(Stores(0, 1));
  Advance(kTick);
  EXPECT_TRUE(feed_.InitialRecoveryDone());
}

TEST_F(PlaneRepairTest, RankThatWasJoinedLateIsSettledByTheAnswer) {
  Hear(Stores(5, 1));
  Advance(kTick);
  EXPECT_FALSE(feed_.InitialRecoveryDone());
  const auto ticket = Begun();
  ASSERT_TRUE(ticket);
  Answer(*ticket, Picture({1, 2}));
  Advance(kTick);
  EXPECT_TRUE(feed_.InitialRecoveryDone());
}

TEST_F(PlaneRepairTest, FailureSettlesTheStartAndAnAnswerMadeWorthlessDoesNot) {
  auto ticket = Begun();
  ASSERT_TRUE(ticket);
  feed_.OnSuspicion("messages were dropped");  // what it will say is out of date
  feed_.OnRepairFailed(*ticket, "mute");
  Advance(kTick);
  EXPECT_FALSE(feed_.InitialRecoveryDone());
  ticket = Begun();
  ASSERT_TRUE(ticket);
  feed_.OnRepairFailed(*ticket, "mute");
  EXPECT_TRUE(feed_.InitialRecoveryDone());
}

TEST_F(PlaneRepairTest, PathThatIsBrokenAtTheStartIsWaitedForOnlyIfSomebodyCanBeAsked) {
  feed_.SetListening(false);
  Advance(seconds(5));
  EXPECT_FALSE(feed_.InitialRecoveryDone());
  feed_.SetRepairable(false);
  Advance(kTick);
  EXPECT_TRUE(feed_.InitialRecoveryDone());
}

// ---- Without proof ----

class UnprovedRepairTest : public PlaneRepairTest {
 protected:
  UnprovedRepairTest() { feed_.SetRepairable(true, false); }
};

TEST_F(UnprovedRepairTest, LossResetsTheRankBeforeAnybodyIsAsked) {
  LoseOne();
  EXPECT_EQ(Held(), Blocks{4}) << "who lost the same must not confirm the old blocks";
  EXPECT_EQ(feed_.State(), FeedState::kDegraded);
  EXPECT_EQ(feed_.Reason(), DegradedReason::kEventsLost);
  const auto ticket = Begun();
  ASSERT_TRUE(ticket);
  Hear(Stores(4, 5));
  EXPECT_EQ(Held(), (Blocks{4, 5}));
  Answer(*ticket, Picture({2, 3, 4}, "a peer says so"));
  EXPECT_EQ(Held(), (Blocks{2, 3, 4, 5}));
  EXPECT_EQ(feed_.Detail(), "a peer says so");
  Hear(Stores(5, 6));
  EXPECT_EQ(feed_.State(), FeedState::kDegraded);
  EXPECT_EQ(feed_.Reason(), DegradedReason::kUnproved);
  EXPECT_FALSE(Begun(seconds(60))) << "nobody knows more";
  Hear(Stores(7, 8));  // until the next loss
  EXPECT_EQ(Held(), Blocks{8});
  EXPECT_TRUE(Begun());
}

TEST_F(UnprovedRepairTest, DoubtIsNotExchangedForHearsay) {
  Hear(Stores(0, 1));
  feed_.OnPathDown("gone");
  feed_.OnPathUp();
  EXPECT_EQ(feed_.State(), FeedState::kDegraded);
  EXPECT_EQ(feed_.Reason(), DegradedReason::kInDoubt);
  Hear(Stores(1, 9, 77));  // continues a block that nobody knows
  EXPECT_FALSE(Begun(seconds(60)));
  feed_.OnPathDown("gone");
  feed_.OnPathUp();
  EXPECT_FALSE(Begun(seconds(60)));
  EXPECT_EQ(Held(), Blocks{1});
}

TEST_F(UnprovedRepairTest, SilentRankIsAskedAboutOnce) {
  auto ticket = Begun();
  ASSERT_TRUE(ticket);
  feed_.OnRepairFailed(*ticket, "nobody knows it");
  EXPECT_FALSE(Begun(seconds(60)));
  feed_.SetListening(false);
  feed_.SetListening(true);  // now there may be more to know
  ticket = Begun();
  ASSERT_TRUE(ticket);
  Answer(*ticket, Picture({1, 2}, "a peer says so"));
  EXPECT_EQ(Held(), (Blocks{1, 2}));
  Hear(Stores(0, 3));  // the worker begins only now
  EXPECT_EQ(Held(), Blocks{3});
  EXPECT_EQ(feed_.State(), FeedState::kLive);
}

TEST_F(UnprovedRepairTest, ProofThatIsNoLongerToBeHadIsNotWaitedFor) {
  feed_.SetRepairable(true, true);
  LoseOne();
  EXPECT_EQ(Held(), (Blocks{1, 2}));
  feed_.SetRepairable(true, false);
  Advance(kTick);
  EXPECT_EQ(Held(), Blocks{4});
}

}  // namespace
}  // namespace kvrouter
