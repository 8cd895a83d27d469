#include "feed/event_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "kvrouter/block_hash.h"
#include "support/engine_examples.h"
#include "support/engine_payload.h"

namespace kvrouter {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

uint64_t Skipped(const RawBatch& batch, SkipReason reason) {
  return batch.skipped[static_cast<size_t>(reason)];
}

// A decoded payload together with the bytes its texts point into.
class Decoded {
 public:
  explicit Decoded(std::string payload) : payload_(std::move(payload)) {
    refused_ = DecodeBatch(payload_, &batch_);
  }
  static Decoded Hex(std::string_view hex) { return Decoded(FromHex(hex)); }

  const std::optional<SkipReason>& refused() const { return refused_; }
  const RawBatch& batch() const { return batch_; }
  const RawEvent& event(size_t i) const { return batch_.events.at(i); }
  std::vector<uint64_t> hashes(size_t i) const {
    const auto span = batch_.Hashes(event(i));
    return {span.begin(), span.end()};
  }
  std::vector<TokenId> tokens(size_t i) const {
    const auto span = batch_.Tokens(event(i));
    return {span.begin(), span.end()};
  }

 private:
  std::string payload_;
  RawBatch batch_;
  std::optional<SkipReason> refused_;
};

// ---- The documented examples ----

TEST(EventCodecTest, E1OldestArrayForm) {
  const Decoded d = Decoded::Hex(examples::kE1);
  ASSERT_FALSE(d.refused());
  ASSERT_EQ(d.batch().events.size(), 1u);
  EXPECT_EQ(d.batch().ts_seconds, 1700000000.5);
  EXPECT_FALSE(d.batch().rank);
  EXPECT_EQ(d.event(0).kind, RawKind::kStored);
  EXPECT_THAT(d.hashes(0), ElementsAre(101, 102));
  EXPECT_FALSE(d.event(0).parent);
  EXPECT_THAT(d.tokens(0), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_EQ(d.event(0).block_size_tokens, 4u);
  EXPECT_EQ(d.event(0).medium, "");
  EXPECT_FALSE(d.event(0).has_lora_number);
}

TEST(EventCodecTest, E2HashAboveTwoTo63AndRemoval) {
  const Decoded d = Decoded::Hex(examples::kE2);
  ASSERT_FALSE(d.refused());
  ASSERT_EQ(d.batch().events.size(), 2u);
  EXPECT_EQ(d.batch().rank, 0u);
  EXPECT_THAT(d.hashes(0), ElementsAre(15760518052499183552u));
  EXPECT_EQ(d.event(0).parent, 102u);
  EXPECT_EQ(d.event(0).medium, "GPU");
  EXPECT_EQ(d.event(1).kind, RawKind::kRemoved);
  EXPECT_THAT(d.hashes(1), ElementsAre(101));
  EXPECT_EQ(d.event(1).medium, "GPU");
}

TEST(EventCodecTest, E3DigestAdapterSaltGroup) {
  const Decoded d = Decoded::Hex(examples::kE3);
  ASSERT_FALSE(d.refused());
  ASSERT_EQ(d.batch().events.size(), 1u);
  EXPECT_EQ(d.batch().rank, 3u);
  EXPECT_THAT(d.hashes(0), ElementsAre(0x6c5cbb9c00aa5aeau));
  EXPECT_TRUE(d.event(0).has_lora_number);
  EXPECT_EQ(d.event(0).lora_name, "adapterA");
  EXPECT_EQ(d.event(0).cache_salt, "saltX");
  EXPECT_EQ(d.event(0).group_idx, 0u);
  EXPECT_EQ(d.event(0).spec_kind, "full_attention");
  EXPECT_FALSE(d.event(0).first_unknown_block);
}

TEST(EventCodecTest, E4MapForm) {
  const Decoded d = Decoded::Hex(examples::kE4);
  ASSERT_FALSE(d.refused());
  ASSERT_EQ(d.batch().events.size(), 1u);
  EXPECT_EQ(d.batch().rank, 0u);
  EXPECT_THAT(d.hashes(0), ElementsAre(15760518052499183552u));
  EXPECT_THAT(d.tokens(0), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(d.event(0).group_idx, 0u);
  EXPECT_EQ(d.event(0).spec_kind, "full_attention");
  EXPECT_EQ(d.event(0).lora_name, "");
}

TEST(EventCodecTest, E5SlidingWindowGroup) {
  const Decoded d = Decoded::Hex(examples::kE5);
  ASSERT_FALSE(d.refused());
  ASSERT_EQ(d.batch().events.size(), 2u);
  EXPECT_EQ(d.tokens(0).size(), 12u);
  EXPECT_THAT(d.hashes(0), ElementsAre(555));
  EXPECT_EQ(d.event(0).group_idx, 1u);
  EXPECT_EQ(d.event(0).spec_kind, "sliding_window");
  EXPECT_EQ(d.event(1).group_idx, 1u);
  EXPECT_EQ(d.event(1).spec_kind, "");
}

TEST(EventCodecTest, E6ClearedInBothForms) {
  for (const auto hex : {examples::kE6Map, examples::kE6Array}) {
    const Decoded d = Decoded::Hex(hex);
    ASSERT_FALSE(d.refused());
    ASSERT_EQ(d.batch().events.size(), 1u);
    EXPECT_EQ(d.event(0).kind, RawKind::kCleared);
    EXPECT_EQ(d.batch().rank, 0u);
  }
}

TEST(EventCodecTest, E7Placeholder) {
  const Decoded d = Decoded::Hex(examples::kE7);
  ASSERT_FALSE(d.refused());
  EXPECT_THAT(d.hashes(0), ElementsAre(777));
  EXPECT_THAT(d.tokens(0), IsEmpty());
  EXPECT_EQ(d.event(0).block_size_tokens, 0u);
  EXPECT_EQ(d.event(0).medium, "CPU");
  EXPECT_EQ(d.event(0).group_idx, 0u);
}

TEST(EventCodecTest, E8SignedHashes) {
  const Decoded d = Decoded::Hex(examples::kE8);
  ASSERT_FALSE(d.refused());
  EXPECT_THAT(d.hashes(0),
              ElementsAre(static_cast<uint64_t>(-3488128144981237669), 5674439469042975057u));
  EXPECT_EQ(d.event(0).medium, "CPU_PINNED");
  EXPECT_FALSE(d.batch().rank);
}

// Pitfall row 21.
TEST(EventCodecTest, E9MapInTheAdapterSlotIsMetadata) {
  const Decoded d = Decoded::Hex(examples::kE9);
  ASSERT_FALSE(d.refused());
  EXPECT_THAT(d.hashes(0), ElementsAre(123));
  EXPECT_EQ(d.event(0).cache_salt, "tenant-a");
  EXPECT_EQ(d.event(0).lora_name, "");
}

// Pitfall row 22.
TEST(EventCodecTest, E10PairsAreFlattenedAndTheTokenAheadIsKept) {
  const Decoded d = Decoded::Hex(examples::kE10);
  ASSERT_FALSE(d.refused());
  EXPECT_EQ(d.batch().rank, 1u);
  EXPECT_THAT(d.hashes(0), ElementsAre(static_cast<uint64_t>(-1303529142941650691)));
  EXPECT_THAT(d.tokens(0), ElementsAre(1, 2, 3));
  EXPECT_TRUE(d.event(0).tokens_in_pairs);
  EXPECT_EQ(d.event(0).Positions(), 2u);
  EXPECT_EQ(d.event(0).block_size_tokens, 2u);
  EXPECT_EQ(d.event(0).cache_salt, "t");
}

TEST(EventCodecTest, E11MultimodalKeys) {
  const Decoded d = Decoded::Hex(examples::kE11);
  ASSERT_FALSE(d.refused());
  EXPECT_THAT(d.hashes(0), ElementsAre(900));
  EXPECT_THAT(d.batch().Items(d.event(0)), ElementsAre(BlockItem{0, *MultimodalHashOf("ab")}));
  EXPECT_FALSE(d.event(0).first_unknown_block);
}

TEST(EventCodecTest, E12MapEnvelope) {
  const Decoded d = Decoded::Hex(examples::kE12);
  ASSERT_FALSE(d.refused());
  EXPECT_EQ(d.batch().ts_seconds, 1700000000.5);
  EXPECT_EQ(d.batch().rank, 0u);
  EXPECT_EQ(d.event(0).kind, RawKind::kRemoved);
  EXPECT_THAT(d.hashes(0), ElementsAre(1));
  EXPECT_EQ(d.event(0).medium, "");
}

// ---- Envelope ----

// Pitfall row 5.
TEST(EventCodecTest, EnvelopeMayHaveTwoThreeOrMoreElements) {
  const std::string event = ArrayStore({.hashes = {1}, .parent = {}, .tokens = {1, 2, 3, 4}});
  const std::string two = MsgpackWriter().Array(2).Float(1.5).Array(1).Raw(event).bytes();
  const std::string four =
      MsgpackWriter().Array(4).Float(1.5).Array(1).Raw(event).Uint(2).Map(1).Nil().Nil().bytes();
  EXPECT_FALSE(Decoded(two).refused());
  EXPECT_FALSE(Decoded(two).batch().rank);
  EXPECT_EQ(Decoded(two).batch().events.size(), 1u);
  EXPECT_FALSE(Decoded(four).refused());
  EXPECT_EQ(Decoded(four).batch().rank, 2u);
  EXPECT_EQ(Decoded(four).batch().events.size(), 1u);
}

TEST(EventCodecTest, MapEnvelopeTakesKeysInAnyOrderAndBothRankNames) {
  for (const char* name : {"data_parallel_rank", "attn_dp_rank"}) {
    MsgpackWriter w;
    w.Map(4).Str(name).Uint(5).Str("future").Array(1).Nil().Str("events").Array(1).Raw(
        ArrayCleared());
    const Decoded d(w.Str("ts").Float(2.5).bytes());
    ASSERT_FALSE(d.refused());
    EXPECT_EQ(d.batch().rank, 5u);
    EXPECT_EQ(d.batch().ts_seconds, 2.5);
    EXPECT_EQ(d.batch().events.size(), 1u);
  }
}

TEST(EventCodecTest, WholeTimestampMayComeAsInteger) {
  const std::string payload = MsgpackWriter().Array(2).Uint(1700000000).Array(0).bytes();
  const Decoded d(payload);
  ASSERT_FALSE(d.refused());
  EXPECT_EQ(d.batch().ts_seconds, 1700000000.0);
  EXPECT_EQ(PeekTimestamp(payload), 1700000000.0);
}

TEST(EventCodecTest, WhatIsNoBatchIsRefused) {
  for (const std::string& payload :
       {std::string(), MsgpackWriter().Nil().bytes(), MsgpackWriter().Str("hello").bytes(),
        MsgpackWriter().Array(0).bytes(), MsgpackWriter().Array(1).Float(1).bytes(),
        MsgpackWriter().Array(2).Float(1).Uint(3).bytes(),
        MsgpackWriter().Array(2).Str("now").Array(0).bytes(),
        MsgpackWriter().Map(1).Str("ts").Float(1).bytes(),
        MsgpackWriter().Array(3).Float(1).Array(0).Str("rank").bytes()}) {
    EXPECT_EQ(Decoded(payload).refused(), SkipReason::kBadEnvelope) << payload;
  }
}

TEST(EventCodecTest, EveryTruncationOfEveryExampleIsRefused) {
  for (const auto hex :
       {examples::kE1, examples::kE2, examples::kE3, examples::kE4, examples::kE5, examples::kE7,
        examples::kE8, examples::kE9, examples::kE10, examples::kE11, examples::kE12}) {
    const std::string whole = FromHex(hex);
    for (size_t length = 0; length < whole.size(); ++length) {
      SCOPED_TRACE(testing::Message() << hex << " cut to " << length);
      EXPECT_EQ(Decoded(whole.substr(0, length)).refused(), SkipReason::kBadEnvelope);
    }
  }
}

TEST(EventCodecTest, PayloadOverTheLimitIsOversized) {
  std::string payload = BatchPayload(1.0, {});
  payload.resize(kMaxPayloadBytes + 1);
  EXPECT_EQ(Decoded(payload).refused(), SkipReason::kOversized);
}

TEST(EventCodecTest, EventCountOverTheLimitIsOversized) {
  std::string payload = FromHex("92c0dd");
  for (const int shift : {24, 16, 8, 0})
    payload.push_back(static_cast<char>((kMaxEventsPerBatch + 1) >> shift));
  payload.append(kMaxEventsPerBatch + 1, static_cast<char>(0xc0));
  EXPECT_EQ(Decoded(payload).refused(), SkipReason::kOversized);
}

TEST(EventCodecTest, TimestampIsReadWithoutTheEvents) {
  EXPECT_EQ(PeekTimestamp(FromHex(examples::kE1)), 1700000000.5);
  EXPECT_EQ(PeekTimestamp(FromHex(examples::kE12)), 1700000000.5);
  EXPECT_EQ(PeekTimestamp(""), std::nullopt);
  EXPECT_EQ(PeekTimestamp("hello"), std::nullopt);
}

// ---- Events ----

const StoreSpec kStoreA = {.hashes = {1}, .parent = {}, .tokens = {1, 2, 3, 4}};
const StoreSpec kStoreB = {.hashes = {2}, .parent = 1, .tokens = {5, 6, 7, 8}};

// Pitfall rows 1 and 2.
TEST(EventCodecTest, OneBatchMayMixArraysAndMaps) {
  const Decoded d(BatchPayload(
      1.0, {ArrayStore(kStoreA), MapStore(kStoreB), ArrayRemove({1}), MapRemove({2})}));
  ASSERT_FALSE(d.refused());
  ASSERT_EQ(d.batch().events.size(), 4u);
  EXPECT_THAT(d.hashes(0), ElementsAre(1));
  EXPECT_THAT(d.hashes(1), ElementsAre(2));
  EXPECT_EQ(d.event(1).parent, 1u);
  EXPECT_THAT(d.tokens(1), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(d.hashes(2), ElementsAre(1));
  EXPECT_THAT(d.hashes(3), ElementsAre(2));
}

TEST(EventCodecTest, MapKeysComeInAnyOrder) {
  MsgpackWriter w;
  w.Map(7).Str("extra_keys").Array(1).Array(2).Str("ada").Str("salt").Str("block_size").Uint(4);
  w.Str("token_ids").UintArray<int>({1, 2, 3, 4}).Str("future").Map(1).Str("type").Str("x");
  w.Str("lora_name")
      .Str("ada")
      .Str("block_hashes")
      .UintArray<int>({9})
      .Str("type")
      .Str("BlockStored");
  const Decoded d(BatchPayload(1.0, {w.bytes()}));
  ASSERT_EQ(d.batch().events.size(), 1u);
  EXPECT_THAT(d.hashes(0), ElementsAre(9));
  EXPECT_EQ(d.event(0).lora_name, "ada");
  EXPECT_EQ(d.event(0).cache_salt, "salt");  // told from the adapter although the name came later
}

// Pitfall row 3.
TEST(EventCodecTest, UnknownTagsKeysAndElementsAreSteppedOver) {
  MsgpackWriter surplus;
  surplus.Array(15)
      .Str("BlockStored")
      .UintArray<int>({7})
      .Nil()
      .UintArray<int>({1, 2, 3, 4})
      .Uint(4)
      .Nil()
      .Str("GPU");
  surplus.Nil()
      .Nil()
      .Uint(0)
      .Str("full_attention")
      .Nil()
      .Str("LOCAL")
      .Map(1)
      .Str("k")
      .Array(1)
      .Nil()
      .Bin("xy");
  const Decoded d(BatchPayload(
      1.0,
      {MsgpackWriter().Array(2).Str("BlockFrozen").Map(1).Uint(1).Nil().bytes(),
       MsgpackWriter().Map(2).Str("type").Str("BlockMoved").Str("x").Array(0).bytes(),
       surplus.bytes(),
       MapStore(kStoreA, 2, MsgpackWriter().Str("session_id").Str("s").Uint(9).Nil().bytes())}));
  ASSERT_FALSE(d.refused());
  ASSERT_EQ(d.batch().events.size(), 2u);
  EXPECT_THAT(d.hashes(0), ElementsAre(7));
  EXPECT_EQ(d.event(0).spec_kind, "full_attention");
  EXPECT_THAT(d.hashes(1), ElementsAre(1));
  EXPECT_EQ(Skipped(d.batch(), SkipReason::kUnknownTag), 2u);
  EXPECT_EQ(Skipped(d.batch(), SkipReason::kBadEvent), 0u);
}

TEST(EventCodecTest, IgnoredTagSaysNothing) {
  const Decoded d(BatchPayload(1.0, {MsgpackWriter().Array(1).Str("Ignored").bytes()}));
  EXPECT_THAT(d.batch().events, IsEmpty());
  EXPECT_EQ(Skipped(d.batch(), SkipReason::kUnknownTag), 0u);
}

// Pitfall row 4.
TEST(EventCodecTest, MalformedEventIsSkippedAndTheRestKept) {
  const std::string bad[] = {
      MsgpackWriter().Uint(5).bytes(),
      MsgpackWriter().Array(0).bytes(),
      MsgpackWriter().Array(1).Uint(1).bytes(),
      MsgpackWriter().Array(1).Str("BlockStored").bytes(),
      MsgpackWriter().Array(2).Str("BlockStored").Str("hash").bytes(),
      MsgpackWriter().Array(2).Str("BlockRemoved").Array(1).Float(1.5).bytes(),
      MsgpackWriter().Array(4).Str("BlockStored").Array(1).Uint(1).Nil().Str("tokens").bytes(),
      MsgpackWriter().Array(5).Str("BlockStored").Array(1).Uint(1).Nil().Array(0).Int(-4).bytes(),
      MsgpackWriter().Array(3).Str("BlockRemoved").Array(0).Uint(3).bytes(),
      MsgpackWriter().Map(1).Str("block_hashes").Array(0).bytes(),
      MsgpackWriter().Map(1).Str("type").Str("BlockRemoved").bytes(),
      MsgpackWriter().Map(1).Str("type").Uint(3).bytes(),
      MsgpackWriter()
          .Map(3)
          .Str("type")
          .Str("BlockRemoved")
          .Str("block_hashes")
          .Array(0)
          .Str("block_hashes")
          .Array(0)
          .bytes(),
  };
  for (const std::string& event : bad) {
    SCOPED_TRACE(testing::PrintToString(event));
    const Decoded d(BatchPayload(1.0, {ArrayStore(kStoreA), event, MapStore(kStoreB)}));
    ASSERT_FALSE(d.refused());
    ASSERT_EQ(d.batch().events.size(), 2u);
    EXPECT_EQ(Skipped(d.batch(), SkipReason::kBadEvent), 1u);
    EXPECT_THAT(d.hashes(1), ElementsAre(2));
    EXPECT_THAT(d.tokens(1), ElementsAre(5, 6, 7, 8));
  }
}

TEST(EventCodecTest, NothingOfAFailedBatchSurvivesInTheNext) {
  RawBatch batch;
  const std::string good = BatchPayload(1.0, {ArrayStore(kStoreA)});
  EXPECT_TRUE(DecodeBatch(std::string_view(good).substr(0, good.size() - 1), &batch));
  EXPECT_FALSE(DecodeBatch(good, &batch));
  EXPECT_EQ(batch.events.size(), 1u);
  EXPECT_EQ(batch.hashes.size(), 1u);
  EXPECT_EQ(batch.tokens.size(), 4u);
}

// Pitfall rows 7, 8 and 9.
TEST(EventCodecTest, HashOfAnyFormBecomesTheSameBits) {
  const std::string digest32 =
      FromHex("2a97516c354b68848cdbd8f54a226a0a55b21ed138e207ad6c5cbb9c00aa5aea");
  MsgpackWriter w;
  w.Array(3).Str("BlockRemoved").Array(9);
  w.Bin(digest32).Uint(0x6c5cbb9c00aa5aea);  // a digest and its integer form
  w.Bin(digest32.substr(16))
      .Bin(FromHex("ff"))
      .Bin(FromHex("0102"));  // 16 bytes, then shorter than 8
  w.Int(-1).Uint(UINT64_MAX).Uint(0).Uint((uint64_t{1} << 53) + 1);
  const Decoded d(BatchPayload(1.0, {w.Str("GPU").bytes()}));
  ASSERT_EQ(d.batch().events.size(), 1u);
  EXPECT_THAT(d.hashes(0),
              ElementsAre(0x6c5cbb9c00aa5aeau, 0x6c5cbb9c00aa5aeau, 0x6c5cbb9c00aa5aeau, 0xffu,
                          0x0102u, UINT64_MAX, UINT64_MAX, 0u, (uint64_t{1} << 53) + 1));
}

TEST(EventCodecTest, EmptyDigestIsMalformed) {
  const Decoded d(BatchPayload(
      1.0, {MsgpackWriter().Array(3).Str("BlockRemoved").Array(1).Bin("").Nil().bytes()}));
  EXPECT_THAT(d.batch().events, IsEmpty());
  EXPECT_EQ(Skipped(d.batch(), SkipReason::kBadEvent), 1u);
}

TEST(EventCodecTest, BadEventsThatTookBlocksAwayAreCountedApart) {
  const std::string removed = MsgpackWriter().Array(2).Str("BlockRemoved").Array(1).Nil().bytes();
  const std::string of_nothing = MsgpackWriter().Map(1).Str("type").Str("BlockRemoved").bytes();
  const std::string stored = MsgpackWriter().Array(2).Str("BlockStored").Str("?").bytes();
  const Decoded d(BatchPayload(1.0, {removed, of_nothing, stored, ArrayRemove({1})}));
  ASSERT_EQ(d.batch().events.size(), 1u);
  EXPECT_EQ(Skipped(d.batch(), SkipReason::kBadEvent), 3u);
  EXPECT_EQ(d.batch().lost_removals, 2u);
}

TEST(EventCodecTest, ParentZeroIsAParent) {
  const Decoded d(
      BatchPayload(1.0, {ArrayStore({.hashes = {5}, .parent = 0, .tokens = {1, 2, 3, 4}})}));
  EXPECT_EQ(d.event(0).parent, std::optional<uint64_t>(0));
}

// Pitfall row 23.
TEST(EventCodecTest, TextTokensSpoilOnlyTheirEvent) {
  MsgpackWriter w;
  w.Array(5).Str("BlockStored").Array(1).Uint(3).Nil().Array(2).Str("hello").Uint(4).Uint(2);
  const Decoded d(BatchPayload(1.0, {w.bytes(), ArrayStore(kStoreA)}));
  ASSERT_EQ(d.batch().events.size(), 2u);
  EXPECT_FALSE(d.event(0).tokens_readable);
  EXPECT_THAT(d.tokens(0), IsEmpty());
  EXPECT_TRUE(d.event(1).tokens_readable);
  EXPECT_THAT(d.tokens(1), ElementsAre(1, 2, 3, 4));
}

TEST(EventCodecTest, TokensOutside32BitsAreUnreadable) {
  for (const std::string& token :
       {MsgpackWriter().Int(-1).bytes(), MsgpackWriter().Uint(uint64_t{1} << 32).bytes(),
        MsgpackWriter().Float(1).bytes(),
        MsgpackWriter().Array(3).Uint(1).Uint(2).Uint(3).bytes()}) {
    MsgpackWriter w;
    w.Array(5).Str("BlockStored").Array(1).Uint(3).Nil().Array(1).Raw(token).Uint(1);
    const Decoded d(BatchPayload(1.0, {w.bytes()}));
    ASSERT_EQ(d.batch().events.size(), 1u);
    EXPECT_FALSE(d.event(0).tokens_readable);
  }
}

std::string StoreWithTokens(const std::vector<std::string>& tokens) {
  MsgpackWriter w;
  w.Array(5).Str("BlockStored").Array(1).Uint(3).Nil().Array(tokens.size());
  for (const std::string& token : tokens) w.Raw(token);
  return w.Uint(2).bytes();
}
std::string Pair(uint64_t first, uint64_t second) {
  return MsgpackWriter().Array(2).Uint(first).Uint(second).bytes();
}

TEST(EventCodecTest, PairsMustFollowOnEachOtherAndStandAlone) {
  const std::string one = MsgpackWriter().Uint(1).bytes();
  const std::vector<std::vector<std::string>> broken = {
      {Pair(1, 2), Pair(3, 4)},                              // 2 is not 3
      {Pair(1, 2), MsgpackWriter().Uint(2).bytes()},         // a pair, then a token
      {one, Pair(1, 2)},                                     // a token, then a pair
      {Pair(1, 2), MsgpackWriter().Str("x").bytes()},        // a pair, then a text
      {MsgpackWriter().Array(2).Uint(1).Str("x").bytes()}};  // half a pair
  for (const auto& tokens : broken) {
    const Decoded d(BatchPayload(1.0, {StoreWithTokens(tokens), ArrayStore(kStoreA)}));
    ASSERT_EQ(d.batch().events.size(), 2u);
    EXPECT_FALSE(d.event(0).tokens_readable);
    EXPECT_THAT(d.tokens(0), IsEmpty());
    EXPECT_THAT(d.tokens(1), ElementsAre(1, 2, 3, 4)) << "the next event is read at its own place";
  }
  const Decoded d(BatchPayload(1.0, {StoreWithTokens({Pair(5, 6), Pair(6, 6), Pair(6, 0)})}));
  EXPECT_THAT(d.tokens(0), ElementsAre(5, 6, 6, 0));
  EXPECT_EQ(d.event(0).Positions(), 3u);
}

// ---- Position 7 and the tail ----

// A store in array form up to position 8 and then `tail`.
std::string StoreWithTail(size_t items, const MsgpackWriter& tail) {
  MsgpackWriter w;
  w.Array(9 + items)
      .Str("BlockStored")
      .UintArray<int>({7})
      .Nil()
      .UintArray<int>({1, 2, 3, 4})
      .Uint(4)
      .Nil();
  return w.Str("GPU").Nil().Nil().Raw(tail.bytes()).bytes();
}

TEST(EventCodecTest, ListInTheAdapterSlotIsIgnored) {
  MsgpackWriter w;
  w.Array(8)
      .Str("BlockStored")
      .UintArray<int>({7})
      .Nil()
      .UintArray<int>({1, 2, 3, 4})
      .Uint(4)
      .Nil()
      .Str("GPU");
  const Decoded d(BatchPayload(1.0, {w.Array(2).Str("full").Str("swa").bytes()}));
  ASSERT_EQ(d.batch().events.size(), 1u);
  EXPECT_EQ(d.event(0).lora_name, "");
  EXPECT_EQ(d.event(0).cache_salt, "");
}

TEST(EventCodecTest, TailOfFourMatchingTypesIsTakenByPosition) {
  const Decoded d(BatchPayload(
      1.0,
      {StoreWithTail(
           5, MsgpackWriter().Uint(2).Str("sliding_window").Uint(128).Str("REMOTE").Str("owner")),
       StoreWithTail(4, MsgpackWriter().Nil().Nil().Uint(128).Str("LOCAL"))}));
  ASSERT_EQ(d.batch().events.size(), 2u);
  EXPECT_EQ(d.event(0).group_idx, 2u);
  EXPECT_EQ(d.event(0).spec_kind, "sliding_window");
  EXPECT_EQ(d.event(0).locality, "REMOTE");
  EXPECT_FALSE(d.event(1).group_idx);  // 128 is the window
  EXPECT_EQ(d.event(1).locality, "LOCAL");
}

TEST(EventCodecTest, ShorterTailIsTakenByType) {
  const Decoded d(BatchPayload(
      1.0, {StoreWithTail(1, MsgpackWriter().Uint(3)),
            StoreWithTail(3, MsgpackWriter().Str("mamba").Uint(1).Uint(64)),
            StoreWithTail(2, MsgpackWriter().Array(1).Map(1).Str("mm_objects").Array(0).Uint(0))}));
  ASSERT_EQ(d.batch().events.size(), 3u);
  EXPECT_EQ(d.event(0).group_idx, 3u);
  EXPECT_EQ(d.event(1).group_idx, 1u);
  EXPECT_EQ(d.event(1).spec_kind, "mamba");
  EXPECT_EQ(d.event(2).group_idx, 0u);
  EXPECT_FALSE(d.event(2).first_unknown_block) << "no objects are no items";
  EXPECT_EQ(d.event(2).items.count, 0u);
}

TEST(EventCodecTest, RemovalHasTheSameTail) {
  MsgpackWriter w;
  w.Array(7).Str("BlockRemoved").UintArray<int>({7}).Str("GPU").Uint(1).Nil().Nil().Str("LOCAL");
  const Decoded d(BatchPayload(1.0, {w.bytes(), MsgpackWriter()
                                                    .Array(4)
                                                    .Str("BlockRemoved")
                                                    .UintArray<int>({8})
                                                    .Str("GPU")
                                                    .Uint(2)
                                                    .bytes()}));
  ASSERT_EQ(d.batch().events.size(), 2u);
  EXPECT_EQ(d.event(0).group_idx, 1u);
  EXPECT_EQ(d.event(0).locality, "LOCAL");
  EXPECT_EQ(d.event(1).group_idx, 2u);
}

TEST(EventCodecTest, ClearedWithOwnershipIsCleared) {
  const Decoded d(
      BatchPayload(1.0, {MsgpackWriter().Array(2).Str("AllBlocksCleared").Str("owner").bytes()}));
  ASSERT_EQ(d.batch().events.size(), 1u);
  EXPECT_EQ(d.event(0).kind, RawKind::kCleared);
}

// ---- Extra keys ----

Decoded WithExtraKeys(std::optional<uint64_t> parent, std::string_view lora_name,
                      const MsgpackWriter& keys) {
  MsgpackWriter extra;
  extra.Str("extra_keys").Raw(keys.bytes()).Str("lora_name").Str(lora_name);
  const StoreSpec store = {
      .hashes = {1, 2, 3}, .parent = parent, .tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}};
  return Decoded(BatchPayload(1.0, {MapStore(store, 2, extra.bytes())}));
}

TEST(EventCodecTest, BareExtraKeyIsTheAdapterOnlyIfItIsItsName) {
  EXPECT_EQ(
      WithExtraKeys({}, "ada", MsgpackWriter().Array(1).Array(1).Str("ada")).event(0).cache_salt,
      "");
  EXPECT_EQ(
      WithExtraKeys({}, "ada", MsgpackWriter().Array(1).Array(1).Str("bob")).event(0).cache_salt,
      "bob");
  // A salt that is spelt like the adapter comes second.
  EXPECT_EQ(WithExtraKeys({}, "ada", MsgpackWriter().Array(1).Array(2).Str("ada").Str("ada"))
                .event(0)
                .cache_salt,
            "ada");
}

TEST(EventCodecTest, MarkedSaltLosesItsMark) {
  const Decoded d =
      WithExtraKeys({}, "", MsgpackWriter().Array(1).Array(1).Str("dynamo-cache-salt:tenant"));
  EXPECT_EQ(d.event(0).cache_salt, "tenant");
  EXPECT_FALSE(d.event(0).first_unknown_block);
}

// Pitfall row 29, the decoder's part.
TEST(EventCodecTest, ContentWithoutAClearNameMarksItsBlock) {
  // a bare item of older engines in block 2
  EXPECT_EQ(WithExtraKeys({}, "", MsgpackWriter().Array(3).Nil().Nil().Array(1).Str("img"))
                .event(0)
                .first_unknown_block,
            2u);
  // embeddings digest
  EXPECT_EQ(WithExtraKeys({}, "", MsgpackWriter().Array(1).Array(1).Bin(std::string(32, 'x')))
                .event(0)
                .first_unknown_block,
            0u);
  // a bare key in a store that continues a sequence cannot be the salt
  const Decoded continued = WithExtraKeys(77, "", MsgpackWriter().Array(1).Array(1).Str("img"));
  EXPECT_EQ(continued.event(0).first_unknown_block, 0u);
  EXPECT_EQ(continued.event(0).cache_salt, "");
}

// Older vLLM sent items without their offset. A digest can be nothing else, save the adapter.
TEST(EventCodecTest, BareDigestIsAnItemUnlessItIsTheAdapter) {
  const std::string digest = "00000000000000ff" + std::string(48, 'a');
  const Decoded d =
      WithExtraKeys(77, "", MsgpackWriter().Array(2).Array(1).Str(digest).Array(1).Str(digest));
  EXPECT_THAT(d.batch().Items(d.event(0)),
              ElementsAre(BlockItem{0, MultimodalHash{255}}, BlockItem{1, MultimodalHash{255}}));
  EXPECT_FALSE(d.event(0).first_unknown_block);
  const Decoded adapter = WithExtraKeys({}, digest, MsgpackWriter().Array(1).Array(1).Str(digest));
  EXPECT_EQ(adapter.event(0).items.count, 0u);
  EXPECT_EQ(adapter.event(0).cache_salt, "");
  EXPECT_FALSE(adapter.event(0).first_unknown_block);
}

TEST(EventCodecTest, NamedItemsAreListedInOrderAndAsOftenAsSent) {
  const std::string digest = "00000000000000ff" + std::string(48, '1');
  MsgpackWriter keys;
  keys.Array(3).Nil();
  keys.Array(4).Str("ada");  // block 1: adapter, an item twice, another one
  keys.Array(2).Str("img-1").Int(-2).Array(2).Str("img-1").Uint(1).Array(2).Str(digest).Uint(3);
  keys.Array(1).Array(2).Str("img-1").Int(-6);
  const Decoded d = WithExtraKeys({}, "ada", keys);
  const MultimodalHash image{14770383865288705413u};
  EXPECT_THAT(d.batch().Items(d.event(0)),
              ElementsAre(BlockItem{1, image}, BlockItem{1, image},
                          BlockItem{1, MultimodalHash{255}}, BlockItem{2, image}));
  EXPECT_FALSE(d.event(0).first_unknown_block);
}

TEST(EventCodecTest, PairsThatAreNoNamedItemMarkTheirBlock) {
  EXPECT_EQ(WithExtraKeys({}, "", MsgpackWriter().Array(1).Array(1).Array(2).Str("").Uint(0))
                .event(0)
                .first_unknown_block,
            0u);
  EXPECT_EQ(WithExtraKeys({}, "", MsgpackWriter().Array(1).Array(1).Array(2).Str("i").Str("j"))
                .event(0)
                .first_unknown_block,
            0u);
  EXPECT_EQ(WithExtraKeys({}, "", MsgpackWriter().Array(1).Array(1).Array(1).Str("i"))
                .event(0)
                .first_unknown_block,
            0u);
}

TEST(EventCodecTest, ItemsOfOneBlockAreBounded) {
  MsgpackWriter keys;
  keys.Array(1).Array(300);
  for (int i = 0; i < 300; ++i) keys.Array(2).Str("img-" + std::to_string(i)).Uint(0);
  const Decoded d = WithExtraKeys({}, "", keys);
  EXPECT_EQ(d.event(0).items.count, 256u);
  EXPECT_EQ(d.event(0).first_unknown_block, 0u);
}

// ---- block_mm_infos and mm_keys ----

MsgpackWriter MmObjects(const std::vector<uint64_t>& hashes) {
  MsgpackWriter w;
  w.Map(1).Str("mm_objects").Array(hashes.size());
  for (const uint64_t hash : hashes) {
    w.Map(2).Str("mm_hash").Uint(hash).Str("offsets").Array(1).Array(2).Uint(0).Uint(3);
  }
  return w;
}

Decoded WithField(std::string_view key, const MsgpackWriter& value, size_t more_pairs = 0,
                  std::string_view more = "") {
  MsgpackWriter extra;
  extra.Str(key).Raw(value.bytes()).Raw(more);
  const StoreSpec store = {
      .hashes = {1, 2, 3}, .parent = {}, .tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}};
  return Decoded(BatchPayload(1.0, {MapStore(store, 1 + more_pairs, extra.bytes())}));
}

TEST(EventCodecTest, BlockInfosNameItemsByTheirHash) {
  MsgpackWriter infos;
  infos.Array(3).Nil().Raw(MmObjects({UINT64_MAX, 5, 5}).bytes()).Raw(MmObjects({}).bytes());
  const Decoded d = WithField("block_mm_infos", infos);
  EXPECT_THAT(d.batch().Items(d.event(0)),
              ElementsAre(BlockItem{1, MultimodalHash{UINT64_MAX}}, BlockItem{1, MultimodalHash{5}},
                          BlockItem{1, MultimodalHash{5}}));
  EXPECT_FALSE(d.event(0).first_unknown_block);
}

TEST(EventCodecTest, BlockInfosOfAShortTailAreRead) {
  MsgpackWriter tail;
  tail.Array(1).Raw(MmObjects({9}).bytes());
  const Decoded d(BatchPayload(1.0, {StoreWithTail(1, tail)}));
  EXPECT_THAT(d.batch().Items(d.event(0)), ElementsAre(BlockItem{0, MultimodalHash{9}}));
}

TEST(EventCodecTest, BlockInfosGoBeforeExtraKeys) {
  MsgpackWriter infos, keys;
  infos.Array(1).Raw(MmObjects({9}).bytes());
  keys.Str("extra_keys").Array(2).Array(2).Array(2).Str("img-1").Int(0).Str("salt");
  keys.Array(1).Array(2).Str("img-1").Int(-4);
  const Decoded d = WithField("block_mm_infos", infos, 1, keys.bytes());
  EXPECT_THAT(d.batch().Items(d.event(0)), ElementsAre(BlockItem{0, MultimodalHash{9}}));
  EXPECT_EQ(d.event(0).cache_salt, "salt");
  const Decoded absent = WithField("block_mm_infos", MsgpackWriter().Nil(), 1, keys.bytes());
  EXPECT_EQ(absent.event(0).items.count, 2u);
}

TEST(EventCodecTest, KeysNameItemsByDigestOrText) {
  const std::string digest = "00000000000000ff" + std::string(48, 'a');
  MsgpackWriter keys;
  keys.Array(3).Array(2);
  keys.Map(3).Str("type").Str("mm_key").Str("hash").Str(digest).Str("start_offset").Uint(0);
  keys.Map(2).Str("hash").Str("my-uuid").Str("uuid").Nil();
  keys.Array(0).Nil();
  const Decoded d = WithField("mm_keys", keys);
  EXPECT_THAT(d.batch().Items(d.event(0)), ElementsAre(BlockItem{0, MultimodalHash{255}},
                                                       BlockItem{0, *MultimodalHashOf("my-uuid")}));
  EXPECT_FALSE(d.event(0).first_unknown_block);
}

TEST(EventCodecTest, ItemsOfAnotherFormMarkTheirBlock) {
  const MsgpackWriter forms[] = {
      MsgpackWriter().Array(2).Nil().Uint(7),
      MsgpackWriter().Array(2).Nil().Str("img"),
      MsgpackWriter().Array(2).Nil().Array(1).Uint(7),
      MsgpackWriter().Array(2).Nil().Map(1).Str("objects").Array(0),
      MsgpackWriter().Array(2).Nil().Array(1).Map(1).Str("hash").Uint(7),
      MsgpackWriter().Array(2).Nil().Array(1).Map(1).Str("mm_hash").Str("7"),
      MsgpackWriter().Array(2).Nil().Array(1).Map(1).Str("hash").Str("")};
  for (const MsgpackWriter& form : forms) {
    EXPECT_EQ(WithField("mm_keys", form).event(0).first_unknown_block, 1u);
  }
  EXPECT_EQ(WithField("mm_keys", MsgpackWriter().Uint(7)).event(0).first_unknown_block, 0u);
}

TEST(EventCodecTest, ItemsOfAFailedEventAreForgotten) {
  MsgpackWriter keys;
  keys.Str("mm_keys").Array(1).Array(1).Map(1).Str("hash").Str("img").Str("block_hashes").Nil();
  MsgpackWriter infos;
  infos.Str("block_mm_infos").Array(1).Raw(MmObjects({9}).bytes());
  const StoreSpec store = {.hashes = {1}, .parent = {}, .tokens = {1, 2, 3, 4}};
  const Decoded d(
      BatchPayload(1.0, {MapStore(store, 2, keys.bytes()), MapStore(store, 1, infos.bytes())}));
  ASSERT_EQ(d.batch().events.size(), 1u);
  EXPECT_EQ(d.batch().items.size(), 1u);
  EXPECT_THAT(d.batch().Items(d.event(0)), ElementsAre(BlockItem{0, MultimodalHash{9}}));
}

TEST(EventCodecTest, ItemsOfOneBatchAreNotThoseOfTheNext) {
  MsgpackWriter infos;
  infos.Str("block_mm_infos").Array(1).Raw(MmObjects({9}).bytes());
  const std::string payload = BatchPayload(
      1.0, {MapStore({.hashes = {1}, .parent = {}, .tokens = {1, 2, 3, 4}}, 1, infos.bytes())});
  RawBatch batch;
  for (int i = 0; i < 3; ++i) {
    ASSERT_FALSE(DecodeBatch(payload, &batch));
    EXPECT_EQ(batch.items.size(), 1u);
  }
}

TEST(EventCodecTest, AdapterAloneMarksNothing) {
  const Decoded d = WithExtraKeys(
      77, "ada", MsgpackWriter().Array(3).Array(1).Str("ada").Array(1).Str("ada").Nil());
  EXPECT_FALSE(d.event(0).first_unknown_block);
  EXPECT_EQ(d.event(0).cache_salt, "");
}

// Pitfall row 28, the decoder's part.
TEST(EventCodecTest, AdapterNumberIsOnlyNotedAndZeroIsNone) {
  const auto with_id = [](int64_t id) {
    MsgpackWriter w;
    w.Array(6)
        .Str("BlockStored")
        .UintArray<int>({7})
        .Nil()
        .UintArray<int>({1, 2, 3, 4})
        .Uint(4)
        .Int(id);
    return Decoded(BatchPayload(1.0, {w.bytes()}));
  };
  EXPECT_TRUE(with_id(1).event(0).has_lora_number);
  EXPECT_FALSE(with_id(0).event(0).has_lora_number);
  EXPECT_FALSE(with_id(-1).event(0).has_lora_number);
}

}  // namespace
}  // namespace kvrouter
