#include "feed/publisher_order.h"

#include <gtest/gtest.h>

namespace kvrouter {
namespace {

TEST(PublisherOrderTest, HeardFirstIsOlder) {
  PublisherOrder order;
  EXPECT_TRUE(order.Empty());
  order.Hear(0, 5);
  order.Hear(0, 3);
  order.Hear(0, 5);  // late
  EXPECT_TRUE(order.IsOlder(5, 3));
  EXPECT_FALSE(order.IsOlder(3, 5));
  EXPECT_FALSE(order.IsOlder(5, 5));
  EXPECT_FALSE(order.IsOlder(9, 5));
  EXPECT_FALSE(order.IsOlder(5, 9));
}

TEST(PublisherOrderTest, AnOrderSeenOnOnePathOutweighsAGuessBetweenPaths) {
  PublisherOrder order;
  order.Hear(0, 3);
  order.Hear(1, 2);  // the guess: it is the younger one
  EXPECT_TRUE(order.IsOlder(3, 2));
  order.Hear(1, 3);
  EXPECT_TRUE(order.IsOlder(2, 3));
  order.Hear(0, 2);  // late on the other path, too
  EXPECT_TRUE(order.IsOlder(2, 3));
}

TEST(PublisherOrderTest, AnOrderSeenOnOnePathStandsAgainstAnotherPath) {
  PublisherOrder order;
  order.Hear(0, 1);
  order.Hear(0, 2);
  order.Hear(1, 2);
  order.Hear(1, 1);  // what the dead one left at a slow broker
  EXPECT_TRUE(order.IsOlder(1, 2));
}

TEST(PublisherOrderTest, TheOldestIsForgottenBeyondTheBound) {
  PublisherOrder order;
  for (uint64_t publisher = 0; publisher <= PublisherOrder::kMaxPublishers; ++publisher)
    order.Hear(0, publisher);
  EXPECT_FALSE(order.IsOlder(0, 1));
  EXPECT_TRUE(order.IsOlder(1, PublisherOrder::kMaxPublishers));
  order.Hear(0, 0);  // like a new one
  EXPECT_TRUE(order.IsOlder(PublisherOrder::kMaxPublishers, 0));
  for (uint32_t path = 0; path < 100; ++path) order.Hear(path, 7);
  EXPECT_TRUE(order.IsOlder(PublisherOrder::kMaxPublishers, 0));
}

}  // namespace
}  // namespace kvrouter
