#include "service/replay_turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <list>
#include <optional>
#include <vector>

namespace kvrouter {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Many feeds that want a replay each.
class ReplayTurnsTest : public testing::Test {
 protected:
  void Make(const ReplayTurnsConfig& config, int feeds) {
    turns_.emplace(config, /*seed=*/7);
    for (int i = 0; i < feeds; ++i) line_.emplace_back(&*turns_);
  }
  // Lets time pass in steps of 10 ms; returns who began meanwhile, in that order.
  std::vector<int> Advance(MonotonicTime by) {
    std::vector<int> began;
    for (const MonotonicTime until = now_ + by; now_ < until; now_ += milliseconds(10)) {
      int i = 0;
      for (ReplayTurns::Turn& turn : line_) {
        if (!turn.Begun() && turn.MayBegin(now_)) began.push_back(i);
        ++i;
      }
    }
    return began;
  }

  ReplayTurns::Turn& At(int i) { return *std::next(line_.begin(), i); }

  std::optional<ReplayTurns> turns_;
  std::list<ReplayTurns::Turn> line_;
  MonotonicTime now_{};
};

TEST_F(ReplayTurnsTest, OnlySoManyRunAtOnceInTheOrderInWhichTheyWereWanted) {
  Make({.max_at_once = 2, .jitter = milliseconds(0)}, 5);
  EXPECT_EQ(Advance(milliseconds(500)), (std::vector<int>{0, 1}));
  EXPECT_EQ(turns_->Read().waiting, 3u);
  EXPECT_EQ(turns_->Read().running, 2u);
  line_.pop_front();
  EXPECT_EQ(Advance(milliseconds(100)), (std::vector<int>{1}));  // the one that was third
}

TEST_F(ReplayTurnsTest, AReplayThatBringsNothingLendsItsPlace) {
  Make({.max_at_once = 2, .jitter = milliseconds(0), .stalled_after = milliseconds(1000)}, 8);
  Advance(milliseconds(500));
  At(0).Moved(now_);
  EXPECT_TRUE(Advance(milliseconds(490)).empty());
  EXPECT_EQ(Advance(milliseconds(30)), (std::vector<int>{2}));  // in the place of 1
  EXPECT_EQ(turns_->Read().running, 3u);
  EXPECT_EQ(Advance(milliseconds(500)), (std::vector<int>{3}));  // and of 0
  At(0).Moved(now_);                                             // it counts again
  At(2).Moved(now_);
  At(3).Moved(now_);
  EXPECT_TRUE(Advance(milliseconds(900)).empty());
}

// A hundred mute engines before one that answers: it waits as long as its predecessors take to be
// seen as mute, not as long as they take to be given up.
TEST_F(ReplayTurnsTest, MuteEnginesHoldNobodyUpForLong) {
  Make({.max_at_once = 32, .jitter = milliseconds(0), .stalled_after = milliseconds(1000)}, 101);
  const auto began = Advance(seconds(4));
  EXPECT_EQ(began.size(), 101u);
  EXPECT_EQ(began.back(), 100);
}

TEST_F(ReplayTurnsTest, StartsAreSpreadOverTheJitter) {
  Make({.max_at_once = 1000, .jitter = milliseconds(1000)}, 500);
  const size_t first_half = Advance(milliseconds(500)).size();
  EXPECT_GT(first_half, 150u);
  EXPECT_LT(first_half, 350u);
  EXPECT_EQ(first_half + Advance(milliseconds(600)).size(), 500u);
}

TEST_F(ReplayTurnsTest, Row44RoutersDoNotBeginInStep) {
  std::vector<MonotonicTime> starts;
  for (const uint64_t seed : {1u, 2u, 3u, 4u}) {
    ReplayTurns turns({.jitter = milliseconds(1000)}, seed);
    ReplayTurns::Turn turn(&turns);
    MonotonicTime now{};
    while (!turn.MayBegin(now)) now += milliseconds(1);
    starts.push_back(now);
  }
  std::sort(starts.begin(), starts.end());
  EXPECT_GT(starts.back() - starts.front(), milliseconds(50));
}

TEST_F(ReplayTurnsTest, WhoNoLongerWantsOneMakesRoom) {
  Make({.max_at_once = 1, .jitter = milliseconds(0)}, 3);
  Advance(milliseconds(20));
  At(1).End();  // it was next
  At(0).End();
  EXPECT_EQ(At(2).MayBegin(now_ + milliseconds(20)), true);
  line_.clear();
  EXPECT_EQ(turns_->Read().waiting, 0u);
  EXPECT_EQ(turns_->Read().running, 0u);
}

TEST_F(ReplayTurnsTest, WithoutTurnsItIsAlwaysOnesTurn) {
  ReplayTurns::Turn turn(nullptr);
  EXPECT_TRUE(turn.MayBegin(MonotonicTime{}));
  turn.Moved(MonotonicTime{});
  turn.End();
}

}  // namespace
}  // namespace kvrouter
