#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "integration/zmq/zmq_source_fixture.h"

namespace kvrouter {
namespace {

class ZmqEventSourceTest : public ZmqSourceFixture {};

TEST_F(ZmqEventSourceTest, LiveEventsInBothShapesReachTheRouter) {
  StartSource();
  Register(Spec(kWorker, {Endpoints(engine_.Call("bind"))}));
  ASSERT_EQ(engine_.Call("wait_subscribed")["subscribed"], 1);
  engine_.Call("publish", {{"events", {Store({101, 102}, nullptr, 1)}}, {"form", "array"}});
  engine_.Call("publish", {{"events", {Store({18446744073709551615u}, 102, 9)}}, {"form", "map"}});
  ASSERT_TRUE(Eventually([&] { return Overlap(TokenRun(1, 12)) == 3; }));
  engine_.Call("publish", {{"events", {Json{{"remove", {-1}}}}}});
  ASSERT_TRUE(Eventually([&] { return Overlap(TokenRun(1, 12)) == 2; }));
  engine_.Call("publish", {{"events", {Json{{"clear", true}}}}, {"form", "map"}});
  ASSERT_TRUE(Eventually([&] { return Overlap(TokenRun(1, 12)) == 0; }));
  ASSERT_TRUE(Eventually([&] { return InState(FeedState::kLive); }));
}

TEST_F(ZmqEventSourceTest, DigestsAndTheirIntegersNameOneBlock) {
  StartSource();
  Register(Spec(kWorker, {Endpoints(engine_.Call("bind"))}));
  const std::string digest = "2a97516c354b68848cdbd8f54a226a0a55b21ed138e207ad6c5cbb9c00aa5aea";
  engine_.Call("publish", {{"events", {Store({digest}, nullptr, 1)}}});
  ASSERT_TRUE(Eventually([&] { return Overlap(TokenRun(1, 4)) == 1; }));
  engine_.Call("publish", {{"events", {Json{{"remove", {0x6c5cbb9c00aa5aea}}}}}});
  ASSERT_TRUE(Eventually([&] { return IndexBlocks() == 0; }));
}

class ReplayFraming : public ZmqEventSourceTest, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(OldAndNew, ReplayFraming, testing::Bool());

TEST_P(ReplayFraming, HistoryIsReplayedOnConnect) {
  StartSource();
  engine_.Call("set", {{"topic_in_replies", GetParam()}, {"topic", "kv@pod@model"}});
  const Json bound = engine_.Call("bind");
  engine_.Call("fill", {{"first", 1}, {"count", 50}});
  EXPECT_TRUE(source_->InitialRecoveryDone());  // of no feeds
  Register(Spec(kWorker, {Endpoints(bound)}));
  ASSERT_TRUE(Eventually([&] { return source_->InitialRecoveryDone(); }));
  EXPECT_EQ(IndexBlocks(), 50u);
  EXPECT_EQ(Overlap(TokenRun(200, 4)), 1u);
  EXPECT_TRUE(Eventually([&] { return InState(FeedState::kLive); }));
  EXPECT_EQ(engine_.Call("status")["requests"], Json::array({0}));
  EXPECT_EQ(Counters().replays_completed, 1u);
}

TEST_P(ReplayFraming, GapIsFilledFromTheLastAppliedBatch) {
  StartSource();
  engine_.Call("set", {{"topic_in_replies", GetParam()}});
  Register(Spec(kWorker, {Endpoints(engine_.Call("bind"))}));
  ASSERT_EQ(engine_.Call("wait_subscribed")["subscribed"], 1);
  engine_.Call("fill", {{"first", 1}, {"count", 3}, {"send", true}});
  ASSERT_TRUE(Eventually([&] { return IndexBlocks() == 3 && InState(FeedState::kLive); }));
  engine_.Call("fill", {{"first", 4}, {"count", 5}, {"send", false}});
  engine_.Call("fill", {{"first", 9}, {"count", 1}, {"send", true}});
  ASSERT_TRUE(Eventually([&] { return IndexBlocks() == 9 && InState(FeedState::kLive); }));
  EXPECT_EQ(Counters().gaps, 1u);
  EXPECT_EQ(Counters().restarts, 0u);
  EXPECT_EQ(engine_.Call("status")["requests"].back(), 2);
}

TEST_F(ZmqEventSourceTest, GapWithoutReplayEndpointDropsTheRankAndShows) {
  StartSource();
  Json bound = engine_.Call("bind", {{"replay", nullptr}});
  Register(Spec(kWorker, {Endpoints(bound)}));
  ASSERT_EQ(engine_.Call("wait_subscribed")["subscribed"], 1);
  engine_.Call("fill", {{"first", 1}, {"count", 3}, {"send", true}});
  ASSERT_TRUE(Eventually([&] { return IndexBlocks() == 3 && InState(FeedState::kLive); }));
  engine_.Call("fill", {{"first", 4}, {"count", 1}, {"send", false}});
  engine_.Call("fill", {{"first", 5}, {"count", 1}, {"send", true}});
  ASSERT_TRUE(Eventually([&] { return InState(FeedState::kDegraded); }));
  EXPECT_EQ(IndexBlocks(), 1u);
  EXPECT_NE(Report()->detail, "");
}

// Pitfall row 36: the engine's ROUTER dropped the tail and the end marker.
TEST_F(ZmqEventSourceTest, LostTailOfAReplayIsFetchedAgain) {
  StartSource(milliseconds(300));
  engine_.Call("set", {{"drop_reply_tail", 2}});
  const Json bound = engine_.Call("bind");
  engine_.Call("fill", {{"first", 1}, {"count", 20}});
  Register(Spec(kWorker, {Endpoints(bound)}));
  ASSERT_TRUE(Eventually([&] { return InState(FeedState::kDegraded); }));
  EXPECT_EQ(IndexBlocks(), 18u);
  EXPECT_GE(Counters().replays_failed, 1u);
  engine_.Call("set", {{"drop_reply_tail", 0}});
  engine_.Call("fill", {{"first", 21}, {"count", 1}, {"send", true}});
  ASSERT_TRUE(Eventually([&] { return IndexBlocks() == 21 && InState(FeedState::kLive); }));
  EXPECT_EQ(Counters().restarts, 0u);
}

TEST_F(ZmqEventSourceTest, MuteReplayEndpointTimesOutAndLiveEventsGoOn) {
  StartSource(milliseconds(300));
  engine_.Call("set", {{"mute_replay", true}});
  const Json bound = engine_.Call("bind");
  engine_.Call("fill", {{"first", 1}, {"count", 3}});
  Register(Spec(kWorker, {Endpoints(bound)}));
  ASSERT_EQ(engine_.Call("wait_subscribed")["subscribed"], 1);
  engine_.Call("fill", {{"first", 4}, {"count", 2}, {"send", true}});
  ASSERT_TRUE(Eventually([&] { return InState(FeedState::kDegraded) && IndexBlocks() == 2; }));
  EXPECT_TRUE(source_->InitialRecoveryDone());
}

TEST_F(ZmqEventSourceTest, LongHistoryArrivesWhole) {
  StartSource();
  const Json bound = engine_.Call("bind");
  engine_.Call("fill", {{"first", 1}, {"count", 10000}, {"block_size", 4}});
  Register(Spec(kWorker, {Endpoints(bound)}));
  ASSERT_TRUE(Eventually([&] { return IndexBlocks() == 10000 && InState(FeedState::kLive); }));
}

// Pitfall row 32.
TEST_F(ZmqEventSourceTest, EngineRestartOnTheSamePortsDropsItsBlocks) {
  StartSource();
  Register(Spec(kWorker, {Endpoints(engine_.Call("bind"))}));
  ASSERT_EQ(engine_.Call("wait_subscribed")["subscribed"], 1);
  engine_.Call("fill", {{"first", 1}, {"count", 10}, {"send", true}});
  ASSERT_TRUE(Eventually([&] { return IndexBlocks() == 10; }));
  engine_.Call("restart");
  engine_.Call("fill", {{"first", 101}, {"count", 2}, {"send", true}});
  ASSERT_TRUE(Eventually([&] { return IndexBlocks() == 2 && InState(FeedState::kLive); }));
  EXPECT_EQ(Overlap(TokenRun(4, 4)), 0u);
  EXPECT_EQ(Overlap(TokenRun(404, 4)), 1u);
  EXPECT_EQ(Counters().restarts, 1u);
  EXPECT_EQ(Counters().reconnects, 1u);
}

TEST_F(ZmqEventSourceTest, RestartThatAlreadyPassedTheOldSequenceIsSeenByItsTimestamps) {
  StartSource();
  Register(Spec(kWorker, {Endpoints(engine_.Call("bind"))}));
  ASSERT_EQ(engine_.Call("wait_subscribed")["subscribed"], 1);
  engine_.Call("fill", {{"first", 1}, {"count", 3}, {"send", true}});
  ASSERT_TRUE(Eventually([&] { return IndexBlocks() == 3; }));
  engine_.Call("restart");
  engine_.Call("fill", {{"first", 101}, {"count", 20}, {"send", false}});
  ASSERT_TRUE(Eventually([&] { return IndexBlocks() == 20 && InState(FeedState::kLive); }));
  EXPECT_EQ(Overlap(TokenRun(4, 4)), 0u);
  EXPECT_EQ(Counters().restarts, 1u);
}

TEST_F(ZmqEventSourceTest, BrokenConnectionToTheSameEngineKeepsItsBlocks) {
  StartSource();
  Register(Spec(kWorker, {Endpoints(engine_.Call("bind"))}));
  ASSERT_EQ(engine_.Call("wait_subscribed")["subscribed"], 1);
  engine_.Call("fill", {{"first", 1}, {"count", 3}, {"send", true}});
  ASSERT_TRUE(Eventually([&] { return IndexBlocks() == 3; }));
  engine_.Call("rebind");  // other sockets, same life
  engine_.Call("fill", {{"first", 4}, {"count", 2}, {"send", false}});
  ASSERT_TRUE(Eventually([&] { return Counters().reconnects == 1; }));
  ASSERT_TRUE(Eventually([&] { return InState(FeedState::kLive); }));
  engine_.Call("fill", {{"first", 6}, {"count", 1}, {"send", true}});
  ASSERT_TRUE(Eventually([&] { return IndexBlocks() == 6; }));
  EXPECT_EQ(Counters().restarts, 0u);
}

// Pitfall row 43.
TEST_F(ZmqEventSourceTest, RestartIsSeenWithoutAReplayEndpoint) {
  StartSource();
  Register(Spec(kWorker, {Endpoints(engine_.Call("bind", {{"replay", nullptr}}))}));
  ASSERT_EQ(engine_.Call("wait_subscribed")["subscribed"], 1);
  engine_.Call("fill", {{"first", 1}, {"count", 10}, {"send", true}});
  ASSERT_TRUE(Eventually([&] { return IndexBlocks() == 10; }));
  engine_.Call("restart");
  ASSERT_TRUE(Eventually([&] { return IndexBlocks() == 0; }));  // at the reconnect already
  ASSERT_EQ(engine_.Call("wait_subscribed")["subscribed"], 1);
  engine_.Call("fill", {{"first", 101}, {"count", 2}, {"send", true}});
  ASSERT_TRUE(Eventually([&] { return IndexBlocks() == 2; }));
  ASSERT_TRUE(Eventually(
      [&] { return InState(FeedState::kLive); }));  // from sequence 0 on nothing is missing
}

// B16: a departed worker stays away, and comes back empty.
TEST_F(ZmqEventSourceTest, B16DepartedWorkerStaysAwayAndReturnsEmpty) {
  StartSource();
  const Json bound = engine_.Call("bind", {{"replay", nullptr}});
  Register(Spec(kWorker, {Endpoints(bound)}));
  ASSERT_EQ(engine_.Call("wait_subscribed")["subscribed"], 1);
  engine_.Call("fill", {{"first", 1}, {"count", 100}, {"send", true}});
  ASSERT_TRUE(Eventually([&] { return IndexBlocks() == 100; }));
  engine_.Call("fill", {{"first", 101}, {"count", 50}, {"send", true}});
  Remove(kWorker);
  ASSERT_TRUE(Eventually([&] { return !Report(); }));
  EXPECT_TRUE(router_.Snapshot().empty() || router_.Snapshot()[0].index_holder_blocks == 0);
  const uint64_t applied = monitor_.Totals().events_applied;
  engine_.Call("fill", {{"first", 151}, {"count", 10}, {"send", true}});
  Register(Spec(kWorker, {Endpoints(bound)}, 2));
  ASSERT_EQ(engine_.Call("wait_subscribed", {{"count", 2}})["subscribed"], 2);
  EXPECT_EQ(IndexBlocks(), 0u);
  EXPECT_EQ(monitor_.Totals().events_applied, applied);
  engine_.Call("fill", {{"first", 161}, {"count", 1}, {"send", true}});
  ASSERT_TRUE(Eventually([&] { return IndexBlocks() == 1; }));
}

// Removal and return reach the thread as one wish as often as not.
TEST_F(ZmqEventSourceTest, WorkerThatReturnsAtOnceUnderTheSameNumberIsReplayedAnew) {
  StartSource();
  const Json bound = engine_.Call("bind");
  engine_.Call("fill", {{"first", 1}, {"count", 10}});
  Register(Spec(kWorker, {Endpoints(bound)}));
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(Eventually([&] { return IndexBlocks() == 10 && InState(FeedState::kLive); }))
        << "round " << round << ": " << IndexBlocks() << " blocks";
    Remove(kWorker);
    Register(Spec(kWorker, {Endpoints(bound)}));
  }
}

TEST_F(ZmqEventSourceTest, WhatAFeedCountedOutlivesItsEndpointAndItsWorker) {
  StartSource();
  engine_.Call("fill", {{"first", 1}, {"count", 10}});
  const auto applied = [&] {
    uint64_t sum = 0;
    for (const auto& by_status : monitor_.Applied().events) {
      sum = std::accumulate(by_status.begin(), by_status.end(), sum);
    }
    return sum;
  };
  const EventEndpoints endpoints = Endpoints(engine_.Call("bind"));
  Register(Spec(kWorker, {endpoints}));
  ASSERT_TRUE(Eventually([&] { return IndexBlocks() == 10 && InState(FeedState::kLive); }));
  Register(Spec(kWorker, {EventEndpoints{}}));
  ASSERT_TRUE(Eventually([&] { return InState(FeedState::kNone); }));
  EXPECT_EQ(applied(), 11u);  // with the drop of the blocks
  EXPECT_EQ(monitor_.Totals().events_applied, applied());
  Register(Spec(kWorker, {endpoints}));
  ASSERT_TRUE(Eventually([&] { return IndexBlocks() == 10 && InState(FeedState::kLive); }));
  Remove(kWorker);
  ASSERT_TRUE(Eventually([&] { return !Report(); }));
  EXPECT_EQ(applied(), 22u);
  EXPECT_EQ(monitor_.Totals().events_applied, applied());
}

// Nothing can be opened for a while.
TEST_F(ZmqEventSourceTest, LiveSocketThatCouldNotBeOpenedIsTriedAgain) {
#if defined(__has_feature)
#if __has_feature(undefined_behavior_sanitizer)
  // It opens a pipe to see whether an object is readable, and reports what it cannot look at.
  GTEST_SKIP() << "UBSan needs file descriptors of its own; this test leaves none";
#endif
#endif
  StartSource();
  const EventEndpoints endpoints = Endpoints(engine_.Call("bind"));
  engine_.Call("fill", {{"first", 1}, {"count", 3}});
  const WorkerId other{2};  // ZMQ itself is up before
  Register(Spec(other, {endpoints}));
  ASSERT_TRUE(Eventually([&] { return InState(FeedState::kLive, other); }));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest_free = dup(STDIN_FILENO);
  ASSERT_GE(lowest_free, 0);
  close(lowest_free);
  rlimit none_left = before;
  none_left.rlim_cur = static_cast<rlim_t>(lowest_free);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none_left), 0);
  Register(Spec(kWorker, {endpoints}));
  const bool failed = Eventually([&] { return InState(FeedState::kDegraded); });
  const std::string why = Report() ? Report()->detail : "";
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(failed);
  EXPECT_NE(why.find("live endpoint"), std::string::npos) << why;
  EXPECT_TRUE(Eventually([&] { return IndexBlocks() == 3 && InState(FeedState::kLive); }));
}

