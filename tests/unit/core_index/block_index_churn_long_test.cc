#include <gtest/gtest.h>

#include "index_churn.h"

namespace kvrouter {
namespace {

TEST(BlockIndexChurnLongTest, B14_MemoryIsFlatOverAMillionRoundsOfEachKind) {
  ExpectFlatOver(IndexChurn::Drop::kRemoved, 1'000'000);
  ExpectFlatOver(IndexChurn::Drop::kCleared, 1'000'000);
  ExpectFlatOver(IndexChurn::Drop::kTargetGone, 1'000'000);
}

}  // namespace
}  // namespace kvrouter
