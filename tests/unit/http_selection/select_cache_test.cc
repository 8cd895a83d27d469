#include "service/select_cache.h"

#include <gtest/gtest.h>

#include <string>

namespace kvrouter {
namespace {

using std::chrono::seconds;

CachedSelection Selection(const std::string& id, size_t blocks = 1) {
  CachedSelection selection;
  selection.selection_id = id;
  selection.model_name = "m";
  selection.routing_group = "g";
  selection.block_hashes.resize(blocks);
  selection.sequence_hashes.resize(blocks);
  selection.isl_tokens = 7;
  return selection;
}

TEST(SelectCacheTest, TakenOnce) {
  SelectCache cache({});
  cache.Put(Selection("a"), seconds(0));
  const auto taken = cache.Take("a", "m", "g", seconds(1));
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->isl_tokens, 7u);
  EXPECT_FALSE(cache.Take("a", "m", "g", seconds(1)));
  EXPECT_EQ(cache.Read().bytes, 0u);
}

TEST(SelectCacheTest, AnotherPartitionDoesNotTakeIt) {
  SelectCache cache({});
  cache.Put(Selection("a"), seconds(0));
  EXPECT_FALSE(cache.Take("a", "other", "g", seconds(1)));
  EXPECT_FALSE(cache.Take("a", "m", "other", seconds(1)));
  EXPECT_TRUE(cache.Take("a", "m", "g", seconds(1)));
}

TEST(SelectCacheTest, ExpiresAfterItsTimeAndIsCounted) {
  SelectCache cache({.ttl = seconds(120)});
  cache.Put(Selection("a"), seconds(0));
  cache.Put(Selection("b"), seconds(60));
  EXPECT_FALSE(cache.Take("a", "m", "g", seconds(120)));
  EXPECT_TRUE(cache.Take("b", "m", "g", seconds(179)));
  EXPECT_EQ(cache.Read().expired, 1u);
}

TEST(SelectCacheTest, ASecondPutReplaces) {
  SelectCache cache({});
  cache.Put(Selection("a"), seconds(0));
  const uint64_t bytes = cache.Read().bytes;
  cache.Put(Selection("a"), seconds(1));
  EXPECT_EQ(cache.Read().entries, 1u);
  EXPECT_EQ(cache.Read().bytes, bytes);
}

TEST(SelectCacheTest, RestoredEntriesKeepTheirExpiryAndGiveWayToNewerOnes) {
  SelectCache cache({.ttl = seconds(10)});
  cache.Put(Selection("a"), seconds(0));
  auto taken = cache.Take("a", "m", "g", seconds(5));
  cache.Put(Selection("b"), seconds(6));
  cache.Restore(*taken);
  EXPECT_FALSE(cache.Take("a", "m", "g", seconds(10)));
  taken = cache.Take("b", "m", "g", seconds(7));
  ASSERT_TRUE(taken);
  CachedSelection newer = Selection("b");
  newer.isl_tokens = 8;
  cache.Put(newer, seconds(8));
  cache.Restore(*taken);
  EXPECT_EQ(cache.Take("b", "m", "g", seconds(9))->isl_tokens, 8u);
}

TEST(SelectCacheTest, TheOldestLeavesWhenABoundIsPassed) {
  SelectCache cache({.max_entries = 2});
  for (const char* id : {"a", "b", "c"}) cache.Put(Selection(id), seconds(0));
  EXPECT_FALSE(cache.Take("a", "m", "g", seconds(1)));
  EXPECT_TRUE(cache.Take("b", "m", "g", seconds(1)));
  EXPECT_EQ(cache.Read().evicted, 1u);
}

TEST(SelectCacheTest, BytesAreBounded) {
  constexpr uint64_t kMaxBytes = 100'000;
  SelectCache cache({.max_bytes = kMaxBytes});
  for (int i = 0; i < 100; ++i) {
    cache.Put(Selection(std::to_string(i), 1000), seconds(0));
    ASSERT_LE(cache.Read().bytes, kMaxBytes);
  }
  EXPECT_EQ(cache.Read().entries, 6u);  // of a good 16,000 bytes each
  cache.Put(Selection("huge", 10'000), seconds(0));
  EXPECT_EQ(cache.Read().entries, 0u);
}

}  // namespace
}  // namespace kvrouter
