// Fleets: many ranks, engines that do not answer as they should, readers that are late.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "integration/zmq/raw_peer.h"
#include "integration/zmq/zmq_source_fixture.h"

namespace kvrouter {
namespace {

using std::chrono::seconds;

size_t OpenFiles() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                                           std::filesystem::directory_iterator()));
}

// Stops whoever asks for the time, if told to.
class StoppingClock : public Clock {
 public:
  MonotonicTime Now() const override {
    while (stopped_) {
      ++waiting_;
      while (stopped_) std::this_thread::sleep_for(milliseconds(1));
      --waiting_;
    }
    return SteadyClock().Now();
  }
  void Stop() { stopped_ = true; }
  void Go() { stopped_ = false; }
  int waiting() const { return waiting_; }

 private:
  std::atomic<bool> stopped_{false};
  mutable std::atomic<int> waiting_{0};
};

class ZmqFleetTest : public ZmqSourceFixture {
 protected:
  void TearDown() override {
    clock_.Go();
    source_.reset();  // before what its threads use
  }

  StoppingClock clock_;
  // Two places: were mute engines to keep theirs, others would wait for minutes.
  ReplayTurns two_turns_{
      {.max_at_once = 2, .jitter = milliseconds(20), .stalled_after = milliseconds(500)}};

  static WorkerId Id(uint64_t n) { return WorkerId{n}; }
};

// ---- Many ----

TEST_F(ZmqFleetTest, AThousandRanksEachWithSocketsOfTheirOwn) {
  constexpr uint64_t kRanks = 1000;
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < 8 * kRanks) {
    GTEST_SKIP() << "the hard limit of open files is " << limit.rlim_max;
  }
  const rlimit raised{limit.rlim_max, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &raised), 0);
  engine_.Call("fill", {{"first", 1}, {"count", 3}});
  const EventEndpoints endpoints = Endpoints(engine_.Call("bind"));
  StartSource();
  const size_t files_before = OpenFiles();  // ZMQ opens some of its own with its first socket
  for (uint64_t id = 1; id <= kRanks; ++id) Register(Spec(Id(id), {endpoints}));
  const auto all_live = [&](uint64_t blocks) {
    const auto reports = monitor_.Reports();
    return reports.size() == kRanks &&
           std::all_of(reports.begin(), reports.end(),
                       [](const FeedReport& r) { return r.state == FeedState::kLive; }) &&
           router_.Snapshot()[0].index_holder_blocks == blocks * kRanks;
  };
  ASSERT_TRUE(Eventually([&] { return all_live(3); }, seconds(120)));
  EXPECT_TRUE(source_->InitialRecoveryDone());
  EXPECT_LE(OpenFiles() - files_before, 4 * kRanks + 20);  // what a start reckons with
  engine_.Call("fill", {{"first", 4}, {"count", 1}, {"send", true}});
  ASSERT_TRUE(Eventually([&] { return all_live(4); }, seconds(60)));
  EXPECT_EQ(monitor_.Totals().gaps, 0u);
  for (uint64_t id = 1; id <= kRanks; ++id) Remove(Id(id));
  EXPECT_TRUE(Eventually([&] { return OpenFiles() <= files_before + 20; }, seconds(60)));
  EXPECT_TRUE(monitor_.Reports().empty());
}

// ---- Mute ----

// Engines whose replay endpoint is silent, answers half, drips, or refuses; their live sockets are
// fine.
struct MuteReplays {
  explicit MuteReplays(const EventEndpoints& good, const EventEndpoints& half)
      : drip(RawPeer::PortOf(good.replay), /*free_bytes=*/200) {
    endpoints = {{good.live, silent.endpoint()},
                 {half.live, half.replay},
                 {good.live, drip.endpoint()},
                 {good.live, refusing.endpoint()}};
  }
  RawPeer silent;
  RawPeer drip;
  RefusingPort refusing;
  std::vector<EventEndpoints> endpoints;
};

TEST_F(ZmqFleetTest, MuteEnginesDoNotHoldUpOthers) {
  EngineProcess half;
  half.Call("fill", {{"first", 1}, {"count", 20}});
  half.Call("set", {{"drop_reply_tail", 10}});
  engine_.Call("fill", {{"first", 1}, {"count", 20}});
  const EventEndpoints good = Endpoints(engine_.Call("bind"));
  const MuteReplays mute(good, Endpoints(half.Call("bind")));
  StartSource(/*replay_timeout=*/seconds(30), SteadyClock(), &two_turns_);
  uint64_t id = 1;
  for (int round = 0; round < 2; ++round) {
    for (const EventEndpoints& endpoints : mute.endpoints) Register(Spec(Id(id++), {endpoints}));
  }
  ASSERT_TRUE(
      Eventually([&] { return two_turns_.Read().waiting + two_turns_.Read().running == 8; }));
  Register(Spec(Id(100), {good}));
  ASSERT_TRUE(
      Eventually([&] { return InState(FeedState::kLive, Id(100)) && IndexBlocks(Id(100)) == 20; }));
  for (uint64_t m = 1; m <= 8; ++m) EXPECT_TRUE(InState(FeedState::kRecovering, Id(m))) << m;
  EXPECT_FALSE(source_->InitialRecoveryDone());
}

