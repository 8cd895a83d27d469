#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "core/index/block_index.h"
#include "support/index_driver.h"

namespace kvrouter {
namespace {

constexpr uint64_t kPromptBlocks = 40;

// One sequence per prompt; all share the first 10 blocks.
std::vector<LocalBlockHash> Prompt(uint64_t prompt) {
  std::vector<LocalBlockHash> contents;
  for (uint64_t i = 0; i < kPromptBlocks; ++i)
    contents.push_back(LocalBlockHash{i < 10 ? i : prompt * 1000 + i});
  return contents;
}

// A writer stores whole prompts for its target and drops them in different ways; at any time the
// target holds a prefix of each prompt, so a lookup must see a whole number of stores.
void Write(BlockIndex& index, uint64_t worker, int rounds) {
  std::mt19937_64 random(worker);
  KvEvent event;
  event.target = IndexDriver::TargetOf(worker);
  for (int round = 0; round < rounds; ++round) {
    const uint64_t prompt = random() % 8;
    const auto contents = Prompt(prompt);
    Stored stored;
    Removed removed;
    for (const LocalBlockHash content : contents) {
      const EngineHash hash{static_cast<uint64_t>(content) + (worker % 2) * 1'000'000};
      stored.blocks.push_back({hash, content});
      removed.engine_hashes.insert(removed.engine_hashes.begin(), hash);
    }
    event.data = stored;
    ASSERT_EQ(index.Apply(event).status, ApplyStatus::kOk);
    switch (round % 4) {
      case 0:
        event.data = Cleared{};
        index.Apply(event);
        break;
      case 1:
        index.RemoveTarget(event.target);
        break;
      default:
        event.data = removed;
        ASSERT_EQ(index.Apply(event).status, ApplyStatus::kOk);
    }
  }
  index.RemoveTarget(event.target);
}

TEST(BlockIndexThreadsTest, LookupsSeeWholeEventsWhileWritersStoreAndDrop) {
  BlockIndex index;
  std::atomic<bool> stop{false};
  std::atomic<int> torn{0};
  std::atomic<int> lookups{0};
  std::vector<std::thread> readers;
  for (int r = 0; r < 2; ++r) {
    readers.emplace_back([&, r] {
      std::mt19937_64 random(static_cast<uint64_t>(r) + 100);
      std::vector<OverlapMatch> matches;
      while (!stop || lookups < 100) {
        index.FindOverlap(Prompt(random() % 8), &matches);
        for (const OverlapMatch& match : matches) {
          // 10: another prompt of this target; all: this one.
          if (match.blocks != 10 && match.blocks != kPromptBlocks) ++torn;
        }
        index.Stats();
        ++lookups;
      }
    });
  }
  std::vector<std::thread> writers;
  for (uint64_t worker = 1; worker <= 3; ++worker) {
    writers.emplace_back([&index, worker] { Write(index, worker, 400); });
  }
  for (std::thread& writer : writers) writer.join();
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(index.Stats().holder_blocks, 0);
  EXPECT_EQ(index.Stats().unique_blocks, 0);
  index.CheckInvariants();
}

// A lookup that sees the event half applied was let in before its end.
TEST(BlockIndexThreadsTest, LookupsAreLetInDuringALargeRemoval) {
  constexpr uint64_t kBlocks = 50'000;
  Stored stored;
  Removed removed;
  for (uint64_t i = 0; i < kBlocks; ++i) {
    stored.blocks.push_back({EngineHash{i}, LocalBlockHash{i}});
    removed.engine_hashes.push_back(EngineHash{kBlocks - 1 - i});
  }
  BlockIndex index;
  KvEvent event;
  event.target = IndexDriver::TargetOf(1);
  std::atomic<bool> let_in{false};
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop) {
      const uint64_t held = index.HolderBlocks(event.target);
      if (held > 0 && held < kBlocks) let_in = true;
    }
  });
  for (int round = 0; round < 200 && !let_in; ++round) {
    event.data = stored;
    EXPECT_EQ(index.Apply(event).blocks_stored, kBlocks);
    event.data = removed;
    EXPECT_EQ(index.Apply(event).blocks_removed, kBlocks);
  }
  stop = true;
  reader.join();
  EXPECT_TRUE(let_in);
  EXPECT_EQ(index.Stats().holder_blocks, 0);
  index.CheckInvariants();
}

