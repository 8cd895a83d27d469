#include "core/affinity/session_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace kvrouter {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Outcome = SessionTable::Outcome;

constexpr SessionKey kS{1};
constexpr SessionKey kOther{2};

SessionTable::Binding On(uint64_t worker, uint32_t dp_rank = 0) {
  return {.target = {.worker = WorkerId{worker}, .dp_rank = dp_rank},
          .incarnation = Incarnation{1}};
}

class SessionTableTest : public ::testing::Test {
 protected:
  SessionTable::Acquired Acquire(SessionKey key, uint64_t ticket = 0) {
    return table_.Acquire({.key = key, .ticket = TicketId{ticket}}, now_);
  }
  SessionTable::Acquired AcquirePinned(SessionKey key, TargetSelector pinned) {
    return table_.Acquire({.key = key, .pinned = pinned}, now_);
  }
  // Bound and idle.
  void Bind(SessionKey key, uint64_t worker) {
    const auto acquired = Acquire(key);
    ASSERT_EQ(acquired.outcome, Outcome::kInitialise);
    ASSERT_TRUE(table_.Commit(acquired.hold, On(worker), &woken_));
    ASSERT_TRUE(table_.Release(acquired.hold, now_, &woken_));
  }

  MonotonicTime now_ = seconds(1000);
  SessionTable table_{{.idle_ttl = seconds(60), .max_sessions = 4, .max_waiters = 20}};
  std::vector<TicketId> woken_;
};

TEST_F(SessionTableTest, FirstInitialisesThenAllLeaseTheBinding) {
  const auto first = Acquire(kS);
  EXPECT_EQ(first.outcome, Outcome::kInitialise);
  EXPECT_FALSE(first.binding);
  EXPECT_TRUE(table_.Commit(first.hold, On(7, 2), &woken_));
  const auto second = Acquire(kS);
  EXPECT_EQ(second.outcome, Outcome::kLease);
  EXPECT_EQ(second.binding, On(7, 2));
  EXPECT_EQ(table_.GetStats().leases, 2u);
  EXPECT_EQ(Acquire(kOther).outcome, Outcome::kInitialise) << "sessions are apart";
}

TEST_F(SessionTableTest, TenFirstTurnsWaitForOneAndFollowIt) {
  const auto first = Acquire(kS, 1);
  for (uint64_t ticket = 2; ticket <= 10; ++ticket) {
    EXPECT_EQ(Acquire(kS, ticket).outcome, Outcome::kWait);
  }
  EXPECT_EQ(table_.GetStats().waiters, 9u);
  EXPECT_TRUE(table_.Commit(first.hold, On(7), &woken_));
  ASSERT_EQ(woken_.size(), 9u);
  EXPECT_EQ(woken_.front(), TicketId{2}) << "in the order in which they came";
  for (const TicketId ticket : woken_) {
    const auto acquired = table_.Acquire({.key = kS, .ticket = ticket}, now_);
    EXPECT_EQ(acquired.outcome, Outcome::kLease);
    EXPECT_EQ(acquired.binding, On(7));
  }
  EXPECT_EQ(table_.GetStats().waiters, 0u);
  EXPECT_EQ(table_.GetStats().leases, 10u);
}

TEST_F(SessionTableTest, AnInitiatorThatLeavesLetsTheNextOneInitialise) {
  const auto first = Acquire(kS, 1);
  Acquire(kS, 2);
  Acquire(kS, 3);
  EXPECT_TRUE(table_.Release(first.hold, now_, &woken_));
  EXPECT_THAT(woken_, ElementsAre(TicketId{2}, TicketId{3}));
  EXPECT_EQ(Acquire(kS, 2).outcome, Outcome::kInitialise);
  EXPECT_EQ(Acquire(kS, 3).outcome, Outcome::kWait);
  EXPECT_FALSE(table_.Commit(first.hold, On(7), &woken_)) << "its hold is void";
}

