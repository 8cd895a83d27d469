#include "feed/rank_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "kvrouter/block_hash.h"
#include "support/engine_examples.h"
#include "support/engine_payload.h"

namespace kvrouter {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// `count` tokens from `first` on.
std::vector<TokenId> Tokens(TokenId first, size_t count) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::vector<LocalBlockHash> LocalHashes(const std::vector<TokenId>& tokens,
                                        const BlockIdentity& identity = {}) {
  std::vector<LocalBlockHash> hashes;
  AppendLocalBlockHashes(tokens, 4, BlockSeed(identity), &hashes);
  return hashes;
}

std::vector<LocalBlockHash> NamedBlocks(const std::vector<TokenId>& tokens,
                                        const BlockNaming& naming,
                                        const std::vector<std::vector<MultimodalHash>>& items) {
  std::vector<LocalBlockHash> hashes;
  AppendLocalBlockHashes(tokens,
                         {.block_size_tokens = naming.block_size_tokens,
                          .block_seed = BlockSeed({}),
                          .is_eagle = naming.is_eagle,
                          .image_token_id = naming.image_token_id,
                          .multimodal = items},
                         &hashes);
  return hashes;
}

// A filter of block size 4 and a way to feed it whole payloads.
class RankFilterTest : public testing::Test {
 protected:
  // What the events of a payload leave for the index.
  void Feed(const std::string& payload) {
    stores_.clear();
    removals_.clear();
    RawBatch batch;
    ASSERT_FALSE(DecodeBatch(payload, &batch));
    for (const RawEvent& event : batch.events) {
      if (event.kind == RawKind::kStored) {
        if (auto stored = filter_.Store(batch, event, &counters_)) stores_.push_back(*stored);
      } else if (event.kind == RawKind::kRemoved) {
        if (auto removed = filter_.Remove(batch, event, &counters_)) removals_.push_back(*removed);
      } else {
        filter_.OnCleared();
      }
    }
  }
  void FeedEvents(const std::vector<std::string>& events) { Feed(BatchPayload(1.0, events)); }

  uint64_t Skipped(SkipReason reason) const {
    return counters_.skipped[static_cast<size_t>(reason)];
  }
  uint64_t SkippedInAll() const {
    return std::accumulate(counters_.skipped.begin(), counters_.skipped.end(), uint64_t{0});
  }

  std::vector<uint64_t> StoredHashes(size_t i) const {
    std::vector<uint64_t> hashes;
    for (const StoredBlock& block : stores_.at(i).blocks)
      hashes.push_back(static_cast<uint64_t>(block.engine_hash));
    return hashes;
  }
  std::vector<LocalBlockHash> StoredContent(size_t i) const {
    std::vector<LocalBlockHash> hashes;
    for (const StoredBlock& block : stores_.at(i).blocks) hashes.push_back(block.local_hash);
    return hashes;
  }
  std::vector<uint64_t> RemovedHashes(size_t i) const {
    std::vector<uint64_t> hashes;
    for (const EngineHash hash : removals_.at(i).engine_hashes)
      hashes.push_back(static_cast<uint64_t>(hash));
    return hashes;
  }

  void UseNaming(const BlockNaming& naming) { filter_ = RankFilter(naming); }

