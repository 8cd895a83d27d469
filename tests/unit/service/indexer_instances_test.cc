#include "service/indexer_instances.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "service_fixture.h"

namespace kvrouter {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

InstanceRank ARank(uint64_t instance, uint32_t dp_rank = 0) {
  return {.instance = WorkerId{instance},
          .dp_rank = dp_rank,
          .model_name = "default",
          .block_size_tokens = kBlockTokens,
          .endpoints = {.live = "tcp://w:" + std::to_string(5000 + dp_rank), .replay = ""}};
}

std::string Text(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

TEST(IndexerInstancesTest, AnInstanceHasNoAddressAndIsNeverPicked) {
  Fleet fleet(0);
  ASSERT_TRUE(RegisterInstanceRank(&fleet.registry, ARank(7)).ok());
  const WorkerSpec spec = *fleet.registry.Find(WorkerId{7});
  EXPECT_EQ(spec.address, "");
  EXPECT_TRUE(spec.draining);
  EXPECT_FALSE(fleet.service.Route(fleet.ARequest("r")).ok());
}

TEST(IndexerInstancesTest, RanksWidenTheInstance) {
  Fleet fleet(0);
  for (const uint32_t rank : {3u, 1u, 4u})
    ASSERT_TRUE(RegisterInstanceRank(&fleet.registry, ARank(7, rank)).ok());
  const WorkerSpec spec = *fleet.registry.Find(WorkerId{7});
  EXPECT_EQ(spec.dp_start_rank, 1u);
  EXPECT_EQ(spec.dp_size, 4u);
  EXPECT_EQ(spec.events.size(), 3u);
  const absl::Status far = RegisterInstanceRank(&fleet.registry, ARank(7, 1025));
  EXPECT_EQ(far.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Text(far), HasSubstr("makes 1025 ranks, limit 1024"));
  EXPECT_EQ(RegisterInstanceRank(&fleet.registry, ARank(7, UINT32_MAX)).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*fleet.registry.Find(WorkerId{7}), spec) << "a refusal changes nothing";
}

TEST(IndexerInstancesTest, WhatContradictsTheRecordIsAConflict) {
  Fleet fleet(1);
  ASSERT_TRUE(RegisterInstanceRank(&fleet.registry, ARank(7)).ok());
  const auto refused = [&](const InstanceRank& rank) {
    return RegisterInstanceRank(&fleet.registry, rank).code() ==
           absl::StatusCode::kFailedPrecondition;
  };
  EXPECT_TRUE(refused(ARank(7))) << "the rank has a socket";
  InstanceRank other = ARank(7, 1);
  other.model_name = "other";
  EXPECT_TRUE(refused(other));
  other = ARank(7, 1);
  other.block_size_tokens = 8;
  EXPECT_TRUE(refused(other));
  EXPECT_TRUE(refused(ARank(1, 1))) << "worker 1 was declared with one rank";
  other = ARank(8);
  other.block_size_tokens = 8;
  EXPECT_TRUE(refused(other)) << "the partition has another block size";
  EXPECT_EQ(fleet.registry.Refused()[static_cast<size_t>(ErrorReason::kBlockSizeConflict)], 2u);
}

TEST(IndexerInstancesTest, UnregisteringUndoesRegistering) {
  Fleet fleet(1);
  const WorkerSpec before = *fleet.registry.Find(WorkerId{1});
  ASSERT_TRUE(RegisterInstanceRank(&fleet.registry, ARank(1)).ok());
  EXPECT_FALSE(fleet.registry.Find(WorkerId{1})->draining) << "it serves as before";
  ASSERT_TRUE(RegisterInstanceRank(&fleet.registry, ARank(7)).ok());
  ASSERT_TRUE(RegisterInstanceRank(&fleet.registry, ARank(7, 1)).ok());
  const auto unregister = [&](uint64_t id, std::optional<uint32_t> rank = {}) {
    return UnregisterInstance(&fleet.registry,
                              {.instance = WorkerId{id}, .model_name = "default", .dp_rank = rank})
        .code();
  };
  EXPECT_EQ(unregister(1), absl::StatusCode::kOk);
  EXPECT_EQ(*fleet.registry.Find(WorkerId{1}), before);
  EXPECT_EQ(unregister(1), absl::StatusCode::kNotFound) << "no socket is left to take";
  EXPECT_EQ(unregister(7, 0), absl::StatusCode::kOk);
  EXPECT_EQ(unregister(7, 0), absl::StatusCode::kNotFound);
  EXPECT_EQ(fleet.registry.Find(WorkerId{7})->events.size(), 1u);
  EXPECT_EQ(unregister(7), absl::StatusCode::kOk);
  EXPECT_FALSE(fleet.registry.Find(WorkerId{7}).has_value());
  EXPECT_EQ(
      UnregisterInstance(&fleet.registry, {.instance = WorkerId{1}, .model_name = "other"}).code(),
      absl::StatusCode::kNotFound);
}

TEST(IndexerInstancesTest, AnAddressMakesItServeAndADrainedWorkerStaysDrained) {
  Fleet fleet(0);
  ASSERT_TRUE(RegisterInstanceRank(&fleet.registry, ARank(7)).ok());
  WorkerPatch patch;
  patch.draining = false;
  EXPECT_FALSE(fleet.registry.Update(WorkerId{7}, patch).ok()) << "nobody could be sent there";
  WorkerSpec spec = *fleet.registry.Find(WorkerId{7});
  spec.address = "http://w:8000";
  spec.draining = false;
  EXPECT_FALSE(fleet.registry.Register(spec)->draining);
  ASSERT_TRUE(fleet.registry.Drain(WorkerId{7}).ok());
  EXPECT_TRUE(fleet.registry.Register(spec)->draining) << "a timer must not undo a drain";
}

TEST(IndexerInstancesTest, ASocketThatWasTakenAwayIsNotListedUntilItsSourceHasClosedIt) {
  WorkerSpec spec;
  spec.id = WorkerId{7};
  FeedReport feed{
      .target = {WorkerId{7}, 0}, .state = FeedState::kLive, .detail = "", .counters = {}};
  const std::vector<WorkerSpec> workers = {spec};
  const auto count = [&] { return ListInstances(workers, std::vector{feed}).size(); };
  EXPECT_EQ(count(), 0u) << "the socket's last report";
  feed.source = FeedSource::kPublished;
  EXPECT_EQ(count(), 1u) << "a stream needs no socket";
}

TEST(IndexerInstancesTest, StatusIsTheWorstOfTheListeners) {
  Fleet fleet(0);
  for (const uint32_t rank : {0u, 1u})
    ASSERT_TRUE(RegisterInstanceRank(&fleet.registry, ARank(7, rank)).ok());
  ASSERT_TRUE(fleet.registry.Register(AWorker(8)).ok());
  const std::vector<WorkerSpec> workers = fleet.registry.List();
  const auto list = [&](std::vector<FeedReport> feeds) { return ListInstances(workers, feeds); };
  EXPECT_EQ(list({}).size(), 1u) << "worker 8 has no feed, so it is no instance";
  EXPECT_EQ(list({})[0].status, ListenerStatus::kPending);
  const FeedReport live{
      .target = {WorkerId{7}, 0}, .state = FeedState::kLive, .detail = "", .counters = {}};
  FeedReport degraded = live;
  degraded.target.dp_rank = 1;
  degraded.state = FeedState::kDegraded;
  degraded.detail = "a gap";
  const std::vector<Instance> active = list({live, degraded});
  EXPECT_EQ(active[0].status, ListenerStatus::kActive);
  EXPECT_EQ(active[0].listeners[1].last_error, "a gap");
  degraded.state = FeedState::kRecovering;
  EXPECT_EQ(list({live, degraded})[0].status, ListenerStatus::kPending);
  FeedReport stream = live;
  stream.target = {WorkerId{8}, 0};
  stream.source = FeedSource::kPublished;
  const std::vector<Instance> both = list({live, stream});
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[1].listeners[0].endpoint, "") << "its events come on a stream of a door";
}

}  // namespace
}  // namespace kvrouter
