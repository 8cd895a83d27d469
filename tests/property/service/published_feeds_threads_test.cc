#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "kvrouter/error.h"
#include "service/published_feeds.h"
#include "support/core_builders.h"

namespace kvrouter {
namespace {

using namespace testing;  // NOLINT: the builders

constexpr int kRounds = 2'000;

std::shared_ptr<const DecodedBatch> AStore(TokenId first) {
  auto batch = std::make_shared<DecodedBatch>();
  const auto tokens = TokensFrom(first, 32);
  const KvEvent core = StoredEvent(tokens, {});
  for (const StoredBlock& block : std::get<Stored>(core.data).blocks) {
    batch->raw.hashes.push_back(static_cast<uint64_t>(block.engine_hash));
    batch->raw.local_hashes.push_back(block.local_hash);
  }
  RawEvent& event = batch->raw.events.emplace_back();
  event.kind = RawKind::kStored;
  event.hashes = {0, 2};
  event.local_hashes = {0, 2};
  event.block_size_tokens = kBlockSize;
  return batch;
}

// Publishers that come, speak, take over from each other and break off; workers that change, leave
// and return; ticks and looks in between. Run under ThreadSanitizer.
TEST(PublishedFeedsThreadsTest, TheLastPublisherHasTheFeedWhateverHappenedBefore) {
  Router router(RouterConfig{}, nullptr);
  WorkerRegistry registry(&router);
  FeedMonitor monitor;
  PublishedFeeds feeds({}, &router, &monitor, &SteadyClock());
  registry.AddListener(&feeds);
  for (uint64_t id = 1; id <= 2; ++id) ASSERT_TRUE(registry.Register(AWorker(id, 1)).ok());

  std::atomic<bool> done{false};
  std::atomic<uint64_t> wakes{0};
  const auto publish = [&](uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int round = 0; round < kRounds; ++round) {
      const Target target = TargetOf(1 + random() % 2);
      const auto opened =
          feeds.Open({.target = target, .can_replay = random() % 2 == 0}, [&] { ++wakes; });
      if (!opened.ok()) {
        EXPECT_EQ(ErrorReasonOf(opened.status()), ErrorReason::kUnknownWorker) << "seed " << seed;
        continue;
      }
      PublishStream& stream = **opened;
      for (uint64_t sequence = 0; sequence < 1 + random() % 8; ++sequence) {
        const FeedBatch batch{.mark = {sequence, 1.0},
                              .decoded = AStore(static_cast<TokenId>(1000 * (random() % 50)))};
        if (random() % 8 != 0) stream.OnLive(batch);
        const auto status = stream.TakeStatus();
        if (!status || !status->replay) continue;
        stream.OnReplayed(status->replay->id, batch);
        if (random() % 4 != 0) stream.OnReplayEnd(status->replay->id);
      }
      if (random() % 2 == 0) stream.Close();
      const absl::Status ended = stream.Ended();  // once: it may end meanwhile
      const auto reason = ErrorReasonOf(ended);
      EXPECT_TRUE(ended.ok() || reason == ErrorReason::kFeedConflict ||
                  reason == ErrorReason::kUnknownWorker)
          << "seed " << seed << ": " << ended;
    }
  };
  {
    std::jthread looker([&] {
      while (!done) {
        feeds.Tick();
        feeds.InitialRecoveryDone();
        monitor.Reports();
        router.Snapshot();
      }
    });
    std::jthread changer([&] {
      for (uint64_t life = 2; !done; ++life) {
        if (life % 3 == 0) (void)registry.Remove(WorkerId{1});
        EXPECT_TRUE(registry.Register(AWorker(1, life)).ok());
        std::this_thread::yield();
      }
    });
    {
      std::vector<std::jthread> publishers;
      for (uint64_t seed = 1; seed <= 3; ++seed) publishers.emplace_back(publish, seed);
    }
    done = true;
  }
  // Quiet again: the one who comes last is heard, and nothing of the others is left over.
  ASSERT_TRUE(registry.Remove(WorkerId{2}).ok());
  ASSERT_TRUE(registry.Register(AWorker(2, 1'000'000)).ok());
  const auto last = feeds.Open({.target = TargetOf(2)}, [] {});
  ASSERT_TRUE(last.ok());
  (*last)->OnLive({.mark = {0, 1.0}, .decoded = AStore(0)});
  EXPECT_EQ(OverlapOf(router, TokensFrom(0, 32), TargetOf(2)), 2u);
  EXPECT_EQ(LoadOf(router, TargetOf(2))->index_blocks, 2u);
  EXPECT_TRUE((*last)->Ended().ok());
  feeds.Stop();
  EXPECT_EQ(ErrorReasonOf((*last)->Ended()), ErrorReason::kShuttingDown);
}

}  // namespace
}  // namespace kvrouter
