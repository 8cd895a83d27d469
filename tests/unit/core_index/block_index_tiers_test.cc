#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "core/index/block_index.h"
#include "support/index_driver.h"

namespace kvrouter {
namespace {

constexpr auto kHost = StorageTier::kHostPinned;
constexpr auto kDisk = StorageTier::kDisk;
constexpr auto kExternal = StorageTier::kExternal;

// As IndexDriver, with a tier.
class TierDriver : public IndexDriver {
 public:
  using IndexDriver::IndexDriver;
  using IndexDriver::Remove;
  using IndexDriver::Store;

  ApplyResult Store(StorageTier tier, uint64_t worker, char parent, std::string_view contents) {
    Stored stored;
    if (parent != 0) stored.parent = HashOf(worker, parent);
    for (const char c : contents) stored.blocks.push_back({HashOf(worker, c), ContentOf(c)});
    return Apply(tier, worker, stored);
  }
  ApplyResult Copy(StorageTier tier, uint64_t worker, std::string_view contents) {
    Stored stored;
    stored.copies = true;
    for (const char c : contents) stored.blocks.push_back({HashOf(worker, c), {}});
    return Apply(tier, worker, stored);
  }
  ApplyResult Remove(StorageTier tier, uint64_t worker, std::string_view contents) {
    Removed removed;
    for (const char c : contents) removed.engine_hashes.push_back(HashOf(worker, c));
    return Apply(tier, worker, removed);
  }
  ApplyResult Apply(StorageTier tier, uint64_t worker, decltype(KvEvent::data) data,
                    Staging staging = Staging::kNone) {
    KvEvent event;
    event.target = TargetOf(worker);
    event.tier = tier;
    event.staging = staging;
    event.data = std::move(data);
    return index.Apply(event);
  }

