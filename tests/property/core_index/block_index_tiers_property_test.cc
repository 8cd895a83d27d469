#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "core/index/block_index.h"
#include "support/naive_tiers.h"

namespace kvrouter {
namespace {

using Path = std::vector<LocalBlockHash>;

constexpr std::array kTiers = {StorageTier::kDevice, StorageTier::kHostPinned, StorageTier::kDisk,
                               StorageTier::kExternal};

struct History {
  StoreCounting counting = StoreCounting::kCounted;
  bool seeded_hashes = false;  // else all targets name alike
  int targets = 3;
  int contents = 2;
  int depth = 6;
  double on_device = 0.4;
  double removals = 0.4;
};

// Random events on random media: pieces of sequences in any order, so children come before parents,
// holes open and close, blocks move up and down. Names are faithful: one per sequence of contents
// and target.
class EventGen {
 public:
  EventGen(uint64_t seed, const History& history, const NaiveTiers& model)
      : random_(seed), history_(history), model_(model) {}

  KvEvent Next() {
    KvEvent event;
    event.target = TargetAt(Below(static_cast<uint64_t>(history_.targets)));
    event.counting = history_.counting;
    event.tier = Chance(history_.on_device) ? StorageTier::kDevice : kTiers[1 + Below(3)];
    if (Chance(0.004)) {
      event.data = Cleared{};
    } else if (Chance(history_.removals)) {
      event.data = AnyRemoved(event.target, event.tier);
    } else if (event.tier != StorageTier::kDevice && Chance(0.3)) {
      event.data = AnyCopies(event.target);
    } else {
      event.data = AnyStored(event.target);
    }
    return event;
  }

  Path AnyPath() {
    Path path(1 + Below(static_cast<uint64_t>(history_.depth)));
    for (LocalBlockHash& content : path)
      content = LocalBlockHash{Below(static_cast<uint64_t>(history_.contents))};
    return path;
  }

  Target TargetAt(uint64_t n) const { return {WorkerId{n / 2}, static_cast<uint32_t>(n % 2)}; }
  bool Chance(double p) { return std::uniform_real_distribution<>(0, 1)(random_) < p; }
  uint64_t Below(uint64_t bound) {
    return std::uniform_int_distribution<uint64_t>(0, bound - 1)(random_);
  }

 private:
  EngineHash NameOf(Target target, std::span<const LocalBlockHash> path) const {
    uint64_t h = history_.seeded_hashes
                     ? 1'000'003 * (static_cast<uint64_t>(target.worker) * 2 + target.dp_rank + 1)
                     : 1;
    for (const LocalBlockHash content : path) h = h * 8 + static_cast<uint64_t>(content) + 1;
    return EngineHash{h};
  }

  Stored AnyStored(Target target) {
    const Path path = AnyPath();
    const size_t from = Chance(0.4) ? 0 : Below(path.size());
    Stored stored;
    if (from > 0) stored.parent = NameOf(target, std::span(path).first(from));
    for (size_t end = from + 1; end <= path.size(); ++end)
      stored.blocks.push_back({NameOf(target, std::span(path).first(end)), path[end - 1]});
    return stored;
  }

  Stored AnyCopies(Target target) {
    Stored stored;
    stored.copies = true;
    const Path path = AnyPath();
    for (size_t end = 1; end <= path.size(); ++end) {
      if (Chance(0.7)) stored.blocks.push_back({NameOf(target, std::span(path).first(end)), {}});
    }
    return stored;
  }

  Removed AnyRemoved(Target target, StorageTier tier) {
    Removed removed;
    const auto names = model_.NamesOf(target, tier);
    for (uint64_t n = 1 + Below(3); n > 0; --n) {
      const bool held = !names.empty() && Chance(0.9);
      removed.engine_hashes.push_back(held ? names[Below(names.size())]
                                           : NameOf(target, AnyPath()));
    }
    return removed;
  }

