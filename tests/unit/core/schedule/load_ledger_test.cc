#include "core/schedule/load_ledger.h"

#include <gtest/gtest.h>

#include <chrono>
#include <initializer_list>
#include <limits>
#include <set>
#include <vector>

#include "core/schedule/booking_id.h"

namespace kvrouter {
namespace {

using std::chrono::seconds;

std::vector<SequenceHash> Chain(std::initializer_list<uint64_t> hashes) {
  std::vector<SequenceHash> chain;
  for (const uint64_t hash : hashes) chain.push_back(SequenceHash{hash});
  return chain;
}

class LoadLedgerTest : public testing::Test {
 protected:
  static LoadLedger::Options Options() {
    return {.partition = 3, .idle_expiry = seconds(300), .track_output_blocks = true};
  }

  BookingId Add(std::initializer_list<uint64_t> chain_hashes, uint64_t prefill_tokens = 0) {
    const auto chain = Chain(chain_hashes);
    return *ledger_.Add({.target = target_,
                         .chain = chain,
                         .prefill_tokens = prefill_tokens,
                         .isl_tokens = chain.size() * 16,
                         .block_size_tokens = 16},
                        now_);
  }
  double Blocks() const { return ledger_.LoadOf(target_).active_decode_blocks; }
  uint64_t Prefill() const { return ledger_.LoadOf(target_).active_prefill_tokens; }
  uint64_t Requests() const { return ledger_.LoadOf(target_).active_requests; }
  void ExpectIdle() const {
    EXPECT_EQ(Blocks(), 0);
    EXPECT_EQ(Prefill(), 0u);
    EXPECT_EQ(Requests(), 0u);
    EXPECT_EQ(ledger_.LiveBookings(), 0u);
    EXPECT_EQ(ledger_.ChainNodeCount(), 0u);
  }

