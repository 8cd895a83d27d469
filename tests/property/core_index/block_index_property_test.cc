#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <variant>
#include <vector>

#include "core/index/block_index.h"
#include "support/naive_index.h"

namespace kvrouter {
namespace {

// How engines name their blocks.
enum class Hashing { kSameEverywhere, kSeededPerTarget, kArbitrary };

struct History {
  StoreCounting counting = StoreCounting::kCounted;
  Hashing hashing = Hashing::kSameEverywhere;
  int targets = 3;
  int contents = 2;    // different content hashes
  int max_blocks = 4;  // per event
  double removals = 0.4;
  double staged = 0;  // events of states that are being built
};

// Random events and queries. Few hashes, few targets: collisions, duplicates, holes and orphans are
// the point. Looks at the model, to name things that are held more often than chance would.
class EventGen {
 public:
  EventGen(uint64_t seed, const History& history, const NaiveIndex& model)
      : random_(seed), history_(history), model_(model) {}

  KvEvent Next() {
    KvEvent event;
    event.target = AnyTarget();
    event.counting = history_.counting;
    const bool staged = history_.staged > 0 && Chance(history_.staged);
    if (staged) event.staging = Staging::kStaged;
    const double dice = std::uniform_real_distribution<>(0, 1)(random_);
    if (dice < (staged ? 0.02 : 0.005)) {
      event.data = Cleared{};
      if (staged && Chance(0.5)) event.staging = Staging::kCommit;
    } else if (dice < history_.removals) {
      event.data = AnyRemoved(event.target, staged);
    } else {
      event.data = AnyStored(event.target, staged);
    }
    return event;
  }

  NaiveIndex::Path Query() {
    const Target target = AnyTarget();
    const auto names = model_.NamesOf(target);
    NaiveIndex::Path path;
    if (!names.empty() && Chance(0.8)) path = model_.PathOf(target, names[Below(names.size())]);
    if (!path.empty() && Chance(0.3)) path[Below(path.size())] = AnyContent();
    for (uint64_t more = Below(4); more > 0; --more) path.push_back(AnyContent());
    return path;
  }

  Target AnyTarget() {
    const uint64_t n = Below(static_cast<uint64_t>(history_.targets));
    return {WorkerId{n / 2}, static_cast<uint32_t>(n % 2)};
  }
  bool Chance(double p) { return std::uniform_real_distribution<>(0, 1)(random_) < p; }

 private:
  uint64_t Below(uint64_t bound) {
    return std::uniform_int_distribution<uint64_t>(0, bound - 1)(random_);
  }
  LocalBlockHash AnyContent() {
    return LocalBlockHash{Below(static_cast<uint64_t>(history_.contents))};
  }

  EngineHash HashOf(Target target, const NaiveIndex::Path& path) {
    if (history_.hashing == Hashing::kArbitrary || Chance(0.02)) return EngineHash{Below(40)};
    uint64_t h = history_.hashing == Hashing::kSeededPerTarget
                     ? static_cast<uint64_t>(target.worker) * 2 + target.dp_rank + 1
                     : 0;
    for (const LocalBlockHash content : path) h = h * 31 + static_cast<uint64_t>(content) + 1;
    if (Chance(0.03)) h += 1'000'000;  // a second name of the same block
    return EngineHash{h};
  }

  Stored AnyStored(Target target, bool staged) {
    Stored stored;
    NaiveIndex::Path path;
    const auto names = model_.NamesOf(target, staged);
    if (!names.empty() && Chance(0.7)) {
      stored.parent = names[Below(names.size())];
      path = model_.PathOf(target, *stored.parent, staged);
    } else if (Chance(0.1)) {
      stored.parent = EngineHash{Below(40)};
    }
    for (uint64_t n = Below(static_cast<uint64_t>(history_.max_blocks) + 1); n > 0; --n) {
      path.push_back(AnyContent());
      stored.blocks.push_back({HashOf(target, path), path.back()});
    }
    return stored;
  }

