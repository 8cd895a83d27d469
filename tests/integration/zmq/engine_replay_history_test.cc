// A rank that is fed from Dynamo's event plane and repaired from its engine's replay socket: a fake
// engine in pyzmq that answers well, partly, slowly, wrongly or not at all.
#include "adapters/zmq/engine_replay_history.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <variant>

#include "integration/zmq/engine_process.h"
#include "support/plane_fixture.h"
#include "support/plane_payload.h"

namespace kvrouter {
namespace {

using Json = EngineProcess::Json;
using std::chrono::milliseconds;

constexpr uint64_t kWorker = 7;

class EngineReplayHistoryTest : public PlaneFixture {
 protected:
  static EngineReplayHistoryConfig Config() {
    return {.timeout = milliseconds(500), .total_timeout = std::chrono::seconds(20)};
  }
  void Bind() { replay_ = engine_.Call("bind")["replay"]; }
  WorkerSpec SpecWithReplay() const {
    WorkerSpec spec = Spec(kWorker);
    spec.events[0].replay = replay_;
    return spec;
  }
  absl::StatusOr<RankPicture> Fetch(const EngineReplayHistoryConfig& config = Config()) {
    return EngineReplayHistory(config).Fetch(SpecWithReplay(), 0, [] { return false; });
  }
  std::string Failure(const EngineReplayHistoryConfig& config = Config()) {
    const auto picture = Fetch(config);
    return picture.ok() ? "none" : std::string(picture.status().message());
  }
  static size_t Stores(const RankPicture& picture) {
    size_t stores = 0;
    for (const KvEvent& event : picture.events)
      stores += std::holds_alternative<Stored>(event.data) ? 1 : 0;
    return stores;
  }

