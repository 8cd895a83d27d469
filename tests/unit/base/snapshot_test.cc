#include "base/snapshot.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>

namespace kvrouter {
namespace {

TEST(SnapshotTest, ReadersKeepTheVersionTheyLoaded) {
  Snapshot<int> snapshot(std::make_shared<const int>(1));
  const auto before = snapshot.Load();
  snapshot.Publish(std::make_shared<const int>(2));
  EXPECT_EQ(*before, 1);
  EXPECT_EQ(*snapshot.Load(), 2);
}

TEST(SnapshotTest, AReaderNeverSeesHalfAnUpdate) {
  using Pair = std::pair<int, int>;
  Snapshot<Pair> snapshot(std::make_shared<const Pair>(0, 0));
  std::jthread writer([&snapshot] {
    for (int i = 1; i <= 20000; ++i) snapshot.Publish(std::make_shared<const Pair>(i, -i));
  });
  for (int i = 0; i < 20000; ++i) {
    const auto value = snapshot.Load();
    ASSERT_EQ(value->first, -value->second);
  }
}

}  // namespace
}  // namespace kvrouter
