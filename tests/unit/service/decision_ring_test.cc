#include "service/decision_ring.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace kvrouter {
namespace {

RouteDecision ADecision(uint64_t booking, size_t candidates = 0) {
  RouteDecision decision;
  decision.booking = BookingId{booking};
  decision.candidates.resize(candidates);
  return decision;
}

BookingId BookingOf(const DecisionRing& ring, std::string_view id) {
  const auto found = ring.Find(id);
  return found ? found->decision.booking : kNoBooking;
}

TEST(DecisionRingTest, FindsWhatWasRecordedAndWhen) {
  DecisionRing ring({.max_entries = 4, .max_bytes = 1 << 20});
  ring.Record("a", ADecision(1, 3), std::chrono::seconds(7));
  const auto found = ring.Find("a");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->decision.candidates.size(), 3u);
  EXPECT_EQ(found->decided_at, std::chrono::seconds(7));
  EXPECT_EQ(ring.Find("b"), nullptr);
}

TEST(DecisionRingTest, TheOldestGoesFirstAndIsCounted) {
  DecisionRing ring({.max_entries = 3, .max_bytes = 1 << 20});
  for (uint64_t i = 1; i <= 5; ++i) ring.Record(fmt::format("r{}", i), ADecision(i), {});
  EXPECT_EQ(ring.Find("r1"), nullptr);
  EXPECT_EQ(ring.Find("r2"), nullptr);
  for (uint64_t i = 3; i <= 5; ++i) EXPECT_EQ(BookingOf(ring, fmt::format("r{}", i)), BookingId{i});
  EXPECT_EQ(ring.Read().entries, 3u);
  EXPECT_EQ(ring.Read().evicted_total, 2u);
}

TEST(DecisionRingTest, BytesAreBoundedToo) {
  constexpr uint64_t kMaxBytes = 100'000;
  DecisionRing ring({.max_entries = 1'000'000, .max_bytes = kMaxBytes});
  for (uint64_t i = 0; i < 1000; ++i) {
    ring.Record(fmt::format("r{}", i), ADecision(i, i % 64), {});
    ASSERT_LE(ring.Read().bytes, kMaxBytes);
  }
  EXPECT_GT(ring.Read().entries, 5u);
  EXPECT_EQ(ring.Read().entries + ring.Read().evicted_total, 1000u);
  EXPECT_EQ(BookingOf(ring, "r999"), BookingId{999});
}

TEST(DecisionRingTest, WhatIsLargerThanAllOfItIsNotKept) {
  DecisionRing ring({.max_entries = 10, .max_bytes = 100});
  ring.Record("a", ADecision(1, 64), {});
  EXPECT_EQ(ring.Find("a"), nullptr);
  EXPECT_EQ(ring.Read().bytes, 0u);
  EXPECT_EQ(ring.Read().evicted_total, 1u);
}

TEST(DecisionRingTest, AnIdUsedAgainMeansItsLastDecisionAlsoWhenTheFirstLeaves) {
  DecisionRing ring({.max_entries = 3, .max_bytes = 1 << 20});
  ring.Record("a", ADecision(1), {});
  ring.Record("b", ADecision(2), {});
  ring.Record("a", ADecision(3), {});
  EXPECT_EQ(BookingOf(ring, "a"), BookingId{3});
  ring.Record("c", ADecision(4), {});  // evicts the first "a"
  EXPECT_EQ(BookingOf(ring, "a"), BookingId{3});
  EXPECT_EQ(BookingOf(ring, "b"), BookingId{2});
  ring.Record("d", ADecision(5), {});
  ring.Record("e", ADecision(6), {});  // evicts the second
  EXPECT_EQ(ring.Find("a"), nullptr);
}

TEST(DecisionRingTest, NoEntriesMeansNothingIsKeptOrCounted) {
  DecisionRing ring({.max_entries = 0, .max_bytes = 1 << 20});
  ring.Record("a", ADecision(1), {});
  EXPECT_EQ(ring.Find("a"), nullptr);
  EXPECT_EQ(ring.Read().evicted_total, 0u);
}

TEST(DecisionRingTest, WhatWasFoundOutlivesItsEviction) {
  DecisionRing ring({.max_entries = 1, .max_bytes = 1 << 20});
  ring.Record("a", ADecision(1, 2), {});
  const auto found = ring.Find("a");
  ring.Record("b", ADecision(2), {});
  EXPECT_EQ(found->decision.candidates.size(), 2u);
}

TEST(DecisionRingTest, RecordsAndLookUpsFromManyThreads) {
  DecisionRing ring({.max_entries = 16, .max_bytes = 1 << 20});
  std::vector<std::thread> threads;
  for (uint64_t t = 1; t <= 4; ++t) {
    threads.emplace_back([&ring, t] {
      for (uint64_t i = 0; i < 2000; ++i) {
        const std::string id = fmt::format("r{}", i % 20);
        ring.Record(id, ADecision(t, 2), {});
        const auto found = ring.Find(id);
        ASSERT_TRUE(found == nullptr || found->decision.candidates.size() == 2);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ring.Read().entries, 16u);
  EXPECT_EQ(ring.Read().evicted_total, 8000u - 16u);
}

}  // namespace
}  // namespace kvrouter
