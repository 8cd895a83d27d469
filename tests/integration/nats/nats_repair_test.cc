// The event plane over the real nats-server, with engines that can be asked for what they hold:
// whatever the broker or a slow consumer lost, the router's picture comes to be the engines' own
// again, by itself. The sizes of the long runs come from the environment: KVR_NATS_DOWN_SECONDS
// (B24) and KVR_NATS_FLOOD_EVENTS.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "integration/nats/nats_harness.h"
#include "support/sanitized.h"

namespace kvrouter {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kBlocks = 64;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Resident memory of this process.
uint64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Engines on the event plane whose histories can be asked for at any time. Thread-safe.
class Fleet final : public RankHistory {
 public:
  explicit Fleet(uint64_t workers) {
    for (uint64_t worker = 0; worker < workers; ++worker) ranks_.emplace_back(worker, 100 + worker);
  }

  // A random worker's next words.
  std::string Say() {
    MutexLock lock(mu_);
    return SayLocked(random_() % ranks_.size());
  }
  std::string Say(uint64_t worker) {
    MutexLock lock(mu_);
    return SayLocked(worker);
  }
  std::set<uint64_t> Held(uint64_t worker) const {
    MutexLock lock(mu_);
    return ranks_[worker].held();
  }

  bool Knows(const WorkerSpec&, uint32_t) const override { return true; }
  absl::StatusOr<RankPicture> Fetch(const WorkerSpec& spec, uint32_t,
                                    const std::function<bool()>&) const override {
    asked.fetch_add(1);
    RankPicture picture;
    for (const uint64_t block : Held(static_cast<uint64_t>(spec.id))) {
      picture.events.push_back(
          {.target = {spec.id, 0},
           .data = Stored{.parent = std::nullopt,
                          .blocks = {{EngineHash{block}, LocalBlockHash{block}}}}});
    }
    return picture;
  }

  mutable std::atomic<uint64_t> asked{0};

 private:
  std::string SayLocked(uint64_t worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    PlaneRank& rank = ranks_[worker];
    const uint64_t block = 1 + random_() % kBlocks;
    return rank.held().contains(block) ? rank.Remove(block) : rank.Store(block);
  }

  mutable Mutex mu_;
  std::vector<PlaneRank> ranks_ ABSL_GUARDED_BY(mu_);
  std::mt19937_64 random_ ABSL_GUARDED_BY(mu_){4711};
};

class NatsRepairTest : public NatsHarness {
 protected:
  explicit NatsRepairTest(uint64_t workers = 3) : workers_(workers), fleet_(workers) {}
  ~NatsRepairTest() override {
    if (source_) source_->Stop();
    intake_.reset();  // it asks the fleet
  }

  static PlaneIntakeConfig Quick() {
    PlaneIntakeConfig config;
    config.feed.rank.doubt_grace = milliseconds(200);
    config.feed.rank.repair = {.retry_min = milliseconds(50), .retry_max = milliseconds(500)};
    return config;
  }
  void Begin(const NatsEventSourceConfig& config, const PlaneIntakeConfig& intake = Quick()) {
    StartSource(config, intake, {&fleet_});
    for (uint64_t worker = 0; worker < workers_; ++worker) Register(worker);
  }
  bool IsTrue(uint64_t worker) {
    return InState(worker, FeedState::kLive) && Held(worker, kBlocks) == fleet_.Held(worker);
  }
  void ExpectTruth() {
    for (uint64_t worker = 0; worker < workers_; ++worker)
      EXPECT_TRUE(Eventually([&] { return IsTrue(worker); })) << worker << ": " << Detail(worker);
  }
  bool RoutesByLoad() {
    RouteRequest request;
    const std::vector<TokenId> tokens(16, 1);
    request.prompt = TokenPrompt{tokens};
    return router_.Submit(request, SteadyClock().Now()).ok();
  }