  // Blocks on device, host, disk and external, each beyond the ones before.
  std::array<uint32_t, kStorageTierCount> Tiers(uint64_t worker, std::string_view contents) const {
    std::vector<LocalBlockHash> query;
    for (const char c : contents) query.push_back(ContentOf(c));
    std::vector<OverlapMatch> device;
    std::vector<LowerTierMatch> lower;
    index.FindOverlap(query, &device, &lower);
    std::array<uint32_t, kStorageTierCount> blocks = {};
    for (const OverlapMatch& match : device) {
      if (match.target == TargetOf(worker)) blocks[0] = match.blocks;
    }
    for (const LowerTierMatch& match : lower) {
      if (match.target != TargetOf(worker)) continue;
      blocks[1] = match.host_blocks;
      blocks[2] = match.disk_blocks;
      blocks[3] = match.external_blocks;
    }
    return blocks;
  }
  uint64_t HeldOn(StorageTier tier, uint64_t worker) const {
    return index.HolderBlocks(TargetOf(worker), tier);
  }
};

using Blocks = std::array<uint32_t, kStorageTierCount>;

TEST(BlockIndexTiersTest, EachTierContinuesWhereTheOneBeforeEnds) {
  TierDriver d;
  d.Store(1, 0, "abc");
  d.Store(kHost, 1, 'c', "de");
  d.Store(kDisk, 1, 'e', "f");
  d.Store(kExternal, 1, 'f', "gh");
  EXPECT_EQ(d.Tiers(1, "abcdefghi"), (Blocks{3, 2, 1, 2}));
  EXPECT_EQ(d.Tiers(1, "abcdx"), (Blocks{3, 1, 0, 0}));
  EXPECT_EQ(d.Tiers(1, "ab"), (Blocks{2, 0, 0, 0}));
}

TEST(BlockIndexTiersTest, TheWalkNeverGoesBackToATier) {
  TierDriver d;
  d.Store(1, 0, "a");
  d.Store(kDisk, 1, 'a', "b");
  d.Store(kHost, 1, 'b', "c");
  EXPECT_EQ(d.Tiers(1, "abc"), (Blocks{1, 0, 1, 0})) << "host comes before disk";
}

TEST(BlockIndexTiersTest, WithoutADeviceMatchATierBeginsAtTheStart) {
  TierDriver d;
  d.Store(kHost, 1, 0, "ab");
  d.Store(2, 0, "a");
  EXPECT_EQ(d.Tiers(1, "abc"), (Blocks{0, 2, 0, 0}));
  EXPECT_EQ(d.Tiers(2, "abc"), (Blocks{1, 0, 0, 0}));
  EXPECT_EQ(d.Scores("abc"), (std::map<uint64_t, uint32_t>{{2, 1}})) << "no device match";
}

TEST(BlockIndexTiersTest, CopiesOfWhatTheDeviceHoldsCountNothingUntilItGoes) {
  TierDriver d;
  d.Store(1, 0, "abc");
  d.Store(kHost, 1, 0, "abcd");
  EXPECT_EQ(d.Tiers(1, "abcd"), (Blocks{3, 1, 0, 0}));
  d.Remove(1, "bc");
  EXPECT_EQ(d.Tiers(1, "abcd"), (Blocks{1, 3, 0, 0}));
  d.Remove(1, "a");
  EXPECT_EQ(d.Tiers(1, "abcd"), (Blocks{0, 4, 0, 0}));
}

TEST(BlockIndexTiersTest, AHoleEndsATier) {
  TierDriver d;
  d.Store(1, 0, "a");
  d.Store(kHost, 1, 'a', "bcd");
  d.Remove(kHost, 1, "c");
  EXPECT_EQ(d.Tiers(1, "abcd"), (Blocks{1, 1, 0, 0}));
  d.Store(kDisk, 1, 'b', "c");
  EXPECT_EQ(d.Tiers(1, "abcd"), (Blocks{1, 1, 1, 0})) << "d is on host, which the walk has left";
  d.Store(kHost, 1, 'b', "c");
  EXPECT_EQ(d.Tiers(1, "abcd"), (Blocks{1, 3, 0, 0}));
}

// Row 17 of the pitfalls: GPU removed, CPU copy remains.
TEST(BlockIndexTiersTest, RemovalOnOneTierLeavesTheOthers) {
  TierDriver d;
  d.Store(1, 0, "ab");
  d.Store(kHost, 1, 0, "ab");
  d.Store(kDisk, 1, 0, "ab");
  EXPECT_EQ(d.Remove(1, "ab").blocks_removed, 2u);
  EXPECT_EQ(d.Tiers(1, "ab"), (Blocks{0, 2, 0, 0}));
  EXPECT_EQ(d.Remove(kHost, 1, "ab").blocks_removed, 2u);
  EXPECT_EQ(d.Tiers(1, "ab"), (Blocks{0, 0, 2, 0}));
  EXPECT_EQ(d.Remove(kHost, 1, "a").status, ApplyStatus::kBlockNotFound);
  EXPECT_EQ(d.Remove(kDisk, 1, "ab").blocks_removed, 2u);
  EXPECT_EQ(d.index.Stats().unique_blocks, 0u);
}

TEST(BlockIndexTiersTest, RepeatedStoresAreCountedPerTier) {
  TierDriver d;
  d.Store(1, 0, "a");
  d.Store(kHost, 1, 0, "a");
  EXPECT_EQ(d.Store(kHost, 1, 0, "a").blocks_duplicate, 1u);
  EXPECT_EQ(d.Remove(kHost, 1, "a").blocks_removed, 0u) << "it was stored twice there";
  EXPECT_EQ(d.Remove(1, "a").blocks_removed, 1u) << "and once here";
  EXPECT_EQ(d.Remove(kHost, 1, "a").blocks_removed, 1u);
}

TEST(BlockIndexTiersTest, ABlockMayComeBeforeWhatPrecedesIt) {
  TierDriver d;
  EXPECT_EQ(d.Store(kHost, 1, 'b', "cd").blocks_stored, 2u);
  EXPECT_EQ(d.HeldOn(kHost, 1), 2u);
  EXPECT_EQ(d.Tiers(1, "abcd"), (Blocks{0, 0, 0, 0}));
  d.Store(1, 0, "ab");
  EXPECT_EQ(d.Tiers(1, "abcd"), (Blocks{2, 2, 0, 0}));
  EXPECT_EQ(d.HeldOn(kHost, 1), 2u);
  EXPECT_EQ(d.Remove(kHost, 1, "cd").blocks_removed, 2u);
}

TEST(BlockIndexTiersTest, WhatNeverGetsAPlaceCanBeRemovedAndCleared) {
  TierDriver d;
  d.Store(kHost, 1, 'x', "cd");
  d.Store(kHost, 1, 'x', "c");
  EXPECT_EQ(d.Remove(kHost, 1, "c").blocks_removed, 0u) << "stored twice";
  EXPECT_EQ(d.Remove(kHost, 1, "c").blocks_removed, 1u);
  EXPECT_EQ(d.HeldOn(kHost, 1), 1u);
  EXPECT_EQ(d.Clear(1).blocks_removed, 1u);
  EXPECT_EQ(d.HeldOn(kHost, 1), 0u);
  EXPECT_EQ(d.Remove(kHost, 1, "d").status, ApplyStatus::kBlockNotFound);
}

TEST(BlockIndexTiersTest, OnTheDeviceTheParentMustLieThere) {
  TierDriver d;
  d.Store(kHost, 1, 0, "a");
  EXPECT_EQ(d.Store(1, 'a', "b").status, ApplyStatus::kParentBlockNotFound);
}

// Row 19 of the pitfalls: offloading connectors name the blocks only.
TEST(BlockIndexTiersTest, CopiesAreResolvedByName) {
  TierDriver d;
  d.Store(1, 0, "abc");
  const ApplyResult result = d.Copy(kHost, 1, "bcx");
  EXPECT_EQ(result.status, ApplyStatus::kBlockNotFound);
  EXPECT_EQ(result.blocks_stored, 2u);
  EXPECT_EQ(result.blocks_not_found, 1u);
  d.Remove(1, "bc");
  EXPECT_EQ(d.Tiers(1, "abc"), (Blocks{1, 2, 0, 0}));
  EXPECT_EQ(d.Remove(kHost, 1, "c").blocks_removed, 1u);
  EXPECT_EQ(d.Tiers(1, "abc"), (Blocks{1, 1, 0, 0}));
  EXPECT_EQ(d.Copy(StorageTier::kDevice, 1, "a").status, ApplyStatus::kInvalidBlock);
}

TEST(BlockIndexTiersTest, AHashThatNamesAnotherBlockOnTheTierEndsTheStore) {
  TierDriver d;
  d.Store(kHost, 1, 0, "ab");
  Stored stored;  // c, then the hash of b under another parent
  stored.blocks = {{TierDriver::HashOf(1, 'c'), TierDriver::ContentOf('c')},
                   {TierDriver::HashOf(1, 'b'), TierDriver::ContentOf('b')},
                   {TierDriver::HashOf(1, 'd'), TierDriver::ContentOf('d')}};
  const ApplyResult result = d.Apply(kHost, 1, stored);
  EXPECT_EQ(result.status, ApplyStatus::kInvalidBlock);
  EXPECT_EQ(result.blocks_stored, 1u) << "what came before it";
  EXPECT_EQ(d.Tiers(1, "ab"), (Blocks{0, 2, 0, 0})) << "what was there wins";
  EXPECT_EQ(d.Tiers(1, "cbd"), (Blocks{0, 1, 0, 0}));
  EXPECT_EQ(d.Store(kDisk, 1, 0, "cb").status, ApplyStatus::kOk) << "each tier has its own names";
}

TEST(BlockIndexTiersTest, ClearedAndRemovedTargetsGoFromAllTiers) {
  TierDriver d;
  for (const uint64_t worker : {1, 2}) {
    d.Store(worker, 0, "a");
    d.Store(kHost, worker, 'a', "b");
    d.Store(kDisk, worker, 'b', "c");
    d.Store(kExternal, worker, 'z', "y");
  }
  EXPECT_EQ(d.Clear(1).blocks_removed, 4u);
  EXPECT_EQ(d.Tiers(1, "abc"), (Blocks{0, 0, 0, 0}));
  EXPECT_EQ(d.Tiers(2, "abc"), (Blocks{1, 1, 1, 0}));
  d.index.RemoveTarget(TierDriver::TargetOf(2));
  EXPECT_EQ(d.index.Stats().unique_blocks, 0u);
  EXPECT_EQ(d.index.Stats().tier_blocks, (std::array<uint64_t, kStorageTierCount>{}));
}

TEST(BlockIndexTiersTest, AStagedStateHasItsTiersAndReplacesThemAll) {
  TierDriver d;
  d.Store(1, 0, "a");
  d.Store(kHost, 1, 'a', "bc");
  d.Apply(kHost, 1,
          Stored{.parent = TierDriver::HashOf(1, 'a'),
                 .blocks = {{TierDriver::HashOf(1, 'x'), TierDriver::ContentOf('x')}}},
          Staging::kStaged);
  d.Apply(
      StorageTier::kDevice, 1,
      Stored{.parent = {}, .blocks = {{TierDriver::HashOf(1, 'a'), TierDriver::ContentOf('a')}}},
      Staging::kStaged);
  EXPECT_EQ(d.Tiers(1, "abc"), (Blocks{1, 2, 0, 0}));
  EXPECT_EQ(d.Tiers(1, "ax"), (Blocks{1, 0, 0, 0})) << "not seen yet";
  EXPECT_EQ(d.HeldOn(kHost, 1), 2u);
  EXPECT_EQ(d.Apply(StorageTier::kDevice, 1, Cleared{}, Staging::kCommit).blocks_removed, 3u);
  EXPECT_EQ(d.Tiers(1, "abc"), (Blocks{1, 0, 0, 0}));
  EXPECT_EQ(d.Tiers(1, "ax"), (Blocks{1, 1, 0, 0}));
  EXPECT_EQ(d.HeldOn(kHost, 1), 1u);
  d.Clear(1);
  EXPECT_EQ(d.index.Stats().unique_blocks, 0u);
}

// Row 20 of the pitfalls: a connector that announces stores and no removals.
TEST(BlockIndexTiersTest, ATierBeyondItsBoundIsForgottenAndFillsAgain) {
  TierDriver d(StoreCounting::kCounted, {.max_lower_tier_blocks = 5});
  d.Store(1, 0, "abc");
  d.Store(kHost, 1, 0, "abcde");
  d.Store(kDisk, 1, 'e', "fg");
  d.Store(kHost, 2, 0, "ab");
  EXPECT_EQ(d.Tiers(1, "abcdefg"), (Blocks{3, 2, 2, 0}));
  const ApplyResult result = d.Store(kHost, 1, 'z', "y");  // kept aside counts, too
  EXPECT_EQ(result.status, ApplyStatus::kOk);
  EXPECT_EQ(result.blocks_removed, 6u);
  EXPECT_EQ(d.HeldOn(kHost, 1), 0u);
  EXPECT_EQ(d.index.Stats().lower_tier_forgotten_blocks, 6u);
  EXPECT_EQ(d.Tiers(1, "abcdefg"), (Blocks{3, 0, 0, 0})) << "the other tiers are as they were";
  EXPECT_EQ(d.HeldOn(kDisk, 1), 2u);
  EXPECT_EQ(d.HeldOn(kHost, 2), 2u);
  d.Store(kHost, 1, 'c', "de");
  EXPECT_EQ(d.Tiers(1, "abcdefg"), (Blocks{3, 2, 2, 0}));
  EXPECT_EQ(d.Remove(kHost, 1, "y").status, ApplyStatus::kBlockNotFound);
  d.Store(1, 0, "abcdefghijk");
  EXPECT_EQ(d.Tiers(1, "abcdefghijk"), (Blocks{11, 0, 0, 0})) << "another bound on the device";
  for (uint64_t i = 0; i < 1000; ++i) {
    d.Apply(kHost, 1, Stored{.parent = {}, .blocks = {{EngineHash{i}, LocalBlockHash{i}}}});
    ASSERT_LE(d.HeldOn(kHost, 1), 5u);
  }
  d.Clear(1);
  d.Clear(2);
  EXPECT_EQ(d.index.Stats().unique_blocks, 0u);
}

// A dump and a save of each tier, applied to an index without blocks, tell the same.
TEST(BlockIndexTiersTest, ASaveKeepsEveryTierExactly) {
  TierDriver d;
  d.Store(1, 0, "ab");
  d.Store(kHost, 1, 'b', "cde");
  d.Store(kHost, 1, 'b', "c");
  d.Remove(kHost, 1, "d");  // e lies behind a hole
  d.Store(kDisk, 1, 'c', "d");
  d.Store(kDisk, 1, 'q', "rs");  // nobody said what precedes them
  TierDriver copy;
  for (const auto tier : {StorageTier::kDevice, kHost, kDisk, kExternal}) {
    EXPECT_TRUE(d.index.SaveTarget(
        TierDriver::TargetOf(1),
        [&](std::variant<Stored, Removed>&& saved) {
          std::visit([&](auto& data) { copy.Apply(tier, 1, std::move(data)); }, saved);
        },
        tier));
    EXPECT_EQ(copy.HeldOn(tier, 1), d.HeldOn(tier, 1));
  }
  for (TierDriver* driver : {&d, &copy}) {
    EXPECT_EQ(driver->Tiers(1, "abcde"), (Blocks{2, 1, 1, 0}));
    EXPECT_EQ(driver->Remove(kHost, 1, "c").blocks_removed, 0u) << "stored twice";
    driver->Store(kHost, 1, 'c', "d");
    EXPECT_EQ(driver->Tiers(1, "abcde"), (Blocks{2, 3, 0, 0})) << "the hole is closed";
    driver->Store(kDisk, 1, 0, "q");
    EXPECT_EQ(driver->Tiers(1, "qrs"), (Blocks{0, 0, 3, 0}));
  }
}

TEST(BlockIndexTiersTest, ManyTargetsShareOneWalk) {
  TierDriver d;
  for (uint64_t worker = 1; worker <= 200; ++worker) {
    if (worker % 2 == 0) d.Store(worker, 0, "ab");
    if (worker % 3 == 0) d.Store(kHost, worker, 0, "abcd");
    if (worker % 5 == 0) d.Store(kDisk, worker, 'b', "cdef");
  }
  for (uint64_t worker = 1; worker <= 200; ++worker) {
    const uint32_t device = worker % 2 == 0 ? 2 : 0;
    const uint32_t host = worker % 3 == 0 ? 4 - device : 0;
    const uint32_t before_disk = device + host;
    // Their parent b is known on one of the other tiers, or they are kept aside.
    const bool on_disk = worker % 5 == 0 && before_disk >= 2;
    EXPECT_EQ(d.Tiers(worker, "abcdefg"), (Blocks{device, host, on_disk ? 6 - before_disk : 0, 0}))
        << worker;
  }
}

}  // namespace
}  // namespace kvrouter