// The notice of a handshake that nobody is left to read must not stop ZMQ's I/O thread.
TEST_F(ZmqEventSourceTest, WorkersThatComeAndGoAtOnceDoNotFreezeTheOthers) {
  StartSource();
  const EventEndpoints endpoints = Endpoints(engine_.Call("bind"));
  Register(Spec(kWorker, {endpoints}));
  ASSERT_EQ(engine_.Call("wait_subscribed")["subscribed"], 1);
  constexpr WorkerId kPassing{2};
  for (uint64_t life = 1; life <= 200; ++life) {
    Register(Spec(kPassing, {endpoints}, life));
    std::this_thread::sleep_for(std::chrono::microseconds(250 * (life % 20)));
    Remove(kPassing, life);
  }
  engine_.Call("publish", {{"events", {Store({101, 102}, nullptr, 1)}}, {"form", "array"}});
  EXPECT_TRUE(Eventually([&] { return Overlap(TokenRun(1, 8)) == 2; }));
}

TEST_F(ZmqEventSourceTest, ChangedEndpointReconnectsThatRankOnly) {
  StartSource();
  EngineProcess second, moved;
  const EventEndpoints first_endpoints = Endpoints(engine_.Call("bind"));
  engine_.Call("fill", {{"first", 1}, {"count", 5}});
  second.Call("publish", {{"events", Json::array()}, {"send", false}, {"times", 0}});
  const EventEndpoints second_endpoints = Endpoints(second.Call("bind"));
  for (int i = 11; i < 18; ++i) {
    second.Call("publish", {{"events", {Store({i}, nullptr, 4 * i)}}, {"rank", 1}});
  }
  const EventEndpoints moved_endpoints = Endpoints(moved.Call("bind"));
  moved.Call("publish", {{"events", {Store({21}, nullptr, 84)}}, {"rank", 1}});

  Register(Spec(kWorker, {first_endpoints, second_endpoints}));
  ASSERT_TRUE(
      Eventually([&] { return IndexBlocks(kWorker, 0) == 5 && IndexBlocks(kWorker, 1) == 7; }));
  Register(Spec(kWorker, {first_endpoints, moved_endpoints}));
  ASSERT_TRUE(Eventually([&] { return IndexBlocks(kWorker, 1) == 1; }));
  EXPECT_EQ(IndexBlocks(kWorker, 0), 5u);
  EXPECT_EQ(Overlap(TokenRun(84, 4), kWorker, 1), 1u);
  EXPECT_EQ(engine_.Call("status")["requests"].size(), 1u);
}

