#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "kvrouter/error.h"
#include "kvrouter/router.h"
#include "support/core_builders.h"

namespace kvrouter {
namespace {

using namespace testing;  // NOLINT: the builders

std::vector<KvEvent> DumpOf(const Router& router, DumpCounts* counts = nullptr) {
  std::vector<KvEvent> events;
  const auto result = router.Dump("default", "default", [&](const KvEvent& event) {
    events.push_back(event);
    return true;
  });
  EXPECT_TRUE(result.ok()) << result.status();
  if (counts != nullptr && result.ok()) *counts = *result;
  return events;
}

class RouterDumpTest : public ::testing::Test {
 protected:
  RouterDumpTest() : router_(RouterConfig{}, nullptr), copy_(RouterConfig{}, nullptr) {
    for (Router* router : {&router_, &copy_}) {
      WorkerSpec two_ranks = AWorker(1, 5);
      two_ranks.dp_size = 2;
      EXPECT_TRUE(router->UpsertWorker(two_ranks).ok());
      EXPECT_TRUE(router->UpsertWorker(AWorker(2, 6)).ok());
    }
  }

  Router router_;
  Router copy_;
};

TEST_F(RouterDumpTest, AppliedToAnEmptyRouterItGivesTheSameOverlaps) {
  const auto longer = TokensFrom(0, 320);
  const std::vector<TokenId> shorter(longer.begin(), longer.begin() + 160);
  const auto other = TokensFrom(9'000, 64);
  router_.Apply(StoredEvent(longer, TargetOf(1, 0), 5));
  router_.Apply(StoredEvent(shorter, TargetOf(1, 1), 5));
  router_.Apply(StoredEvent(other, TargetOf(1, 1), 5));
  router_.Apply(StoredEvent(longer, TargetOf(2), 6));
  const auto hashes = EngineHashesOf(longer);
  router_.Apply(AnEvent(TargetOf(2), Removed{{hashes[4]}}, 6));

  DumpCounts counts;
  uint64_t next_id = 0;
  for (const KvEvent& event : DumpOf(router_, &counts)) {
    EXPECT_EQ(event.event_id, next_id++);
    EXPECT_EQ(copy_.Apply(event).status, ApplyStatus::kOk);
    EXPECT_EQ(copy_.Apply(event).blocks_stored, 0u) << "a second replay changes nothing";
  }
  EXPECT_EQ(counts.events, next_id);
  EXPECT_EQ(counts.blocks, 20u + 10 + 4 + 4);
  EXPECT_EQ(counts.omitted_blocks, 15u);
  EXPECT_TRUE(counts.complete);
  for (const Target target : {TargetOf(1, 0), TargetOf(1, 1), TargetOf(2)}) {
    EXPECT_EQ(OverlapOf(copy_, longer, target), OverlapOf(router_, longer, target));
    EXPECT_EQ(OverlapOf(copy_, other, target), OverlapOf(router_, other, target));
  }
  EXPECT_EQ(OverlapOf(copy_, longer, TargetOf(2)), 4u);
}

TEST_F(RouterDumpTest, UnknownPartitionsAreAnErrorAndEmptyOnesAreNot) {
  EXPECT_TRUE(DumpOf(router_).empty());
  const auto emit = [](const KvEvent&) { return true; };
  EXPECT_EQ(ErrorReasonOf(router_.Dump("default", "other", emit).status()),
            ErrorReason::kUnknownPartition);
}

TEST_F(RouterDumpTest, TheReceiverCanStopIt) {
  router_.Apply(StoredEvent(TokensFrom(0, 64), TargetOf(1), 5));
  router_.Apply(StoredEvent(TokensFrom(0, 64), TargetOf(2), 6));
  const auto counts = router_.Dump("default", "default", [](const KvEvent&) { return false; });
  ASSERT_TRUE(counts.ok());
  EXPECT_FALSE(counts->complete);
  EXPECT_EQ(counts->events, 1u);
}

TEST_F(RouterDumpTest, ACursorGoesOnWhereItWasWhateverHappensBetweenItsSteps) {
  const auto tokens = TokensFrom(0, 16 * 2'000);
  router_.Apply(StoredEvent(tokens, TargetOf(1), 5));
  router_.Apply(StoredEvent(tokens, TargetOf(2), 6));
  const auto cursor = router_.OpenDump("default", "default");
  ASSERT_TRUE(cursor.ok());
  EXPECT_EQ((*cursor)->BlockSizeTokens(), 16u);
  std::vector<KvEvent> events;
  while (events.empty()) ASSERT_TRUE((*cursor)->Next(&events));
  EXPECT_FALSE((*cursor)->Counts().complete);
  EXPECT_EQ((*cursor)->Counts().blocks, 256u) << "a step is short";

  EXPECT_TRUE(router_.RemoveWorker(WorkerId{2}));
  const auto hashes = EngineHashesOf(tokens);
  router_.Apply(AnEvent(TargetOf(1), Removed{{hashes[1'000]}}, 5));
  while ((*cursor)->Next(&events)) {
  }
  EXPECT_FALSE((*cursor)->Next(&events)) << "after the end: still the end";
  EXPECT_TRUE((*cursor)->Counts().complete);
  EXPECT_EQ((*cursor)->Counts().blocks, 1'000u) << "up to the hole, and nothing of who has left";
  EXPECT_EQ((*cursor)->Counts().events, events.size());
  EXPECT_EQ((*cursor)->Counts().omitted_blocks, 999u);
  for (const KvEvent& event : events) EXPECT_EQ(copy_.Apply(event).status, ApplyStatus::kOk);
  EXPECT_EQ(OverlapOf(copy_, tokens, TargetOf(1)), 1'000u);
}

TEST_F(RouterDumpTest, ACursorEndsWhenThePartitionsBlockSizeChanges) {
  EXPECT_TRUE(router_.RemoveWorker(WorkerId{2}));
  const auto tokens = TokensFrom(0, 16 * 2'000);
  router_.Apply(StoredEvent(tokens, TargetOf(1), 5));
  const auto cursor = router_.OpenDump("default", "default");
  ASSERT_TRUE(cursor.ok());
  std::vector<KvEvent> events;
  while (events.empty()) ASSERT_TRUE((*cursor)->Next(&events));
  WorkerSpec changed = AWorker(1, 5);
  changed.dp_size = 2;
  changed.block_size_tokens = 32;
  ASSERT_TRUE(router_.UpsertWorker(changed).ok());
  router_.Apply(StoredEvent(tokens, TargetOf(1), 5));
  const size_t before = events.size();
  EXPECT_FALSE((*cursor)->Next(&events));
  EXPECT_EQ(events.size(), before) << "blocks of another size do not belong to this dump";
  EXPECT_TRUE((*cursor)->Counts().complete);
}

// Blocks come and go meanwhile: every dump can be applied without an error.
TEST_F(RouterDumpTest, ADumpOfAMovingIndexCanBeApplied) {
  std::atomic<bool> stop{false};
  std::jthread churn([&] {
    for (TokenId round = 0; !stop; ++round) {
      const auto tokens = TokensFrom(round % 7 * 10'000, 16 * 600);
      router_.Apply(StoredEvent(tokens, TargetOf(1), 5));
      auto hashes = EngineHashesOf(tokens);
      hashes.erase(hashes.begin(), hashes.begin() + round % 500);
      if (round % 2 == 0) router_.Apply(AnEvent(TargetOf(1), Removed{std::move(hashes)}, 5));
      if (round % 31 == 30) router_.Apply(AnEvent(TargetOf(1), Cleared{}, 5));
    }
  });
  for (int dump = 0; dump < 30; ++dump) {
    for (const KvEvent& event : DumpOf(router_)) {
      EXPECT_EQ(copy_.Apply(event).status, ApplyStatus::kOk);
    }
    copy_.Apply(AnEvent(TargetOf(1), Cleared{}, 5));
  }
  stop = true;
}

}  // namespace
}  // namespace kvrouter
