#include "core/schedule/record_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace kvrouter {
namespace {

TEST(RecordMemoryTest, RecordsDoNotTouchAndOutliveTheirMaker) {
  struct Record {
    std::shared_ptr<std::byte> memory;
    size_t bytes;
    std::byte fill;
  };
  std::vector<Record> records;
  std::mt19937_64 random(3);
  {
    RecordMemory memory;
    for (int i = 0; i < 500; ++i) {
      const size_t bytes = i % 50 == 0 ? RecordMemory::kChunkBytes : 1 + random() % 3000;
      records.push_back({memory.Take(bytes), bytes, static_cast<std::byte>(i)});
      std::memset(records.back().memory.get(), i & 0xff, bytes);
      ASSERT_EQ(
          reinterpret_cast<uintptr_t>(records.back().memory.get()) % alignof(std::max_align_t), 0u);
    }
  }
  for (const Record& record : records) {
    for (size_t i = 0; i < record.bytes; ++i) ASSERT_EQ(record.memory.get()[i], record.fill);
  }
}

TEST(RecordMemoryTest, AChunkLeavesWithItsLastRecord) {
  RecordMemory memory;
  std::shared_ptr<std::byte> first = memory.Take(RecordMemory::kChunkBytes / 2);
  std::shared_ptr<std::byte> second = memory.Take(RecordMemory::kChunkBytes / 2);
  const std::weak_ptr<std::byte> chunk = first;
  const auto in_the_next_chunk = memory.Take(1);
  first.reset();
  EXPECT_FALSE(chunk.expired());
  second.reset();
  EXPECT_TRUE(chunk.expired());
}

}  // namespace
}  // namespace kvrouter
