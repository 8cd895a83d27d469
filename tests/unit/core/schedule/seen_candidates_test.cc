#include "core/schedule/seen_candidates.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

namespace kvrouter {
namespace {

void Fill(size_t count, uint64_t first, SeenCandidates* seen) {
  seen->Begin(count + 3);  // more than turn out to be eligible
  for (size_t i = 0; i < count; ++i) (*seen)[i] = {.worker = WorkerId{first + i}};
  seen->Truncate(count);
}

TEST(SeenCandidatesTest, KeptOnesStayWhileOthersAreSeen) {
  struct Kept {
    std::shared_ptr<std::byte> memory;
    size_t count;
    uint64_t first;
    size_t bytes_behind;
  };
  constexpr uint64_t kSeed = 5;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 random(kSeed);
  std::vector<Kept> kept;
  {
    SeenCandidates seen;
    for (uint64_t i = 0; i < 2000; ++i) {
      const size_t count = random() % (kMaxDetailedCandidates + 20);
      const uint64_t first = i * 1000;
      if (random() % 3 != 0) seen.ExpectToKeep();
      for (int scored = 0; scored <= static_cast<int>(random() % 2); ++scored)
        Fill(count, first, &seen);  // one request may look at its candidates more than once
      ASSERT_EQ(seen.size(), count);
      if (random() % 5 == 0) seen.TakeMemory(100);
      if (random() % 2 == 0) {
        const size_t bytes_behind = random() % SeenCandidates::kMaxBytesBehind;
        auto memory = seen.Keep(bytes_behind);
        if (memory != nullptr) {
          std::memset(memory.get(), 0x55, SeenCandidates::kHeaderBytes);
          std::memset(memory.get() + SeenCandidates::kHeaderBytes + count * sizeof(SeenCandidate),
                      0x55, bytes_behind);
          kept.push_back({std::move(memory), count, first, bytes_behind});
        }
      }
      for (size_t n = 0; n < count; ++n) ASSERT_EQ(seen[n].worker, WorkerId{first + n});
    }
  }
  EXPECT_GT(kept.size(), 300u);
  for (const Kept& one : kept) {
    const auto* seen =
        reinterpret_cast<const SeenCandidate*>(one.memory.get() + SeenCandidates::kHeaderBytes);
    for (size_t n = 0; n < one.count; ++n) ASSERT_EQ(seen[n].worker, WorkerId{one.first + n});
    for (size_t n = 0; n < SeenCandidates::kHeaderBytes; ++n)
      ASSERT_EQ(one.memory.get()[n], std::byte{0x55});
    const std::byte* behind = reinterpret_cast<const std::byte*>(seen + one.count);
    for (size_t n = 0; n < one.bytes_behind; ++n) ASSERT_EQ(behind[n], std::byte{0x55});
  }
}

TEST(SeenCandidatesTest, OnlyThoseThatWereExpectedAndAreNotTooManyAreKept) {
  SeenCandidates seen;
  Fill(5, 1, &seen);
  EXPECT_EQ(seen.Keep(0), nullptr);
  seen.ExpectToKeep();
  Fill(kMaxDetailedCandidates, 1, &seen);
  EXPECT_EQ(seen.Keep(0), nullptr) << "room was asked for three more";
  seen.ExpectToKeep();
  Fill(kMaxDetailedCandidates - 3, 1, &seen);
  EXPECT_NE(seen.Keep(0), nullptr);
  EXPECT_EQ(seen.Keep(0), nullptr) << "kept twice";
  Fill(5, 1, &seen);
  EXPECT_EQ(seen.Keep(0), nullptr) << "nobody expected it";
}

}  // namespace
}  // namespace kvrouter
