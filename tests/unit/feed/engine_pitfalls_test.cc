// The pitfalls of engines' event streams that a naive router falls into, one test a row, from bytes
// to index. Block size 4 unless a row says otherwise; A = tokens 1-4, B = 5-8, …. Rows on replay,
// sequences and silence (34-37, 40, 42, 43, 45) have theirs in replay_pitfalls_test, on sockets
// (38, 39) in zmq_fleet_test, 44 in replay_turns_test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "support/engine_examples.h"
#include "support/feed_harness.h"

namespace kvrouter {
namespace {

using ::testing::HasSubstr;

std::string Store(std::vector<uint64_t> hashes, std::optional<uint64_t> parent, TokenId first) {
  const size_t tokens = 4 * hashes.size();
  return ArrayStore(
      {.hashes = std::move(hashes), .parent = parent, .tokens = TokenRun(first, tokens)});
}

std::string StoreIn(const StoreSpec& store, uint64_t group, std::string_view kind) {
  return MapStore(
      store, 2,
      MsgpackWriter().Str("group_idx").Uint(group).Str("kv_cache_spec_kind").Str(kind).bytes());
}
std::string RemoveIn(const std::vector<uint64_t>& hashes, uint64_t group) {
  return MapRemove(hashes, 1, MsgpackWriter().Str("group_idx").Uint(group).bytes());
}

EngineFeedConfig Config(uint32_t block_size_tokens = 4) {
  EngineFeedConfig config = FeedHarness::Config(/*has_replay=*/false, /*dp_size=*/4);
  config.block_size_tokens = block_size_tokens;
  return config;
}

// A live engine, fed batch by batch.
class EnginePitfallsTest : public testing::Test {
 protected:
  void Use(const EngineFeedConfig& config) { feed_.emplace(config); }

  FeedHarness& Feed(const std::vector<std::string>& events, std::optional<int64_t> rank = 0) {
    return FeedPayload(BatchPayload(100.0 + static_cast<double>(next_), events, rank));
  }
  FeedHarness& FeedPayload(const std::string& payload) {
    if (!feed_) Use(Config());
    if (next_ == 0) feed_->Connect();
    feed_->Live({next_++, payload});
    return *feed_;
  }
  FeedHarness& Example(std::string_view hex) { return FeedPayload(FromHex(hex)); }

  // Blocks of the prompt that rank `rank` holds, for prompts that are more than plain tokens.
  uint32_t OverlapOf(const std::vector<TokenId>& tokens, const BlockHashing& how,
                     uint32_t rank = 0) const {
    std::vector<LocalBlockHash> query;
    AppendLocalBlockHashes(tokens, how, &query);
    for (const OverlapMatch& match : feed_->index().FindOverlap(query)) {
      if (match.target == Target{kFeedWorker, rank}) return match.blocks;
    }
    return 0;
  }
  uint32_t OverlapAs(const std::vector<TokenId>& tokens, const BlockIdentity& identity,
                     uint32_t rank = 0) const {
    return OverlapOf(tokens, {.block_size_tokens = 4, .block_seed = BlockSeed(identity)}, rank);
  }