// A target that always holds one of two whole prompts, replaced again and again by what was staged:
// no lookup finds it without either.
TEST(BlockIndexThreadsTest, LookupsSeeTheOldStateOrTheNewOneWhileItIsReplaced) {
  BlockIndex index;
  std::atomic<bool> stop{false};
  std::atomic<int> holes{0};
  std::atomic<int> lookups{0};
  const Target target = IndexDriver::TargetOf(1);
  const auto rebuild = [&](uint64_t prompt) {
    KvEvent event;
    event.target = target;
    event.staging = Staging::kStaged;
    LocalBlockHash previous{};
    for (const LocalBlockHash content : Prompt(prompt)) {  // block by block, as a replay would
      Stored stored;
      if (static_cast<uint64_t>(content) > 0)
        stored.parent = EngineHash{static_cast<uint64_t>(previous)};
      stored.blocks.push_back({EngineHash{static_cast<uint64_t>(content)}, content});
      event.data = stored;
      ASSERT_EQ(index.Apply(event).status, ApplyStatus::kOk);
      previous = content;
    }
    event.staging = Staging::kCommit;
    event.data = Cleared{};
    index.Apply(event);
  };
  rebuild(1);
  std::vector<std::thread> readers;
  for (int r = 0; r < 2; ++r) {
    readers.emplace_back([&, r] {
      std::vector<OverlapMatch> matches;
      while (!stop || lookups < 100) {
        index.FindOverlap(Prompt(1 + static_cast<uint64_t>(r)), &matches);
        const bool whole = matches.size() == 1 && (matches[0].blocks == 10 ||  // the other prompt
                                                   matches[0].blocks == kPromptBlocks);
        if (!whole) ++holes;
        ++lookups;
      }
    });
  }
  for (uint64_t round = 0; round < 400; ++round) rebuild(1 + round % 2);
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(holes, 0);
  EXPECT_EQ(index.HolderBlocks(target), kPromptBlocks);
  index.RemoveTarget(target);
  EXPECT_EQ(index.Stats().nodes, 0u);
  index.CheckInvariants();
}

// A target has ten blocks on its device, ten more in host memory and twenty more on disk, or
// nothing.
TEST(BlockIndexThreadsTest, LookupsSeeTheTiersOfWholeEventsWhileTheyComeAndGo) {
  constexpr uint64_t kTargets = 3;
  BlockIndex index;
  std::atomic<bool> done{false};
  std::atomic<uint64_t> lookups{0};
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 2; ++reader) {
    readers.emplace_back([&] {
      const auto query = Prompt(1);
      std::vector<OverlapMatch> device;
      std::vector<LowerTierMatch> lower;
      while (!done || lookups < 100) {
        index.FindOverlap(query, &device, &lower);
        for (const OverlapMatch& match : device) EXPECT_EQ(match.blocks, 10u);
        for (const LowerTierMatch& match : lower) {
          EXPECT_TRUE(match.host_blocks == 10 || match.host_blocks == 0) << match.host_blocks;
          EXPECT_TRUE(match.disk_blocks == 20 || match.disk_blocks == 0) << match.disk_blocks;
          EXPECT_FALSE(match.disk_blocks > 0 && match.host_blocks == 0) << "disk continues host";
          EXPECT_EQ(match.external_blocks, 0u);
        }
        ++lookups;
      }
    });
  }
  std::vector<std::thread> writers;
  for (uint64_t worker = 0; worker < kTargets; ++worker) {
    writers.emplace_back([&, worker] {
      const auto contents = Prompt(1);
      const auto part = [&](StorageTier tier, size_t from, size_t to) {
        KvEvent event;
        event.target = IndexDriver::TargetOf(worker);
        event.tier = tier;
        Stored stored;
        const auto name = [&](size_t i) {
          return EngineHash{static_cast<uint64_t>(contents[i]) + worker * 1'000'000};
        };
        if (from > 0) stored.parent = name(from - 1);
        for (size_t i = from; i < to; ++i) stored.blocks.push_back({name(i), contents[i]});
        event.data = stored;
        return event;
      };
      for (int round = 0; round < 300; ++round) {
        index.Apply(part(StorageTier::kDisk, 20, 40));  // before what precedes it
        index.Apply(part(StorageTier::kDevice, 0, 10));
        index.Apply(part(StorageTier::kHostPinned, 10, 20));
        if (round % 2 == 0) {
          KvEvent cleared;
          cleared.target = IndexDriver::TargetOf(worker);
          cleared.data = Cleared{};
          index.Apply(cleared);
        } else {
          index.RemoveTarget(IndexDriver::TargetOf(worker));
        }
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(index.Stats().unique_blocks, 0u);
  index.CheckInvariants();
}

}  // namespace
}  // namespace kvrouter
