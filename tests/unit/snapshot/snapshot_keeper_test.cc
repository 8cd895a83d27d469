#include "adapters/snapshot/snapshot_keeper.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "adapters/snapshot/snapshot_file.h"
#include "feed/saved_feed_codec.h"

namespace kvrouter {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

SavedFeed AFeed(uint64_t worker, uint64_t blocks) {
  SavedFeed feed;
  feed.spec.id = WorkerId{worker};
  feed.spec.incarnation = Incarnation{worker + 10};
  feed.spec.block_size_tokens = 16;
  feed.spec.events[0] = {.live = "tcp://e:1", .replay = "tcp://e:2"};
  feed.progress.applied = {.sequence = 5, .ts_seconds = 1.5};
  feed.progress.ranks = {{.dp_rank = 0, .held_blocks = blocks, .filter = {}, .blocks = {}}};
  return feed;
}

class SnapshotKeeperTest : public ::testing::Test {
 protected:
  SnapshotKeeperTest() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    config_.path = fmt::format("{}/kvrouter_{}.snapshot", testing::TempDir(), info->name());
    config_.interval = seconds(0);
    // Generous: tests that do not mean the bound must not meet it on a loaded machine.
    config_.final_bound = milliseconds(30'000);
    std::filesystem::remove(config_.path);
  }
  ~SnapshotKeeperTest() override { std::filesystem::remove(config_.path); }

  SnapshotKeeper::SaveFeeds Saving(std::vector<SavedFeed> feeds) {
    return [feeds](MonotonicTime, const std::function<bool(const SavedFeed&)>& take) {
      for (const SavedFeed& feed : feeds)
        if (!take(feed)) return false;
      return true;
    };
  }
  static uint64_t Writes(const SnapshotKeeper& keeper, SnapshotResult result) {
    return keeper.Read().writes[static_cast<size_t>(result)];
  }