TEST_F(SessionTableTest, AWaiterCanLeave) {
  const auto first = Acquire(kS, 1);
  Acquire(kS, 2);
  Acquire(kS, 3);
  EXPECT_TRUE(table_.StopWaiting(kS, TicketId{2}));
  EXPECT_FALSE(table_.StopWaiting(kS, TicketId{2}));
  EXPECT_FALSE(table_.StopWaiting(kOther, TicketId{3}));
  EXPECT_TRUE(table_.Commit(first.hold, On(7), &woken_));
  EXPECT_THAT(woken_, ElementsAre(TicketId{3}));
}

TEST_F(SessionTableTest, WhoWillNotWaitGoesUnbound) {
  Acquire(kS);
  EXPECT_EQ(Acquire(kS).outcome, Outcome::kUnbound);
  EXPECT_EQ(table_.GetStats().refused_total, 1u);
}

TEST_F(SessionTableTest, WaitersAreBounded) {
  Acquire(kS);
  for (uint64_t ticket = 1; ticket <= 20; ++ticket) {
    EXPECT_EQ(Acquire(kS, ticket).outcome, Outcome::kWait);
  }
  EXPECT_EQ(Acquire(kS, 21).outcome, Outcome::kUnbound);
}

TEST_F(SessionTableTest, IdleBindingsExpireAtTheTtl) {
  Bind(kS, 7);
  now_ += seconds(60) - std::chrono::nanoseconds(1);
  EXPECT_EQ(table_.Peek(kS, now_), On(7));
  const auto lease = Acquire(kS);
  EXPECT_EQ(lease.outcome, Outcome::kLease);
  table_.Release(lease.hold, now_, &woken_);  // the TTL starts anew
  now_ += seconds(60);
  EXPECT_FALSE(table_.Peek(kS, now_));
  EXPECT_EQ(Acquire(kS).outcome, Outcome::kInitialise) << "deadline <= now";
  EXPECT_EQ(table_.GetStats().expired_total, 1u);
}

