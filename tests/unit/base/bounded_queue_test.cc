#include "base/bounded_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace kvrouter {
namespace {

using std::chrono::milliseconds;

TEST(BoundedQueueTest, KeepsOrder) {
  BoundedQueue<int> queue(3);
  EXPECT_TRUE(queue.TryPush(1));
  EXPECT_TRUE(queue.TryPush(2));
  EXPECT_EQ(queue.TryPop(), 1);
  EXPECT_EQ(queue.TryPop(), 2);
  EXPECT_EQ(queue.TryPop(), std::nullopt);
}

TEST(BoundedQueueTest, FullQueueRefusesTheNewestAndCountsIt) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.TryPush(1));
  EXPECT_TRUE(queue.TryPush(2));
  EXPECT_FALSE(queue.TryPush(3));
  EXPECT_EQ(queue.Refused(), 1u);
  EXPECT_EQ(queue.Size(), 2u);
  EXPECT_EQ(queue.TryPop(), 1);
  EXPECT_TRUE(queue.TryPush(4));
}

TEST(BoundedQueueTest, ClosedQueueRefusesButGivesBackWhatItHolds) {
  BoundedQueue<std::unique_ptr<int>> queue(2);
  EXPECT_TRUE(queue.TryPush(std::make_unique<int>(7)));
  queue.Close();
  EXPECT_FALSE(queue.TryPush(std::make_unique<int>(8)));
  const auto item = queue.PopFor(milliseconds(0));
  ASSERT_TRUE(item.has_value());
  EXPECT_EQ(**item, 7);
  EXPECT_FALSE(
      queue.PopFor(std::chrono::seconds(60)).has_value());  // returns at once: closed and empty
}

TEST(BoundedQueueTest, CloseWakesAWaitingConsumer) {
  BoundedQueue<int> queue(1);
  std::jthread consumer(
      [&queue] { EXPECT_FALSE(queue.PopFor(std::chrono::seconds(60)).has_value()); });
  queue.Close();
}

// The word of a producer that was put off between its push and its notification reaches a consumer
// that has taken the item already and waits for the next.
TEST(BoundedQueueTest, ALateNotificationDoesNotEndTheNextWait) {
  constexpr int kProducers = 4;
  constexpr int kItems = 20'000;
  BoundedQueue<int> queue(kProducers * kItems);
  int taken = 0;
  std::jthread consumer([&] {
    while (queue.PopFor(std::chrono::minutes(10))) ++taken;
  });
  {
    std::vector<std::jthread> producers;
    for (int p = 0; p < kProducers; ++p) {
      producers.emplace_back([&queue] {
        for (int i = 0; i < kItems; ++i) {
          EXPECT_TRUE(queue.TryPush(i));
          if (i % 8 == 0) std::this_thread::yield();
        }
      });
    }
  }
  queue.Close();
  consumer.join();
  EXPECT_EQ(taken, kProducers * kItems) << "the consumer was told that nothing comes any more";
}

TEST(BoundedQueueTest, ManyThreadsLoseNothing) {
  constexpr int kProducers = 4;
  constexpr int kItems = 2000;
  BoundedQueue<int> queue(64);
  std::vector<int> seen(kProducers * kItems, 0);
  {
    std::vector<std::jthread> producers;
    for (int p = 0; p < kProducers; ++p) {
      producers.emplace_back([&queue, p] {
        for (int i = 0; i < kItems; ++i) {
          while (!queue.TryPush(p * kItems + i)) std::this_thread::yield();
        }
      });
    }
    for (int popped = 0; popped < kProducers * kItems;) {
      if (const auto item = queue.PopFor(milliseconds(100))) {
        ++seen[static_cast<size_t>(*item)];
        ++popped;
      }
    }
  }
  for (const int count : seen) EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace kvrouter
