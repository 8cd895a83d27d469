#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "core/index/block_index.h"
#include "core/index/routed_blocks.h"
#include "kvrouter/block_hash.h"

namespace kvrouter {
namespace {

using std::chrono::milliseconds;
using Path = std::vector<LocalBlockHash>;

std::vector<SequenceHash> NamesOf(const Path& path) {
  std::vector<SequenceHash> names;
  AppendSequenceHashes(path, &names);
  return names;
}

// Written from the rule: each block of each target has an end of its own.
class NaiveRoutedBlocks {
 public:
  explicit NaiveRoutedBlocks(milliseconds ttl) : ttl_(ttl) {}

  void Record(Target target, const Path& path, milliseconds now) {
    const int64_t end = ((now + ttl_).count() + 99) / 100 * 100;
    for (size_t length = 1; length <= path.size(); ++length) {
      int64_t& known = ends_[target][Path(path.begin(), path.begin() + static_cast<long>(length))];
      known = std::max(known, end);
    }
  }
  void Expire(milliseconds now) {
    for (auto& [target, ends] : ends_)
      std::erase_if(ends, [now](const auto& block) { return block.second <= now.count(); });
  }
  void RemoveTarget(Target target) { ends_.erase(target); }

  std::vector<OverlapMatch> FindOverlap(const Path& query) const {
    std::vector<OverlapMatch> matches;
    for (const auto& [target, ends] : ends_) {
      size_t length = 0;
      while (length < query.size() &&
             ends.count(Path(query.begin(), query.begin() + static_cast<long>(length) + 1)) > 0)
        ++length;
      if (length > 0) matches.push_back({target, static_cast<uint32_t>(length)});
    }
    return matches;
  }
  uint64_t Blocks() const {
    uint64_t blocks = 0;
    for (const auto& [target, ends] : ends_) blocks += ends.size();
    return blocks;
  }

 private:
  const milliseconds ttl_;
  std::map<Target, std::map<Path, int64_t>> ends_;
};

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  uint64_t Below(uint64_t bound) {
    return std::uniform_int_distribution<uint64_t>(0, bound - 1)(random_);
  }
  Path AnyPath(size_t max_blocks) {
    Path path;
    for (uint64_t blocks = 1 + Below(max_blocks); blocks > 0; --blocks)
      path.push_back(LocalBlockHash{Below(3)});
    return path;
  }
  Target AnyTarget() { return {WorkerId{Below(3)}, static_cast<uint32_t>(Below(2))}; }

 private:
  std::mt19937_64 random_;
};

// Few contents and targets: shared prefixes, refreshes and ends in the same step are the point.
TEST(RoutedBlocksPropertyTest, AgreesWithAModelThatKeepsAnEndPerBlock) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Dice dice(seed);
    const milliseconds ttl(std::vector<int>{0, 70, 1000, 5000}[seed % 4]);
    BlockIndex index;
    RoutedBlocks routed({.ttl = ttl, .max_blocks = 1'000'000}, &index);
    NaiveRoutedBlocks model(ttl);
    milliseconds now(dice.Below(1000));
    for (int step = 0; step < 400; ++step) {
      now += milliseconds(dice.Below(4) == 0 ? dice.Below(700) : dice.Below(40));
      routed.Expire(now);
      model.Expire(now);
      if (dice.Below(50) == 0) {
        const Target target = dice.AnyTarget();
        routed.RemoveTarget(target);
        model.RemoveTarget(target);
      } else {
        const Path path = dice.AnyPath(7);
        const Target target = dice.AnyTarget();
        // Threads' times may arrive out of order.
        const milliseconds at = std::max(milliseconds(0), now - milliseconds(dice.Below(2) * 150));
        routed.Record(target, path, NamesOf(path), at);
        model.Record(target, path, at);
        routed.Expire(now);
        model.Expire(now);
      }
      const Path query = dice.AnyPath(9);
      std::vector<OverlapMatch> found;
      index.FindOverlap(query, &found);
      ASSERT_EQ(found, model.FindOverlap(query)) << "seed=" << seed << " step=" << step;
      ASSERT_EQ(routed.Read().blocks, model.Blocks()) << "seed=" << seed << " step=" << step;
      ASSERT_EQ(index.Stats().holder_blocks, model.Blocks()) << "seed=" << seed;
    }
    index.CheckInvariants();
    const RoutedBlocksFigures figures = routed.Read();
    EXPECT_EQ(figures.refused_total, 0u);
    EXPECT_EQ(figures.forgotten_total, 0u);
    routed.Expire(now + ttl + milliseconds(100));
    EXPECT_EQ(routed.Read().blocks, 0u) << "seed=" << seed;
    EXPECT_EQ(index.Stats().unique_blocks, 0u) << "seed=" << seed;
  }
}

