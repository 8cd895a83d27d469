#include "core/plan/recent_continuations.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace kvrouter {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

SessionKey Key(uint64_t i) { return SessionKey{MixBits(i + 1)}; }

TEST(RecentContinuationsTest, SaysHowLongAgoWithinTheWindow) {
  RecentContinuations seen({.max_sessions = 100});
  EXPECT_FALSE(seen.Touch(Key(1), seconds(5)));
  EXPECT_EQ(seen.Touch(Key(1), seconds(5) + milliseconds(1)), milliseconds(1));
  EXPECT_EQ(seen.Touch(Key(1), seconds(105) + milliseconds(1)), seconds(100));
  EXPECT_FALSE(seen.Touch(Key(2), seconds(105) + milliseconds(1)));
  EXPECT_EQ(seen.GetStats().sessions, 2u);
}

TEST(RecentContinuationsTest, TheWindowEndsToTheMillisecond) {
  for (const MonotonicTime start : {seconds(0), seconds(7), seconds(1'000'000)}) {
    for (const auto offset : {milliseconds(0), milliseconds(1), milliseconds(999)}) {
      RecentContinuations seen({.max_sessions = 100});
      seen.Touch(Key(0), start);  // where time starts
      seen.Touch(Key(1), start + offset);
      const MonotonicTime end = start + offset + seconds(3600);
      EXPECT_EQ(seen.Peek(Key(1), end - milliseconds(1)), seconds(3600) - milliseconds(1));
      EXPECT_FALSE(seen.Peek(Key(1), end));
      EXPECT_FALSE(seen.Peek(Key(1), end + milliseconds(1)));
      EXPECT_FALSE(seen.Touch(Key(1), end));
      EXPECT_EQ(seen.Touch(Key(1), end + seconds(1)), seconds(1)) << "each request refreshes";
    }
  }
}

TEST(RecentContinuationsTest, PeekRemembersNothing) {
  RecentContinuations seen({.max_sessions = 100});
  EXPECT_FALSE(seen.Peek(Key(1), seconds(0)));
  EXPECT_FALSE(seen.Peek(Key(1), seconds(1)));
  seen.Touch(Key(1), seconds(2));
  EXPECT_EQ(seen.Peek(Key(1), seconds(5)), seconds(3));
  EXPECT_EQ(seen.Peek(Key(1), seconds(6)), seconds(4));
}

TEST(RecentContinuationsTest, WhenFullTheOldestGoesFirst) {
  RecentContinuations seen({.max_sessions = 10});
  for (uint64_t i = 0; i < 10; ++i) seen.Touch(Key(i), seconds(i));
  seen.Touch(Key(0), seconds(10));  // 1 is now the oldest
  seen.Touch(Key(10), seconds(11));
  EXPECT_EQ(seen.GetStats().sessions, 10u);
  EXPECT_EQ(seen.GetStats().evicted_total, 1u);
  EXPECT_FALSE(seen.Peek(Key(1), seconds(11)));
  for (const uint64_t i : {0, 2, 3, 4, 5, 6, 7, 8, 9, 10}) {
    EXPECT_TRUE(seen.Peek(Key(i), seconds(11))) << i;
  }
}

TEST(RecentContinuationsTest, ABurstWithinASecondStaysWithinTheBound) {
  RecentContinuations seen({.max_sessions = 100});
  for (uint64_t i = 0; i < 10'000; ++i) seen.Touch(Key(i), milliseconds(i / 100));
  const auto stats = seen.GetStats();
  EXPECT_LE(stats.sessions, 100u);
  EXPECT_GE(stats.sessions, 90u);
  EXPECT_EQ(stats.sessions + stats.evicted_total, 10'000u);
}

TEST(RecentContinuationsTest, ALongSilenceForgetsAll) {
  RecentContinuations seen({.max_sessions = 1000});
  for (uint64_t i = 0; i < 500; ++i) seen.Touch(Key(i), seconds(i));
  seen.Touch(Key(0), seconds(1'000'000));
  EXPECT_EQ(seen.GetStats().sessions, 1u);
  EXPECT_EQ(seen.GetStats().evicted_total, 0u);
}

TEST(RecentContinuationsTest, FourMillionSessionsFitAndTakeFewBytesEach) {
  constexpr uint64_t kSessions = 4'000'000;
  RecentContinuations seen({.max_sessions = kSessions});
  const auto at = [](uint64_t i) { return nanoseconds(i * 3'000'000'000'000 / kSessions); };
  for (uint64_t i = 0; i < kSessions; ++i) seen.Touch(Key(i), at(i));
  const auto full = seen.GetStats();
  EXPECT_LE(full.capacity_bytes, 13 * kSessions);
  // Buckets overflow, and keys are taken for each other, as good as never.
  EXPECT_LE(kSessions - full.sessions, 40u);
  uint64_t found = 0;
  for (uint64_t i = 0; i < kSessions; i += 1000) found += seen.Peek(Key(i), at(kSessions)) ? 1 : 0;
  EXPECT_GE(found, kSessions / 1000 - 1);
  // More push out the oldest, and only those.
  for (uint64_t i = kSessions; i < kSessions + 10'000; ++i) seen.Touch(Key(i), at(i));
  EXPECT_LE(seen.GetStats().sessions, kSessions);
  EXPECT_FALSE(seen.Peek(Key(0), at(kSessions + 10'000)));
  EXPECT_FALSE(seen.Peek(Key(5'000), at(kSessions + 10'000)));
  EXPECT_TRUE(seen.Peek(Key(20'000), at(kSessions + 10'000)));
}

TEST(RecentContinuationsTest, AgreesWithAMapOfTimesOnRandomHistories) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    std::mt19937_64 random(seed);
    RecentContinuations seen({.max_sessions = 10'000, .window = seconds(60)});
    std::map<uint64_t, MonotonicTime> model;
    MonotonicTime now = seconds(random() % 100);
    for (int step = 0; step < 2000; ++step) {
      SCOPED_TRACE(fmt::format("seed={} step={}", seed, step));
      now += milliseconds(random() % 10 == 0 ? random() % 70'000 : random() % 500);
      const uint64_t id = random() % 50;
      std::optional<nanoseconds> expected;
      if (const auto it = model.find(id); it != model.end()) {
        if (now - it->second < seconds(60)) expected = now - it->second;
      }
      ASSERT_EQ(seen.Peek(Key(id), now), expected);
      if (random() % 4 == 0) continue;
      ASSERT_EQ(seen.Touch(Key(id), now), expected);
      model[id] = now;
      uint64_t alive = 0;
      for (const auto& [other, at] : model) alive += now - at < seconds(60) ? 1 : 0;
      // Counted by whole seconds: what dies within this one may still be counted.
      ASSERT_GE(seen.GetStats().sessions, alive);
      ASSERT_LE(seen.GetStats().sessions, model.size());
    }
  }
}

}  // namespace
}  // namespace kvrouter