  std::optional<FeedHarness> feed_;
  uint64_t next_ = 0;
};

TEST_F(EnginePitfallsTest, Row01MapEncodedEventIsDecoded) {
  EXPECT_EQ(Example(examples::kE4).Overlap(TokenRun(1, 4)), 1u);
}

TEST_F(EnginePitfallsTest, Row02OneBatchMixesArraysAndMaps) {
  Feed({Store({1}, {}, 1), MapStore({.hashes = {2}, .parent = 1, .tokens = TokenRun(5, 4)}),
        Store({3}, 2, 9)});
  EXPECT_EQ(feed_->Overlap(TokenRun(1, 12)), 3u);
}

TEST_F(EnginePitfallsTest, Row03UnknownTagsKeysAndElementsAreSteppedOver) {
  const std::string surplus =
      MsgpackWriter().Str("event_version").Uint(9).Str("novelty").Array(1).Map(0).bytes();
  Feed({MsgpackWriter().Array(2).Str("BlockTouched").Uint(1).bytes(),
        MapStore({.hashes = {1}, .parent = {}, .tokens = TokenRun(1, 4)}, 2, surplus),
        MsgpackWriter().Array(3).Str("AllBlocksPinned").Nil().Nil().bytes()});
  EXPECT_EQ(feed_->Overlap(TokenRun(1, 4)), 1u);
  EXPECT_EQ(feed_->Skipped(SkipReason::kUnknownTag), 2u);
}

TEST_F(EnginePitfallsTest, Row04MalformedEventAmongGoodOnesCostsOnlyItself) {
  Feed({Store({1}, {}, 1), MsgpackWriter().Array(2).Str("BlockStored").Str("what").bytes(),
        Store({2}, 1, 5)});
  Feed({Store({3}, 2, 9)});
  EXPECT_EQ(feed_->Overlap(TokenRun(1, 12)), 3u);
  EXPECT_EQ(feed_->Skipped(SkipReason::kBadEvent), 1u);
  EXPECT_EQ(feed_->counters().gaps, 0u);
}

TEST_F(EnginePitfallsTest, Row05EnvelopesOfTwoThreeFourElementsAndMaps) {
  const std::string a = Store({1}, {}, 1), b = Store({2}, 1, 5), c = Store({3}, 2, 9);
  FeedPayload(MsgpackWriter().Array(2).Float(1).Array(1).Raw(a).bytes());
  FeedPayload(MsgpackWriter().Array(3).Float(2).Array(1).Raw(b).Nil().bytes());
  FeedPayload(MsgpackWriter().Array(4).Float(3).Array(1).Raw(c).Uint(0).Str("more").bytes());
  EXPECT_EQ(feed_->Overlap(TokenRun(1, 12)), 3u);
  Example(examples::kE12);  // a map that removes block 1
  EXPECT_EQ(feed_->Overlap(TokenRun(1, 12)), 0u);
}

TEST_F(EnginePitfallsTest, Row06BatchRankWinsOverTheSocketsRank) {
  Feed({Store({1}, {}, 1)}, 2);
  EXPECT_EQ(feed_->Overlap(TokenRun(1, 4), 2), 1u);
  EXPECT_EQ(feed_->Overlap(TokenRun(1, 4), 0), 0u);
}

TEST_F(EnginePitfallsTest, Row07UnsignedAndSignedHashesAreTheSameBits) {
  Feed({Store({15760518052499183552u}, {}, 1)});
  Feed({MsgpackWriter()
            .Array(3)
            .Str("BlockRemoved")
            .Array(1)
            .Int(-2686226021210368064)
            .Str("GPU")
            .bytes()});
  EXPECT_EQ(feed_->Blocks(), 0u);
  EXPECT_EQ(feed_->results().back().blocks_removed, 1u);
}

TEST_F(EnginePitfallsTest, Row08DigestOfThirtyTwoBytesEqualsItsIntegerForm) {
  Example(examples::kE3);
  EXPECT_EQ(OverlapAs(TokenRun(1, 4), {.lora_name = "adapterA", .cache_salt = "saltX"}, 3), 1u);
  Feed({ArrayRemove({0x6c5cbb9c00aa5aea})}, 3);
  EXPECT_EQ(feed_->results().back().blocks_removed, 1u);
}

TEST_F(EnginePitfallsTest, Row09DigestsOfAnyLengthButNoneAreHashes) {
  const auto remove = [](std::string_view digest) {
    return MsgpackWriter().Array(3).Str("BlockRemoved").Array(1).Bin(digest).Str("GPU").bytes();
  };
  Feed({Store({0x0807060504030201}, {}, 1), Store({0x41}, {}, 5)});
  Feed({remove(std::string(8, 'x') + "\x08\x07\x06\x05\x04\x03\x02\x01"), remove("A"), remove("")});
  EXPECT_EQ(feed_->Blocks(), 0u);
  EXPECT_EQ(feed_->Skipped(SkipReason::kBadEvent), 1u);
}

TEST_F(EnginePitfallsTest, Row10ContentIsHashedFromTokensWhateverTheEnginesHash) {
  Feed({Store({111}, {}, 1)}, 0);
  Feed({Store({999}, {}, 1)}, 1);
  EXPECT_EQ(feed_->Overlap(TokenRun(1, 4), 0), 1u);
  EXPECT_EQ(feed_->Overlap(TokenRun(1, 4), 1), 1u);
}

TEST_F(EnginePitfallsTest, Row11RemovalInAnotherGroupLeavesTheBlock) {
  const StoreSpec store = {.hashes = {5}, .parent = {}, .tokens = TokenRun(1, 4)};
  Feed({StoreIn(store, 0, "full_attention"), StoreIn(store, 1, "mamba"), RemoveIn({5}, 1)});
  EXPECT_EQ(feed_->Overlap(TokenRun(1, 4)), 1u);
  Feed({RemoveIn({5}, 0)});
  EXPECT_EQ(feed_->Overlap(TokenRun(1, 4)), 0u);
}

TEST_F(EnginePitfallsTest, Row12SlidingWindowStoreIsNotSliced) {
  Example(examples::kE5);
  Feed({ArrayStore({.hashes = {7}, .parent = {}, .tokens = TokenRun(1, 12)})});
  EXPECT_EQ(feed_->Blocks(), 0u);
  EXPECT_EQ(feed_->Skipped(SkipReason::kOtherGroup), 2u);
  EXPECT_EQ(feed_->Skipped(SkipReason::kLengthMismatch), 1u);
}

TEST_F(EnginePitfallsTest, Row13StoreWithoutHashesDoesNothing) {
  Feed({ArrayStore({.hashes = {}, .parent = 9, .tokens = TokenRun(1, 4)})});
  EXPECT_TRUE(feed_->applied().empty());
}

TEST_F(EnginePitfallsTest, Row14TwoStoresOfAHashNeedTwoRemovals) {
  Feed({Store({1}, {}, 1), Store({1}, {}, 1), ArrayRemove({1})});
  EXPECT_EQ(feed_->Overlap(TokenRun(1, 4)), 1u);
  Feed({ArrayRemove({1})});
  EXPECT_EQ(feed_->Overlap(TokenRun(1, 4)), 0u);
}

TEST_F(EnginePitfallsTest, Row15RepeatedAnnouncementsAreASetIfConfigured) {
  EngineFeedConfig config = Config();
  config.counting = StoreCounting::kSet;
  Use(config);
  Feed({Store({1, 2}, {}, 1), Store({1, 2}, {}, 1), ArrayRemove({2})});
  EXPECT_EQ(feed_->Overlap(TokenRun(1, 8)), 1u);
}

TEST_F(EnginePitfallsTest, Row16RemovalOfAnUnknownHashIsCountedOnly) {
  Feed({ArrayRemove({1}), Store({1}, {}, 1)});
  EXPECT_EQ(feed_->results().front().blocks_not_found, 1u);
  EXPECT_EQ(feed_->Overlap(TokenRun(1, 4)), 1u) << "what was not there is owed nothing";
  Feed({ArrayRemove({1})});
  EXPECT_EQ(feed_->Overlap(TokenRun(1, 4)), 0u);
}

// What each tier is worth then: BlockIndexTiersTest, RouterTiersTest.
TEST_F(EnginePitfallsTest, Row17RemovalOnOneTierLeavesTheOthers) {
  const std::string copy =
      ArrayStore({.hashes = {1}, .parent = {}, .tokens = TokenRun(1, 4), .medium = "CPU"});
  Feed({Store({1}, {}, 1), copy, ArrayRemove({1}, "GPU")});
  EXPECT_EQ(feed_->Overlap(TokenRun(1, 4)), 0u) << "a copy on the host is none on the device";
  Feed({Store({1}, {}, 1), ArrayRemove({1}, "CPU")});
  EXPECT_EQ(feed_->Overlap(TokenRun(1, 4)), 1u);
  std::vector<StorageTier> tiers;
  for (const KvEvent& event : feed_->applied()) tiers.push_back(event.tier);
  EXPECT_THAT(tiers, testing::ElementsAre(StorageTier::kDevice, StorageTier::kHostPinned,
                                          StorageTier::kDevice, StorageTier::kDevice,
                                          StorageTier::kHostPinned));
}

TEST_F(EnginePitfallsTest, Row18MediumIsMappedAndUnknownOnesGetNoCredit) {
  const auto store = [](uint64_t hash, TokenId first, std::string_view medium) {
    return ArrayStore({.hashes = {hash},
                       .parent = {},
                       .tokens = TokenRun(first, 4),
                       .medium = std::string(medium)});
  };
  Feed({store(1, 1, "CPU_PINNED"), store(2, 5, "cpu"), store(3, 9, "HOLOGRAM"), store(4, 13, "gpu"),
        store(5, 17, "")});
  EXPECT_EQ(feed_->TierOf(0), StorageTier::kHostPinned);
  EXPECT_EQ(feed_->TierOf(1), StorageTier::kHostPinned);
  EXPECT_EQ(feed_->Skipped(SkipReason::kUnknownMedium), 1u);
  EXPECT_EQ(feed_->Blocks(), 2u);
  EXPECT_EQ(feed_->Overlap(TokenRun(17, 4)), 1u) << "no medium is the device";
}

TEST_F(EnginePitfallsTest, Row19PlaceholderStoreIsResolvedByHashOrIgnored) {
  Example(examples::kE7);
  ASSERT_EQ(feed_->applied().size(), 1u);
  EXPECT_TRUE(std::get<Stored>(feed_->applied()[0].data).copies);
  Feed({Store({1}, {}, 1)});
  Feed({ArrayStore({.hashes = {2}, .parent = {}, .tokens = {}, .block_size = 0})});
  EXPECT_EQ(feed_->Blocks(), 1u);
  EXPECT_EQ(feed_->Skipped(SkipReason::kPlaceholder), 1u);
  EXPECT_EQ(feed_->feed().State(), FeedState::kLive) << "block size 0 is no other block size";
}

// What they may take in the index: BlockIndexTiersTest.
TEST_F(EnginePitfallsTest, Row20HostStoresThatAreNeverRemovedTakeNoMemoryInTheFeed) {
  for (uint64_t i = 1; i <= 1000; ++i) {
    Feed({ArrayStore({.hashes = {i}, .parent = {}, .tokens = TokenRun(1, 4), .medium = "CPU"})});
  }
  EXPECT_EQ(feed_->Blocks(), 0u);
  EXPECT_EQ(feed_->counters().hash_memory_full, 0u);
}

TEST_F(EnginePitfallsTest, Row21MapInTheAdaptersPlaceIsASalt) {
  Use(Config(2));
  Example(examples::kE9);
  const uint64_t salted = BlockSeed({.lora_name = {}, .cache_salt = "tenant-a"});
  EXPECT_EQ(OverlapOf(TokenRun(1, 2), {.block_size_tokens = 2, .block_seed = salted}), 1u);
}

TEST_F(EnginePitfallsTest, Row22PairsOfTokensAreFlattened) {
  const BlockHashing salted = {.block_size_tokens = 2,
                               .block_seed = BlockSeed({.lora_name = {}, .cache_salt = "t"})};
  Use(Config(2));
  Example(examples::kE10);
  EXPECT_EQ(OverlapOf({1, 2, 8}, salted, 1), 1u) << "by the first elements";

  EngineFeedConfig config = Config(2);
  config.is_eagle = true;
  Use(config);
  next_ = 0;
  Example(examples::kE10);
  BlockHashing windows = salted;
  windows.is_eagle = true;
  EXPECT_EQ(OverlapOf({1, 2, 3}, windows, 1), 1u);
  EXPECT_EQ(OverlapOf({1, 2, 8}, windows, 1), 0u) << "the engine compares the token ahead, too";
  EXPECT_EQ(OverlapOf({1, 2}, windows, 1), 0u) << "the last position is never cached";
}

TEST_F(EnginePitfallsTest, Row23TextTokensCostOnlyTheirEvent) {
  MsgpackWriter text;
  text.Array(5).Str("BlockStored").Array(1).Uint(3).Nil().Array(4);
  text.Uint(1).Uint(2).Str("im").Str("age").Uint(4);
  Feed({text.bytes(), Store({1}, {}, 1), ArrayRemove({3})});
  EXPECT_EQ(feed_->Overlap(TokenRun(1, 4)), 1u);
  EXPECT_EQ(feed_->Skipped(SkipReason::kNonIntegerTokens), 2u) << "the store and its removal";
}

TEST_F(EnginePitfallsTest, Row24OtherBlockSizesAreRefusedAndShown) {
  for (const uint32_t size : {1u, 528u}) {
    Feed({ArrayStore({.hashes = {size, size + 1},
                      .parent = {},
                      .tokens = TokenRun(1, 2 * size),
                      .block_size = size})});
    EXPECT_EQ(feed_->feed().State(), FeedState::kDegraded);
    EXPECT_THAT(feed_->feed().Detail(), HasSubstr(std::to_string(size)));
  }
  EXPECT_EQ(feed_->Blocks(), 0u);
  EXPECT_EQ(feed_->Skipped(SkipReason::kBlockSize), 2u);
}

TEST_F(EnginePitfallsTest, Row25ShortLastPageAndItsRemovalAreDropped) {
  Feed({Store({1}, {}, 1),
        ArrayStore({.hashes = {2}, .parent = 1, .tokens = TokenRun(5, 3), .block_size = 3}),
        ArrayRemove({2})});
  EXPECT_EQ(feed_->Blocks(), 1u);
  EXPECT_EQ(feed_->results().size(), 1u) << "neither reaches the index";
  EXPECT_EQ(feed_->feed().State(), FeedState::kLive);
}

TEST_F(EnginePitfallsTest, Row26RemoveThenStoreInOneBatchKeepsItsOrder) {
  Feed({Store({1}, {}, 1),
        ArrayStore({.hashes = {2}, .parent = 1, .tokens = TokenRun(5, 2), .block_size = 2})});
  Feed({ArrayRemove({2}), Store({2}, 1, 5)});  // the promotion may keep the name
  EXPECT_EQ(feed_->Overlap(TokenRun(1, 8)), 2u);
  Feed({ArrayRemove({2}), Store({2}, 1, 5), ArrayRemove({2})});
  EXPECT_EQ(feed_->Overlap(TokenRun(1, 8)), 1u) << "the last word counts";
  Feed({Store({2}, 1, 5)});
  Feed({ArrayRemove({2}), Store({2}, 1, 9)});  // and may be given to other content
  EXPECT_EQ(feed_->Overlap(TokenRun(1, 8)), 1u);
  EXPECT_EQ(feed_->Overlap({1, 2, 3, 4, 9, 10, 11, 12}), 2u) << "the store was not the first";
}

TEST_F(EnginePitfallsTest, Row27SaltAndAdapterKeepTenantsApart) {
  MsgpackWriter salt, adapter;
  salt.Str("extra_keys").Array(2).Array(1).Str("tenant-a").Nil();
  adapter.Str("lora_name").Str("ada");
  const auto tokens = TokenRun(1, 8);
  Feed({MapStore({.hashes = {1, 2}, .parent = {}, .tokens = tokens}, 1, salt.bytes()),
        MapStore({.hashes = {3, 4}, .parent = {}, .tokens = tokens}, 1, adapter.bytes())});
  EXPECT_EQ(OverlapAs(tokens, {}), 0u);
  EXPECT_EQ(OverlapAs(tokens, {.lora_name = {}, .cache_salt = "tenant-b"}), 0u);
  EXPECT_EQ(OverlapAs(tokens, {.lora_name = {}, .cache_salt = "tenant-a"}), 2u);
  EXPECT_EQ(OverlapAs(tokens, {.lora_name = "ada", .cache_salt = {}}), 2u);
  EXPECT_EQ(OverlapAs(tokens, {.lora_name = "ada", .cache_salt = "tenant-a"}), 0u);
}

TEST_F(EnginePitfallsTest, Row28AdapterNumberIsNoIdentity) {
  MsgpackWriter w;
  w.Array(6).Str("BlockStored").Array(1).Uint(1).Nil().UintArray(TokenRun(1, 4)).Uint(4).Uint(3);
  Feed({w.bytes()});
  EXPECT_EQ(feed_->Overlap(TokenRun(1, 4)), 0u);
  EXPECT_EQ(feed_->Skipped(SkipReason::kUnknownLora), 1u);
}

TEST_F(EnginePitfallsTest, Row29ImagesOfTheSamePlaceholdersDiffer) {
  const auto store = [](uint64_t hash, std::string_view image) {
    MsgpackWriter keys;
    keys.Str("extra_keys").Array(1).Array(1).Array(2).Str(image).Int(0);
    return MapStore({.hashes = {hash}, .parent = {}, .tokens = {9, 9, 9, 9}}, 1, keys.bytes());
  };
  Feed({store(1, "cat")});
  const std::vector<std::vector<MultimodalHash>> cat = {{*MultimodalHashOf("cat")}};
  const std::vector<std::vector<MultimodalHash>> dog = {{*MultimodalHashOf("dog")}};
  const uint64_t seed = BlockSeed({});
  EXPECT_EQ(OverlapOf({9, 9, 9, 9}, {.block_size_tokens = 4, .block_seed = seed}), 0u);
  EXPECT_EQ(
      OverlapOf({9, 9, 9, 9}, {.block_size_tokens = 4, .block_seed = seed, .multimodal = dog}), 0u);
  EXPECT_EQ(
      OverlapOf({9, 9, 9, 9}, {.block_size_tokens = 4, .block_seed = seed, .multimodal = cat}), 1u);
}

TEST_F(EnginePitfallsTest, Row30StoreWithUnknownParentIsNoRoot) {
  Feed({Store({2}, 1, 5)});
  EXPECT_EQ(feed_->Overlap(TokenRun(5, 4)), 0u);
  EXPECT_EQ(feed_->results().back().status, ApplyStatus::kParentBlockNotFound);
}

TEST_F(EnginePitfallsTest, Row31ParentlessStoreOfAnotherGroupIsNoRoot) {
  Feed({StoreIn({.hashes = {5}, .parent = {}, .tokens = TokenRun(5, 4)}, 1, "mamba"),
        ArrayStore({.hashes = {6}, .parent = {}, .tokens = {}, .block_size = 0})});
  EXPECT_EQ(feed_->Blocks(), 0u);
}

TEST_F(EnginePitfallsTest, Row32SequenceZeroAfterManyIsANewEngine) {
  for (TokenId i = 0; i < 20; ++i) Feed({Store({100 + i}, {}, 1000 + 4 * i)});
  feed_->Live({0, BatchPayload(1.0, {Store({1}, {}, 1)})});  // its clock went back, too
  EXPECT_EQ(feed_->Blocks(), 1u);
  EXPECT_EQ(feed_->Overlap(TokenRun(1, 4)), 1u);
  EXPECT_EQ(feed_->counters().restarts, 1u);
}

TEST_F(EnginePitfallsTest, Row33RepeatedSequenceIsAppliedOnce) {
  Feed({Store({1}, {}, 1)});
  feed_->Live({0, BatchPayload(100.0, {Store({1}, {}, 1)})});
  Feed({ArrayRemove({1})});
  EXPECT_EQ(feed_->Blocks(), 0u) << "one store, one removal";
}

TEST_F(EnginePitfallsTest, Row41ClearedIsOfItsRankOnlyAndOfAllItsBlocks) {
  Feed({Store({1}, {}, 1)}, 0);
  Feed({Store({1}, {}, 1), Store({2}, 1, 5)}, 1);
  Feed({Store({3}, 2, 9), ArrayCleared()}, 1);
  EXPECT_EQ(feed_->Blocks(0), 1u);
  EXPECT_EQ(feed_->Blocks(1), 0u);
}

}  // namespace
}  // namespace kvrouter
