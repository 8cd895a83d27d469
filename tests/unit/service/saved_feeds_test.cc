#include "service/saved_feeds.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "feed/saved_feed_codec.h"

namespace kvrouter {
namespace {

WorkerSpec ASpec() {
  WorkerSpec spec;
  spec.id = WorkerId{7};
  spec.incarnation = Incarnation{3};
  spec.block_size_tokens = 16;
  spec.dp_size = 2;
  spec.events[0] = {.live = "tcp://e:1", .replay = "tcp://e:2"};
  spec.events[1] = {.live = "tcp://e:3", .replay = "tcp://e:4"};
  return spec;
}

std::string APayload(uint32_t rank = 0, uint64_t blocks = 20, uint64_t sequence = 5) {
  SavedFeed feed;
  feed.spec = ASpec();
  feed.rank = rank;
  feed.progress.applied = {.sequence = sequence, .ts_seconds = 1.5};
  feed.progress.ranks = {{.dp_rank = rank, .held_blocks = blocks, .filter = {}, .blocks = {}}};
  return EncodeFeed(feed);
}

uint64_t Feeds(const SavedFeeds& saved, RestoreOutcome outcome) {
  return saved.Read().feeds[static_cast<size_t>(outcome)];
}

TEST(SavedFeedsTest, AFeedIsGivenOutOnce) {
  SavedFeeds saved;
  ASSERT_TRUE(saved.Load({APayload(0), APayload(1)}).ok());
  EXPECT_EQ(saved.Read().waiting_feeds, 2u);
  EXPECT_EQ(saved.Read().waiting_blocks, 40u);
  const auto progress = saved.Claim(ASpec(), 0);
  ASSERT_TRUE(progress.has_value());
  EXPECT_EQ(progress->applied.sequence, 5u);
  EXPECT_FALSE(saved.Claim(ASpec(), 0).has_value());
  EXPECT_EQ(saved.Read().waiting_feeds, 1u);
  EXPECT_EQ(saved.Read().waiting_blocks, 20u);
  EXPECT_EQ(saved.Read().waiting_bytes, APayload(1).size());
  saved.Settle(RestoreOutcome::kProved, 20);
  EXPECT_EQ(Feeds(saved, RestoreOutcome::kProved), 1u);
  EXPECT_EQ(saved.Read().blocks[static_cast<size_t>(RestoreOutcome::kProved)], 20u);
}

TEST(SavedFeedsTest, OfTwoOfOneRankTheLaterCounts) {
  SavedFeeds saved;
  ASSERT_TRUE(saved.Load({APayload(0, 20, 5), APayload(0, 30, 9)}).ok());
  EXPECT_EQ(saved.Read().waiting_blocks, 30u);
  EXPECT_EQ(saved.Claim(ASpec(), 0)->applied.sequence, 9u);
}

TEST(SavedFeedsTest, WhatCannotBeProvedIsDroppedForItsReason) {
  const std::pair<RestoreOutcome, void (*)(WorkerSpec*)> kCases[] = {
      {RestoreOutcome::kOtherIncarnation, [](WorkerSpec* s) { s->incarnation = Incarnation{4}; }},
      {RestoreOutcome::kOtherBlocks, [](WorkerSpec* s) { s->block_size_tokens = 32; }},
      {RestoreOutcome::kOtherBlocks, [](WorkerSpec* s) { s->model_name = "other"; }},
      {RestoreOutcome::kOtherBlocks, [](WorkerSpec* s) { s->routing_group = "other"; }},
      {RestoreOutcome::kOtherBlocks, [](WorkerSpec* s) { s->is_eagle = true; }},
      {RestoreOutcome::kOtherBlocks, [](WorkerSpec* s) { s->image_token_id = 9; }},
      {RestoreOutcome::kOtherBlocks, [](WorkerSpec* s) { s->dp_size = 3; }},
      {RestoreOutcome::kNoReplay, [](WorkerSpec* s) { s->events[0].replay = ""; }},
      {RestoreOutcome::kOtherEndpoint, [](WorkerSpec* s) { s->events[0].live = "tcp://f:1"; }},
      {RestoreOutcome::kOtherEndpoint, [](WorkerSpec* s) { s->events[0].replay = "tcp://f:2"; }},
      {RestoreOutcome::kOtherEndpoint, [](WorkerSpec* s) { s->events.erase(0); }},
  };
  for (const auto& [outcome, change] : kCases) {
    SCOPED_TRACE(RestoreOutcomeName(outcome));
    SavedFeeds saved;
    ASSERT_TRUE(saved.Load({APayload()}).ok());
    WorkerSpec spec = ASpec();
    change(&spec);
    EXPECT_FALSE(saved.Claim(spec, 0).has_value());
    EXPECT_EQ(Feeds(saved, outcome), 1u);
    EXPECT_EQ(saved.Read().blocks[static_cast<size_t>(outcome)], 20u);
    EXPECT_EQ(saved.Read().waiting_feeds, 0u);
    EXPECT_FALSE(saved.Claim(ASpec(), 0).has_value()) << "not later either";
  }
}

TEST(SavedFeedsTest, AddressRoleAndCapacityDoNotMatter) {
  SavedFeeds saved;
  ASSERT_TRUE(saved.Load({APayload()}).ok());
  WorkerSpec spec = ASpec();
  spec.address = "http://elsewhere";
  spec.role = WorkerRole::kPrefill;
  spec.total_kv_blocks = 5;
  spec.draining = true;
  EXPECT_TRUE(saved.Claim(spec, 0).has_value());
}

TEST(SavedFeedsTest, WhatNobodyClaimsIsGivenUp) {
  SavedFeeds saved;
  ASSERT_TRUE(saved.Load({APayload(0), APayload(1)}).ok());
  saved.GiveUp();
  EXPECT_EQ(Feeds(saved, RestoreOutcome::kWorkerAbsent), 2u);
  EXPECT_EQ(saved.Read().waiting_feeds, 0u);
  EXPECT_EQ(saved.Read().waiting_bytes, 0u);
  EXPECT_FALSE(saved.Claim(ASpec(), 0).has_value());
  saved.GiveUp();
  EXPECT_EQ(Feeds(saved, RestoreOutcome::kWorkerAbsent), 2u);
}

TEST(SavedFeedsTest, OneUnreadableFeedAndNoneIsTaken) {
  SavedFeeds saved;
  EXPECT_FALSE(saved.Load({APayload(), "garbage"}).ok());
  EXPECT_EQ(saved.Read().waiting_feeds, 0u);
  EXPECT_TRUE(saved.Incarnations().empty());
}

TEST(SavedFeedsTest, WhatWaitsIsReadOneByOne) {
  SavedFeeds saved;
  ASSERT_TRUE(saved.Load({APayload(1), APayload(0)}).ok());
  const auto first = saved.NextWaiting(std::nullopt);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->feed, (Target{WorkerId{7}, 0}));
  EXPECT_EQ(first->payload, APayload(0));
  const auto second = saved.NextWaiting(first->feed);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->feed.dp_rank, 1u);
  EXPECT_FALSE(saved.NextWaiting(second->feed).has_value());
}

}  // namespace
}  // namespace kvrouter