  SnapshotConfig config_;
  SavedFeeds saved_;
};

TEST_F(SnapshotKeeperTest, TheLastSnapshotIsWrittenAtTheEndAndReadAtTheStart) {
  {
    SnapshotKeeper keeper(config_, Saving({AFeed(1, 100), AFeed(2, 50)}), &saved_, &SteadyClock());
    EXPECT_EQ(keeper.Load().code(), absl::StatusCode::kNotFound);
    ASSERT_TRUE(keeper.Start().ok());
    keeper.BeginFinal();
    keeper.Stop();
    EXPECT_EQ(Writes(keeper, SnapshotResult::kOk), 1u);
    EXPECT_EQ(keeper.Read().feeds, 2u);
    EXPECT_EQ(keeper.Read().blocks, 150u);
    EXPECT_EQ(keeper.Read().bytes, std::filesystem::file_size(config_.path));
  }
  SnapshotKeeper next(config_, Saving({}), &saved_, &SteadyClock());
  ASSERT_TRUE(next.Load().ok());
  EXPECT_EQ(saved_.Read().waiting_feeds, 2u);
  EXPECT_EQ(saved_.Read().waiting_blocks, 150u);
  EXPECT_EQ(saved_.Incarnations().at(WorkerId{2}), Incarnation{12});
  EXPECT_TRUE(next.Read().written_at.has_value());
}

TEST_F(SnapshotKeeperTest, WithoutAFinalOneStopWritesNothing) {
  SnapshotKeeper keeper(config_, Saving({AFeed(1, 1)}), &saved_, &SteadyClock());
  ASSERT_TRUE(keeper.Start().ok());
  keeper.Stop();
  EXPECT_FALSE(std::filesystem::exists(config_.path));
}

TEST_F(SnapshotKeeperTest, WhatIsStillWaitingIsKeptForTheNextProcess) {
  ASSERT_TRUE(saved_.Load({EncodeFeed(AFeed(7, 70))}).ok());
  SnapshotKeeper keeper(config_, Saving({AFeed(1, 10)}), &saved_, &SteadyClock());
  ASSERT_TRUE(keeper.Start().ok());
  keeper.BeginFinal();
  keeper.Stop();
  EXPECT_EQ(keeper.Read().blocks, 80u);
  const auto contents = ReadSnapshotFile(config_.path, config_.max_bytes);
  ASSERT_TRUE(contents.ok());
  ASSERT_EQ(contents->payloads.size(), 2u);
  EXPECT_EQ(DecodeFeedHead(contents->payloads[0])->spec.id, WorkerId{7});
}

TEST_F(SnapshotKeeperTest, ItIsWrittenOnATimer) {
  config_.interval = seconds(1);
  SnapshotKeeper keeper(config_, Saving({AFeed(1, 1)}), &saved_, &SteadyClock());
  ASSERT_TRUE(keeper.Start().ok());
  const MonotonicTime end = SteadyClock().Now() + seconds(30);
  while (Writes(keeper, SnapshotResult::kOk) == 0 && SteadyClock().Now() < end)
    std::this_thread::yield();
  EXPECT_TRUE(std::filesystem::exists(config_.path));
}

TEST_F(SnapshotKeeperTest, FeedsThatDoNotAnswerLeaveTheOneBefore) {
  {
    SnapshotKeeper keeper(config_, Saving({AFeed(1, 1)}), &saved_, &SteadyClock());
    ASSERT_TRUE(keeper.Start().ok());
    keeper.BeginFinal();
  }
  const auto mute = [](MonotonicTime, const std::function<bool(const SavedFeed&)>&) {
    return false;
  };
  SnapshotKeeper keeper(config_, mute, &saved_, &SteadyClock());
  ASSERT_TRUE(keeper.Start().ok());
  keeper.BeginFinal();
  keeper.Stop();
  EXPECT_EQ(Writes(keeper, SnapshotResult::kDeadline), 1u);
  EXPECT_THAT(keeper.Read().failure, HasSubstr("in time"));
  EXPECT_EQ(ReadSnapshotFile(config_.path, config_.max_bytes)->payloads.size(), 1u);
}

TEST_F(SnapshotKeeperTest, AtTheBoundTheRestIsNotWaitedFor) {
  config_.final_bound = milliseconds(1);
  std::atomic<int> taken{0};
  const auto endless = [&](MonotonicTime, const std::function<bool(const SavedFeed&)>& take) {
    while (take(AFeed(1, 1))) ++taken;
    return false;
  };
  SnapshotKeeper keeper(config_, endless, &saved_, &SteadyClock());
  ASSERT_TRUE(keeper.Start().ok());
  keeper.BeginFinal();
  keeper.Stop();  // returns
  EXPECT_EQ(Writes(keeper, SnapshotResult::kDeadline), 1u);
  EXPECT_FALSE(std::filesystem::exists(config_.path));
  EXPECT_FALSE(std::filesystem::exists(config_.path + ".tmp"));
}

TEST_F(SnapshotKeeperTest, TheEndCutsARunningOneShort) {
  config_.interval = seconds(1);
  std::atomic<bool> running{false};
  std::atomic<int> calls{0};
  const auto slow_once = [&](MonotonicTime, const std::function<bool(const SavedFeed&)>& take) {
    if (calls.fetch_add(1) > 0) return take(AFeed(1, 1));
    running = true;
    while (take(AFeed(1, 1))) std::this_thread::yield();
    return false;
  };
  SnapshotKeeper keeper(config_, slow_once, &saved_, &SteadyClock());
  ASSERT_TRUE(keeper.Start().ok());
  while (!running) std::this_thread::yield();
  keeper.BeginFinal();
  keeper.Stop();
  EXPECT_EQ(Writes(keeper, SnapshotResult::kOk), 1u);
  EXPECT_EQ(keeper.Read().feeds, 1u) << "the last one, from its beginning";
}

TEST_F(SnapshotKeeperTest, AForeignFileIsRefusedAndOverwrittenLater) {
  std::ofstream(config_.path) << "not a snapshot, but quite long enough to have been one";
  SnapshotKeeper keeper(config_, Saving({AFeed(1, 1)}), &saved_, &SteadyClock());
  EXPECT_EQ(keeper.Load().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(keeper.Read().loads[static_cast<size_t>(SnapshotResult::kRefused)], 1u);
  EXPECT_EQ(saved_.Read().waiting_feeds, 0u);
  ASSERT_TRUE(keeper.Start().ok());
  keeper.BeginFinal();
  keeper.Stop();
  EXPECT_TRUE(ReadSnapshotFile(config_.path, config_.max_bytes).ok());
}

TEST_F(SnapshotKeeperTest, AWholeFileThatHoldsNoFeedsIsRefusedAsAWhole) {
  SnapshotFileWriter writer(config_.path, config_.max_bytes);
  ASSERT_TRUE(writer.Open(1).ok());
  ASSERT_TRUE(writer.Append(EncodeFeed(AFeed(1, 1))).ok());
  ASSERT_TRUE(writer.Append("whatever this is").ok());
  ASSERT_TRUE(writer.Commit().ok());
  SnapshotKeeper keeper(config_, Saving({}), &saved_, &SteadyClock());
  EXPECT_EQ(keeper.Load().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(saved_.Read().waiting_feeds, 0u);
}

}  // namespace
}  // namespace kvrouter
