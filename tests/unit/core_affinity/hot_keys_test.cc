#include "core/affinity/hot_keys.h"

#include <gtest/gtest.h>

#include <random>

namespace kvrouter {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

SessionKey Key(uint64_t i) { return SessionKey{i + 1}; }

// `others` requests of other keys for each of key 0; 100 of key 0 within a second.
bool IsHotWithShare(HotKeys* hot, int others, uint64_t targets, double min_weight = 1000) {
  uint64_t other = 1;
  for (int i = 0; i < 100; ++i) {
    const MonotonicTime now = milliseconds(i * 10);
    for (int k = 0; k < others; ++k) {
      hot->Note(Key(1 + other++ % 5000), {.weight_tokens = 1000, .targets = targets}, now);
    }
    hot->Note(Key(0), {.weight_tokens = min_weight, .targets = targets}, now);
  }
  return hot->IsHot(Key(0));
}

TEST(HotKeysTest, AKeyWithMoreThanATargetsShareIsHot) {
  HotKeys quarter({});
  EXPECT_TRUE(IsHotWithShare(&quarter, 3, 8));  // 2 x the mean
  HotKeys a_tenth({});
  EXPECT_FALSE(IsHotWithShare(&a_tenth, 9, 8));  // 0.8 x
  EXPECT_TRUE(quarter.TurnedHotTotal() == 1 && quarter.HotCount() == 1);
  EXPECT_TRUE(a_tenth.TurnedHotTotal() == 0 && a_tenth.HotCount() == 0);
}

TEST(HotKeysTest, LoadIsTokensNotRequests) {
  HotKeys light({});
  EXPECT_FALSE(IsHotWithShare(&light, 3, 8, 300));  // 1/11 of the tokens
  HotKeys heavy({});
  EXPECT_TRUE(IsHotWithShare(&heavy, 9, 8, 3000));  // 1/4 of them
}

TEST(HotKeysTest, WithOneTargetNothingIsHot) {
  HotKeys hot({});
  EXPECT_FALSE(IsHotWithShare(&hot, 0, 1));
  EXPECT_FALSE(IsHotWithShare(&hot, 1, 1));
}

TEST(HotKeysTest, ALoneConversationOfAnIdleFleetStaysPinned) {
  HotKeys hot({.min_requests = 32});
  // All of the load, one turn every ten seconds: with a half-life of a minute never above ten.
  for (int i = 0; i < 500; ++i) {
    ASSERT_FALSE(hot.Note(Key(0), {.weight_tokens = 5000, .targets = 8}, seconds(10 * i))) << i;
  }
}

TEST(HotKeysTest, MinRequestsIsReachedByTheOneThatReachesIt) {
  HotKeys hot({.min_requests = 32});
  int requests = 0;
  while (!hot.Note(Key(0), {.weight_tokens = 1, .targets = 8}, seconds(0))) ++requests;
  EXPECT_EQ(requests, 31);
}

TEST(HotKeysTest, CoolsAtHalfTheShareAndNotBefore) {
  HotKeys hot({.half_life = seconds(10)});
  const HotKeys::Load load{.weight_tokens = 1000, .targets = 10};
  const auto run = [&](int others, int from_second, int to_second) {
    uint64_t other = 1;
    for (int s = from_second * 10; s < to_second * 10; ++s) {
      const MonotonicTime now = milliseconds(100 * s);
      for (int k = 0; k < others; ++k) hot.Note(Key(1 + other++ % 5000), load, now);
      for (int k = 0; k < 5; ++k) hot.Note(Key(0), load, now);
    }
    return hot.IsHot(Key(0));
  };
  EXPECT_TRUE(run(20, 0, 60));       // 5 of 25: 2 x the mean
  EXPECT_TRUE(run(65, 60, 160));     // 5 of 70: 0.71 x, above half
  EXPECT_FALSE(run(120, 160, 260));  // 5 of 125: 0.4 x
  EXPECT_FALSE(run(65, 260, 360));   // 0.71 x again: not hot from below
  EXPECT_EQ(hot.TurnedHotTotal(), 1u);
  EXPECT_EQ(hot.HotCount(), 0u);
}

TEST(HotKeysTest, FadesAcrossManyHalfLives) {
  HotKeys hot({.half_life = seconds(1)});
  EXPECT_TRUE(IsHotWithShare(&hot, 1, 8));
  EXPECT_FALSE(hot.Note(Key(0), {.weight_tokens = 1000, .targets = 8}, seconds(10'000)))
      << "one request after hours is no crowd";
  EXPECT_EQ(hot.HotCount(), 0u);
}

TEST(HotKeysTest, FindsTheHotKeyAmongFarMoreKeysThanAreTracked) {
  std::mt19937_64 random(1);
  HotKeys hot({.tracked_keys = 64});
  uint64_t cold_said_hot = 0;
  for (int i = 0; i < 50'000; ++i) {
    const MonotonicTime now = milliseconds(i);
    const bool of_hot = random() % 4 == 0;
    const SessionKey key = Key(of_hot ? 0 : 1 + random() % 20'000);
    const bool said = hot.Note(key, {.weight_tokens = 100, .targets = 8}, now);
    if (!of_hot) cold_said_hot += said ? 1 : 0;
  }
  EXPECT_TRUE(hot.IsHot(Key(0)));
  EXPECT_EQ(cold_said_hot, 0u);
  EXPECT_EQ(hot.HotCount(), 1u);
}

}  // namespace
}  // namespace kvrouter