// Whoever sends hashes may send any. The books must balance, whatever they say.
TEST(RoutedBlocksPropertyTest, LyingNamesNeverUnbalanceTheBooks) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Dice dice(seed);
    BlockIndex index;
    RoutedBlocks routed({.ttl = milliseconds(500), .max_blocks = 40 + seed}, &index);
    milliseconds now(0);
    for (int step = 0; step < 400; ++step) {
      now += milliseconds(dice.Below(60));
      if (dice.Below(3) == 0) routed.Expire(now);
      const Path path = dice.AnyPath(9);
      std::vector<SequenceHash> names;
      for (size_t i = 0; i < path.size(); ++i) names.push_back(SequenceHash{dice.Below(30)});
      routed.Record(dice.AnyTarget(), path, names, now);
      if (dice.Below(40) == 0) routed.RemoveTarget(dice.AnyTarget());
      const RoutedBlocksFigures figures = routed.Read();
      ASSERT_LE(figures.blocks, 40 + seed) << "seed=" << seed << " step=" << step;
      // A block may have two names, never none.
      ASSERT_LE(index.Stats().holder_blocks, figures.blocks) << "seed=" << seed;
    }
    index.CheckInvariants();
    routed.Expire(now + milliseconds(700));
    EXPECT_EQ(routed.Read().blocks, 0u) << "seed=" << seed;
    EXPECT_EQ(index.Stats().unique_blocks, 0u) << "seed=" << seed;
  }
}

TEST(RoutedBlocksPropertyTest, BeyondTheBoundWhatIsLeftIsHeldFromItsStart) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Dice dice(seed);
    BlockIndex index;
    const uint64_t bound = 1 + dice.Below(60);
    RoutedBlocks routed({.ttl = milliseconds(2000), .max_blocks = bound}, &index);
    NaiveRoutedBlocks unbounded(milliseconds(2000));
    milliseconds now(0);
    for (int step = 0; step < 300; ++step) {
      now += milliseconds(dice.Below(90));
      routed.Expire(now);
      unbounded.Expire(now);
      const Path path = dice.AnyPath(9);
      const Target target = dice.AnyTarget();
      routed.Record(target, path, NamesOf(path), now);
      unbounded.Record(target, path, now);
      ASSERT_LE(routed.Read().blocks, bound) << "seed=" << seed << " step=" << step;
      // All that is held scores: nothing lies behind a hole.
      uint64_t dumped = 0;
      for (uint64_t worker = 0; worker < 3; ++worker) {
        for (uint32_t rank = 0; rank < 2; ++rank) {
          const auto counts =
              index.DumpTarget({WorkerId{worker}, rank}, [](Stored&&) { return true; });
          ASSERT_EQ(counts.omitted_blocks, 0u) << "seed=" << seed << " step=" << step;
          dumped += counts.blocks;
        }
      }
      ASSERT_EQ(dumped, routed.Read().blocks) << "seed=" << seed << " step=" << step;
      const Path query = dice.AnyPath(9);
      std::vector<OverlapMatch> found;
      index.FindOverlap(query, &found);
      const auto most = unbounded.FindOverlap(query);
      for (const OverlapMatch& match : found) {
        const auto model = std::find_if(most.begin(), most.end(), [&](const OverlapMatch& m) {
          return m.target == match.target;
        });
        ASSERT_TRUE(model != most.end() && match.blocks <= model->blocks) << "seed=" << seed;
      }
    }
    EXPECT_GT(routed.Read().forgotten_total, 0u) << "seed=" << seed;
  }
}

}  // namespace
}  // namespace kvrouter