  Removed AnyRemoved(Target target, bool staged) {
    Removed removed;
    const auto names = model_.NamesOf(target, staged);
    for (uint64_t n = 1 + Below(3); n > 0; --n) {
      const bool held = !names.empty() && Chance(0.9);
      removed.engine_hashes.push_back(held ? names[Below(names.size())] : EngineHash{Below(40)});
    }
    return removed;
  }

  std::mt19937_64 random_;
  History history_;
  const NaiveIndex& model_;
};

void ExpectSameCounts(const BlockIndex& index, const NaiveIndex& model) {
  index.CheckInvariants();
  const BlockIndexStats stats = index.Stats();
  ASSERT_EQ(stats.holder_blocks, model.HolderBlocks());
  ASSERT_EQ(stats.unique_blocks, model.UniqueBlocks());
}

// Removes name by name whatever is held, and expects nothing to be left.
void RemoveEverything(const History& history, BlockIndex& index, NaiveIndex& model) {
  for (int n = 0; n < history.targets; ++n) {
    KvEvent event;
    event.target = {WorkerId{static_cast<uint64_t>(n / 2)}, static_cast<uint32_t>(n % 2)};
    event.counting = history.counting;
    event.staging = Staging::kStaged;
    event.data = Cleared{};
    ASSERT_EQ(index.Apply(event), model.Apply(event));
    event.staging = Staging::kNone;
    for (auto names = model.NamesOf(event.target); !names.empty();
         names = model.NamesOf(event.target)) {
      event.data = Removed{names};
      ASSERT_EQ(index.Apply(event), model.Apply(event));
    }
    ASSERT_EQ(index.HolderBlocks(event.target), 0);
  }
  const BlockIndexStats stats = index.Stats();
  ASSERT_EQ(stats.holder_blocks, 0);
  ASSERT_EQ(stats.unique_blocks, 0);
  ASSERT_EQ(stats.nodes, 0);
  index.CheckInvariants();
}

void RunHistory(uint64_t seed, const History& history, int steps) {
  SCOPED_TRACE(fmt::format("seed={} hashing={}", seed, static_cast<int>(history.hashing)));
  BlockIndex index;
  NaiveIndex model;
  EventGen gen(seed, history, model);
  std::vector<OverlapMatch> matches;
  for (int step = 0; step < steps; ++step) {
    SCOPED_TRACE(fmt::format("step={}", step));
    if (gen.Chance(0.003)) {
      const Target gone = gen.AnyTarget();
      index.RemoveTarget(gone);
      model.RemoveTarget(gone);
    }
    const KvEvent event = gen.Next();
    ASSERT_EQ(index.Apply(event), model.Apply(event));
    const NaiveIndex::Path query = gen.Query();
    index.FindOverlap(query, &matches);
    ASSERT_EQ(matches, model.FindOverlap(query));
    if (step % 50 == 0) {
      ASSERT_EQ(index.HolderBlocks(event.target), model.HolderBlocks(event.target));
      ASSERT_NO_FATAL_FAILURE(ExpectSameCounts(index, model));
    }
  }
  ASSERT_NO_FATAL_FAILURE(ExpectSameCounts(index, model));
  ASSERT_NO_FATAL_FAILURE(RemoveEverything(history, index, model));
}

// 200 seeds of 500 events for each way of counting: the shape of the history varies with the seed.
void RunHistories(StoreCounting counting, uint64_t first_seed, uint64_t seeds) {
  for (uint64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
    History history;
    history.counting = counting;
    history.hashing = static_cast<Hashing>(seed % 3);
    history.targets = 1 + static_cast<int>(seed / 3 % 5);
    history.contents = 1 + static_cast<int>(seed / 15 % 3);
    history.max_blocks = seed % 4 == 0 ? 12 : 4;
    history.removals = seed % 5 == 0 ? 0.25 : 0.5;
    ASSERT_NO_FATAL_FAILURE(RunHistory(seed, history, 500));
  }
}

TEST(BlockIndexPropertyTest, AgreesWithNaiveIndexOnCountedHistories) {
  RunHistories(StoreCounting::kCounted, 0, 200);
}

TEST(BlockIndexPropertyTest, AgreesWithNaiveIndexOnSetHistories) {
  RunHistories(StoreCounting::kSet, 1'000'000, 200);
}

// Like 200 more seeds, with states that are built unseen and then committed, or given up.
TEST(BlockIndexPropertyTest, AgreesWithNaiveIndexOnStagedHistories) {
  for (uint64_t seed = 2'000'000; seed < 2'000'200; ++seed) {
    History history;
    history.counting = seed % 2 == 0 ? StoreCounting::kCounted : StoreCounting::kSet;
    history.hashing = static_cast<Hashing>(seed % 3);
    history.targets = 1 + static_cast<int>(seed / 3 % 5);
    history.contents = 1 + static_cast<int>(seed / 15 % 3);
    history.removals = seed % 5 == 0 ? 0.25 : 0.45;
    history.staged = 0.4;
    ASSERT_NO_FATAL_FAILURE(RunHistory(seed, history, 500));
  }
}

// Applies the dump of every target and returns how many blocks it held and left out.
void CopyByDump(const BlockIndex& from, const History& history, BlockIndex& to) {
  for (int n = 0; n < history.targets; ++n) {
    const Target target{WorkerId{static_cast<uint64_t>(n / 2)}, static_cast<uint32_t>(n % 2)};
    uint64_t stored_blocks = 0;
    const auto counts = from.DumpTarget(target, [&](Stored&& stored) {
      KvEvent event;
      event.target = target;
      event.counting = StoreCounting::kSet;
      event.data = std::move(stored);
      const ApplyResult result = to.Apply(event);
      EXPECT_EQ(result.status, ApplyStatus::kOk);
      stored_blocks += result.blocks_stored;
      return true;
    });
    EXPECT_TRUE(counts.complete);
    EXPECT_EQ(counts.blocks, stored_blocks) << "every block is in the dump once";
    EXPECT_EQ(counts.blocks, to.HolderBlocks(target));
    EXPECT_EQ(counts.blocks + counts.omitted_blocks, from.HolderBlocks(target));
  }
}

// The children of a dumped block may be stored under any of its names later.
void ExpectSameNames(const NaiveIndex& model, const BlockIndex& copy, const History& history) {
  for (int n = 0; n < history.targets; ++n) {
    const Target target{WorkerId{static_cast<uint64_t>(n / 2)}, static_cast<uint32_t>(n % 2)};
    std::vector<OverlapMatch> matches;
    for (const EngineHash name : model.NamesOf(target)) {
      const NaiveIndex::Path path = model.PathOf(target, name);
      copy.FindOverlap(path, &matches);
      const auto match = std::find_if(matches.begin(), matches.end(),
                                      [&](const OverlapMatch& m) { return m.target == target; });
      if (match == matches.end() || match->blocks < path.size()) continue;  // behind a hole
      BlockIndex probe;
      CopyByDump(copy, history, probe);
      KvEvent event;
      event.target = target;
      event.data = Removed{{name}};
      EXPECT_EQ(probe.Apply(event).status, ApplyStatus::kOk) << "unknown name";
    }
  }
}

// Dump -> fresh index -> the same overlap for a thousand prefixes; holes, several names per block
// and names that differ between targets included.
TEST(BlockIndexPropertyTest, ADumpRebuildsTheOverlapOfEveryPrefix) {
  uint64_t omitted_histories = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    History history;
    history.counting = seed % 2 == 0 ? StoreCounting::kCounted : StoreCounting::kSet;
    history.hashing = static_cast<Hashing>(seed % 3);
    history.targets = 1 + static_cast<int>(seed / 3 % 5);
    history.contents = 1 + static_cast<int>(seed / 15 % 3);
    history.max_blocks = seed % 4 == 0 ? 12 : 4;
    history.removals = seed % 5 == 0 ? 0.25 : 0.45;
    SCOPED_TRACE(fmt::format("seed={} hashing={}", seed, static_cast<int>(history.hashing)));
    BlockIndex index;
    NaiveIndex model;
    EventGen gen(seed, history, model);
    for (int step = 0; step < 400; ++step) {
      const KvEvent event = gen.Next();
      index.Apply(event);
      model.Apply(event);
    }
    BlockIndex copy;
    ASSERT_NO_FATAL_FAILURE(CopyByDump(index, history, copy));
    copy.CheckInvariants();
    omitted_histories += copy.Stats().holder_blocks < index.Stats().holder_blocks ? 1 : 0;
    std::vector<OverlapMatch> matches;
    for (int query = 0; query < 1000; ++query) {
      const NaiveIndex::Path path = gen.Query();
      copy.FindOverlap(path, &matches);
      ASSERT_EQ(matches, model.FindOverlap(path));
    }
    if (seed % 10 == 0) ExpectSameNames(model, copy, history);
  }
  EXPECT_GT(omitted_histories, 10u) << "the histories have no holes to speak of";
}

// Saves every target and applies what was saved to `to`.
void CopyBySave(const BlockIndex& from, const History& history, BlockIndex& to) {
  for (int n = 0; n < history.targets; ++n) {
    KvEvent event;
    event.target = {WorkerId{static_cast<uint64_t>(n / 2)}, static_cast<uint32_t>(n % 2)};
    EXPECT_TRUE(from.SaveTarget(event.target, [&](std::variant<Stored, Removed>&& saved) {
      std::visit([&](auto& data) { event.data = std::move(data); }, saved);
      EXPECT_EQ(to.Apply(event).status, ApplyStatus::kOk);
    }));
    EXPECT_EQ(to.HolderBlocks(event.target), from.HolderBlocks(event.target));
  }
}

// Saved, loaded elsewhere, and then the same events on both: holes, blocks behind them, several
// names and repeated stores included.
TEST(BlockIndexPropertyTest, ASavedIndexGoesOnLikeTheOneThatWasSaved) {
  uint64_t with_holes = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    History history;
    history.counting = seed % 4 == 3 ? StoreCounting::kSet : StoreCounting::kCounted;
    history.hashing = static_cast<Hashing>(seed % 3);
    history.targets = 1 + static_cast<int>(seed / 3 % 5);
    history.contents = 1 + static_cast<int>(seed / 15 % 3);
    history.max_blocks = seed % 4 == 0 ? 12 : 4;
    history.removals = seed % 5 == 0 ? 0.25 : 0.45;
    SCOPED_TRACE(fmt::format("seed={} hashing={}", seed, static_cast<int>(history.hashing)));
    BlockIndex index;
    NaiveIndex model;
    EventGen gen(seed, history, model);
    for (int step = 0; step < 300; ++step) {
      const KvEvent event = gen.Next();
      index.Apply(event);
      model.Apply(event);
    }
    BlockIndex copy;
    ASSERT_NO_FATAL_FAILURE(CopyBySave(index, history, copy));
    copy.CheckInvariants();
    for (int n = 0; n < history.targets && seed % 2 == 0; ++n) {
      const Target target{WorkerId{static_cast<uint64_t>(n / 2)}, static_cast<uint32_t>(n % 2)};
      with_holes += index.DumpTarget(target, [](Stored&&) { return true; }).omitted_blocks > 0;
    }
    std::vector<OverlapMatch> matches;
    for (int step = 0; step < 300; ++step) {
      SCOPED_TRACE(fmt::format("step={}", step));
      const NaiveIndex::Path query = gen.Query();
      copy.FindOverlap(query, &matches);
      ASSERT_EQ(matches, model.FindOverlap(query));
      const KvEvent event = gen.Next();
      ASSERT_EQ(copy.Apply(event), model.Apply(event));
    }
    ASSERT_NO_FATAL_FAILURE(ExpectSameCounts(copy, model));
    ASSERT_NO_FATAL_FAILURE(RemoveEverything(history, copy, model));
  }
  EXPECT_GT(with_holes, 20u) << "the histories have no holes to speak of";
}

}  // namespace
}  // namespace kvrouter
