#include "sim/wire/engine_hashes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace kvrouter::sim {
namespace {

TEST(EngineHashesTest, OnlyFullBlocksHaveOne) {
  EXPECT_TRUE(ChainedEngineHashes(std::vector<TokenId>{1, 2, 3}, 4, 0).empty());
  EXPECT_EQ(ChainedEngineHashes(std::vector<TokenId>(9, 1), 4, 0).size(), 2u);
  EXPECT_TRUE(ChainedEngineHashes(std::vector<TokenId>(9, 1), 0, 0).empty());
}

TEST(EngineHashesTest, EqualPrefixesShareTheirHashesAndNoMore) {
  const auto a = ChainedEngineHashes(std::vector<TokenId>{1, 2, 3, 4, 5, 6}, 2, 7);
  const auto b = ChainedEngineHashes(std::vector<TokenId>{1, 2, 9, 9, 5, 6}, 2, 7);
  EXPECT_EQ(a[0], b[0]);
  EXPECT_NE(a[1], b[1]);
  EXPECT_NE(a[2], b[2]);  // equal tokens after another prefix are another block
}

TEST(EngineHashesTest, AnotherSeedRenamesEveryBlock) {
  const std::vector<TokenId> tokens(8, 5);
  const auto a = ChainedEngineHashes(tokens, 2, 1);
  const auto b = ChainedEngineHashes(tokens, 2, 2);
  for (const EngineHash hash : a) EXPECT_EQ(std::count(b.begin(), b.end(), hash), 0);
}

}  // namespace
}  // namespace kvrouter::sim