// Pitfall row 6.
TEST_F(ZmqEventSourceTest, RankOfTheBatchWinsOverTheRankOfTheSocket) {
  StartSource();
  const EventEndpoints endpoints = Endpoints(engine_.Call("bind"));
  WorkerSpec spec = Spec(kWorker, {endpoints, {}});
  engine_.Call("publish", {{"events", {Store({5}, nullptr, 4)}}, {"rank", 1}});
  engine_.Call("publish", {{"events", {Store({6}, nullptr, 8)}}, {"rank", 2}});
  engine_.Call("publish", {{"events", {Store({7}, nullptr, 12)}}, {"rank", nullptr}});
  Register(spec);
  ASSERT_TRUE(Eventually([&] { return InState(FeedState::kLive); }));
  EXPECT_EQ(IndexBlocks(kWorker, 0), 1u);
  EXPECT_EQ(IndexBlocks(kWorker, 1), 1u);
  EXPECT_EQ(Counters().skipped[static_cast<size_t>(SkipReason::kRankOutOfRange)], 1u);
  EXPECT_TRUE(InState(FeedState::kNone, kWorker, 1));
}

TEST_F(ZmqEventSourceTest, InvalidEndpointIsShownAndHarmsNobodyElse) {
  StartSource();
  Register(Spec(WorkerId{2}, {{.live = "tcp://*:5557", .replay = ""}}));
  Register(Spec(WorkerId{3}, {{.live = "no endpoint at all", .replay = ""}}));
  const EventEndpoints good = Endpoints(engine_.Call("bind"));
  engine_.Call("fill", {{"first", 1}, {"count", 1}});
  Register(Spec(WorkerId{4}, {{.live = good.live, .replay = "nonsense://"}}));
  Register(Spec(WorkerId{6}, {good}));
  ASSERT_TRUE(Eventually([&] { return IndexBlocks(WorkerId{6}) == 1; }));
  for (const uint64_t id : {2, 3}) {
    ASSERT_TRUE(Eventually([&] { return InState(FeedState::kDegraded, WorkerId{id}); }));
    EXPECT_NE(Report(WorkerId{id})->detail.find("live endpoint"), std::string::npos)
        << Report(WorkerId{id})->detail;
  }
  ASSERT_TRUE(Eventually([&] { return InState(FeedState::kDegraded, WorkerId{4}); }));
  EXPECT_NE(Report(WorkerId{4})->detail.find("replay endpoint"), std::string::npos)
      << Report(WorkerId{4})->detail;
  EXPECT_TRUE(source_->InitialRecoveryDone());
}