  EngineProcess engine_;
  std::string replay_;
};

TEST_F(EngineReplayHistoryTest, OnlyReplayWithoutALiveSocketIsAskedFor) {
  replay_ = "tcp://127.0.0.1:1";
  WorkerSpec spec = SpecWithReplay();
  const EngineReplayHistory history(Config());
  EXPECT_TRUE(history.Knows(spec, 0));
  EXPECT_FALSE(history.Knows(spec, 1));
  spec.events[0].live = "tcp://127.0.0.1:2";  // repaired on its own socket
  EXPECT_FALSE(history.Knows(spec, 0));
}

TEST_F(EngineReplayHistoryTest, WholeHistoryIsAWholePicture) {
  Bind();
  engine_.Call("fill", {{"first", 1}, {"count", 300}});
  engine_.Call("publish", {{"events", {Json{{"remove", {5}}}}}});
  const auto picture = Fetch();
  ASSERT_TRUE(picture.ok()) << picture.status();
  EXPECT_EQ(picture->missing, "");
  EXPECT_EQ(Stores(*picture), 300u);
  EXPECT_EQ(picture->events.size(), 301u);
}

TEST_F(EngineReplayHistoryTest, HistoryThatBeginsLateIsAPartialPicture) {
  Bind();
  engine_.Call("fill", {{"first", 1}, {"count", 5}});
  engine_.Call("publish", {{"events", {Json{{"remove", {5}}}}}, {"keep", false}});
  engine_.Call("fill", {{"first", 6}, {"count", 3}});
  const auto picture = Fetch();
  ASSERT_TRUE(picture.ok()) << picture.status();
  EXPECT_NE(picture->missing, "");
  EXPECT_GE(Stores(*picture), 3u);
}

TEST_F(EngineReplayHistoryTest, AnswerWithoutItsEndIsNone) {
  Bind();
  engine_.Call("fill", {{"first", 1}, {"count", 20}});
  engine_.Call("set", {{"drop_reply_tail", 2}});
  EXPECT_NE(Failure().find(replay_), std::string::npos);
}

TEST_F(EngineReplayHistoryTest, MuteOrAbsentEngineIsGivenUp) {
  Bind();
  engine_.Call("set", {{"mute_replay", true}});
  EXPECT_NE(Failure().find("timed out"), std::string::npos) << Failure();
  replay_ = "tcp://127.0.0.1:1";
  EXPECT_NE(Failure().find("timed out"), std::string::npos) << Failure();
}

TEST_F(EngineReplayHistoryTest, HistoryThatIsTooLargeIsRefused) {
  Bind();
  engine_.Call("fill", {{"first", 1}, {"count", 300}});
  EngineReplayHistoryConfig config = Config();
  config.max_bytes = 10'000;
  EXPECT_NE(Failure(config).find("more than 10000 bytes"), std::string::npos) << Failure(config);
}

TEST_F(EngineReplayHistoryTest, QuestionCanBeWithdrawn) {
  Bind();
  engine_.Call("set", {{"mute_replay", true}});
  EngineReplayHistoryConfig config = Config();
  config.timeout = config.total_timeout = std::chrono::hours(1);
  int asked = 0;
  const auto picture =
      EngineReplayHistory(config).Fetch(SpecWithReplay(), 0, [&asked] { return ++asked > 3; });
  EXPECT_FALSE(picture.ok());
}

TEST_F(EngineReplayHistoryTest, ReplaysTakeTurnsWithThoseOfOtherFeeds) {
  Bind();
  engine_.Call("fill", {{"first", 1}, {"count", 3}});
  ReplayTurns turns(
      {.max_at_once = 1, .jitter = milliseconds(0), .stalled_after = std::chrono::hours(1)});
  ReplayTurns::Turn other(&turns);
  ASSERT_TRUE(other.MayBegin(SteadyClock().Now()));
  const EngineReplayHistory history(Config(), &turns);
  int asked = 0;
  EXPECT_FALSE(history.Fetch(SpecWithReplay(), 0, [&asked] { return ++asked > 20; }).ok());
  EXPECT_EQ(turns.Read().waiting, 0u) << "who no longer wants a turn leaves the line";
  asked = 0;
  const auto picture = history.Fetch(SpecWithReplay(), 0, [&] {
    if (++asked == 20) other.End();
    return false;
  });
  ASSERT_TRUE(picture.ok()) << picture.status();
  EXPECT_GE(asked, 20) << "the engine was asked out of turn";
  EXPECT_EQ(Stores(*picture), 3u);
  EXPECT_EQ(turns.Read().running, 0u);
}

// The engine's own names and the event plane's are the same, so events go on where the replay ends.
TEST_F(EngineReplayHistoryTest, RankOfTheEventPlaneIsRepairedWhereItsEventsWereLost) {
  Bind();
  engine_.Call("fill", {{"first", 1}, {"count", 50}});
  const EngineReplayHistory history(Config());
  PlaneIntakeConfig config;
  config.feed.rank.doubt_grace = milliseconds(50);
  MakeIntake(config, {&history});
  ASSERT_TRUE(intake_->Start().ok());
  intake_->PathUp(0);
  Register(SpecWithReplay());
  ASSERT_TRUE(Eventually([&] { return IndexBlocks(kWorker) == 50; })) << Detail(kWorker);
  EXPECT_TRUE(Eventually([&] { return InState(kWorker, FeedState::kLive); }));

  const auto say = [this](uint64_t id, const std::string& data) {
    intake_->Push(0, EventsEnvelope(1, id, {{.worker_id = kWorker, .event_id = id, .data = data}}));
  };
  engine_.Call("publish", {{"events", {Json{{"remove", {7}}}}}});
  say(100, PlaneRemoved({7}));
  EXPECT_TRUE(Eventually([&] { return IndexBlocks(kWorker) == 49; }));

  engine_.Call("publish", {{"events", {Json{{"remove", {8, 9}}}}}});  // 101 is lost
  engine_.Call("publish", {{"events", {Json{{"remove", {10}}}}}});
  say(102, PlaneRemoved({10}));
  EXPECT_TRUE(Eventually([&] { return IndexBlocks(kWorker) == 46; })) << IndexBlocks(kWorker);
  EXPECT_TRUE(Eventually([&] { return InState(kWorker, FeedState::kLive); })) << Detail(kWorker);
}

}  // namespace
}  // namespace kvrouter
