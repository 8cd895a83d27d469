#include "core/index/routed_blocks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "kvrouter/block_hash.h"

namespace kvrouter {
namespace {

using std::chrono::milliseconds;

struct Prompt {
  std::vector<LocalBlockHash> local;
  std::vector<SequenceHash> sequence;
};

Prompt PromptOf(const std::vector<uint64_t>& contents) {
  Prompt prompt;
  for (const uint64_t content : contents) prompt.local.push_back(LocalBlockHash{content});
  AppendSequenceHashes(prompt.local, &prompt.sequence);
  return prompt;
}

constexpr Target kTarget{WorkerId{1}, 0};

class RoutedBlocksTest : public ::testing::Test {
 protected:
  void Send(const Prompt& prompt, milliseconds now, Target target = kTarget) {
    routed_.Record(target, prompt.local, prompt.sequence, now);
  }
  uint32_t Held(const Prompt& prompt, Target target = kTarget) const {
    std::vector<OverlapMatch> matches;
    index_.FindOverlap(prompt.local, &matches);
    for (const OverlapMatch& match : matches)
      if (match.target == target) return match.blocks;
    return 0;
  }

  BlockIndex index_;
  RoutedBlocks routed_{{.ttl = milliseconds(1000), .max_blocks = 6}, &index_};
  const Prompt abc_ = PromptOf({1, 2, 3});
};

TEST_F(RoutedBlocksTest, APromptIsHeldUntilTheStepItsTimeEndsIn) {
  Send(abc_, milliseconds(210));  // ends at 1210, in the step that is over at 1300
  routed_.Expire(milliseconds(1299));
  EXPECT_EQ(Held(abc_), 3u);
  EXPECT_FALSE(routed_.IsDue(milliseconds(1299)));
  EXPECT_TRUE(routed_.IsDue(milliseconds(1300)));
  routed_.Expire(milliseconds(1300));
  EXPECT_EQ(Held(abc_), 0u);
  EXPECT_EQ(routed_.Read().expired_total, 3u);
  EXPECT_FALSE(routed_.IsDue(milliseconds(1'000'000)));
}

TEST_F(RoutedBlocksTest, AnEndOnAStepIsNotMovedToTheNext) {
  Send(abc_, milliseconds(200));
  routed_.Expire(milliseconds(1200));
  EXPECT_EQ(Held(abc_), 0u);
}

TEST_F(RoutedBlocksTest, SendingAPartAgainRefreshesThatPart) {
  Send(abc_, milliseconds(0));
  Send(PromptOf({1, 2}), milliseconds(500));
  EXPECT_EQ(routed_.Read().refreshed_total, 2u);
  routed_.Expire(milliseconds(1000));
  EXPECT_EQ(Held(abc_), 2u);
  routed_.Expire(milliseconds(1500));
  EXPECT_EQ(Held(abc_), 0u);
}

TEST_F(RoutedBlocksTest, EachTargetHasEndsOfItsOwn) {
  const Target other{WorkerId{1}, 1};
  Send(abc_, milliseconds(0));
  Send(abc_, milliseconds(400), other);
  routed_.Expire(milliseconds(1000));
  EXPECT_EQ(Held(abc_), 0u);
  EXPECT_EQ(Held(abc_, other), 3u);
}

TEST_F(RoutedBlocksTest, BeyondTheBoundTheOldestLeaveDeepestFirst) {
  Send(abc_, milliseconds(0));
  Send(PromptOf({4, 5, 6, 7}), milliseconds(500));
  EXPECT_EQ(Held(abc_), 2u);
  EXPECT_EQ(Held(PromptOf({4, 5, 6, 7})), 4u);
  EXPECT_EQ(routed_.Read().forgotten_total, 1u);
}

TEST_F(RoutedBlocksTest, OfAPromptLongerThanTheBoundTheStartIsKept) {
  Send(PromptOf({1, 2, 3, 4, 5, 6, 7, 8}), milliseconds(0));
  EXPECT_EQ(Held(PromptOf({1, 2, 3, 4, 5, 6, 7, 8})), 6u);
  EXPECT_EQ(routed_.Read().forgotten_total, 2u);
}

TEST_F(RoutedBlocksTest, ARemovedTargetLeavesNothingBehind) {
  Send(abc_, milliseconds(0));
  routed_.RemoveTarget(kTarget);
  EXPECT_EQ(Held(abc_), 0u);
  EXPECT_EQ(routed_.Read().blocks, 0u);
  EXPECT_EQ(routed_.Read().expired_total, 0u);
  Send(abc_, milliseconds(100));
  EXPECT_EQ(Held(abc_), 3u);
}

TEST_F(RoutedBlocksTest, ANameThatContradictsWhatIsKnownIsRefused) {
  Send(abc_, milliseconds(0));
  Prompt liar = PromptOf({9, 8});
  liar.sequence[1] = liar.sequence[0];  // twice in one prompt
  Send(liar, milliseconds(0));
  EXPECT_EQ(routed_.Read().refused_total, 2u);
  EXPECT_EQ(Held(liar), 0u);
  EXPECT_EQ(Held(abc_), 3u);
}

TEST(RoutedBlocksThreadsTest, BookingsLookupsExpiriesAndRemovalsMayOverlap) {
  BlockIndex index;
  RoutedBlocks routed({.ttl = milliseconds(20), .max_blocks = 500}, &index);
  constexpr int kRounds = 300;
  const auto book = [&](uint64_t worker) {
    for (uint64_t round = 0; round < kRounds; ++round) {
      const Prompt prompt = PromptOf({round % 7, round % 3, worker, round});
      routed.Record({WorkerId{worker}, 0}, prompt.local, prompt.sequence, milliseconds(round));
      if (round % 50 == 0) routed.RemoveTarget({WorkerId{worker}, 0});
    }
  };
  std::vector<std::jthread> threads;
  for (uint64_t worker = 1; worker <= 2; ++worker) threads.emplace_back(book, worker);
  threads.emplace_back([&] {
    for (int round = 0; round < kRounds; ++round) routed.Expire(milliseconds(round));
  });
  threads.emplace_back([&] {
    std::vector<OverlapMatch> matches;
    for (uint64_t round = 0; round < kRounds; ++round)
      index.FindOverlap(PromptOf({round % 7, round % 3, 1, round}).local, &matches);
  });
  threads.clear();
  index.CheckInvariants();
  routed.Expire(std::chrono::hours(1));
  EXPECT_EQ(routed.Read().blocks, 0u);
  EXPECT_EQ(index.Stats().unique_blocks, 0u);
}

}  // namespace
}  // namespace kvrouter
