#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/index/block_index.h"
#include "core/index/block_table.h"
#include "support/index_driver.h"

namespace kvrouter {
namespace {

std::vector<Stored> DumpOf(const IndexDriver& driver, uint64_t worker,
                           TargetDumpCounts* counts = nullptr) {
  std::vector<Stored> events;
  const auto result = driver.index.DumpTarget(IndexDriver::TargetOf(worker), [&](Stored&& stored) {
    events.push_back(std::move(stored));
    return true;
  });
  if (counts != nullptr) *counts = result;
  return events;
}

TEST(BlockIndexDumpTest, AnEngineHashComesBackFromItsMixedForm) {
  for (const uint64_t hash :
       {uint64_t{0}, uint64_t{1}, ~uint64_t{0}, uint64_t{1} << 63, uint64_t{0x0123456789abcdef}}) {
    EXPECT_EQ(EngineHashOf(NameOf(EngineHash{hash})), EngineHash{hash});
  }
}

TEST(BlockIndexDumpTest, UnknownTargetsHoldNothing) {
  IndexDriver driver;
  TargetDumpCounts counts;
  EXPECT_TRUE(DumpOf(driver, 7, &counts).empty());
  EXPECT_EQ(counts.blocks, 0u);
  EXPECT_EQ(counts.omitted_blocks, 0u);
  EXPECT_TRUE(counts.complete);
}

TEST(BlockIndexDumpTest, EachTargetUsesItsOwnNamesAndNamesItsOwnParents) {
  IndexDriver driver;
  driver.Store(1, 0, "abcd");
  driver.Store(2, 0, "abxy");  // splits the edge behind b
  driver.Store(2, 'b', "c");
  for (const uint64_t worker : {1, 2}) {
    SCOPED_TRACE(worker);
    IndexDriver copy;
    for (const Stored& stored : DumpOf(driver, worker)) {
      for (const StoredBlock& block : stored.blocks) {
        EXPECT_EQ(block.engine_hash,
                  IndexDriver::HashOf(worker, static_cast<char>(block.local_hash)));
      }
      EXPECT_EQ(copy.Apply(IndexDriver::TargetOf(worker), stored).status, ApplyStatus::kOk);
    }
    for (const char* query : {"abcd", "abxy", "abc"}) {
      EXPECT_EQ(copy.Scores(query)[worker], driver.Scores(query)[worker]) << query;
    }
    EXPECT_EQ(copy.Held(worker), driver.Held(worker));
  }
}

TEST(BlockIndexDumpTest, BlocksBehindAHoleAreLeftOutAndCounted) {
  IndexDriver driver;
  driver.Store(1, 0, "abcdef");
  driver.Remove(1, "c");
  TargetDumpCounts counts;
  const auto events = DumpOf(driver, 1, &counts);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].blocks.size(), 2u);
  EXPECT_EQ(counts.blocks, 2u);
  EXPECT_EQ(counts.omitted_blocks, 3u);
}

TEST(BlockIndexDumpTest, LongSequencesComeInSeveralEventsThatChain) {
  IndexDriver driver;
  Stored stored;
  for (uint64_t i = 1; i <= 1000; ++i) stored.blocks.push_back({EngineHash{i}, LocalBlockHash{i}});
  driver.Apply(IndexDriver::TargetOf(1), stored);
  uint64_t expected = 1;
  for (const Stored& part : DumpOf(driver, 1)) {
    EXPECT_LE(part.blocks.size(), kDumpBlocksPerEvent);
    EXPECT_EQ(part.parent.has_value(), expected > 1);
    EXPECT_EQ(part.parent.value_or(EngineHash{0}), EngineHash{expected - 1});
    for (const StoredBlock& block : part.blocks) {
      EXPECT_EQ(block.engine_hash, EngineHash{expected});
      EXPECT_EQ(block.local_hash, LocalBlockHash{expected});
      ++expected;
    }
  }
  EXPECT_EQ(expected, 1001u);
}

TEST(BlockIndexDumpTest, ASecondNameOfABlockIsInTheDump) {
  IndexDriver driver;
  driver.Store(1, 0, "ab");
  const Target target = IndexDriver::TargetOf(1);
  const EngineHash second{77};
  driver.Apply(target, Stored{.parent = IndexDriver::HashOf(1, 'a'),
                              .blocks = {{second, IndexDriver::ContentOf('b')}}});
  IndexDriver copy;
  for (const Stored& stored : DumpOf(driver, 1)) copy.Apply(target, stored);
  copy.Remove(1, "b");
  EXPECT_EQ(copy.Scores("ab")[1], 2u) << "held by the other name";
  EXPECT_EQ(copy.Apply(target, Removed{{second}}).status, ApplyStatus::kOk);
  EXPECT_EQ(copy.Scores("ab")[1], 1u);
}

TEST(BlockIndexDumpTest, TheReceiverCanStopIt) {
  IndexDriver driver;
  for (const char c : std::string("abcdefgh")) driver.Store(1, 0, std::string(1, c));
  int events = 0;
  const auto counts =
      driver.index.DumpTarget(IndexDriver::TargetOf(1), [&](Stored&&) { return ++events < 3; });
  EXPECT_FALSE(counts.complete);
  EXPECT_EQ(events, 3);
}

// The receiver runs between the steps: whatever it does to the index, later events are true of what
// is then held.
TEST(BlockIndexDumpTest, WhatIsRemovedMeanwhileIsNotSaidAfterwards) {
  IndexDriver driver;
  Stored trunk;
  for (uint64_t i = 1; i <= 2000; ++i) trunk.blocks.push_back({EngineHash{i}, LocalBlockHash{i}});
  const Target target = IndexDriver::TargetOf(1);
  driver.Apply(target, trunk);
  uint64_t blocks = 0;
  driver.index.DumpTarget(target, [&](Stored&& stored) {
    blocks += stored.blocks.size();
    if (blocks == kDumpBlocksPerEvent) {
      driver.Apply(target, Removed{{EngineHash{kDumpBlocksPerEvent}}});  // the next event's parent
    }
    return true;
  });
  EXPECT_EQ(blocks, kDumpBlocksPerEvent);
  blocks = 0;
  driver.index.DumpTarget(target, [&](Stored&& stored) {
    blocks += stored.blocks.size();
    driver.index.RemoveTarget(target);
    driver.Apply(target, trunk);
    driver.index.RemoveTarget(target);
    return true;
  });
  EXPECT_EQ(blocks, kDumpBlocksPerEvent - 1);
}

}  // namespace
}  // namespace kvrouter
