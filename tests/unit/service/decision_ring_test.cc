#include "service/decision_ring.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace kvrouter {
namespace {

class SomeCandidates : public CandidateSource {
 public:
  explicit SomeCandidates(size_t count) : count_(count) {}
  size_t size() const override { return count_; }
  CandidateCost At(size_t i) const override {
    CandidateCost cost;
    cost.cost_blocks = static_cast<double>(i);
    return cost;
  }
  uint64_t bytes() const override { return 100 * count_; }

 private:
  const size_t count_;
};

// A booking is recorded under `id`.
void Record(DecisionRing* ring, std::string_view id, uint64_t booking, size_t candidates = 0,
            MonotonicTime now = {}) {
  auto request = std::make_shared<BookedRequest>(id);
  request->decision.booking = BookingId{booking};
  request->decided_at = now;
  ring->Record(std::move(request),
               CandidateList(std::make_shared<const SomeCandidates>(candidates)), {});
}

BookingId BookingOf(const DecisionRing& ring, std::string_view id) {
  const auto found = ring.Find(id);
  return found ? found->decision.booking : kNoBooking;
}

TEST(DecisionRingTest, FindsWhatWasRecordedAndWhen) {
  DecisionRing ring({.max_entries = 4, .max_bytes = 1 << 20});
  Record(&ring, "a", 1, 3, std::chrono::seconds(7));
  const auto found = ring.Find("a");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->decision.candidates.size(), 3u);
  EXPECT_EQ(found->decided_at, std::chrono::seconds(7));
  EXPECT_FALSE(ring.Find("b").has_value());
}

TEST(DecisionRingTest, TheOldestGoesFirstAndIsCounted) {
  DecisionRing ring({.max_entries = 3, .max_bytes = 1 << 20});
  for (uint64_t i = 1; i <= 5; ++i) Record(&ring, fmt::format("r{}", i), i);
  EXPECT_FALSE(ring.Find("r1").has_value());
  EXPECT_FALSE(ring.Find("r2").has_value());
  for (uint64_t i = 3; i <= 5; ++i) EXPECT_EQ(BookingOf(ring, fmt::format("r{}", i)), BookingId{i});
  EXPECT_EQ(ring.Read().entries, 3u);
  EXPECT_EQ(ring.Read().evicted_total, 2u);
}

TEST(DecisionRingTest, BytesAreBoundedToo) {
  constexpr uint64_t kMaxBytes = 100'000;
  DecisionRing ring({.max_entries = 1'000'000, .max_bytes = kMaxBytes});
  for (uint64_t i = 0; i < 1000; ++i) {
    Record(&ring, fmt::format("r{}", i), i, i % 64);
    ASSERT_LE(ring.Read().bytes, kMaxBytes);
  }
  EXPECT_GT(ring.Read().entries, 5u);
  EXPECT_EQ(ring.Read().entries + ring.Read().evicted_total, 1000u);
  EXPECT_EQ(BookingOf(ring, "r999"), BookingId{999});
}

TEST(DecisionRingTest, WhatIsLargerThanAllOfItIsNotKept) {
  DecisionRing ring({.max_entries = 10, .max_bytes = 100});
  Record(&ring, "a", 1, 64);
  EXPECT_FALSE(ring.Find("a").has_value());
  EXPECT_EQ(ring.Read().bytes, 0u);
  EXPECT_EQ(ring.Read().evicted_total, 1u);
}

TEST(DecisionRingTest, AnIdUsedAgainMeansItsLastDecisionAlsoWhenTheFirstLeaves) {
  DecisionRing ring({.max_entries = 3, .max_bytes = 1 << 20});
  Record(&ring, "a", 1);
  Record(&ring, "b", 2);
  Record(&ring, "a", 3);
  EXPECT_EQ(BookingOf(ring, "a"), BookingId{3});
  Record(&ring, "c", 4);  // evicts the first "a"
  EXPECT_EQ(BookingOf(ring, "a"), BookingId{3});
  EXPECT_EQ(BookingOf(ring, "b"), BookingId{2});
  Record(&ring, "d", 5);
  Record(&ring, "e", 6);  // evicts the second
  EXPECT_FALSE(ring.Find("a").has_value());
}

TEST(DecisionRingTest, NoEntriesMeansNothingIsKeptOrCounted) {
  DecisionRing ring({.max_entries = 0, .max_bytes = 1 << 20});
  Record(&ring, "a", 1);
  EXPECT_FALSE(ring.Find("a").has_value());
  EXPECT_EQ(ring.Read().evicted_total, 0u);
}

TEST(DecisionRingTest, WhatWasFoundOutlivesItsEviction) {
  DecisionRing ring({.max_entries = 1, .max_bytes = 1 << 20});
  Record(&ring, "a", 1, 2);
  const auto found = ring.Find("a");
  Record(&ring, "b", 2);
  EXPECT_EQ(found->decision.candidates.size(), 2u);
}

TEST(DecisionRingTest, FindsTheOldestOfMoreEntriesThanOneStretchOfALookUp) {
  constexpr uint64_t kEntries = 40'000;
  DecisionRing ring({.max_entries = kEntries, .max_bytes = uint64_t{1} << 30});
  for (uint64_t i = 1; i <= kEntries + 5; ++i) Record(&ring, fmt::format("r{}", i), i);
  EXPECT_EQ(BookingOf(ring, "r5"), kNoBooking);
  EXPECT_EQ(BookingOf(ring, "r6"), BookingId{6});
  EXPECT_EQ(BookingOf(ring, "r20000"), BookingId{20'000});
  EXPECT_EQ(BookingOf(ring, "r40005"), BookingId{40'005});
}

TEST(DecisionRingTest, TheListsComeWithTheDecision) {
  DecisionRing ring({.max_entries = 2, .max_bytes = 1 << 20});
  auto request = std::make_shared<BookedRequest>("a");
  ring.Record(request, CandidateList(std::make_shared<const SomeCandidates>(3)),
              {{.target = {.worker = WorkerId{9}}, .reason = FilterReason::kDraining}});
  const auto found = ring.Find("a");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->decision.candidates[2].cost_blocks, 2);
  ASSERT_EQ(found->decision.filtered_targets.size(), 1u);
  EXPECT_EQ(found->decision.filtered_targets[0].target.worker, WorkerId{9});
  EXPECT_TRUE(request->decision.candidates.empty()) << "the record itself stays small";
}

TEST(DecisionRingTest, RecordsAndLookUpsFromManyThreads) {
  DecisionRing ring({.max_entries = 16, .max_bytes = 1 << 20});
  std::vector<std::thread> threads;
  for (uint64_t t = 1; t <= 4; ++t) {
    threads.emplace_back([&ring, t] {
      for (uint64_t i = 0; i < 2000; ++i) {
        const std::string id = fmt::format("r{}", i % 20);
        Record(&ring, id, t, 2);
        const auto found = ring.Find(id);
        ASSERT_TRUE(!found || found->decision.candidates.size() == 2);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ring.Read().entries, 16u);
  EXPECT_EQ(ring.Read().evicted_total, 8000u - 16u);
}

}  // namespace
}  // namespace kvrouter
