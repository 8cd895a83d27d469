#include "feed/feed_cursor.h"

#include <gtest/gtest.h>

namespace kvrouter {
namespace {

using Verdict = FeedCursor::Verdict;
using Mark = FeedCursor::Mark;

// Live up to 100, and a replay ran ahead to 105.
FeedCursor ReplayedAhead() {
  FeedCursor cursor;
  cursor.OnLive({100, 1.0});
  cursor.OnApplied({105, 1.5});
  return cursor;
}

TEST(FeedCursorTest, LowerThanLastLiveIsARestartWhateverTheClockSays) {
  const FeedCursor cursor = ReplayedAhead();
  EXPECT_EQ(cursor.Classify({99, 0.5}), Verdict::kRestart);
  EXPECT_EQ(cursor.Classify({99, 1.0}), Verdict::kRestart);
  EXPECT_EQ(cursor.Classify({99, 9.0}), Verdict::kRestart);
  EXPECT_EQ(cursor.Classify({0, 9.0}), Verdict::kRestart);
}

TEST(FeedCursorTest, EqualSequenceIsADuplicateOnlyWithTheSameTimestamp) {
  const FeedCursor cursor = ReplayedAhead();
  EXPECT_EQ(cursor.Classify({100, 1.0}), Verdict::kDuplicate);
  EXPECT_EQ(cursor.Classify({100, 1.1}), Verdict::kRestart);
  EXPECT_EQ(cursor.Classify({100, 0.9}), Verdict::kRestart);
  EXPECT_EQ(cursor.Classify({100, std::nullopt}), Verdict::kRestart);
}

TEST(FeedCursorTest, BetweenLastLiveAndLastAppliedWasReplayed) {
  const FeedCursor cursor = ReplayedAhead();
  EXPECT_EQ(cursor.Classify({101, 1.1}), Verdict::kAlreadyReplayed);
  EXPECT_EQ(cursor.Classify({105, 1.5}), Verdict::kAlreadyReplayed);
}

TEST(FeedCursorTest, BeyondLastAppliedIsNextOrGap) {
  const FeedCursor cursor = ReplayedAhead();
  EXPECT_EQ(cursor.Classify({106, 2.0}), Verdict::kNext);
  EXPECT_EQ(cursor.Classify({107, 2.0}), Verdict::kGap);
  EXPECT_EQ(cursor.Classify({uint64_t{1} << 63, 2.0}), Verdict::kGap);
}

TEST(FeedCursorTest, WithNothingAppliedOnlyZeroIsNext) {
  FeedCursor cursor;
  EXPECT_EQ(cursor.Classify({0, 1.0}), Verdict::kNext);
  EXPECT_EQ(cursor.Classify({812, 1.0}), Verdict::kGap);
}

TEST(FeedCursorTest, AnyBaseTakesWhateverComesButStillSeesRestarts) {
  FeedCursor cursor = ReplayedAhead();
  cursor.ForgetApplied(/*any_base=*/true);
  EXPECT_EQ(cursor.Classify({500, 1.0}), Verdict::kNext);
  EXPECT_EQ(cursor.Classify({101, 1.0}), Verdict::kNext);
  EXPECT_EQ(cursor.Classify({99, 1.0}), Verdict::kRestart);
  cursor.OnApplied({500, 1.0});
  EXPECT_EQ(cursor.Classify({502, 1.0}), Verdict::kGap);  // once only
}

TEST(FeedCursorTest, RestartForgetsBothMarks) {
  FeedCursor cursor = ReplayedAhead();
  cursor.Restart(/*any_base=*/false);
  EXPECT_EQ(cursor.Classify({0, 0.1}), Verdict::kNext);
  EXPECT_EQ(cursor.Classify({7, 0.1}), Verdict::kGap);
}

}  // namespace
}  // namespace kvrouter
