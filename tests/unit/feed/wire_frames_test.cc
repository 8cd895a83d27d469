#include "feed/wire_frames.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "support/engine_payload.h"

namespace kvrouter {
namespace {

using Frames = std::vector<std::string_view>;

const std::string kSequence42 = FromHex("000000000000002a");
const std::string kEnd = FromHex("ffffffffffffffff");

TEST(WireFramesTest, LiveMessageIsTopicSequencePayload) {
  const auto message = ParseLiveFrames(Frames{"kv@p0@m", kSequence42, "payload"});
  ASSERT_TRUE(message);
  EXPECT_EQ(message->sequence, 42u);
  EXPECT_EQ(message->payload, "payload");
  EXPECT_FALSE(message->end_of_replay);
  EXPECT_TRUE(ParseLiveFrames(Frames{"", kSequence42, ""}));
}

TEST(WireFramesTest, OtherLiveShapesAreRefused) {
  EXPECT_FALSE(ParseLiveFrames(Frames{}));
  EXPECT_FALSE(ParseLiveFrames(Frames{kSequence42, "payload"}));
  EXPECT_FALSE(ParseLiveFrames(Frames{"", kSequence42, "payload", "more"}));
  EXPECT_FALSE(ParseLiveFrames(Frames{"", "1234567", "payload"}));
  EXPECT_FALSE(ParseLiveFrames(Frames{"", "123456789", "payload"}));
  EXPECT_FALSE(ParseLiveFrames(Frames{"", kEnd, "payload"}));
}

// Pitfall row 35: replies of 2 or 3 frames after the delimiter.
TEST(WireFramesTest, ReplayReplyMayCarryATopic) {
  for (const Frames& frames :
       {Frames{"", kSequence42, "payload"}, Frames{"", "kv@p0@m", kSequence42, "payload"},
        Frames{"", "", kSequence42, "payload"}}) {
    const auto message = ParseReplayFrames(frames);
    ASSERT_TRUE(message);
    EXPECT_EQ(message->sequence, 42u);
    EXPECT_EQ(message->payload, "payload");
    EXPECT_FALSE(message->end_of_replay);
  }
}

TEST(WireFramesTest, BothEndMarkersAreKnown) {
  EXPECT_TRUE(ParseReplayFrames(Frames{"", kEnd, ""})->end_of_replay);
  EXPECT_TRUE(ParseReplayFrames(Frames{"", "", kEnd, ""})->end_of_replay);
  EXPECT_TRUE(ParseReplayFrames(Frames{"", "topic", kEnd, ""})->end_of_replay);
}

// Cut short to nothing, a batch must not end the answer it is part of.
TEST(WireFramesTest, ReplyWithoutAPayloadIsNoEndMarker) {
  const auto message = ParseReplayFrames(Frames{"", kSequence42, ""});
  ASSERT_TRUE(message);
  EXPECT_EQ(message->sequence, 42u);
  EXPECT_FALSE(message->end_of_replay);
}

TEST(WireFramesTest, OtherReplayShapesAreRefused) {
  EXPECT_FALSE(ParseReplayFrames(Frames{}));
  EXPECT_FALSE(ParseReplayFrames(Frames{""}));
  EXPECT_FALSE(ParseReplayFrames(Frames{"", "payload"}));
  EXPECT_FALSE(ParseReplayFrames(Frames{"", "short", "payload"}));
  EXPECT_FALSE(ParseReplayFrames(Frames{"", "a", "b", kSequence42, "payload"}));
}

TEST(WireFramesTest, RequestSequenceIsBigEndian) {
  EXPECT_EQ(SequenceFrame(0x0102030405060708u), FromHex("0102030405060708"));
  EXPECT_EQ(SequenceFrame(42), kSequence42);
}

}  // namespace
}  // namespace kvrouter
