#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/bounded_queue.h"
#include "kvrouter/error.h"
#include "kvrouter/router.h"
#include "support/core_builders.h"

namespace kvrouter {
namespace {

using namespace testing;  // NOLINT: the builders

constexpr int kRounds = 1500;

std::vector<TokenId> APrompt(std::mt19937_64& random) {
  // A common head and one of a few tails: look-ups, splits and bookings meet each other.
  auto tokens = TokensFrom(0, 16 * (1 + random() % 8));
  const auto tail = TokensFrom(static_cast<TokenId>(1000 * (1 + random() % 6)), 48);
  tokens.insert(tokens.end(), tail.begin(), tail.end());
  return tokens;
}

// Everything at once: routing, all life-cycle calls, events, workers that come, change, move and
// go, snapshots, expiry. Run under ThreadSanitizer; the assertions are what must hold in any
// interleaving.
TEST(RouterThreadsTest, NothingIsLostOrCountedTwiceWhenEverythingHappensAtOnce) {
  RecordingSink sink;
  Router router(RouterConfig{}, &sink);
  for (uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(router.UpsertWorker(AWorker(id)).ok());

  std::atomic<int64_t> clock_ms{0};
  const auto now = [&] { return MonotonicTime(std::chrono::milliseconds(clock_ms++)); };
  std::atomic<uint64_t> booked{0};
  std::atomic<uint64_t> advised{0};
  std::atomic<uint64_t> refused{0};
  BoundedQueue<BookingId> handed_on(
      100'000);  // finished by another thread than the one that booked

  const auto route = [&](uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < kRounds; ++i) {
      const auto tokens = APrompt(random);
      RouteRequest request = ARequest(tokens);
      request.book = random() % 4 != 0;
      if (random() % 4 == 0) request.pinned = {.worker = WorkerId{1 + random() % 5}};
      const auto submission = router.Submit(request, now());
      if (!submission.ok()) {
        const auto reason = ErrorReasonOf(submission.status());
        EXPECT_TRUE(reason == ErrorReason::kPinnedUnavailable) << submission.status();
        ++refused;
        continue;
      }
      const auto& decision = std::get<RouteDecision>(*submission);
      EXPECT_EQ(decision.booked, request.book);
      EXPECT_EQ(decision.address,
                "http://worker-" + std::to_string(static_cast<uint64_t>(decision.target.worker)));
      ++(request.book ? booked : advised);
      if (!request.book) continue;
      if (random() % 2 == 0) router.PrefillComplete(decision.booking, now());
      router.OutputTokens(decision.booking, random() % 64, {}, now());
      EXPECT_TRUE(handed_on.TryPush(decision.booking));
    }
  };
  const auto finish = [&] {
    std::set<BookingId> seen;
    while (const auto booking = handed_on.PopFor(std::chrono::minutes(10))) {
      EXPECT_TRUE(seen.insert(*booking).second) << "ids are unique";
      router.KeepAlive(*booking, now());
      router.Finish(*booking, now());  // false if its worker left meanwhile
      EXPECT_FALSE(router.IsLive(*booking));
      EXPECT_FALSE(router.Finish(*booking, now()));
    }
  };
  std::atomic<bool> stop{false};
  const auto feed = [&](uint64_t worker) {
    std::mt19937_64 random(worker);
    while (!stop) {
      const auto tokens = APrompt(random);
      if (random() % 3 != 0) {
        router.Apply(StoredEvent(tokens, TargetOf(worker), 1 + random() % 2));
      } else if (random() % 20 != 0) {
        router.Apply(AnEvent(TargetOf(worker), Removed{EngineHashesOf(tokens)}));
      } else {
        router.Apply(AnEvent(TargetOf(worker), Cleared{}));
      }
    }
  };
  // Worker 3 restarts and changes shape, worker 4 moves between partitions, worker 5 comes and
  // goes.
  const auto change = [&] {
    uint64_t incarnation = 1;
    while (!stop) {
      ++incarnation;
      WorkerSpec spec = AWorker(3, incarnation / 2);
      spec.dp_size = 1 + static_cast<uint32_t>(incarnation % 3);
      EXPECT_TRUE(router.UpsertWorker(spec).ok());
      spec = AWorker(4, incarnation);
      spec.model_name = incarnation % 2 == 0 ? "default" : "other";
      EXPECT_TRUE(router.UpsertWorker(spec).ok());
      EXPECT_TRUE(router.UpsertWorker(AWorker(5)).ok());
      EXPECT_TRUE(router.RemoveWorker(WorkerId{5}));
    }
  };
  const auto look = [&] {
    while (!stop) {
      for (const auto& partition : router.Snapshot()) {
        for (const auto& load : partition.loads) {
          EXPECT_LT(load.active_requests, 1'000'000u) << "a counter went below zero";
          EXPECT_LT(load.active_prefill_tokens, 1'000'000'000u);
        }
      }
      EXPECT_TRUE(router.Expire(now()).empty()) << "nothing is that old";
      EXPECT_TRUE(router.FindOverlap(ARequest(TokensFrom(0, 64))).ok());
    }
  };

  {
    std::vector<std::jthread> background;
    for (uint64_t worker = 1; worker <= 5; ++worker) background.emplace_back(feed, worker);
    background.emplace_back(change);
    background.emplace_back(look);
    std::jthread finisher(finish);
    {
      std::vector<std::jthread> routing;
      for (uint64_t seed = 0; seed < 4; ++seed) routing.emplace_back(route, seed);
    }
    handed_on.Close();
    finisher.join();
    stop = true;
  }

  EXPECT_EQ(booked + advised + refused, uint64_t{4 * kRounds});
  EXPECT_EQ(sink.Decisions().size(), booked + advised) << "each decision is reported once";
  uint64_t reported_booked = 0;
  for (const auto& decision : sink.Decisions()) reported_booked += decision.booked ? 1 : 0;
  EXPECT_EQ(reported_booked, booked);
  ExpectIdle(router);
  for (uint64_t id = 1; id <= 5; ++id) router.RemoveWorker(WorkerId{id});
  for (const auto& partition : router.Snapshot()) {
    EXPECT_EQ(partition.index_holder_blocks, 0u);
    EXPECT_EQ(partition.index_unique_blocks, 0u);
    EXPECT_TRUE(partition.loads.empty());
  }
}

// B16 with the events not in a queue but already inside Apply when the worker is removed.
TEST(RouterThreadsTest, B16_EventsUnderWayDoNotBringADepartedWorkerBack) {
  Router router(RouterConfig{}, nullptr);
  std::atomic<bool> stop{false};
  const auto feed = [&](TokenId first) {
    const KvEvent event = StoredEvent(TokensFrom(first, 200 * kBlockSize), TargetOf(1));
    while (!stop) router.Apply(event);
  };
  std::vector<std::jthread> feeders;
  struct StopOnExit {
    std::atomic<bool>& flag;
    ~StopOnExit() { flag = true; }
  } stop_on_exit{stop};  // after the feeders: they are told before they are joined
  for (TokenId i = 0; i < 3; ++i) feeders.emplace_back(feed, 100'000 * i);
  uint64_t rounds_with_blocks = 0;
  for (int round = 0; round < 60; ++round) {
    EXPECT_TRUE(router.UpsertWorker(AWorker(1)).ok());
    for (int look = 0; look < 1000 && router.Snapshot()[0].index_holder_blocks == 0; ++look) {
      std::this_thread::yield();
    }
    rounds_with_blocks += router.Snapshot()[0].index_holder_blocks > 0 ? 1 : 0;
    EXPECT_TRUE(router.RemoveWorker(WorkerId{1}));
    // Nothing may arrive after the removal has returned, however late.
    for (int look = 0; look < 3; ++look) {
      ASSERT_EQ(router.Snapshot()[0].index_holder_blocks, 0u) << "round " << round;
      std::this_thread::yield();
    }
  }
  EXPECT_GT(rounds_with_blocks, 0u) << "the feeders never got in: nothing was tested";
}

// More candidates than are shown: the first to read puts them in order.
TEST(RouterThreadsTest, ManyMayReadOneExplanationFirst) {
  Router router({}, nullptr);
  for (uint64_t id = 1; id <= kMaxDetailedCandidates + 6; ++id) {
    ASSERT_TRUE(router.UpsertWorker(AWorker(id)).ok());
    router.Apply(StoredEvent(TokensFrom(0, kBlockSize * (1 + id % 40)), TargetOf(id)));
  }
  for (int round = 0; round < 50; ++round) {
    const RouteDecision decision = Decide(router, ARequest(TokensFrom(0, 40 * kBlockSize)));
    std::vector<std::jthread> readers;
    for (int i = 0; i < 3; ++i) {
      readers.emplace_back([copy = decision] {
        ASSERT_EQ(copy.candidates.size(), kBestCandidates);
        double last_cost = 0;
        for (const CandidateCost& candidate : copy.candidates) {
          ASSERT_GE(candidate.cost_blocks, last_cost);
          last_cost = candidate.cost_blocks;
        }
      });
    }
  }
}

}  // namespace
}  // namespace kvrouter
