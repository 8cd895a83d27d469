#include "adapters/grpc/event_convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "feed/rank_filter.h"

namespace kvrouter {
namespace {

uint64_t Skipped(const RawBatch& batch, SkipReason reason) {
  return batch.skipped[static_cast<size_t>(reason)];
}

TEST(EventConvertTest, AllFieldsOfAStoreArriveAndOutliveTheMessage) {
  FeedBatch batch;
  {
    v1::EventBatch message;
    message.set_sequence(7);
    message.set_timestamp_seconds(12.5);
    v1::BlocksStored* stored = message.add_events()->mutable_stored();
    stored->add_engine_hashes(~uint64_t{0});
    stored->add_engine_hashes(2);
    stored->set_parent_hash(0);
    stored->set_block_size_tokens(2);
    for (const uint32_t token : {5u, 6u, 7u, 0xffffffffu}) stored->add_token_ids(token);
    stored->set_lora_name("a LoRA name that is too long for the string itself");
    stored->set_cache_salt("salt");
    stored->set_medium("GPU");
    stored->add_block_items();
    v1::BlockItems* items = stored->add_block_items();
    items->add_item_hashes(9);
    items->add_item_hashes(9);
    stored->set_group_index(3);
    stored->set_attention_kind("full_attention");
    batch = FromProto(message);
  }
  EXPECT_EQ(batch.mark, (FeedCursor::Mark{7, 12.5}));
  ASSERT_TRUE(batch.decoded);
  EXPECT_FALSE(batch.decoded->refused);
  const RawBatch& raw = batch.decoded->raw;
  ASSERT_EQ(raw.events.size(), 1u);
  const RawEvent& event = raw.events[0];
  EXPECT_EQ(event.kind, RawKind::kStored);
  ASSERT_EQ(raw.Hashes(event).size(), 2u);
  EXPECT_EQ(raw.Hashes(event)[0], ~uint64_t{0});
  EXPECT_EQ(event.parent, 0u) << "0 is a parent";
  ASSERT_EQ(raw.Tokens(event).size(), 4u);
  EXPECT_EQ(raw.Tokens(event)[3], 0xffffffffu);
  EXPECT_EQ(event.block_size_tokens, 2u);
  EXPECT_EQ(event.lora_name, "a LoRA name that is too long for the string itself");
  EXPECT_EQ(event.cache_salt, "salt");
  EXPECT_EQ(event.medium, "GPU");
  EXPECT_EQ(event.group_idx, 3u);
  EXPECT_EQ(event.spec_kind, "full_attention");
  ASSERT_EQ(raw.Items(event).size(), 2u);
  EXPECT_EQ(raw.Items(event)[1], (BlockItem{1, MultimodalHash{9}}));
}

TEST(EventConvertTest, OneTokenMoreIsTheOneAheadOfTheLastBlock) {
  v1::EventBatch message;
  for (const int tokens : {4, 5, 6}) {
    v1::BlocksStored* stored = message.add_events()->mutable_stored();
    stored->add_engine_hashes(1);
    stored->add_engine_hashes(2);
    stored->set_block_size_tokens(2);
    for (int i = 0; i < tokens; ++i) stored->add_token_ids(static_cast<uint32_t>(i));
  }
  const FeedBatch batch = FromProto(message);
  const auto& events = batch.decoded->raw.events;
  ASSERT_EQ(events.size(), 3u);
  EXPECT_FALSE(events[0].tokens_in_pairs);
  EXPECT_TRUE(events[1].tokens_in_pairs);
  EXPECT_EQ(events[1].Positions(), 4u);
  EXPECT_FALSE(events[2].tokens_in_pairs) << "a length that fits nothing";
}

TEST(EventConvertTest, MalformedEventsAreLeftOutAndTheOthersKeepTheirData) {
  v1::EventBatch message;
  message.add_events();
  v1::BlocksStored* both = message.add_events()->mutable_stored();
  both->add_engine_hashes(1);
  both->add_token_ids(1);
  both->add_local_block_hashes(1);
  v1::BlocksStored* items = message.add_events()->mutable_stored();
  items->add_engine_hashes(2);
  items->add_block_items();
  items->add_block_items();
  message.add_events()->mutable_removed()->add_engine_hashes(3);
  message.add_events()->mutable_cleared();
  const FeedBatch batch = FromProto(message);
  const RawBatch& raw = batch.decoded->raw;
  EXPECT_EQ(Skipped(raw, SkipReason::kUnknownTag), 1u);
  EXPECT_EQ(Skipped(raw, SkipReason::kBadEvent), 2u);
  ASSERT_EQ(raw.events.size(), 2u);
  ASSERT_EQ(raw.Hashes(raw.events[0]).size(), 1u);
  EXPECT_EQ(raw.Hashes(raw.events[0])[0], 3u);
  EXPECT_EQ(raw.events[1].kind, RawKind::kCleared);
}

TEST(EventConvertTest, TextsAreToldApartHoweverManyThereAre) {
  v1::EventBatch message;
  for (int i = 0; i < 100; ++i) {
    message.add_events()->mutable_stored()->set_lora_name("lora " + std::to_string(i % 50));
  }
  const FeedBatch batch = FromProto(message);
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(batch.decoded->raw.events[i].lora_name, "lora " + std::to_string(i % 50));
  }
}

TEST(EventConvertTest, ATimestampThatIsNoNumberStillNamesItsBatch) {
  v1::EventBatch message;
  message.set_timestamp_seconds(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(FromProto(message).mark, FromProto(message).mark);
}

TEST(EventConvertTest, TooManyEventsAreRefusedTogether) {
  v1::EventBatch message;
  for (uint32_t i = 0; i <= kMaxEventsPerBatch; ++i) message.add_events();
  EXPECT_EQ(FromProto(message).decoded->refused, SkipReason::kOversized);
}

// What a dump says, a feed understands.
TEST(EventConvertTest, DumpedEventsCanBePublished) {
  KvEvent event;
  event.target = {WorkerId{1}, 0};
  event.data =
      Stored{.parent = EngineHash{5},
             .blocks = {{EngineHash{6}, LocalBlockHash{60}}, {EngineHash{7}, LocalBlockHash{70}}}};
  v1::DumpedEvent dumped;
  ToProto(event, 16, &dumped);
  v1::EventBatch message;
  *message.add_events()->mutable_stored() = dumped.stored();
  const FeedBatch batch = FromProto(message);
  RankFilter filter(BlockNaming{.block_size_tokens = 16});
  FeedCounters counters;
  const auto stored = filter.Store(batch.decoded->raw, batch.decoded->raw.events[0], &counters);
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->parent, EngineHash{5});
  ASSERT_EQ(stored->blocks.size(), 2u);
  EXPECT_EQ(stored->blocks[1].engine_hash, EngineHash{7});
  EXPECT_EQ(stored->blocks[1].local_hash, LocalBlockHash{70});
}

}  // namespace
}  // namespace kvrouter