  std::mt19937_64 random_;
  const History history_;
  const NaiveTiers& model_;
};

std::map<Target, std::array<uint32_t, kStorageTierCount>> OverlapsIn(const BlockIndex& index,
                                                                     const Path& query) {
  std::vector<OverlapMatch> device;
  std::vector<LowerTierMatch> lower;
  index.FindOverlap(query, &device, &lower);
  std::map<Target, std::array<uint32_t, kStorageTierCount>> all;
  for (const OverlapMatch& match : device) all[match.target][0] = match.blocks;
  for (const LowerTierMatch& match : lower) {
    auto& blocks = all[match.target];
    blocks[1] = match.host_blocks;
    blocks[2] = match.disk_blocks;
    blocks[3] = match.external_blocks;
  }
  return all;
}

History HistoryOf(uint64_t seed) {
  History history;
  history.counting = seed % 2 == 0 ? StoreCounting::kCounted : StoreCounting::kSet;
  history.seeded_hashes = seed / 2 % 2 == 0;
  history.targets = 1 + static_cast<int>(seed / 4 % 5);
  history.contents = 1 + static_cast<int>(seed / 20 % 3);
  history.depth = seed % 3 == 0 ? 12 : 5;
  history.on_device = seed % 7 == 0 ? 0.1 : 0.4;
  history.removals = seed % 5 == 0 ? 0.25 : 0.45;
  return history;
}

void ExpectSameBlocks(const History& history, const EventGen& gen, const BlockIndex& index,
                      const NaiveTiers& model) {
  index.CheckInvariants();
  std::array<uint64_t, kStorageTierCount> totals = {};
  for (int n = 0; n < history.targets; ++n) {
    const Target target = gen.TargetAt(static_cast<uint64_t>(n));
    for (const StorageTier tier : kTiers) {
      const uint64_t held = model.HeldBlocks(target, tier);
      ASSERT_EQ(index.HolderBlocks(target, tier), held) << "tier " << static_cast<int>(tier);
      totals[static_cast<size_t>(tier)] += held;
    }
  }
  ASSERT_EQ(index.Stats().tier_blocks, totals);
}

// Removes name by name whatever is held, and expects nothing to be left.
void RemoveEverything(const History& history, const EventGen& gen, BlockIndex& index,
                      NaiveTiers& model) {
  for (int n = 0; n < history.targets; ++n) {
    for (const StorageTier tier : kTiers) {
      KvEvent event;
      event.target = gen.TargetAt(static_cast<uint64_t>(n));
      event.tier = tier;
      event.counting = history.counting;
      for (auto names = model.NamesOf(event.target, tier); !names.empty();
           names = model.NamesOf(event.target, tier)) {
        event.data = Removed{names};
        ASSERT_EQ(index.Apply(event), model.Apply(event));
      }
    }
  }
  const BlockIndexStats stats = index.Stats();
  ASSERT_EQ(stats.unique_blocks, 0);
  ASSERT_EQ(stats.nodes, 0);
  index.CheckInvariants();
}

TEST(BlockIndexTiersPropertyTest, AgreesWithEdgesPerTierOnRandomMedia) {
  uint64_t lower_hits = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    const History history = HistoryOf(seed);
    BlockIndex index;
    NaiveTiers model;
    EventGen gen(seed, history, model);
    for (int step = 0; step < 500; ++step) {
      SCOPED_TRACE(fmt::format("step={}", step));
      if (gen.Chance(0.003)) {
        const Target gone = gen.TargetAt(gen.Below(static_cast<uint64_t>(history.targets)));
        index.RemoveTarget(gone);
        model.RemoveTarget(gone);
      }
      const KvEvent event = gen.Next();
      ASSERT_EQ(index.Apply(event), model.Apply(event));
      const Path query = gen.AnyPath();
      const auto overlaps = OverlapsIn(index, query);
      ASSERT_EQ(overlaps, model.FindOverlap(query));
      for (const auto& [target, blocks] : overlaps)
        lower_hits += blocks[1] + blocks[2] + blocks[3] > 0 ? 1 : 0;
      if (step % 100 == 0) {
        ASSERT_NO_FATAL_FAILURE(ExpectSameBlocks(history, gen, index, model));
      }
    }
    ASSERT_NO_FATAL_FAILURE(ExpectSameBlocks(history, gen, index, model));
    ASSERT_NO_FATAL_FAILURE(RemoveEverything(history, gen, index, model));
  }
  EXPECT_GT(lower_hits, 10'000u) << "the histories say little about lower tiers";
}

// Dump of all tiers -> fresh index -> the same overlap on each tier. Blocks in the dump are those
// with a place whose predecessor is held somewhere; the others are counted as omitted.
TEST(BlockIndexTiersPropertyTest, ADumpOfAllTiersRebuildsTheOverlapOfEveryPrefix) {
  uint64_t omitted_blocks = 0;
  for (uint64_t seed = 10'000; seed < 10'080; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    const History history = HistoryOf(seed);
    BlockIndex index;
    NaiveTiers model;
    EventGen gen(seed, history, model);
    for (int step = 0; step < 300; ++step) {
      const KvEvent event = gen.Next();
      index.Apply(event);
      model.Apply(event);
    }
    BlockIndex copy;
    for (int n = 0; n < history.targets; ++n) {
      for (const StorageTier tier : kTiers) {
        KvEvent event;
        event.target = gen.TargetAt(static_cast<uint64_t>(n));
        event.tier = tier;
        event.counting = StoreCounting::kSet;
        const auto counts = index.DumpTarget(
            event.target,
            [&](Stored&& stored) {
              event.data = std::move(stored);
              EXPECT_EQ(copy.Apply(event).status, ApplyStatus::kOk);
              return true;
            },
            tier);
        EXPECT_TRUE(counts.complete);
        EXPECT_EQ(copy.HolderBlocks(event.target, tier), counts.blocks);
        EXPECT_EQ(counts.blocks + counts.omitted_blocks, index.HolderBlocks(event.target, tier));
        omitted_blocks += counts.omitted_blocks;
      }
    }
    copy.CheckInvariants();
    for (int query = 0; query < 500; ++query) {
      const Path path = gen.AnyPath();
      ASSERT_EQ(OverlapsIn(copy, path), model.FindOverlap(path));
    }
  }
  EXPECT_GT(omitted_blocks, 100u) << "the histories have no holes to speak of";
}

}  // namespace
}  // namespace kvrouter