  RankFilter filter_{BlockNaming{.block_size_tokens = 4}};
  FeedCounters counters_;
  std::vector<Stored> stores_;
  std::vector<Removed> removals_;
};

// Key-value pairs of group fields for MapStore and MapRemove.
std::string Group(uint64_t group, std::string_view kind) {
  return MsgpackWriter().Str("group_idx").Uint(group).Str("kv_cache_spec_kind").Str(kind).bytes();
}
std::string GroupOnly(uint64_t group) {
  return MsgpackWriter().Str("group_idx").Uint(group).bytes();
}

// Pitfall row 10: the content hash is ours, the engine's hash only a handle.
TEST_F(RankFilterTest, ContentIsHashedFromTokensNotTakenFromTheEngine) {
  FeedEvents({ArrayStore({.hashes = {11, 12}, .parent = {}, .tokens = Tokens(1, 8)})});
  const auto first_engine = StoredContent(0);
  FeedEvents({ArrayStore({.hashes = {91, 92}, .parent = {}, .tokens = Tokens(1, 8)})});
  EXPECT_EQ(StoredContent(0), first_engine);
  EXPECT_EQ(first_engine, LocalHashes(Tokens(1, 8)));
  EXPECT_THAT(StoredHashes(0), ElementsAre(91, 92));
  EXPECT_FALSE(stores_[0].parent);
  FeedEvents({ArrayStore({.hashes = {93}, .parent = 92, .tokens = Tokens(9, 4)})});
  EXPECT_EQ(stores_.at(0).parent, EngineHash{92});
}

// Pitfall row 11.
TEST_F(RankFilterTest, SameHashInAnotherGroupIsNotTouchedByThatGroupsRemoval) {
  const StoreSpec store = {.hashes = {5}, .parent = {}, .tokens = Tokens(1, 4)};
  FeedEvents({MapStore(store, 2, Group(0, "full_attention")),
              MapStore(store, 2, Group(1, "sliding_window")), MapRemove({5}, 1, GroupOnly(1))});
  EXPECT_EQ(stores_.size(), 1u);
  EXPECT_THAT(removals_, IsEmpty());
  EXPECT_EQ(Skipped(SkipReason::kOtherGroup), 2u);
  FeedEvents({MapRemove({5}, 1, GroupOnly(0))});
  EXPECT_EQ(removals_.size(), 1u);
}

TEST_F(RankFilterTest, MainGroupNeedNotBeTheFirst) {
  FeedEvents({MapStore({.hashes = {5}, .parent = {}, .tokens = Tokens(1, 4)}, 2, Group(0, "mamba")),
              MapStore({.hashes = {5}, .parent = {}, .tokens = Tokens(1, 4)}, 2,
                       Group(2, "mla_attention")),
              MapRemove({5}, 1, GroupOnly(0)), MapRemove({5}, 1, GroupOnly(2))});
  EXPECT_EQ(stores_.size(), 1u);
  EXPECT_EQ(removals_.size(), 1u);
}

TEST_F(RankFilterTest, SecondFullAttentionGroupSaysNothingNew) {
  const StoreSpec store = {.hashes = {5}, .parent = {}, .tokens = Tokens(1, 4)};
  FeedEvents({MapStore(store, 2, Group(1, "full_attention")),
              MapStore(store, 2, Group(3, "sink_full_attention")),
              MapRemove({5}, 1, GroupOnly(3))});
  EXPECT_EQ(stores_.size(), 1u);
  EXPECT_THAT(removals_, IsEmpty());
}

TEST_F(RankFilterTest, EveryOtherKindIsSkipped) {
  for (const char* kind :
       {"sliding_window", "sliding_window_mla", "mamba", "chunked_local_attention",
        "encoder_only_attention", "cross_attention", "unknown", "something_newer"}) {
    FeedEvents(
        {MapStore({.hashes = {5}, .parent = {}, .tokens = Tokens(1, 4)}, 2, Group(0, kind))});
    EXPECT_THAT(stores_, IsEmpty()) << kind;
  }
  EXPECT_EQ(Skipped(SkipReason::kOtherGroup), 8u);
}

TEST_F(RankFilterTest, GroupNumbersWithoutKindsMeanGroupZeroUnderTheLengthRule) {
  FeedEvents({MapStore({.hashes = {5}, .parent = {}, .tokens = Tokens(1, 4)}, 1, GroupOnly(1)),
              MapStore({.hashes = {6}, .parent = {}, .tokens = Tokens(1, 12)}, 1, GroupOnly(0)),
              MapStore({.hashes = {7}, .parent = {}, .tokens = Tokens(1, 4)}, 1, GroupOnly(0))});
  ASSERT_EQ(stores_.size(), 1u);
  EXPECT_THAT(StoredHashes(0), ElementsAre(7));
  EXPECT_EQ(Skipped(SkipReason::kOtherGroup), 1u);
  EXPECT_EQ(Skipped(SkipReason::kLengthMismatch), 1u);
}

// Pitfall row 12.
TEST_F(RankFilterTest, E5SlidingWindowStoreAndRemovalLeaveNothing) {
  Feed(FromHex(examples::kE5));
  EXPECT_THAT(stores_, IsEmpty());
  EXPECT_THAT(removals_, IsEmpty());
  EXPECT_EQ(Skipped(SkipReason::kOtherGroup), 2u);
}

TEST_F(RankFilterTest, LengthMismatchIsSkippedWithItsRemovalAndItsChildren) {
  FeedEvents({ArrayStore({.hashes = {5}, .parent = {}, .tokens = Tokens(1, 12)}),
              ArrayStore({.hashes = {6}, .parent = 5, .tokens = Tokens(13, 4)}),
              ArrayRemove({6, 5})});
  EXPECT_THAT(stores_, IsEmpty());
  EXPECT_THAT(removals_, IsEmpty());
  EXPECT_EQ(Skipped(SkipReason::kLengthMismatch), 3u);
}

// Pitfall row 13.
TEST_F(RankFilterTest, StoreWithoutHashesSaysNothing) {
  FeedEvents({ArrayStore({.hashes = {}, .parent = 3, .tokens = Tokens(1, 4)}), ArrayRemove({})});
  EXPECT_THAT(stores_, IsEmpty());
  EXPECT_THAT(removals_, IsEmpty());
  EXPECT_EQ(SkippedInAll(), 0u);
}

// Pitfall rows 17 and 18.
TEST_F(RankFilterTest, KnownMediaArePassedOnAndUnknownOnesSkipped) {
  FeedEvents({ArrayStore({.hashes = {5}, .parent = {}, .tokens = Tokens(1, 4), .medium = "gpu"})});
  EXPECT_EQ(stores_.size(), 1u);
  for (const char* medium : {"CPU", "cpu_pinned", "CPU_TIER1", "CPU_TIER2", "DISK", "NVME",
                             "Storage", "EXTERNAL", "NETWORK", "REMOTE", "SHARED"}) {
    FeedEvents({ArrayStore({.hashes = {5}, .parent = {}, .tokens = Tokens(1, 4), .medium = medium}),
                ArrayRemove({5}, medium)});
    EXPECT_EQ(stores_.size(), 1u) << medium;
    EXPECT_EQ(removals_.size(), 1u) << medium;
  }
  EXPECT_EQ(SkippedInAll(), 0u);
  FeedEvents({ArrayStore({.hashes = {5}, .parent = {}, .tokens = Tokens(1, 4), .medium = "HBM9"}),
              ArrayRemove({5}, "HBM9")});
  EXPECT_EQ(Skipped(SkipReason::kUnknownMedium), 2u);
  FeedEvents({ArrayRemove({5}, "Device")});
  EXPECT_EQ(removals_.size(), 1u);
}

TEST_F(RankFilterTest, MissingMediumIsTheDevice) {
  EXPECT_EQ(TierOf(""), StorageTier::kDevice);
  EXPECT_EQ(TierOf("CPU"), StorageTier::kHostPinned);
  EXPECT_EQ(TierOf("storage"), StorageTier::kDisk);
  EXPECT_EQ(TierOf("External"), StorageTier::kExternal);
  EXPECT_EQ(TierOf("GPUX"), std::nullopt);
}

// Pitfall rows 19 and 31.
TEST_F(RankFilterTest, PlaceholderIsSkipped) {
  FeedEvents(
      {ArrayStore({.hashes = {5}, .parent = {}, .tokens = {}, .block_size = 0}), ArrayRemove({5})});
  EXPECT_THAT(stores_, IsEmpty());
  EXPECT_THAT(removals_, IsEmpty());
  EXPECT_EQ(Skipped(SkipReason::kPlaceholder), 2u);
}

// Pitfall row 19.
TEST_F(RankFilterTest, PlaceholderOnALowerTierIsACopyOfWhatIsKnown) {
  Feed(FromHex(examples::kE7));
  ASSERT_EQ(stores_.size(), 1u);
  EXPECT_TRUE(stores_[0].copies);
  EXPECT_EQ(stores_[0].blocks.size(), 1u);
  EXPECT_EQ(SkippedInAll(), 0u);
}

TEST_F(RankFilterTest, CopyOfASkippedBlockIsSkippedUntilItsOwnRemoval) {
  const StoreSpec partial = {.hashes = {5}, .parent = {}, .tokens = Tokens(1, 3), .block_size = 3};
  const StoreSpec copy = {
      .hashes = {5}, .parent = {}, .tokens = {}, .block_size = 0, .medium = "CPU"};
  FeedEvents({ArrayStore(partial), ArrayStore(copy)});
  EXPECT_THAT(stores_, IsEmpty());
  EXPECT_EQ(Skipped(SkipReason::kPartialBlock), 2u);
  FeedEvents({ArrayRemove({5}, "CPU"), ArrayRemove({5})});
  EXPECT_THAT(removals_, IsEmpty());
  EXPECT_EQ(Skipped(SkipReason::kPartialBlock), 4u);
  FeedEvents({ArrayRemove({5}, "CPU"), ArrayRemove({5})});
  EXPECT_EQ(removals_.size(), 2u) << "nothing is remembered of it any more";
}

TEST_F(RankFilterTest, StoreOnALowerTierBehindASkippedBlockIsSkipped) {
  FeedEvents({ArrayStore({.hashes = {5}, .parent = {}, .tokens = Tokens(1, 3), .block_size = 3}),
              ArrayStore({.hashes = {6}, .parent = 5, .tokens = Tokens(5, 4), .medium = "CPU"})});
  EXPECT_THAT(stores_, IsEmpty());
  FeedEvents({ArrayRemove({6}, "CPU")});
  EXPECT_THAT(removals_, IsEmpty());
}

TEST_F(RankFilterTest, AnotherBlockSizeOnALowerTierSaysNothingOfTheEngine) {
  FeedEvents({ArrayStore({.hashes = {5, 6},
                          .parent = {},
                          .tokens = Tokens(1, 16),
                          .block_size = 8,
                          .medium = "CPU"})});
  EXPECT_EQ(Skipped(SkipReason::kBlockSize), 1u);
  EXPECT_EQ(filter_.ForeignBlockSize(), std::nullopt);
}

TEST_F(RankFilterTest, SaltOutlivesTheBlockOfWhichACopyIsLeft) {
  const std::string salt = MsgpackWriter().Str("cache_salt").Str("tenant-a").bytes();
  const StoreSpec copy = {
      .hashes = {5}, .parent = {}, .tokens = {}, .block_size = 0, .medium = "CPU"};
  FeedEvents({MapStore({.hashes = {5}, .parent = {}, .tokens = Tokens(1, 4)}, 1, salt),
              ArrayStore(copy), ArrayRemove({5}),
              ArrayStore({.hashes = {6}, .parent = 5, .tokens = Tokens(5, 4), .medium = "CPU"})});
  ASSERT_EQ(stores_.size(), 3u);
  EXPECT_EQ(StoredContent(2),
            LocalHashes(Tokens(5, 4), {.lora_name = {}, .cache_salt = "tenant-a"}));
}

TEST_F(RankFilterTest, SaltIsInheritedFromAnotherTier) {
  const std::string salt = MsgpackWriter().Str("cache_salt").Str("tenant-a").bytes();
  FeedEvents({MapStore({.hashes = {5}, .parent = {}, .tokens = Tokens(1, 4)}, 1, salt),
              ArrayStore({.hashes = {6}, .parent = 5, .tokens = Tokens(5, 4), .medium = "DISK"}),
              ArrayRemove({5}),
              ArrayStore({.hashes = {7}, .parent = 6, .tokens = Tokens(9, 4), .medium = "DISK"})});
  ASSERT_EQ(stores_.size(), 3u);
  const BlockIdentity salted{.lora_name = {}, .cache_salt = "tenant-a"};
  EXPECT_EQ(StoredContent(1), LocalHashes(Tokens(5, 4), salted));
  EXPECT_EQ(StoredContent(2), LocalHashes(Tokens(9, 4), salted));
}

// Found by tests/property/truth: without the salt the copy was of another content.
TEST_F(RankFilterTest, CopyOnALowerTierKeepsItsSaltWhenItsParentIsGone) {
  const std::string salt = MsgpackWriter().Str("cache_salt").Str("tenant-a").bytes();
  FeedEvents({MapStore({.hashes = {5}, .parent = {}, .tokens = Tokens(1, 4)}, 1, salt),
              ArrayStore({.hashes = {6}, .parent = 5, .tokens = Tokens(5, 4)}), ArrayRemove({5}),
              ArrayStore({.hashes = {6}, .parent = 5, .tokens = Tokens(5, 4), .medium = "CPU"})});
  ASSERT_EQ(stores_.size(), 3u);
  EXPECT_EQ(StoredContent(2),
            LocalHashes(Tokens(5, 4), {.lora_name = {}, .cache_salt = "tenant-a"}));
}

TEST_F(RankFilterTest, BlockStoredForRealAfterAPlaceholderIsRemovedForReal) {
  FeedEvents({ArrayStore({.hashes = {5}, .parent = {}, .tokens = {}, .block_size = 0}),
              ArrayStore({.hashes = {5}, .parent = {}, .tokens = Tokens(1, 4)}), ArrayRemove({5})});
  EXPECT_EQ(stores_.size(), 1u);
  EXPECT_EQ(removals_.size(), 1u);
}

TEST_F(RankFilterTest, BlocksThatLieElsewhereAreSkipped) {
  const std::string remote = MsgpackWriter().Str("locality").Str("REMOTE").bytes();
  const std::string local = MsgpackWriter().Str("locality").Str("LOCAL").bytes();
  const StoreSpec store = {.hashes = {5}, .parent = {}, .tokens = Tokens(1, 4)};
  FeedEvents({MapStore(store, 1, remote), MapRemove({5}, 1, remote)});
  EXPECT_THAT(stores_, IsEmpty());
  EXPECT_THAT(removals_, IsEmpty());
  EXPECT_EQ(Skipped(SkipReason::kRemoteLocality), 2u);
  FeedEvents({MapStore(store, 1, local)});
  EXPECT_EQ(stores_.size(), 1u);
}

// Pitfall row 23.
TEST_F(RankFilterTest, TextTokensAreSkippedWithTheirRemoval) {
  MsgpackWriter w;
  w.Array(5)
      .Str("BlockStored")
      .Array(1)
      .Uint(3)
      .Nil()
      .Array(4)
      .Str("a")
      .Str("b")
      .Str("c")
      .Str("d")
      .Uint(4);
  FeedEvents({w.bytes(), ArrayRemove({3})});
  EXPECT_THAT(stores_, IsEmpty());
  EXPECT_THAT(removals_, IsEmpty());
  EXPECT_EQ(Skipped(SkipReason::kNonIntegerTokens), 2u);
}

// Pitfall row 24.
TEST_F(RankFilterTest, ForeignBlockSizeIsSkippedAndShown) {
  FeedEvents(
      {ArrayStore({.hashes = {5, 6}, .parent = {}, .tokens = Tokens(1, 2), .block_size = 1})});
  EXPECT_THAT(stores_, IsEmpty());
  EXPECT_EQ(Skipped(SkipReason::kBlockSize), 1u);
  EXPECT_EQ(filter_.ForeignBlockSize(), 1u);
  FeedEvents({ArrayStore({.hashes = {7}, .parent = 6, .tokens = Tokens(3, 1), .block_size = 1})});
  EXPECT_EQ(Skipped(SkipReason::kBlockSize), 2u);  // known by now to be its size, not a short end
  FeedEvents(
      {ArrayStore({.hashes = {8}, .parent = {}, .tokens = Tokens(1, 528), .block_size = 528})});
  EXPECT_EQ(Skipped(SkipReason::kBlockSize), 3u);
  EXPECT_EQ(filter_.ForeignBlockSize(), 528u);
  FeedEvents({ArrayStore({.hashes = {9}, .parent = {}, .tokens = Tokens(1, 4)})});
  EXPECT_EQ(filter_.ForeignBlockSize(), std::nullopt);
}

// As of a publisher that leaves the field out.
TEST_F(RankFilterTest, NoBlockSizeIsAForeignOneAndNoShortEnd) {
  RawBatch batch;
  batch.hashes = {5};
  batch.local_hashes = {LocalBlockHash{50}};
  RawEvent event;
  event.kind = RawKind::kStored;
  event.hashes.count = 1;
  event.local_hashes.count = 1;
  FeedCounters counters;
  EXPECT_FALSE(filter_.Store(batch, event, &counters));
  EXPECT_EQ(counters.skipped[static_cast<size_t>(SkipReason::kBlockSize)], 1u);
  EXPECT_EQ(filter_.ForeignBlockSize(), 0u);
  event.block_size_tokens = 4;
  EXPECT_TRUE(filter_.Store(batch, event, &counters));
  EXPECT_EQ(filter_.ForeignBlockSize(), std::nullopt);
}

// Pitfall rows 25 and 26.
TEST_F(RankFilterTest, PartialBlockAndItsRemovalAreSwallowedAndItsPromotionIsStored) {
  FeedEvents({ArrayStore({.hashes = {5}, .parent = {}, .tokens = Tokens(1, 4)}),
              ArrayStore({.hashes = {60}, .parent = 5, .tokens = Tokens(5, 2), .block_size = 2})});
  EXPECT_EQ(stores_.size(), 1u);
  EXPECT_EQ(Skipped(SkipReason::kPartialBlock), 1u);
  FeedEvents({ArrayRemove({60}), ArrayStore({.hashes = {6}, .parent = 5, .tokens = Tokens(5, 4)})});
  EXPECT_THAT(removals_, IsEmpty());
  ASSERT_EQ(stores_.size(), 1u);
  EXPECT_THAT(StoredHashes(0), ElementsAre(6));
  EXPECT_EQ(Skipped(SkipReason::kPartialBlock), 2u);
  EXPECT_EQ(filter_.ForeignBlockSize(), std::nullopt);
}

TEST_F(RankFilterTest, RemovalKeepsWhatWasNotSwallowed) {
  FeedEvents({ArrayStore({.hashes = {60}, .parent = {}, .tokens = Tokens(5, 2), .block_size = 2}),
              ArrayRemove({1, 60, 2})});
  ASSERT_EQ(removals_.size(), 1u);
  EXPECT_THAT(RemovedHashes(0), ElementsAre(1, 2));
}

TEST_F(RankFilterTest, TwoPartialStoresSwallowTwoRemovals) {
  const std::string partial =
      ArrayStore({.hashes = {60}, .parent = {}, .tokens = Tokens(5, 2), .block_size = 2});
  FeedEvents({partial, partial, ArrayRemove({60}), ArrayRemove({60})});
  EXPECT_THAT(removals_, IsEmpty());
  FeedEvents({ArrayRemove({60})});
  EXPECT_EQ(removals_.size(), 1u);
}

// Pitfall row 27.
TEST_F(RankFilterTest, AdapterAndSaltAreOfTheContent) {
  MsgpackWriter lora;
  lora.Str("lora_name").Str("ada");
  MsgpackWriter salt;
  salt.Str("cache_salt").Str("tenant");
  const StoreSpec store = {.hashes = {5}, .parent = {}, .tokens = Tokens(1, 4)};
  FeedEvents({MapStore(store), MapStore(store, 1, lora.bytes()), MapStore(store, 1, salt.bytes()),
              MapStore(store, 2, lora.bytes() + salt.bytes())});
  ASSERT_EQ(stores_.size(), 4u);
  EXPECT_EQ(StoredContent(0), LocalHashes(Tokens(1, 4)));
  EXPECT_EQ(StoredContent(1), LocalHashes(Tokens(1, 4), {.lora_name = "ada", .cache_salt = {}}));
  EXPECT_EQ(StoredContent(2), LocalHashes(Tokens(1, 4), {.lora_name = {}, .cache_salt = "tenant"}));
  EXPECT_EQ(StoredContent(3),
            LocalHashes(Tokens(1, 4), {.lora_name = "ada", .cache_salt = "tenant"}));
}

TEST_F(RankFilterTest, ContinuationInheritsTheSaltOfItsSequence) {
  MsgpackWriter keys;
  keys.Str("extra_keys").Array(1).Array(1).Str("tenant");
  FeedEvents({MapStore({.hashes = {5}, .parent = {}, .tokens = Tokens(1, 4)}, 1, keys.bytes()),
              MapStore({.hashes = {6, 7}, .parent = 5, .tokens = Tokens(5, 8)}),
              MapStore({.hashes = {8}, .parent = 7, .tokens = Tokens(13, 4)}),
              MapStore({.hashes = {9}, .parent = 100, .tokens = Tokens(13, 4)})});
  ASSERT_EQ(stores_.size(), 4u);
  const BlockIdentity tenant = {.lora_name = {}, .cache_salt = "tenant"};
  EXPECT_EQ(StoredContent(0), LocalHashes(Tokens(1, 4), tenant));
  EXPECT_EQ(StoredContent(1), LocalHashes(Tokens(5, 8), tenant));
  EXPECT_EQ(StoredContent(2), LocalHashes(Tokens(13, 4), tenant));
  EXPECT_EQ(StoredContent(3), LocalHashes(Tokens(13, 4)));
}

TEST_F(RankFilterTest, SaltIsForgottenWithItsBlocks) {
  MsgpackWriter salt;
  salt.Str("cache_salt").Str("tenant");
  FeedEvents({MapStore({.hashes = {5}, .parent = {}, .tokens = Tokens(1, 4)}, 1, salt.bytes()),
              MapRemove({5}), MapStore({.hashes = {6}, .parent = 5, .tokens = Tokens(5, 4)})});
  EXPECT_EQ(StoredContent(1), LocalHashes(Tokens(5, 4)));
}

// Pitfall row 28.
TEST_F(RankFilterTest, AdapterKnownOnlyByNumberIsSkipped) {
  MsgpackWriter w;
  w.Array(7)
      .Str("BlockStored")
      .UintArray<int>({7})
      .Nil()
      .UintArray(Tokens(1, 4))
      .Uint(4)
      .Uint(1)
      .Str("GPU");
  FeedEvents({w.bytes(), ArrayRemove({7})});
  EXPECT_THAT(stores_, IsEmpty());
  EXPECT_THAT(removals_, IsEmpty());
  EXPECT_EQ(Skipped(SkipReason::kUnknownLora), 2u);
}

TEST_F(RankFilterTest, E3IsStoredUnderAdapterAndSalt) {
  Feed(FromHex(examples::kE3));
  ASSERT_EQ(stores_.size(), 1u);
  EXPECT_EQ(StoredContent(0),
            LocalHashes(Tokens(1, 4), {.lora_name = "adapterA", .cache_salt = "saltX"}));
}

// Pitfall row 29.
TEST_F(RankFilterTest, BlocksFromTheFirstUnknownOneOnAreSkippedWithWhatFollows) {
  MsgpackWriter keys;
  keys.Str("extra_keys").Array(3).Nil().Array(1).Bin(std::string(32, 'x')).Nil();
  FeedEvents(
      {MapStore({.hashes = {5, 6, 7}, .parent = {}, .tokens = Tokens(1, 12)}, 1, keys.bytes()),
       MapStore({.hashes = {8}, .parent = 7, .tokens = Tokens(13, 4)}), ArrayRemove({8, 7, 6, 5})});
  ASSERT_EQ(stores_.size(), 1u);
  EXPECT_THAT(StoredHashes(0), ElementsAre(5));
  EXPECT_EQ(StoredContent(0), LocalHashes(Tokens(1, 4)));
  ASSERT_EQ(removals_.size(), 1u);
  EXPECT_THAT(RemovedHashes(0), ElementsAre(5));
  EXPECT_EQ(Skipped(SkipReason::kMultimodal), 3u);
}

// Pitfall row 29: a block with an image is not the block with the same tokens and another image.
TEST_F(RankFilterTest, NamedItemsArePartOfTheirBlocksContent) {
  MsgpackWriter keys;
  keys.Str("extra_keys").Array(3).Nil().Array(2).Array(2).Str("img-1").Uint(0).Array(2);
  keys.Str("img-2").Uint(2).Nil();
  FeedEvents(
      {MapStore({.hashes = {5, 6, 7}, .parent = {}, .tokens = Tokens(1, 12)}, 1, keys.bytes()),
       MapStore({.hashes = {8}, .parent = 7, .tokens = Tokens(13, 4)})});
  ASSERT_EQ(stores_.size(), 2u);
  const std::vector<std::vector<MultimodalHash>> items = {
      {}, {*MultimodalHashOf("img-2"), *MultimodalHashOf("img-1")}};
  std::vector<LocalBlockHash> expected;
  AppendLocalBlockHashes(Tokens(1, 12),
                         {.block_size_tokens = 4, .block_seed = BlockSeed({}), .multimodal = items},
                         &expected);
  EXPECT_EQ(StoredContent(0), expected);
  EXPECT_NE(StoredContent(0), LocalHashes(Tokens(1, 12)));
  EXPECT_EQ(StoredContent(1), LocalHashes(Tokens(13, 4)));
  EXPECT_EQ(Skipped(SkipReason::kMultimodal), 0u);
}

TEST_F(RankFilterTest, E11IsStoredUnderItsItem) {
  Feed(FromHex(examples::kE11));
  ASSERT_EQ(stores_.size(), 1u);
  EXPECT_EQ(StoredContent(0),
            NamedBlocks(Tokens(1, 4), {.block_size_tokens = 4}, {{*MultimodalHashOf("ab")}}));
}

// Images in the engine's events are runs of one token: 9 here.
TEST_F(RankFilterTest, ImageTokensBecomePadValuesInTheEnginesOrder) {
  const BlockNaming naming{.block_size_tokens = 4, .is_eagle = false, .image_token_id = 9};
  UseNaming(naming);
  MsgpackWriter keys;
  keys.Str("extra_keys").Array(3).Array(3).Array(2).Str("b").Int(0).Array(2).Str("b").Int(1);
  keys.Array(2).Str("a").Int(3).Array(1).Array(2).Str("a").Int(-1).Nil();
  FeedEvents({MapStore({.hashes = {5, 6, 7},
                        .parent = {},
                        .tokens = {9, 1, 9, 2, /*block*/ 3, 4, 5, 6, /*block*/ 9, 9, 7, 8}},
                       1, keys.bytes())});
  ASSERT_EQ(stores_.size(), 1u);
  const TokenId b = PadValueOf(*MultimodalHashOf("b"));
  EXPECT_EQ(StoredContent(0), LocalHashes({b, 1, b, 2, 3, 4, 5, 6, 9, 9, 7, 8}))
      << "a block without items keeps its tokens, one without runs is named by them alone";
}

// ---- EAGLE ----

// Pitfall row 22, the form of engines that are registered as EAGLE.
TEST_F(RankFilterTest, E10IsHashedWithTheTokenAhead) {
  UseNaming({.block_size_tokens = 2, .is_eagle = true});
  Feed(FromHex(examples::kE10));
  ASSERT_EQ(stores_.size(), 1u);
  std::vector<LocalBlockHash> expected;
  AppendLocalBlockHashes(Tokens(1, 3), 3, BlockSeed({.lora_name = {}, .cache_salt = "t"}),
                         &expected);
  EXPECT_EQ(StoredContent(0), expected);
}

std::string PairStore(std::vector<uint64_t> hashes, std::optional<uint64_t> parent, uint64_t first,
                      uint64_t pairs, uint32_t block_size = 4) {
  MsgpackWriter w;
  w.Array(7).Str("BlockStored").UintArray(hashes);
  parent ? w.Uint(*parent) : w.Nil();
  w.Array(pairs);
  for (uint64_t t = first; t < first + pairs; ++t) w.Array(2).Uint(t).Uint(t + 1);
  return w.Uint(block_size).Nil().Str("GPU").bytes();
}

TEST_F(RankFilterTest, BlocksOfPairsMatchThePromptThatGoesOnAsTheyDo) {
  const BlockNaming naming{.block_size_tokens = 4, .is_eagle = true};
  UseNaming(naming);
  FeedEvents({PairStore({5, 6}, {}, 1, 8), PairStore({7}, 6, 9, 4)});
  ASSERT_EQ(stores_.size(), 2u);
  const auto prompt = NamedBlocks(Tokens(1, 13), naming, {});
  ASSERT_EQ(prompt.size(), 3u);
  EXPECT_THAT(StoredContent(0), ElementsAre(prompt[0], prompt[1]));
  EXPECT_THAT(StoredContent(1), ElementsAre(prompt[2]));
  EXPECT_EQ(stores_[1].parent, EngineHash{6});
  std::vector<TokenId> diverging = Tokens(1, 13);
  diverging[8] = 99;  // the token ahead of block 1
  EXPECT_NE(NamedBlocks(diverging, naming, {})[1], prompt[1]);
}

TEST_F(RankFilterTest, ShortPageOfPairsIsAPartialBlock) {
  UseNaming({.block_size_tokens = 4, .is_eagle = true});
  FeedEvents({PairStore({5}, {}, 1, 4), PairStore({6}, 5, 5, 2, 2), ArrayRemove({6})});
  EXPECT_EQ(stores_.size(), 1u);
  EXPECT_THAT(removals_, IsEmpty());
  EXPECT_EQ(Skipped(SkipReason::kPartialBlock), 2u);
}

TEST_F(RankFilterTest, SingleTokensOfAnEagleEngineAreSkippedAndShown) {
  UseNaming({.block_size_tokens = 4, .is_eagle = true});
  FeedEvents(
      {ArrayStore({.hashes = {5, 6}, .parent = {}, .tokens = Tokens(1, 8)}), ArrayRemove({5, 6})});
  EXPECT_THAT(stores_, IsEmpty());
  EXPECT_THAT(removals_, IsEmpty());
  EXPECT_EQ(Skipped(SkipReason::kTokenForm), 2u);
  EXPECT_TRUE(filter_.ForeignTokenForm());
  FeedEvents({PairStore({5, 6}, {}, 1, 8)});
  EXPECT_FALSE(filter_.ForeignTokenForm());
}

// Pitfall row 22.
TEST_F(RankFilterTest, PairsAreHashedByTheirFirstTokensWhenTheWorkerIsNoEagleOne) {
  FeedEvents({PairStore({7}, {}, 1, 4)});
  ASSERT_EQ(stores_.size(), 1u);
  EXPECT_EQ(StoredContent(0), LocalHashes(Tokens(1, 4)));
}

TEST_F(RankFilterTest, ClearedForgetsWhatWasRemembered) {
  FeedEvents({ArrayStore({.hashes = {60}, .parent = {}, .tokens = Tokens(5, 2), .block_size = 2}),
              ArrayCleared(), ArrayRemove({60})});
  EXPECT_EQ(removals_.size(), 1u);
}

TEST_F(RankFilterTest, RememberedBlocksAreBoundedAndTheBoundIsCounted) {
  std::vector<uint64_t> hashes(1u << 15);
  for (size_t round = 0; round < 9; ++round) {
    std::iota(hashes.begin(), hashes.end(), round << 15);
    FeedEvents({ArrayStore({.hashes = hashes, .parent = {}, .tokens = {}, .block_size = 0})});
  }
  EXPECT_EQ(counters_.hash_memory_full, 9 * (size_t{1} << 15) - RankFilter::kMaxRememberedHashes);
}

}  // namespace
}  // namespace kvrouter
