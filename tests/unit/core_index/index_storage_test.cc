// The pieces below the index: slab, probe table, runs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <set>

#include "core/index/holder_runs.h"
#include "core/index/probe_table.h"
#include "core/index/slab.h"

namespace kvrouter {
namespace {

TEST(SlabTest, ReusesIdsAndGivesEmptyChunksBack) {
  Slab<uint64_t, 64> slab;
  std::vector<uint32_t> ids;
  for (uint64_t i = 0; i < 1000; ++i) {
    ids.push_back(slab.Allocate());
    slab[ids.back()] = i;
  }
  EXPECT_EQ(std::set<uint32_t>(ids.begin(), ids.end()).size(), 1000);
  const size_t full_bytes = slab.bytes();
  for (uint64_t i = 0; i < 1000; ++i) ASSERT_EQ(slab[ids[i]], i);
  for (const uint32_t id : ids) slab.Free(id);
  EXPECT_EQ(slab.size(), 0);
  EXPECT_LT(slab.bytes(), full_bytes / 8);
  for (int i = 0; i < 1000; ++i) EXPECT_LT(slab.Allocate(), 1024u) << "ids stay dense";
}

TEST(SlabTest, AddressesAreStable) {
  Slab<uint64_t, 64> slab;
  const uint32_t id = slab.Allocate();
  const uint64_t* address = &slab[id];
  for (int i = 0; i < 10'000; ++i) slab.Allocate();
  EXPECT_EQ(address, &slab[id]);
}

// Against a multimap; few distinct keys, so that equal keys and crowded ends occur.
template <typename Key>
void CheckProbeTable(uint64_t seed, Key key_bound) {
  SCOPED_TRACE(fmt::format("seed={} bound={}", seed, key_bound));
  std::mt19937_64 random(seed);
  ProbeTable<Key> table;
  std::multimap<Key, uint32_t> model;
  uint32_t next_id = 0;
  size_t target_size = 0;
  for (int step = 0; step < 3000; ++step) {
    if (step % 300 == 0) target_size = random() % 400;  // grow and shrink in turns
    if (model.size() < target_size || (model.empty() && random() % 2 == 0)) {
      const Key key = static_cast<Key>(random() % key_bound * (static_cast<Key>(-1) / key_bound));
      table.Insert(key, next_id);
      model.emplace(key, next_id++);
    } else if (!model.empty()) {
      auto it = model.begin();
      std::advance(it, static_cast<ptrdiff_t>(random() % model.size()));
      table.Erase(it->first, it->second);
      model.erase(it);
    }
    ASSERT_EQ(table.size(), model.size());
    if (step % 100 != 0) continue;
    for (const auto& [key, id] : model) {
      ASSERT_EQ(table.Find(key, [&, wanted = id](uint32_t found) { return found == wanted; }), id);
      ASSERT_EQ(table.Find(key, [](uint32_t) { return false; }), kNoId);
    }
  }
}

TEST(ProbeTableTest, AgreesWithMultimap) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    CheckProbeTable<uint32_t>(seed, 1u << 31);
    CheckProbeTable<uint32_t>(seed, 20);
    CheckProbeTable<uint64_t>(seed, uint64_t{1} << 63);
    CheckProbeTable<uint64_t>(seed, 2);
  }
}

TEST(ProbeTableTest, StaysSmallWhileItGrowsAndGivesMemoryBack) {
  std::mt19937_64 random(1);
  ProbeTable<uint64_t> table;
  std::vector<uint64_t> keys;
  for (uint32_t id = 0; id < 50'000; ++id) {
    keys.push_back(random());
    table.Insert(keys.back(), id);
    if (id > 1000) {
      ASSERT_LT(table.bytes(), (id + 1) * size_t{12} * 3 / 2) << id;
    }
  }
  for (uint32_t id = 0; id < 50'000; ++id) table.Erase(keys[id], id);
  EXPECT_EQ(table.bytes(), 0);
}

// Against one letter per (slot, offset).
TEST(HolderRunsTest, AgreesWithAGridOfOffsets) {
  constexpr uint32_t kSlots = 4;
  constexpr uint32_t kOffsets = 12;
  using Grid = std::array<std::array<Naming, kOffsets>, kSlots>;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    std::mt19937_64 random(seed);
    HolderRuns runs;
    Grid grid{};
    for (int step = 0; step < 60; ++step) {
      const uint32_t slot = static_cast<uint32_t>(random() % kSlots);
      const uint32_t from = static_cast<uint32_t>(random() % kOffsets);
      const uint32_t to = from + 1 + static_cast<uint32_t>(random() % (kOffsets - from));
      const auto naming = static_cast<Naming>(random() % 3);
      runs.Assign(slot, from, to, naming);
      for (uint32_t o = from; o < to; ++o) grid[slot][o] = naming;
      if (step % 4 == 3) {  // offsets with gaps, held or not
        std::vector<uint32_t> removed;
        for (uint32_t o = 0; o < kOffsets; ++o) {
          if (random() % 3 == 0) removed.push_back(o);
        }
        if (!removed.empty()) runs.Remove(slot, removed);
        for (const uint32_t o : removed) grid[slot][o] = Naming::kNone;
      }
      if (step % 10 == 9) {  // to split and to join changes nothing
        const uint32_t at = 1 + static_cast<uint32_t>(random() % (kOffsets - 1));
        const HolderRuns lower = runs.SplitOff(at);
        for (uint32_t s = 0; s < kSlots; ++s) {
          for (uint32_t o = 0; o < kOffsets; ++o) {
            ASSERT_EQ(o < at ? runs.At(s, o) : lower.At(s, o - at), grid[s][o])
                << "slot=" << s << " offset=" << o;
          }
        }
        runs.Append(lower, at);
      }
      uint32_t end = 0;
      for (uint32_t s = 0; s < kSlots; ++s) {
        for (uint32_t o = 0; o < kOffsets; ++o) {
          ASSERT_EQ(runs.At(s, o), grid[s][o]) << "slot=" << s << " offset=" << o;
          if (grid[s][o] != Naming::kNone) end = std::max(end, o + 1);
        }
      }
      ASSERT_EQ(runs.HeldEnd(kOffsets), end);
      const auto all = runs.all();
      for (size_t i = 1; i < all.size(); ++i) {
        ASSERT_TRUE(all[i - 1].slot() < all[i].slot() || all[i - 1].to <= all[i].from);
        ASSERT_FALSE(all[i - 1].slot_and_own == all[i].slot_and_own && all[i - 1].to == all[i].from)
            << "not joined";
      }
    }
  }
}

TEST(HolderRunsTest, SlotWithManyRunsIsFoundAmongOthers) {
  HolderRuns runs;
  for (uint32_t runs_of_slot = 1; runs_of_slot < 40; ++runs_of_slot) {
    for (uint32_t i = 0; i < runs_of_slot; ++i)
      runs.Assign(runs_of_slot, 2 * i, 2 * i + 1, Naming::kShared);
  }
  EXPECT_TRUE(runs.Of(0).empty());
  EXPECT_TRUE(runs.Of(40).empty());
  for (uint32_t slot = 1; slot < 40; ++slot) {
    ASSERT_EQ(runs.Of(slot).size(), slot);
    EXPECT_EQ(runs.Of(slot).front().slot(), slot);
    EXPECT_EQ(runs.Of(slot).back().slot(), slot);
  }
}

}  // namespace
}  // namespace kvrouter