TEST_F(ZmqFleetTest, EachKindOfMuteEngineEndsDegradedAndGoesOnLive) {
  EngineProcess half;
  half.Call("fill", {{"first", 1}, {"count", 20}});
  half.Call("set", {{"drop_reply_tail", 10}});
  engine_.Call("fill", {{"first", 1}, {"count", 20}});
  const EventEndpoints good = Endpoints(engine_.Call("bind"));
  const MuteReplays mute(good, Endpoints(half.Call("bind")));
  StartSource(/*replay_timeout=*/milliseconds(1000));
  for (uint64_t id = 1; id <= 4; ++id) Register(Spec(Id(id), {mute.endpoints[id - 1]}));
  for (uint64_t id = 1; id <= 4; ++id) {
    EXPECT_TRUE(Eventually([&] { return InState(FeedState::kDegraded, Id(id)); })) << id;
    EXPECT_NE(Report(Id(id))->detail, "") << id;
  }
  EXPECT_TRUE(Eventually([&] { return source_->InitialRecoveryDone(); }));
  EXPECT_EQ(IndexBlocks(Id(2)), 10u);  // the half that came
  engine_.Call("fill", {{"first", 21}, {"count", 1}, {"send", true}});
  for (const uint64_t id : {1u, 3u, 4u}) {
    EXPECT_TRUE(Eventually([&] { return Overlap(TokenRun(84, 4), Id(id)) == 1; })) << id;
  }
}

// The same of live endpoints: nothing is known of such a worker, and others are as ever.
TEST_F(ZmqFleetTest, LiveEndpointsThatNeverSpeakAreConnectingAndHoldNobodyUp) {
  engine_.Call("fill", {{"first", 1}, {"count", 20}});
  const EventEndpoints good = Endpoints(engine_.Call("bind"));
  RawPeer silent;
  RawPeer drip(RawPeer::PortOf(good.live), /*free_bytes=*/0);
  RawPeer half(RawPeer::PortOf(good.live), /*free_bytes=*/70);  // the greeting, and no more
  RefusingPort refusing;
  StartSource();
  const std::vector<std::string> live = {silent.endpoint(), drip.endpoint(), half.endpoint(),
                                         refusing.endpoint()};
  for (uint64_t id = 1; id <= 4; ++id) Register(Spec(Id(id), {{live[id - 1], good.replay}}));
  Register(Spec(Id(100), {good}));
  EXPECT_TRUE(
      Eventually([&] { return InState(FeedState::kLive, Id(100)) && IndexBlocks(Id(100)) == 20; }));
  for (uint64_t id = 1; id <= 4; ++id) EXPECT_TRUE(InState(FeedState::kConnecting, Id(id))) << id;
  EXPECT_FALSE(source_->InitialRecoveryDone());
  source_->Stop();
}

// ---- Leaving ----

TEST_F(ZmqFleetTest, AWorkerThatLeavesClosesItsSocketsInTheMiddleOfAReplay) {
  const EventEndpoints good = Endpoints(engine_.Call("bind"));
  RawPeer live(RawPeer::PortOf(good.live));
  RawPeer replay;  // silent
  RawPeer never;   // no handshake
  StartSource(/*replay_timeout=*/seconds(60));
  Register(Spec(kWorker, {{live.endpoint(), replay.endpoint()}}));
  Register(Spec(Id(2), {{never.endpoint(), replay.endpoint()}}));
  ASSERT_TRUE(Eventually([&] {
    return live.open_connections() == 1 && replay.open_connections() == 1 &&
           never.open_connections() == 1 && InState(FeedState::kRecovering);
  }));
  Remove(kWorker);
  Remove(Id(2));
  EXPECT_TRUE(Eventually(
      [&] {
        return live.open_connections() + replay.open_connections() + never.open_connections() == 0;
      },
      seconds(2)));
  EXPECT_EQ(live.accepted() + replay.accepted() + never.accepted(), 3);
  EXPECT_TRUE(Eventually([&] { return source_->InitialRecoveryDone(); }));
}

// ---- Late readers ----