TEST_F(ZmqEventSourceTest, MessagesThatAreNoEventsAreCountedAndTheStreamGoesOn) {
  StartSource();
  Register(Spec(kWorker, {Endpoints(engine_.Call("bind"))}));
  ASSERT_EQ(engine_.Call("wait_subscribed")["subscribed"], 1);
  engine_.Call("fill", {{"first", 1}, {"count", 1}, {"send", true}});
  // What follows is in no history that a replay could bring.
  ASSERT_TRUE(Eventually([&] { return IndexBlocks() == 1 && InState(FeedState::kLive); }));
  engine_.Call("send_raw", {{"frames", {"", "00"}}});
  engine_.Call("send_raw", {{"frames", {"", "", "", "", "", "", "", "", "", "", "", "", "00"}}});
  ASSERT_TRUE(Eventually([&] { return Counters().messages == 3; }));
  EXPECT_EQ(IndexBlocks(), 1u);
  EXPECT_TRUE(InState(FeedState::kLive));
  // A batch that cannot be read may have been a removal, and nobody can tell.
  engine_.Call("send_raw", {{"frames", {"", "0000000000000001", "93ff"}}});
  ASSERT_TRUE(Eventually([&] { return IndexBlocks() == 0 && InState(FeedState::kDegraded); }));
  EXPECT_EQ(Counters().skipped[static_cast<size_t>(SkipReason::kBadFraming)], 2u);
  EXPECT_EQ(Counters().skipped[static_cast<size_t>(SkipReason::kBadEnvelope)], 1u);
  engine_.Call("set", {{"sequence", 2}});
  engine_.Call("fill", {{"first", 2}, {"count", 1}, {"send", true}});
  ASSERT_TRUE(Eventually([&] { return IndexBlocks() == 1; }));
}

