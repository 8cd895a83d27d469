#include "core/affinity/session_table.h"

#include <gtest/gtest.h>

namespace kvrouter {
namespace {

using std::chrono::seconds;

constexpr SessionKey kS{1};
constexpr SessionKey kOther{2};

SessionTable::Binding On(uint64_t worker, uint32_t dp_rank = 0, uint64_t incarnation = 1) {
  return {.target = {.worker = WorkerId{worker}, .dp_rank = dp_rank},
          .incarnation = Incarnation{incarnation}};
}

class SessionTableTest : public ::testing::Test {
 protected:
  SessionHold Bind(SessionKey key, uint64_t worker) { return table_.Bind(key, On(worker), now_); }
  // Bound and idle.
  void BindAndLeave(SessionKey key, uint64_t worker) {
    ASSERT_TRUE(table_.Release(Bind(key, worker), now_));
  }

  MonotonicTime now_ = seconds(1000);
  SessionTable table_{{.idle_ttl = seconds(60), .max_sessions = 4}};
};

TEST_F(SessionTableTest, TheSecondTurnFindsWhatTheFirstBound) {
  EXPECT_FALSE(table_.Find(kS, now_));
  EXPECT_NE(table_.Bind(kS, On(7, 2), now_), kNoHold);
  EXPECT_EQ(table_.Find(kS, now_), On(7, 2));
  EXPECT_NE(table_.Bind(kS, On(7, 2), now_), kNoHold);
  EXPECT_EQ(table_.GetStats().leases, 2u);
  EXPECT_EQ(table_.GetStats().sessions, 1u);
  EXPECT_FALSE(table_.Find(kOther, now_)) << "sessions are apart";
}

TEST_F(SessionTableTest, IdleBindingsExpireAtTheTtl) {
  BindAndLeave(kS, 7);
  now_ += seconds(60) - std::chrono::nanoseconds(1);
  EXPECT_EQ(table_.Find(kS, now_), On(7));
  EXPECT_TRUE(table_.Release(Bind(kS, 7), now_));  // the TTL starts anew
  now_ += seconds(60);
  EXPECT_FALSE(table_.Find(kS, now_)) << "deadline <= now";
  Bind(kS, 7);
  EXPECT_EQ(table_.GetStats().expired_total, 1u);
  EXPECT_EQ(table_.GetStats().sessions, 1u);
}

TEST_F(SessionTableTest, LeasedBindingsNeverExpire) {
  const SessionHold a = Bind(kS, 7);
  const SessionHold b = Bind(kS, 7);
  now_ += seconds(100'000);
  table_.Sweep(now_);
  EXPECT_EQ(table_.Find(kS, now_), On(7));
  EXPECT_TRUE(table_.Release(a, now_));
  now_ += seconds(100'000);
  table_.Sweep(now_);
  EXPECT_EQ(table_.Find(kS, now_), On(7)) << "one lease is left";
  EXPECT_TRUE(table_.Release(b, now_));
  now_ += seconds(60);
  table_.Sweep(now_);
  EXPECT_EQ(table_.GetStats().sessions, 0u);
}

TEST_F(SessionTableTest, InvalidationStartsTheSessionAnewAndVoidsOtherLeases) {
  const SessionHold a = Bind(kS, 7);
  const SessionHold b = Bind(kS, 7);
  EXPECT_TRUE(table_.Invalidate(a));
  EXPECT_FALSE(table_.Find(kS, now_));
  Bind(kS, 8);
  EXPECT_FALSE(table_.Invalidate(b)) << "b speaks of the old binding";
  EXPECT_FALSE(table_.Release(b, now_));
  EXPECT_FALSE(table_.Release(a, now_));
  EXPECT_EQ(table_.Find(kS, now_), On(8));
  EXPECT_EQ(table_.GetStats().leases, 1u);
}

TEST_F(SessionTableTest, ForgettingVoidsLeasesToo) {
  const SessionHold a = Bind(kS, 7);
  EXPECT_TRUE(table_.Forget(kS));
  EXPECT_FALSE(table_.Forget(kS));
  EXPECT_FALSE(table_.Release(a, now_));
  EXPECT_EQ(table_.GetStats().invalidated_total, 1u);
  EXPECT_EQ(table_.GetStats().leases, 0u);
}

TEST_F(SessionTableTest, BindingElsewhereMovesTheSession) {
  const SessionHold before = Bind(kS, 7);
  const SessionHold after = Bind(kS, 8);
  EXPECT_EQ(table_.Find(kS, now_), On(8));
  EXPECT_FALSE(table_.Invalidate(before)) << "what fails on 7 says nothing of 8";
  EXPECT_EQ(table_.GetStats().leases, 1u);
  EXPECT_TRUE(table_.Release(after, now_));
}

TEST_F(SessionTableTest, AnotherLifeOfTheTargetIsAnotherBinding) {
  table_.Bind(kS, On(7, 0, 1), now_);
  table_.Bind(kS, On(7, 0, 2), now_);
  EXPECT_EQ(table_.Find(kS, now_), On(7, 0, 2));
  EXPECT_EQ(table_.GetStats().leases, 1u);
}

TEST_F(SessionTableTest, FindingRefreshesNothing) {
  BindAndLeave(kS, 7);
  now_ += seconds(59);
  EXPECT_EQ(table_.Find(kS, now_), On(7));
  now_ += seconds(1);
  EXPECT_FALSE(table_.Find(kS, now_));
  EXPECT_EQ(table_.GetStats().leases, 0u);
}

TEST_F(SessionTableTest, WhenFullTheLongestIdleMakesRoom) {
  for (uint64_t s = 1; s <= 4; ++s) {
    BindAndLeave(SessionKey{s}, s);
    now_ += seconds(1);
  }
  const SessionHold lease = Bind(SessionKey{1}, 1);
  EXPECT_NE(Bind(SessionKey{5}, 5), kNoHold);
  EXPECT_TRUE(table_.Find(SessionKey{1}, now_)) << "leased";
  EXPECT_FALSE(table_.Find(SessionKey{2}, now_)) << "made room";
  EXPECT_TRUE(table_.Find(SessionKey{3}, now_));
  EXPECT_EQ(table_.GetStats().evicted_total, 1u);
  EXPECT_EQ(table_.GetStats().sessions, 4u);
  EXPECT_TRUE(table_.Release(lease, now_));
}

TEST_F(SessionTableTest, WhenFullOfSessionsAtWorkTheNewOneGoesUnbound) {
  for (uint64_t s = 1; s <= 4; ++s) Bind(SessionKey{s}, s);
  EXPECT_EQ(Bind(SessionKey{5}, 5), kNoHold);
  EXPECT_EQ(table_.GetStats().refused_total, 1u);
  EXPECT_EQ(table_.GetStats().sessions, 4u);
}

TEST_F(SessionTableTest, VoidHoldsChangeNothing) {
  EXPECT_FALSE(table_.Release(kNoHold, now_));
  EXPECT_FALSE(table_.Invalidate(SessionHold{12345}));
  const SessionHold lease = Bind(kS, 7);
  EXPECT_TRUE(table_.Release(lease, now_));
  EXPECT_FALSE(table_.Release(lease, now_)) << "given back once";
  EXPECT_EQ(table_.GetStats().leases, 0u);
}

}  // namespace
}  // namespace kvrouter
