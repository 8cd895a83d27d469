// What is lost on the way, and whether it is asked for again. Found by tests/property/truth.
#include <gtest/gtest.h>

#include <chrono>

#include "support/feed_harness.h"

namespace kvrouter {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

TEST(FeedLossTest, AReplayThatWasCutShortDoesNotMeanThatTheEngineForgot) {
  FeedHarness h;
  FakeEngine engine;
  h.Connect();
  h.ServeReplays(engine);
  h.Live(engine.PublishRoot(1));
  h.Live(engine.PublishChild(5, 1));
  engine.PublishChild(9, 5);  // lost
  h.Live(engine.PublishChild(13, 9));
  ASSERT_EQ(h.TakeRequest(), 1u);
  h.Replayed(engine.history()[1]);  // it is the same engine, but the rest of the answer is lost
  h.Advance(seconds(6));
  ASSERT_EQ(h.feed().State(), FeedState::kDegraded) << h.feed().Detail();
  h.Advance(minutes(1));
  h.Advance(minutes(1));
  EXPECT_EQ(h.ServeReplays(engine), 1);
  EXPECT_EQ(h.feed().State(), FeedState::kLive) << h.feed().Detail();
  EXPECT_EQ(h.Overlap(TokenRun(1, 16)), 4u);
}

}  // namespace
}  // namespace kvrouter