TEST_F(ZmqEventSourceTest, UnreachableEngineIsConnectingAndStopStaysQuick) {
  StartSource();
  EngineProcess gone;
  const EventEndpoints endpoints = Endpoints(gone.Call("bind"));
  gone.Kill();
  for (uint64_t id = 1; id <= 20; ++id) Register(Spec(WorkerId{id}, {endpoints}));
  ASSERT_TRUE(Eventually([&] { return monitor_.Reports().size() == 20; }));
  EXPECT_TRUE(InState(FeedState::kConnecting));
  EXPECT_FALSE(source_->InitialRecoveryDone());
  const auto before = std::chrono::steady_clock::now();
  source_->Stop();
  EXPECT_LT(std::chrono::steady_clock::now() - before, milliseconds(1000));
}

TEST_F(ZmqEventSourceTest, NothingIsAppliedAfterStop) {
  StartSource();
  Register(Spec(kWorker, {Endpoints(engine_.Call("bind"))}));
  ASSERT_EQ(engine_.Call("wait_subscribed")["subscribed"], 1);
  engine_.Call("fill", {{"first", 1}, {"count", 2000}, {"send", true}});
  source_->Stop();
  const uint64_t blocks = IndexBlocks();
  engine_.Call("fill", {{"first", 2001}, {"count", 100}, {"send", true}});
  EXPECT_EQ(IndexBlocks(), blocks);
}

