#include "dispatch/tokenize_breaker.h"

#include <gtest/gtest.h>

#include <random>

namespace kvrouter {
namespace {

using std::chrono::seconds;

constexpr uint64_t kShort = 1000;
constexpr uint64_t kLong = 300'000;
constexpr uint64_t kHuge = 5'000'000;
constexpr TokenizeBreaker::Limits kLimits{.failures = 3, .open = seconds(10)};

MonotonicTime At(int second) { return MonotonicTime(seconds(100 + second)); }

TEST(TokenizeBreakerTest, ErrorsInARowOpenItForAll) {
  TokenizeBreaker breaker;
  for (int i = 0; i < 2; ++i) breaker.OnError(kLimits, At(0));
  EXPECT_FALSE(breaker.IsOpen(At(0), kHuge));
  breaker.OnError(kLimits, At(1));
  EXPECT_TRUE(breaker.IsOpen(At(10), 0));
  EXPECT_FALSE(breaker.IsOpen(At(11), kHuge));
  EXPECT_FALSE(breaker.IsOpenForSome(At(11)));
}

TEST(TokenizeBreakerTest, HugeTextsThatTimeOutCostTheOthersNothing) {
  TokenizeBreaker breaker;
  for (int i = 0; i < 50; ++i) breaker.OnTimeOut(kHuge + static_cast<uint64_t>(i), kLimits, At(0));
  EXPECT_TRUE(breaker.IsOpen(At(0), kHuge));
  EXPECT_FALSE(breaker.IsOpen(At(0), kHuge - 1));
  EXPECT_FALSE(breaker.IsOpen(At(0), kShort));
  EXPECT_TRUE(breaker.IsOpenForSome(At(0)));
}

TEST(TokenizeBreakerTest, ShortTextsThatTimeOutOpenItForAll) {
  TokenizeBreaker breaker;
  for (int i = 0; i < 3; ++i)
    breaker.OnTimeOut(i == 0 ? TokenizeBreaker::kShortTextBytes : kHuge, kLimits, At(0));
  EXPECT_TRUE(breaker.IsOpen(At(0), 0));
}

TEST(TokenizeBreakerTest, EnginesThatHangAreSoonAskedNothing) {
  TokenizeBreaker breaker;
  for (int i = 0; i < 3; ++i) breaker.OnTimeOut(kHuge, kLimits, At(0));
  EXPECT_FALSE(breaker.IsOpen(At(1), kLong));
  breaker.OnTimeOut(kLong, kLimits, At(2));
  EXPECT_TRUE(breaker.IsOpen(At(2), kLong)) << "one is enough, they are in a row with the others";
  EXPECT_FALSE(breaker.IsOpen(At(2), kLong - 1));
  breaker.OnTimeOut(kShort, kLimits, At(3));
  EXPECT_TRUE(breaker.IsOpen(At(12), 0));
  EXPECT_FALSE(breaker.IsOpen(At(13), kHuge));
}

TEST(TokenizeBreakerTest, ASuccessEndsTheRowIfItIsOfATextAsLong) {
  TokenizeBreaker breaker;
  for (int i = 0; i < 2; ++i) breaker.OnTimeOut(kHuge, kLimits, At(0));
  breaker.OnSuccess(kHuge);
  breaker.OnTimeOut(kHuge, kLimits, At(0));
  EXPECT_FALSE(breaker.IsOpenForSome(At(0)));
  breaker.OnTimeOut(kHuge, kLimits, At(0));
  breaker.OnSuccess(kShort);
  breaker.OnTimeOut(kHuge, kLimits, At(0));
  EXPECT_TRUE(breaker.IsOpen(At(0), kHuge)) << "that short ones work is no news";
  for (int i = 0; i < 2; ++i) breaker.OnError(kLimits, At(30));
  breaker.OnSuccess(kShort);
  breaker.OnError(kLimits, At(30));
  EXPECT_FALSE(breaker.IsOpenForSome(At(30))) << "whoever answers a short one works";
}

TEST(TokenizeBreakerTest, WhatWasOnItsWayWhenItOpenedDoesNotKeepItOpen) {
  TokenizeBreaker breaker;
  for (int i = 0; i < 3; ++i) breaker.OnError(kLimits, At(0));
  for (int second = 1; second < 10; ++second) breaker.OnError(kLimits, At(second));
  EXPECT_TRUE(breaker.IsOpen(At(9), kShort));
  EXPECT_FALSE(breaker.IsOpen(At(10), kShort));
  for (int i = 0; i < 2; ++i) breaker.OnError(kLimits, At(10));
  EXPECT_FALSE(breaker.IsOpen(At(10), kShort)) << "as many chances again";
  breaker.OnError(kLimits, At(10));
  EXPECT_TRUE(breaker.IsOpen(At(19), kShort));
}

TEST(TokenizeBreakerTest, AnEndpointThatIsNotThereIsSeenAtOnce) {
  TokenizeBreaker breaker;
  breaker.OnNotOffered(kLimits, At(0));
  EXPECT_TRUE(breaker.IsOpen(At(9), 0));
  EXPECT_FALSE(breaker.IsOpen(At(10), 0));
}

TEST(TokenizeBreakerTest, OneFailureMayBeEnough) {
  TokenizeBreaker breaker;
  breaker.OnTimeOut(kHuge, {.failures = 1, .open = seconds(1)}, At(0));
  EXPECT_TRUE(breaker.IsOpen(At(0), kHuge));
  EXPECT_FALSE(breaker.IsOpen(At(0), kLong));
}

// Whatever happens: while texts of a length never fail and there are no errors, they are asked for.
TEST(TokenizeBreakerTest, NoTextIsHeldUpByTimeOutsOfLongerOnesAlone) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    TokenizeBreaker breaker;
    for (int second = 0; second < 200; ++second) {
      const uint64_t bytes = 1 + random() % (2 * kLong);
      if (bytes < kLong) {
        ASSERT_FALSE(breaker.IsOpen(At(second), bytes));
        breaker.OnSuccess(bytes);
      } else if (!breaker.IsOpen(At(second), bytes)) {
        breaker.OnTimeOut(bytes, kLimits, At(second));
      }
    }
  }
}

}  // namespace
}  // namespace kvrouter
