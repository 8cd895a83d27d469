#include "core/schedule/live_chains.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

namespace kvrouter {
namespace {

constexpr TargetSlot kA{0};
constexpr TargetSlot kB{1};
constexpr int64_t kOne = kBlockUnits;

std::vector<SequenceHash> Chain(std::initializer_list<uint64_t> hashes) {
  std::vector<SequenceHash> chain;
  for (const uint64_t hash : hashes) chain.push_back(SequenceHash{hash});
  return chain;
}

std::vector<uint32_t> LivePrefixes(const LiveChains& chains, const std::vector<SequenceHash>& of) {
  std::vector<uint32_t> live(2, 0);
  chains.FindLivePrefixes(of, live);
  return live;
}

TEST(LiveChainsTest, SharedPrefixIsCountedOnce) {
  LiveChains chains;
  EXPECT_EQ(chains.Add(kA, Chain({1, 2, 3, 4}), kBlockUnits).units, 4 * kOne);
  EXPECT_EQ(chains.Add(kA, Chain({1, 2, 9}), kBlockUnits).units, 1 * kOne);
  EXPECT_EQ(chains.Add(kA, Chain({1, 2, 3}), kBlockUnits).units, 0);
  EXPECT_EQ(chains.Add(kB, Chain({1, 2, 3}), kBlockUnits).units, 3 * kOne) << "targets are apart";
}

TEST(LiveChainsTest, FindsTheLivePrefixOfEveryTargetAtOnce) {
  LiveChains chains;
  chains.Add(kA, Chain({1, 2, 3, 4}), kBlockUnits);
  chains.Add(kB, Chain({1, 2, 7}), kBlockUnits);
  using V = std::vector<uint32_t>;
  EXPECT_EQ(LivePrefixes(chains, Chain({1, 2, 3, 4, 5})), (V{4, 2}));
  EXPECT_EQ(LivePrefixes(chains, Chain({1, 2, 3})), (V{3, 2}));
  EXPECT_EQ(LivePrefixes(chains, Chain({1, 2, 7, 8})), (V{2, 3}));
  EXPECT_EQ(LivePrefixes(chains, Chain({2})), (V{0, 0}));
  EXPECT_EQ(LivePrefixes(chains, {}), (V{0, 0}));
}

TEST(LiveChainsTest, RemovalReturnsWhatNobodyElseHolds) {
  LiveChains chains;
  const auto longer = chains.Add(kA, Chain({1, 2, 3, 4}), kBlockUnits);
  const auto shorter = chains.Add(kA, Chain({1, 2}), kBlockUnits);
  EXPECT_EQ(chains.Remove(kA, longer.leaf, kBlockUnits), -2 * kOne);
  EXPECT_EQ(LivePrefixes(chains, Chain({1, 2, 3}))[0], 2u);
  EXPECT_EQ(chains.Remove(kA, shorter.leaf, kBlockUnits), -2 * kOne);
  EXPECT_EQ(chains.NodeCount(), 0u);
}

TEST(LiveChainsTest, SplitsMergeAgainSoLongLivedPrefixesDoNotFragment) {
  LiveChains chains;
  std::vector<SequenceHash> prompt;
  for (uint64_t i = 0; i < 512; ++i) prompt.push_back(SequenceHash{i + 1});
  const auto resident = chains.Add(kA, prompt, kBlockUnits);
  for (size_t cut = 1; cut < 512; ++cut) {
    auto branch = prompt;
    branch.resize(cut);
    branch.push_back(SequenceHash{100'000 + cut});
    const auto added = chains.Add(kA, branch, kBlockUnits);
    ASSERT_EQ(added.units, kOne) << cut;
    ASSERT_EQ(chains.NodeCount(), 3u) << cut;
    ASSERT_EQ(chains.Remove(kA, added.leaf, kBlockUnits), -kOne) << cut;
    ASSERT_EQ(chains.NodeCount(), 1u) << cut;
  }
  EXPECT_EQ(chains.Remove(kA, resident.leaf, kBlockUnits), -512 * kOne);
}

TEST(LiveChainsTest, EmptyChainHasNoBlocks) {
  LiveChains chains;
  const auto added = chains.Add(kA, {}, kBlockUnits);
  EXPECT_EQ(added.units, 0);
  EXPECT_EQ(added.leaf, LiveChains::kRoot);
  EXPECT_EQ(chains.Remove(kA, added.leaf, kBlockUnits), 0);
}

TEST(LiveChainsTest, ReweighingTouchesOnlyBlocksWithOneOwner) {
  LiveChains chains;
  const auto a = chains.Add(kA, Chain({1, 2, 3, 4}), kBlockUnits);
  const auto b = chains.Add(kA, Chain({1, 2, 9}), kBlockUnits);
  EXPECT_EQ(chains.Reweigh(kA, a.leaf, kBlockUnits, kBlockUnits / 2), -2 * kOne / 2);
  // The shared blocks get their last owner's weight when the other one leaves.
  EXPECT_EQ(chains.Remove(kA, b.leaf, kBlockUnits), -kOne - 2 * kOne / 2);
  EXPECT_EQ(chains.Remove(kA, a.leaf, kBlockUnits / 2), -4 * kOne / 2);
}

TEST(LiveChainsTest, SharingAgainRestoresFullWeight) {
  LiveChains chains;
  const auto a = chains.Add(kA, Chain({1, 2}), kBlockUnits);
  EXPECT_EQ(chains.Reweigh(kA, a.leaf, kBlockUnits, 0), -2 * kOne);
  EXPECT_EQ(chains.Add(kA, Chain({1, 2}), kBlockUnits).units, 2 * kOne);
}

TEST(LiveChainsTest, EqualHashesUnderDifferentParentsAreDifferentBlocks) {
  // Sequence hashes come from callers; nonsense must not confuse the counts.
  LiveChains chains;
  const auto a = chains.Add(kA, Chain({1, 5, 5}), kBlockUnits);
  const auto b = chains.Add(kA, Chain({5, 1}), kBlockUnits);
  EXPECT_EQ(a.units, 3 * kOne);
  EXPECT_EQ(b.units, 2 * kOne);
  EXPECT_EQ(chains.Remove(kA, a.leaf, kBlockUnits), -3 * kOne);
  EXPECT_EQ(chains.Remove(kA, b.leaf, kBlockUnits), -2 * kOne);
}

}  // namespace
}  // namespace kvrouter