TEST_F(SessionTableTest, LeasedBindingsNeverExpire) {
  Bind(kS, 7);
  const auto a = Acquire(kS);
  const auto b = Acquire(kS);
  now_ += seconds(100'000);
  table_.Sweep(now_);
  EXPECT_EQ(table_.Peek(kS, now_), On(7));
  table_.Release(a.hold, now_, &woken_);
  now_ += seconds(100'000);
  table_.Sweep(now_);
  EXPECT_EQ(table_.Peek(kS, now_), On(7)) << "one lease is left";
  table_.Release(b.hold, now_, &woken_);
  now_ += seconds(60);
  table_.Sweep(now_);
  EXPECT_EQ(table_.GetStats().sessions, 0u);
}

TEST_F(SessionTableTest, InvalidationStartsTheSessionAnewAndVoidsOtherLeases) {
  Bind(kS, 7);
  const auto a = Acquire(kS);
  const auto b = Acquire(kS);
  EXPECT_TRUE(table_.Invalidate(a.hold, &woken_));
  const auto fresh = Acquire(kS);
  ASSERT_EQ(fresh.outcome, Outcome::kInitialise);
  EXPECT_TRUE(table_.Commit(fresh.hold, On(8), &woken_));
  EXPECT_FALSE(table_.Invalidate(b.hold, &woken_)) << "b speaks of the old binding";
  EXPECT_FALSE(table_.Release(b.hold, now_, &woken_));
  EXPECT_FALSE(table_.Release(a.hold, now_, &woken_));
  EXPECT_EQ(table_.Peek(kS, now_), On(8));
  EXPECT_EQ(table_.GetStats().leases, 1u);
}

TEST_F(SessionTableTest, AFailedFirstDispatchLeavesNoPin) {
  const auto first = Acquire(kS, 1);
  Acquire(kS, 2);
  EXPECT_TRUE(table_.Invalidate(first.hold, &woken_));
  EXPECT_THAT(woken_, ElementsAre(TicketId{2}));
  EXPECT_FALSE(table_.Peek(kS, now_));
  EXPECT_EQ(table_.GetStats().sessions, 0u);
}

TEST_F(SessionTableTest, ASessionThatMovedStaysWhenItsOldWorkerReturns) {
  Bind(kS, 1);
  // Worker 1 is gone: whoever gets the lease sees it, and picks anew.
  const auto lease = Acquire(kS);
  ASSERT_EQ(lease.binding, On(1));
  table_.Invalidate(lease.hold, &woken_);
  Bind(kS, 2);
  // Worker 1 is back.
  EXPECT_EQ(Acquire(kS).binding, On(2));
}

TEST_F(SessionTableTest, AnExplicitPinElsewhereConflictsAndTakesNothing) {
  Bind(kS, 7);
  const auto elsewhere = AcquirePinned(kS, {.worker = WorkerId{8}});
  EXPECT_EQ(elsewhere.outcome, Outcome::kConflict);
  EXPECT_EQ(elsewhere.binding, On(7));
  EXPECT_EQ(elsewhere.hold, kNoHold);
  EXPECT_EQ(AcquirePinned(kS, {.worker = WorkerId{7}, .dp_rank = 1}).outcome, Outcome::kConflict);
  EXPECT_EQ(AcquirePinned(kS, {.worker = WorkerId{7}, .dp_rank = 0}).outcome, Outcome::kLease);
  const auto rankless = AcquirePinned(kS, {.worker = WorkerId{7}});
  EXPECT_EQ(rankless.outcome, Outcome::kLease);
  EXPECT_EQ(rankless.binding, On(7)) << "the binding supplies the rank";
}

TEST_F(SessionTableTest, CommittingALeaseElsewhereMovesTheBinding) {
  Bind(kS, 7);
  const auto lease = Acquire(kS);
  EXPECT_TRUE(table_.Commit(lease.hold, On(8), &woken_));
  EXPECT_EQ(Acquire(kS).binding, On(8));
  EXPECT_EQ(table_.GetStats().leases, 2u);
}

TEST_F(SessionTableTest, PeekTakesAndRefreshesNothing) {
  Bind(kS, 7);
  now_ += seconds(59);
  EXPECT_EQ(table_.Peek(kS, now_), On(7));
  now_ += seconds(1);
  EXPECT_FALSE(table_.Peek(kS, now_));
  EXPECT_EQ(table_.GetStats().leases, 0u);
  Acquire(kOther);
  EXPECT_FALSE(table_.Peek(kOther, now_)) << "initialising is not bound";
  EXPECT_FALSE(table_.Peek(SessionKey{99}, now_));
}

TEST_F(SessionTableTest, WhenFullTheLongestIdleMakesRoom) {
  for (uint64_t s = 1; s <= 4; ++s) {
    Bind(SessionKey{s}, s);
    now_ += seconds(1);
  }
  const auto lease = Acquire(SessionKey{1});
  EXPECT_EQ(Acquire(SessionKey{5}).outcome, Outcome::kInitialise);
  EXPECT_TRUE(table_.Peek(SessionKey{1}, now_)) << "leased";
  EXPECT_FALSE(table_.Peek(SessionKey{2}, now_)) << "made room";
  EXPECT_TRUE(table_.Peek(SessionKey{3}, now_));
  EXPECT_EQ(table_.GetStats().evicted_total, 1u);
  EXPECT_EQ(table_.GetStats().sessions, 4u);
  EXPECT_TRUE(table_.Release(lease.hold, now_, &woken_));
}

TEST_F(SessionTableTest, WhenFullOfSessionsAtWorkTheNewOneGoesUnbound) {
  for (uint64_t s = 1; s <= 4; ++s) Acquire(SessionKey{s});
  EXPECT_EQ(Acquire(SessionKey{5}).outcome, Outcome::kUnbound);
  EXPECT_EQ(table_.GetStats().refused_total, 1u);
  EXPECT_EQ(table_.GetStats().sessions, 4u);
}

TEST_F(SessionTableTest, VoidHoldsChangeNothing) {
  EXPECT_FALSE(table_.Release(kNoHold, now_, &woken_));
  EXPECT_FALSE(table_.Commit(SessionHold{12345}, On(1), &woken_));
  Bind(kS, 7);
  const auto lease = Acquire(kS);
  EXPECT_TRUE(table_.Release(lease.hold, now_, &woken_));
  EXPECT_FALSE(table_.Release(lease.hold, now_, &woken_)) << "given back once";
  EXPECT_EQ(table_.GetStats().leases, 0u);
  EXPECT_THAT(woken_, IsEmpty());
}

}  // namespace
}  // namespace kvrouter