  LoadLedger ledger_{Options()};
  TargetSlot target_ = ledger_.AddTarget();
  MonotonicTime now_ = seconds(1000);
};

TEST_F(LoadLedgerTest, ABookingIsPrefillBlocksAndARequestUntilFinished) {
  const auto id = Add({1, 2, 3}, 40);
  EXPECT_EQ(Blocks(), 3);
  EXPECT_EQ(Prefill(), 40u);
  EXPECT_EQ(Requests(), 1u);
  EXPECT_TRUE(ledger_.PrefillComplete(id, now_));
  EXPECT_EQ(Prefill(), 0u);
  EXPECT_EQ(Blocks(), 3);
  EXPECT_TRUE(ledger_.Finish(id));
  ExpectIdle();
}

TEST_F(LoadLedgerTest, SharedPrefixIsCountedOnce) {
  const auto a = Add({1, 2, 3});
  const auto b = Add({1, 2, 4, 5});
  EXPECT_EQ(Blocks(), 5);
  ledger_.Finish(a);
  EXPECT_EQ(Blocks(), 4);
  ledger_.Finish(b);
  ExpectIdle();
}

TEST_F(LoadLedgerTest, FinishWithoutPrefillCompleteReleasesThePrefillToo) {
  const auto id = Add({1}, 16);
  EXPECT_TRUE(ledger_.Finish(id));
  ExpectIdle();
}

TEST_F(LoadLedgerTest, RepeatedAndUnknownCallsChangeNothing) {
  const auto id = Add({1}, 16);
  const auto other = Add({2}, 16);
  EXPECT_TRUE(ledger_.PrefillComplete(id, now_));
  EXPECT_TRUE(ledger_.PrefillComplete(id, now_));
  EXPECT_EQ(Prefill(), 16u);
  EXPECT_TRUE(ledger_.Finish(id));
  EXPECT_FALSE(ledger_.Finish(id));
  EXPECT_FALSE(ledger_.PrefillComplete(id, now_));
  EXPECT_FALSE(ledger_.KeepAlive(id, now_));
  EXPECT_FALSE(ledger_.OutputTokens(id, 100, {}, now_));
  EXPECT_FALSE(ledger_.OutputBlock(id, {}, now_));
  EXPECT_FALSE(ledger_.Finish(kNoBooking));
  EXPECT_FALSE(ledger_.Finish(BookingId{~uint64_t{0}}));
  EXPECT_EQ(Requests(), 1u);
  EXPECT_TRUE(ledger_.IsLive(other));
}

TEST_F(LoadLedgerTest, AStaleHandleDoesNotReachTheNextBookingInItsPlace) {
  std::set<BookingId> seen;
  for (int i = 0; i < 1000; ++i) {
    const auto id = Add({1}, 16);
    ASSERT_TRUE(seen.insert(id).second) << "ids are never reused";
    ledger_.Finish(id);
  }
  const auto live = Add({1}, 16);
  EXPECT_EQ(PartsOf(live).slot, PartsOf(*seen.begin()).slot) << "the place is reused";
  for (const BookingId stale : seen) ASSERT_FALSE(ledger_.Finish(stale));
  EXPECT_EQ(Requests(), 1u);
}

TEST_F(LoadLedgerTest, AnIdOfAnotherPartitionIsUnknown) {
  BookingParts parts = PartsOf(Add({1}));
  EXPECT_EQ(parts.partition, 3u);
  parts.partition = 4;
  EXPECT_FALSE(ledger_.Finish(MakeBookingId(parts)));
}

TEST_F(LoadLedgerTest, WithoutReuseEveryRequestHasItsOwnBlocks) {
  const auto chain = Chain({1, 2, 3});
  std::vector<BookingId> ids;
  for (int i = 0; i < 3; ++i) {
    ids.push_back(*ledger_.Add({.target = target_, .chain = chain, .share_prefixes = false}, now_));
  }
  EXPECT_EQ(Blocks(), 9);
  std::vector<uint32_t> live(ledger_.SlotCount(), 0);
  ledger_.FindLivePrefixes(chain, live);
  EXPECT_EQ(live[0], 0u) << "nothing is there to share";
  for (const auto id : ids) ledger_.Finish(id);
  ExpectIdle();
}

TEST_F(LoadLedgerTest, OutputBlocksComeWithBlockBoundariesOfPromptPlusOutput) {
  const auto chain = Chain({1, 2});
  const auto id = *ledger_.Add(
      {.target = target_, .chain = chain, .isl_tokens = 40, .block_size_tokens = 16}, now_);
  const auto report = [&](uint64_t tokens) {
    EXPECT_TRUE(ledger_.OutputTokens(id, tokens, {}, now_));
    return Blocks();
  };
  EXPECT_EQ(report(8), 2);  // 48 = 3 blocks, as ceil(40 / 16) is
  EXPECT_EQ(report(9), 3);
  EXPECT_EQ(report(9), 3);
  EXPECT_EQ(report(24), 3);
  EXPECT_EQ(report(41), 5) << "a report may cross several boundaries";
  EXPECT_EQ(report(1), 5) << "cumulative: an older report changes nothing";
  EXPECT_TRUE(ledger_.OutputBlock(id, {}, now_));
  EXPECT_EQ(Blocks(), 6);
  ledger_.Finish(id);
  ExpectIdle();
}

TEST_F(LoadLedgerTest, ExpectedOutputMakesARequestLighterTowardsItsEnd) {
  const auto chain = Chain({1, 2, 3, 4, 5, 6});
  const auto id = *ledger_.Add({.target = target_,
                                .chain = chain,
                                .isl_tokens = 96,
                                .block_size_tokens = 16,
                                .expected_output_tokens = 64},
                               now_);
  const auto sharer = Add({1, 2});
  EXPECT_EQ(Blocks(), 6);
  ledger_.OutputTokens(id, 32, {}, now_);  // half: 2 output and 4 own prompt blocks weigh half
  EXPECT_EQ(Blocks(), 2 + 4 * 0.5 + 2 * 0.5);
  ledger_.OutputTokens(id, 64, {}, now_);
  EXPECT_EQ(Blocks(), 2) << "only what is shared still counts";
  ledger_.OutputTokens(id, 640, {}, now_);
  EXPECT_EQ(Blocks(), 2) << "never below zero";
  ledger_.Finish(sharer);
  EXPECT_EQ(Blocks(), 0);
  ledger_.Finish(id);
  ExpectIdle();
}

TEST_F(LoadLedgerTest, FractionsAreSummedBeforeRounding) {
  const auto a = Add({1});
  const auto b = Add({2});
  ledger_.OutputBlock(a, 0.3, now_);  // 2 blocks at 0.3
  EXPECT_EQ(Blocks(), 2);             // 1.6
  ledger_.OutputBlock(b, 0.3, now_);
  EXPECT_EQ(Blocks(), 1);  // 1.2, not 1 + 1
  ledger_.Finish(a);
  ledger_.Finish(b);
  ExpectIdle();
}

TEST_F(LoadLedgerTest, AbsurdFractionsAreClampedOrIgnored) {
  const auto id = Add({1, 2});
  ledger_.OutputBlock(id, std::numeric_limits<double>::quiet_NaN(), now_);
  EXPECT_EQ(Blocks(), 3);
  ledger_.OutputBlock(id, 7, now_);
  EXPECT_EQ(Blocks(), 4);
  ledger_.OutputBlock(id, -7, now_);
  EXPECT_EQ(Blocks(), 0);
  ledger_.Finish(id);
  ExpectIdle();
}

TEST_F(LoadLedgerTest, AbsurdOutputReturnsToZeroAllTheSame) {
  const auto id = Add({1});
  ledger_.OutputTokens(id, std::numeric_limits<uint64_t>::max(), 0.123, now_);
  for (int i = 0; i < 10; ++i) ledger_.OutputBlock(id, 0.7, now_);
  ledger_.Finish(id);
  ExpectIdle();
}

TEST_F(LoadLedgerTest, OutputIsIgnoredWhenNotTracked) {
  LoadLedger plain({.idle_expiry = seconds(300), .track_output_blocks = false});
  const auto target = plain.AddTarget();
  const auto chain = Chain({1});
  const auto id = *plain.Add({.target = target, .chain = chain}, now_);
  EXPECT_TRUE(plain.OutputTokens(id, 1000, 0.5, now_));
  EXPECT_TRUE(plain.OutputBlock(id, 0.5, now_));
  EXPECT_EQ(plain.LoadOf(target).active_decode_blocks, 1);
}

TEST_F(LoadLedgerTest, SilenceForTheExpiryTimeReleases) {
  const auto id = Add({1}, 16);
  std::vector<BookingId> expired;
  ledger_.Expire(now_ + seconds(300) - std::chrono::nanoseconds(1), &expired);
  EXPECT_TRUE(expired.empty());
  ledger_.Expire(now_ + seconds(300), &expired);
  EXPECT_EQ(expired, std::vector{id});
  EXPECT_EQ(ledger_.ExpiredTotal(), 1u);
  EXPECT_FALSE(ledger_.Finish(id));
  ExpectIdle();
}

TEST_F(LoadLedgerTest, EverySignOfLifeStartsTheClockAgain) {
  const auto silent = Add({1});
  const auto prefilled = Add({2});
  const auto writing = Add({3});
  const auto counting = Add({4});
  const auto kept = Add({5});
  const auto later = now_ + seconds(200);
  EXPECT_TRUE(ledger_.KeepAlive(kept, later));
  EXPECT_TRUE(ledger_.OutputBlock(counting, {}, later));
  EXPECT_TRUE(ledger_.OutputTokens(writing, 1, {}, later));
  EXPECT_TRUE(ledger_.PrefillComplete(prefilled, later));
  std::vector<BookingId> expired;
  ledger_.Expire(now_ + seconds(400), &expired);
  EXPECT_EQ(expired, std::vector{silent});
  expired.clear();
  ledger_.Expire(later + seconds(300), &expired);
  EXPECT_EQ(expired.size(), 4u);
  ExpectIdle();
}

TEST_F(LoadLedgerTest, TimesThatArriveALittleOutOfOrderDoNotHideAnExpiry) {
  const auto first = Add({1});
  now_ -= seconds(1);
  const auto second = Add({2});
  std::vector<BookingId> expired;
  ledger_.Expire(seconds(1300), &expired);
  EXPECT_EQ(expired, (std::vector{first, second}));
}

TEST_F(LoadLedgerTest, RemovingATargetVoidsItsBookingsOnly) {
  const auto other = ledger_.AddTarget();
  const auto mine = Add({1, 2}, 16);
  const auto chain = Chain({1, 2, 3});
  const auto theirs = *ledger_.Add({.target = other, .chain = chain, .prefill_tokens = 5}, now_);
  ledger_.RemoveTarget(target_);
  EXPECT_FALSE(ledger_.Finish(mine));
  EXPECT_EQ(ledger_.LoadOf(other).active_decode_blocks, 3);
  target_ = ledger_.AddTarget();
  EXPECT_EQ(Blocks(), 0) << "a target in the same place starts empty";
  EXPECT_TRUE(ledger_.Finish(theirs));
  ExpectIdle();
}

TEST_F(LoadLedgerTest, TheBoundOnBookingsHolds) {
  LoadLedger small({.max_bookings = 2, .idle_expiry = seconds(300)});
  const auto target = small.AddTarget();
  const auto first = small.Add({.target = target}, now_);
  EXPECT_TRUE(first);
  EXPECT_TRUE(small.Add({.target = target}, now_));
  EXPECT_FALSE(small.Add({.target = target}, now_));
  small.Finish(*first);
  EXPECT_TRUE(small.Add({.target = target}, now_));
}

TEST_F(LoadLedgerTest, ASlotWhoseGenerationsAreUsedUpIsRetired) {
  LoadLedger old({.first_generation = kMaxGeneration, .idle_expiry = seconds(300)});
  const auto target = old.AddTarget();
  const auto last = *old.Add({.target = target}, now_);
  EXPECT_EQ(PartsOf(last).generation, kMaxGeneration);
  old.Finish(last);
  const auto next = *old.Add({.target = target}, now_);
  EXPECT_NE(PartsOf(next).slot, PartsOf(last).slot);
  EXPECT_FALSE(old.Finish(last));
}

TEST(BookingIdTest, PartsSurviveTheRoundTrip) {
  const BookingParts parts{.partition = 4095, .slot = 4'194'303, .generation = kMaxGeneration};
  const BookingParts back = PartsOf(MakeBookingId(parts));
  EXPECT_EQ(back.partition, parts.partition);
  EXPECT_EQ(back.slot, parts.slot);
  EXPECT_EQ(back.generation, parts.generation);
}

}  // namespace
}  // namespace kvrouter
