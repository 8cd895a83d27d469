#include "feed/peer_merge.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "feed/engine_feed.h"
#include "support/feed_harness.h"

namespace kvrouter {
namespace {

constexpr Target kTarget{WorkerId{7}, 0};

KvEvent Event(std::variant<Stored, Removed, Cleared> data, Target target = kTarget) {
  return {.target = target, .data = std::move(data)};
}

Stored Store(std::optional<uint64_t> parent, std::vector<uint64_t> names) {
  Stored stored;
  if (parent) stored.parent = EngineHash{*parent};
  for (const uint64_t name : names)
    stored.blocks.push_back({EngineHash{name}, LocalBlockHash{name}});
  return stored;
}

std::string Kept(const PeerMerge& merge, const std::vector<KvEvent>& answer) {
  std::string text;
  for (const KvEvent& event : merge.Keep(answer)) {
    const auto& stored = std::get<Stored>(event.data);
    text += stored.parent ? std::to_string(static_cast<uint64_t>(*stored.parent)) + ">" : "";
    for (const StoredBlock& block : stored.blocks)
      text += std::to_string(static_cast<uint64_t>(block.engine_hash)) + " ";
    text += "| ";
  }
  return text;
}

TEST(PeerMergeTest, WithoutEventsTheAnswerIsKept) {
  PeerMerge merge(kTarget);
  EXPECT_EQ(Kept(merge, {Event(Store({}, {1, 2})), Event(Store(2, {3}))}), "1 2 | 2>3 | ");
}

TEST(PeerMergeTest, BlocksTheEngineSpokeOfAreNotTakenFromThePeer) {
  PeerMerge merge(kTarget);
  merge.Note(Event(Store(1, {3})));
  merge.Note(Event(Removed{{EngineHash{5}}}));
  EXPECT_EQ(Kept(merge, {Event(Store({}, {1, 2, 3, 4, 5, 6, 7}))}), "1 2 | 3>4 | 5>6 7 | ");
  EXPECT_EQ(Kept(merge, {Event(Store({}, {3}))}), "");
}

TEST(PeerMergeTest, OtherRanksDoNotMatter) {
  PeerMerge merge(kTarget);
  merge.Note(Event(Store({}, {1}), {WorkerId{7}, 1}));
  merge.Note(Event(Cleared{}, {WorkerId{8}, 0}));
  EXPECT_FALSE(merge.Void());
  EXPECT_EQ(Kept(merge, {Event(Store({}, {1})), Event(Store({}, {2}), {WorkerId{7}, 1})}), "1 | ");
}

TEST(PeerMergeTest, AnEmptiedRankVoidsTheAnswer) {
  PeerMerge merge(kTarget);
  merge.Note(Event(Cleared{}));
  EXPECT_TRUE(merge.Void());
}

TEST(PeerMergeTest, TooMuchMeanwhileVoidsTheAnswer) {
  PeerMerge merge(kTarget);
  for (uint64_t i = 0; i <= PeerMerge::kMaxNotedHashes; ++i) merge.Note(Event(Store({}, {i})));
  EXPECT_TRUE(merge.Void());
}

// ---- What the feed makes of such blocks ----

TEST(FeedPeerBlocksTest, OnlyAFeedThatCannotKnowItsBeginningLacksIt) {
  FakeEngine engine;
  for (TokenId t = 1; t < 5; ++t) engine.PublishRoot(100 * t);
  FeedHarness whole;
  EXPECT_FALSE(whole.feed().LacksBeginning()) << "not connected";
  whole.Connect();
  EXPECT_FALSE(whole.feed().LacksBeginning()) << "the replay will tell";
  whole.ServeReplays(engine);
  EXPECT_FALSE(whole.feed().LacksBeginning());

  FeedHarness without_replay(/*has_replay=*/false);
  without_replay.Connect();
  EXPECT_TRUE(without_replay.feed().LacksBeginning());

  engine.ForgetBefore(2);
  FeedHarness truncated;
  truncated.Connect();
  truncated.ServeReplays(engine);
  EXPECT_TRUE(truncated.feed().LacksBeginning());

  FeedHarness nothing_said;
  nothing_said.Connect();
  nothing_said.ServeReplays(FakeEngine());
  EXPECT_FALSE(nothing_said.feed().LacksBeginning()) << "a replay without a batch is an answer";
}

TEST(FeedPeerBlocksTest, TheyAreDamageUntilTheEngineStartsAnew) {
  FeedHarness h(/*has_replay=*/false);
  h.Connect();
  h.feed().OnPeerBlocks(0, "10.0.0.9:8092", 12);
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  EXPECT_EQ(h.feed().Detail(), "12 blocks as 10.0.0.9:8092 knew them, not proved by the engine");
  FakeEngine running(2000);
  running.SetNextSequence(40);
  h.Live(running.PublishRoot(100));
  EXPECT_EQ(h.feed().State(), FeedState::kDegraded);
  EXPECT_EQ(h.Clears(), 0u);
}

TEST(FeedPeerBlocksTest, AnEngineThatHasJustBegunDropsThem) {
  FeedHarness h(/*has_replay=*/false);
  h.Connect();
  h.feed().OnPeerBlocks(0, "10.0.0.9:8092", 12);
  FakeEngine fresh;
  h.Live(fresh.PublishRoot(100));
  EXPECT_EQ(h.Clears(), 1u) << "before its first block";
  EXPECT_EQ(h.Blocks(), 1u);
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
}

}  // namespace
}  // namespace kvrouter