TEST_F(ZmqEventSourceTest, ExtremesOfTheConfigurationWork) {
  ZmqEventSourceConfig config;
  config.heartbeat_interval = milliseconds(0);
  config.heartbeat_timeout = milliseconds(86'400'000);
  config.replay_timeout = milliseconds(86'400'000);
  config.reconnect_max = milliseconds(86'400'000);
  source_ = std::make_unique<ZmqEventSource>(config, &router_, &monitor_, &SteadyClock());
  ASSERT_TRUE(source_->Start().ok());
  const Json bound = engine_.Call("bind");
  engine_.Call("fill", {{"first", 1}, {"count", 3}});
  Register(Spec(kWorker, {Endpoints(bound)}));
  ASSERT_TRUE(Eventually([&] { return IndexBlocks() == 3 && InState(FeedState::kLive); }));
}

// Pitfall row 15.
TEST_F(ZmqEventSourceTest, ReannouncedPrefixNeedsASecondRemovalOnlyIfStoresAreCounted) {
  const Json bound = engine_.Call("bind");
  const Json prefix = Store({1, 2}, nullptr, 4);
  engine_.Call("publish", {{"events", {prefix, prefix, Json{{"remove", {1, 2}}}}}});
  engine_.Call("publish", {{"events", {Store({3}, nullptr, 100)}}});
  for (const auto& [counting, blocks] :
       {std::pair(StoreCounting::kCounted, 3u), std::pair(StoreCounting::kSet, 1u)}) {
    const WorkerId id{blocks};
    ZmqEventSourceConfig config;
    config.store_counting = counting;
    source_ = std::make_unique<ZmqEventSource>(config, &router_, &monitor_, &SteadyClock());
    ASSERT_TRUE(source_->Start().ok());
    Register(Spec(id, {Endpoints(bound)}));
    ASSERT_TRUE(Eventually([&] { return InState(FeedState::kLive, id); }));
    EXPECT_EQ(IndexBlocks(id), blocks);
  }
}

TEST_F(ZmqEventSourceTest, BadConfigurationIsRefusedByName) {
  ZmqEventSourceConfig config;
  config.threads = 65;
  ZmqEventSource too_many(config, &router_, &monitor_, &SteadyClock());
  const absl::Status status = too_many.Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.ToString().find("65"), std::string::npos);
  config = {};
  config.replay_timeout = milliseconds(0);
  ZmqEventSource no_timeout(config, &router_, &monitor_, &SteadyClock());
  EXPECT_EQ(no_timeout.Start().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kvrouter