// 10,000 batches of 2.5 KB while nobody reads: more than every buffer on the way holds by default,
// and ROUTER drops what it cannot send.
TEST_F(ZmqFleetTest, AnAnswerThatNobodyReadsForAWhileArrivesWhole) {
  StartSource(/*replay_timeout=*/seconds(60), clock_);
  engine_.Call("fill", {{"first", 1}, {"count", 10'000}, {"block_size", 512}});
  engine_.Call("set", {{"defer_replies", true}});
  WorkerSpec spec = Spec(kWorker, {Endpoints(engine_.Call("bind"))});
  spec.block_size_tokens = 512;
  Register(spec);
  ASSERT_TRUE(Eventually([&] { return engine_.Call("status")["requests"].size() == 1; }));
  clock_.Stop();
  ASSERT_TRUE(Eventually([&] { return clock_.waiting() == 2; }));
  engine_.Call("answer_deferred");
  engine_.Call("status");
  clock_.Go();
  EXPECT_TRUE(Eventually([&] { return InState(FeedState::kLive); }, seconds(60)));
  EXPECT_EQ(IndexBlocks(), 10'000u);
  EXPECT_EQ(engine_.Call("status")["requests"].size(), 1u);  // nothing had to be asked for again
}

TEST_F(ZmqFleetTest, LiveBatchesThatNobodyReadsForAWhileAreNotLost) {
  StartSource(seconds(60), clock_);
  // Too few for those that we do not take; it is we who have to take them, however slowly.
  engine_.Call("set", {{"live_hwm", 4000}, {"live_patience_seconds", 5}});
  WorkerSpec spec = Spec(kWorker, {Endpoints(engine_.Call("bind"))});
  spec.block_size_tokens = 512;
  Register(spec);
  ASSERT_TRUE(Eventually([&] { return InState(FeedState::kLive); }));
  ASSERT_EQ(engine_.Call("wait_subscribed")["subscribed"], 1);
  clock_.Stop();
  ASSERT_TRUE(Eventually([&] { return clock_.waiting() == 2; }));
  engine_.Call("fill", {{"first", 1}, {"count", 10'000}, {"block_size", 512}, {"send", true}});
  clock_.Go();
  EXPECT_TRUE(Eventually([&] { return IndexBlocks() == 10'000; }, seconds(60)));
  EXPECT_EQ(Counters().gaps, 0u);
  EXPECT_TRUE(InState(FeedState::kLive));
}

// ---- Asking ----

// Pitfall rows 38 and 39: a REQ socket would read one reply of many, and an engine that finds no
// delimiter says nothing (this one notes -1).
TEST_F(ZmqFleetTest, Row38And39TheRequestHasItsDelimiterAndEveryReplyIsRead) {
  StartSource(seconds(30));
  engine_.Call("fill", {{"first", 1}, {"count", 50}});
  Register(Spec(kWorker, {Endpoints(engine_.Call("bind"))}));
  ASSERT_TRUE(Eventually([&] { return IndexBlocks() == 50 && InState(FeedState::kLive); }));
  EXPECT_EQ(engine_.Call("status")["requests"], Json::array({0}));
}

// The engine replays on the thread that publishes: it is asked once per gap, however many batches
// follow the gap before it answers.
TEST_F(ZmqFleetTest, OneGapIsOneRequest) {
  StartSource(seconds(30));
  Register(Spec(kWorker, {Endpoints(engine_.Call("bind"))}));
  ASSERT_EQ(engine_.Call("wait_subscribed")["subscribed"], 1);
  ASSERT_TRUE(Eventually([&] { return InState(FeedState::kLive); }));
  engine_.Call("fill", {{"first", 1}, {"count", 5}, {"send", true}});
  ASSERT_TRUE(Eventually([&] { return IndexBlocks() == 5; }));
  engine_.Call("set", {{"defer_replies", true}});
  engine_.Call("fill", {{"first", 6}, {"count", 3}});  // lost on the way
  engine_.Call("fill", {{"first", 9}, {"count", 1}, {"send", true}});
  ASSERT_TRUE(Eventually([&] { return engine_.Call("status")["requests"].size() == 2; }));
  for (uint64_t first = 10; first < 30; first += 2) {
    engine_.Call("fill", {{"first", first}, {"count", 1}});
    engine_.Call("fill", {{"first", first + 1}, {"count", 1}, {"send", true}});
  }
  ASSERT_TRUE(Eventually([&] { return Counters().gaps == 11; }));
  engine_.Call("answer_deferred");
  ASSERT_TRUE(Eventually([&] { return IndexBlocks() == 29 && InState(FeedState::kLive); }));
  EXPECT_EQ(engine_.Call("status")["requests"], Json({0, 4}));
  EXPECT_EQ(Counters().replays_started, 2u);
}

}  // namespace
}  // namespace kvrouter