  const uint64_t workers_;
  Fleet fleet_;
};

// B24: the broker is not there when the router starts, and later is gone for longer than a limited
// number of attempts would last. Routing goes on, it is found again without a restart, and what was
// published meanwhile is known.
TEST_F(NatsRepairTest, B24BrokerAbsentAtBootOrGonePastTheRetryLimit) {
  constexpr uint64_t kAttempts = 60;
  const std::chrono::seconds down(FromEnvironment("KVR_NATS_DOWN_SECONDS", 0));
  NatsEventSourceConfig config = Config();
  config.reconnect_min = config.reconnect_max = milliseconds(50);
  Begin(config);
  const auto outlast = [&](uint64_t failed_before) {
    const auto until = std::chrono::steady_clock::now() + down;
    return Eventually(
        [&] {
          return RoutesByLoad() && source_->Read().failed_connects > failed_before + kAttempts &&
                 std::chrono::steady_clock::now() >= until;
        },
        down + std::chrono::seconds(120));
  };
  ASSERT_TRUE(outlast(0));
  EXPECT_TRUE(InState(0, FeedState::kConnecting)) << Detail(0);
  for (int i = 0; i < 100; ++i) (void)fleet_.Say();  // heard by nobody

  server_.Start();
  ASSERT_TRUE(Eventually([&] { return source_->Read().connects == 1; }));
  ExpectTruth();
  NatsPublisher publisher(server_.Url());
  ASSERT_TRUE(publisher.Connect());
  const auto publish = [&] {
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(publisher.Publish(kPlaneSubject, fleet_.Say()));
    ASSERT_TRUE(publisher.Flush());
  };
  publish();
  ExpectTruth();

  const uint64_t failed_before = source_->Read().failed_connects;
  server_.Kill();
  for (int i = 0; i < 100; ++i) (void)fleet_.Say(static_cast<uint64_t>(i) % 2);  // not worker 2
  ASSERT_TRUE(outlast(failed_before));
  server_.Start();
  ASSERT_TRUE(Eventually([&] { return source_->Read().connects == 2; }));
  ExpectTruth();  // although nobody has said anything since
  ASSERT_TRUE(Eventually([&] { return publisher.Connect(); }));
  publish();
  ExpectTruth();
}

TEST_F(NatsRepairTest, ServerStoppedAndStartedUnderLoadLosesNothingForGood) {
  server_.Start();
  Begin(Config());
  NatsPublisher publisher(server_.Url());
  ASSERT_TRUE(Eventually([&] { return publisher.Connect(); }));
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 2000; ++i) (void)publisher.Publish(kPlaneSubject, fleet_.Say());
    server_.Kill();
    for (int i = 0; i < 200; ++i) (void)publisher.Publish(kPlaneSubject, fleet_.Say());
    server_.Start();
    ASSERT_TRUE(Eventually([&] { return publisher.Connect(); }));
    for (int i = 0; i < 200; ++i) (void)publisher.Publish(kPlaneSubject, fleet_.Say());
    ASSERT_TRUE(publisher.Flush());
    ExpectTruth();
  }
  EXPECT_GE(monitor_.Totals().reconnects, 3u);
  EXPECT_GT(monitor_.Totals().replays_completed, 0u);
}

// Faster than it can be taken: memory stays bounded, what was dropped is counted, and in the end
// all is known.
TEST_F(NatsRepairTest, FloodOfASlowConsumerIsBoundedCountedAndFullyRepaired) {
  const uint64_t events = FromEnvironment("KVR_NATS_FLOOD_EVENTS", 60'000);
  server_.Start();
  PlaneIntakeConfig intake = Quick();
  intake.max_queued_messages = 1000;
  NatsEventSourceConfig config = Config();
  config.max_pending_messages = 1000;
  Begin(config, intake);
  ASSERT_TRUE(Eventually([&] { return source_->Read().connects == 1; }));
  NatsPublisher publisher(server_.Url());
  ASSERT_TRUE(Eventually([&] { return publisher.Connect(); }));
  ExpectTruth();
  const uint64_t before = ResidentBytes();
  uint64_t most = before;
  for (uint64_t i = 0; i < events; ++i) {
    ASSERT_TRUE(publisher.Publish(kPlaneSubject, fleet_.Say()));
    if (i % 1000 == 0) {
      ASSERT_LE(intake_->QueuedMessages(), 1010u);
      most = std::max(most, ResidentBytes());
    }
    if (i % 20'000 == 0) {
      ASSERT_TRUE(publisher.Flush());  // the publisher's own buffer is not what is tested
    }
  }
  ASSERT_TRUE(publisher.Flush());
  ExpectTruth();
  if (!kSanitized) {
    EXPECT_LT(most - before, 200u << 20);
  }
  EXPECT_GT(monitor_.Totals().replays_completed, 0u);
  RecordProperty("dropped", std::to_string(monitor_.Totals().live_dropped));
  RecordProperty("repairs", std::to_string(monitor_.Totals().replays_completed));
}

// The same, for certain: nothing is taken from the queue before all has been said.
TEST_F(NatsRepairTest, WhatAFullQueueDroppedIsRepaired) {
  server_.Start();
  PlaneIntakeConfig intake = Quick();
  intake.max_queued_messages = 100;
  MakeSource(Config(), intake, {&fleet_});
  for (uint64_t worker = 0; worker < workers_; ++worker) Register(worker);
  ASSERT_TRUE(source_->Start().ok());
  ASSERT_TRUE(Eventually([&] { return source_->Read().connects == 1; }));
  NatsPublisher publisher(server_.Url());
  ASSERT_TRUE(Eventually([&] { return publisher.Connect(); }));
  for (int i = 0; i < 5000; ++i)
    ASSERT_TRUE(publisher.Publish(kPlaneSubject, fleet_.Say(static_cast<uint64_t>(i) % 2)));
  ASSERT_TRUE(publisher.Flush());
  ASSERT_TRUE(Eventually([&] { return intake_->QueuedMessages() >= 100; }));
  ASSERT_TRUE(intake_->Start().ok());
  EXPECT_TRUE(Eventually([&] { return monitor_.Totals().live_dropped > 4000; }));
  ExpectTruth();
}

}  // namespace
}  // namespace kvrouter
