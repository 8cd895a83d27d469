// The pitfalls of replays, sequences and silence, one test a row; those of events are in
// engine_pitfalls_test, those of sockets (38, 39) in zmq_fleet_test, 44 in replay_turns_test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "support/feed_harness.h"

namespace kvrouter {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using testing::HasSubstr;

class ReplayPitfallsTest : public testing::Test {
 protected:
  void BringUp(int batches) {
    for (int i = 1; i <= batches; ++i) engine_.PublishRoot(static_cast<TokenId>(4 * i));
    h_.Connect();
    ASSERT_EQ(h_.ServeReplays(engine_), 1);
    ASSERT_EQ(h_.Blocks(), static_cast<uint64_t>(batches));
  }

  FeedHarness h_;
  FakeEngine engine_;
};

TEST_F(ReplayPitfallsTest, Row34FirstMessageIsNotTakenForTheBeginning) {
  engine_.SetNextSequence(812);
  h_.Live(engine_.PublishChild(8, 4));
  EXPECT_EQ(h_.TakeRequest(), 0u);
  EXPECT_EQ(h_.Blocks(), 0u);
  h_.Replayed(engine_.history()[0]);
  h_.ReplayEnd();
  EXPECT_EQ(h_.feed().State(), FeedState::kDegraded);  // history is short, and says so
  EXPECT_THAT(h_.feed().Detail(), HasSubstr("1 stores continue blocks we do not know"));
}

TEST_F(ReplayPitfallsTest, Row35RepliesWithAndWithoutATopicFrame) {
  for (const bool topic : {false, true}) {
    SCOPED_TRACE(topic);
    FeedHarness h;
    FakeEngine engine;
    // A topic of eight bytes: what a reader of the wrong frame would take for a sequence.
    const std::vector<std::string> extra =
        topic ? std::vector<std::string>{"kv@model"} : std::vector<std::string>{};
    const auto reply = [&](uint64_t sequence, const std::string& payload) {
      std::vector<std::string> frames = {""};
      frames.insert(frames.end(), extra.begin(), extra.end());
      frames.push_back(SequenceFrame(sequence));
      frames.push_back(payload);
      h.ReplayFrames(frames);
    };
    engine.PublishRoot(4);
    engine.PublishRoot(8);
    h.Connect();
    ASSERT_EQ(h.TakeRequest(), 0u);
    for (const EngineBatch& batch : engine.history()) reply(batch.sequence, batch.payload);
    reply(UINT64_MAX, "");
    EXPECT_EQ(h.Blocks(), 2u);
    EXPECT_EQ(h.feed().State(), FeedState::kLive);
  }
}

TEST_F(ReplayPitfallsTest, Row36MissingEndMarkerEndsInATimeOut) {
  engine_.PublishRoot(4);
  h_.Connect();
  ASSERT_EQ(h_.TakeRequest(), 0u);
  h_.Replayed(engine_.history()[0]);
  h_.Advance(seconds(6));
  EXPECT_EQ(h_.TakeRequest(), 0u);  // on a socket of its own, from the last batch that came
  h_.Replayed(engine_.history()[0]);
  h_.Advance(seconds(6));
  EXPECT_FALSE(h_.feed().ReplayRunning());
  EXPECT_EQ(h_.feed().State(), FeedState::kDegraded);
  EXPECT_EQ(h_.Blocks(), 1u);
}

TEST_F(ReplayPitfallsTest, Row37ReplayThatStartsAboveTheRequestIsDirty) {
  for (int i = 1; i <= 5; ++i) engine_.PublishRoot(static_cast<TokenId>(4 * i));
  engine_.ForgetBefore(2);
  h_.Connect();
  h_.ServeReplays(engine_);
  EXPECT_EQ(h_.Blocks(), 3u);
  EXPECT_EQ(h_.feed().State(), FeedState::kDegraded);
  EXPECT_THAT(h_.feed().Detail(), HasSubstr("begins at sequence 2"));
}

// A socket is one engine's, so a topic that is the prefix of another's can bring nobody else's
// events; and a topic that changes brings no restart.
TEST_F(ReplayPitfallsTest, Row40TopicsTellNothing) {
  BringUp(1);
  const EngineBatch one = engine_.PublishRoot(100);
  h_.LiveFrames({"kv@10.0.0.1", SequenceFrame(one.sequence), one.payload});
  const EngineBatch two = engine_.PublishRoot(104);
  h_.LiveFrames({"kv@10.0.0.12", SequenceFrame(two.sequence), two.payload});
  EXPECT_EQ(h_.Blocks(), 3u);
  EXPECT_EQ(h_.counters().restarts + h_.counters().gaps, 0u);
}

// Whatever else happens at the engine, blocks go when its event says so.
TEST_F(ReplayPitfallsTest, Row42CacheIsClearedByTheEventOnly) {
  BringUp(3);
  h_.Advance(seconds(60));
  EXPECT_EQ(h_.Blocks(), 3u);
  h_.Live(engine_.Publish({MsgpackWriter().Array(1).Str("AllBlocksCleared").bytes()}));
  EXPECT_EQ(h_.Blocks(), 0u);
  EXPECT_EQ(h_.feed().State(), FeedState::kLive);
}

TEST_F(ReplayPitfallsTest, Row43RestartIsSeenWithoutAReplayEndpoint) {
  FeedHarness h(/*has_replay=*/false);
  h.Connect();
  for (int i = 1; i <= 3; ++i) h.Live(engine_.PublishRoot(static_cast<TokenId>(4 * i)));
  FakeEngine reborn(500.0);  // its clock stepped back, too
  h.Live(reborn.PublishRoot(100));
  EXPECT_EQ(h.counters().restarts, 1u);
  EXPECT_EQ(h.Blocks(), 1u);
}

TEST_F(ReplayPitfallsTest, Row45AnIdleHourIsNoSign) {
  BringUp(3);
  for (int minute = 0; minute < 60; ++minute) h_.Advance(seconds(60));
  h_.Advance(hours(1));
  EXPECT_EQ(h_.feed().State(), FeedState::kLive);
  EXPECT_FALSE(h_.TakeRequest());
  h_.Live(engine_.PublishRoot(100));
  EXPECT_EQ(h_.Blocks(), 4u);
}

}  // namespace
}  // namespace kvrouter
