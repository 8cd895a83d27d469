#include "service/worker_registry.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/indexer_instances.h"
#include "service_fixture.h"

namespace kvrouter {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Writes down what it was told, and whether the core agreed at that moment.
class Diary : public WorkerListener {
 public:
  explicit Diary(const Router* router) : router_(router) {}
  void OnWorkerChanged(const WorkerSpec& spec) override {
    lines.push_back(fmt::format("changed {}@{} {}", fmt::underlying(spec.id),
                                fmt::underlying(spec.incarnation), CoreKnows(spec.id)));
  }
  void OnWorkerRemoved(WorkerId id, Incarnation incarnation) override {
    lines.push_back(fmt::format("removed {}@{} {}", fmt::underlying(id),
                                fmt::underlying(incarnation), CoreKnows(id)));
  }
  std::vector<std::string> lines;

 private:
  const char* CoreKnows(WorkerId id) const {
    for (const PartitionSnapshot& partition : router_->Snapshot()) {
      for (const TargetLoad& load : partition.loads) {
        if (load.target.worker == id) return "known";
      }
    }
    return "unknown";
  }
  const Router* router_;
};

std::string ErrorText(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

TEST(WorkerRegistryTest, HandsOutRisingIncarnations) {
  Fleet fleet(0);
  EXPECT_EQ(fleet.registry.Register(AWorker(1))->incarnation, Incarnation{1});
  EXPECT_EQ(fleet.registry.Register(AWorker(2))->incarnation, Incarnation{2});
}

TEST(WorkerRegistryTest, RepeatedRegistrationChangesNothing) {
  Fleet fleet(0);
  Diary diary(&fleet.router);
  fleet.registry.AddListener(&diary);
  const auto first = fleet.registry.Register(AWorker(1));
  const auto second = fleet.registry.Register(AWorker(1));
  EXPECT_EQ(*first, *second);
  EXPECT_THAT(diary.lines, ElementsAre("changed 1@1 known"));
}

TEST(WorkerRegistryTest, RepeatedRegistrationDoesNotEndADrain) {
  Fleet fleet(1);
  ASSERT_TRUE(fleet.registry.Drain(WorkerId{1})->draining);
  EXPECT_TRUE(fleet.registry.Register(AWorker(1))->draining);
  WorkerSpec next_life = AWorker(1);
  next_life.incarnation = Incarnation{9};
  EXPECT_FALSE(fleet.registry.Register(next_life)->draining);
}

TEST(WorkerRegistryTest, UpdateEndsADrain) {
  Fleet fleet(1);
  ASSERT_TRUE(fleet.registry.Drain(WorkerId{1}).ok());
  WorkerPatch patch;
  patch.draining = false;
  EXPECT_FALSE(fleet.registry.Update(WorkerId{1}, patch)->draining);
}

TEST(WorkerRegistryTest, OlderIncarnationIsRefusedAndTheRecordStays) {
  Fleet fleet(0);
  WorkerSpec spec = AWorker(1);
  spec.incarnation = Incarnation{7};
  ASSERT_TRUE(fleet.registry.Register(spec).ok());
  spec.incarnation = Incarnation{6};
  spec.address = "http://elsewhere:1";
  const auto refused = fleet.registry.Register(spec);
  EXPECT_EQ(ErrorReasonOf(refused.status()), ErrorReason::kIncarnationConflict);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(fleet.registry.Find(WorkerId{1})->incarnation, Incarnation{7});
  EXPECT_EQ(fleet.registry.Find(WorkerId{1})->address, AWorker(1).address);
}

// A worker that comes back must not get the number of its old life, or late events of that life
// would count.
TEST(WorkerRegistryTest, ReturningWorkerGetsANewIncarnation) {
  Fleet fleet(0);
  WorkerSpec spec = AWorker(1);
  spec.incarnation = Incarnation{7};
  ASSERT_TRUE(fleet.registry.Register(spec).ok());
  ASSERT_TRUE(fleet.registry.Remove(WorkerId{1}).ok());
  EXPECT_EQ(fleet.registry.Register(AWorker(1))->incarnation, Incarnation{8});
}

// From the snapshot of an earlier process: a router that restarts is no new life of its workers.
TEST(WorkerRegistryTest, AWorkerThatDoesNotNameItsLifeKeepsTheOneItHadOnce) {
  Fleet fleet(0);
  fleet.registry.RememberLives({{WorkerId{1}, Incarnation{7}},
                                {WorkerId{2}, Incarnation{9}},
                                {WorkerId{3}, Incarnation{4}},
                                {WorkerId{4}, Incarnation{}},
                                {WorkerId{6}, Incarnation{3}},
                                {WorkerId{5}, Incarnation{~uint64_t{0}}}});
  EXPECT_EQ(fleet.registry.Register(AWorker(1))->incarnation, Incarnation{7});
  EXPECT_EQ(fleet.registry.RegisterDeclared({.spec = AWorker(2)})->incarnation, Incarnation{9});
  WorkerSpec named = AWorker(3);
  named.incarnation = Incarnation{5};
  EXPECT_EQ(fleet.registry.Register(named)->incarnation, Incarnation{5});
  ASSERT_TRUE(
      RegisterInstanceRank(&fleet.registry, {.instance = WorkerId{6},
                                             .model_name = "default",
                                             .routing_group = "default",
                                             .block_size_tokens = kBlockTokens,
                                             .endpoints = {.live = "tcp://h:1", .replay = ""}})
          .ok());
  EXPECT_EQ(fleet.registry.Find(WorkerId{6})->incarnation, Incarnation{3}) << "the indexer's port";
  ASSERT_TRUE(fleet.registry.Remove(WorkerId{1}).ok());
  EXPECT_EQ(fleet.registry.Register(AWorker(1))->incarnation, Incarnation{10}) << "once";
  EXPECT_EQ(fleet.registry.Register(AWorker(4))->incarnation, Incarnation{11}) << "0 is no life";
  EXPECT_EQ(fleet.registry.Register(AWorker(5))->incarnation, Incarnation{12}) << "over the limit";
}

TEST(WorkerRegistryTest, SecondRemoveIsUnknown) {
  Fleet fleet(1);
  EXPECT_TRUE(fleet.registry.Remove(WorkerId{1}).ok());
  const absl::Status second = fleet.registry.Remove(WorkerId{1});
  EXPECT_EQ(second.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ErrorReasonOf(second), ErrorReason::kUnknownWorker);
  EXPECT_TRUE(fleet.registry.List().empty());
  EXPECT_EQ(ErrorReasonOf(fleet.registry.Drain(WorkerId{1}).status()), ErrorReason::kUnknownWorker);
}

TEST(WorkerRegistryTest, ListenersHearAfterTheCoreInOrder) {
  Fleet fleet(0);
  Diary diary(&fleet.router);
  fleet.registry.AddListener(&diary);
  ASSERT_TRUE(fleet.registry.Register(AWorker(5)).ok());
  ASSERT_TRUE(fleet.registry.Drain(WorkerId{5}).ok());
  ASSERT_TRUE(fleet.registry.Remove(WorkerId{5}).ok());
  EXPECT_THAT(diary.lines,
              ElementsAre("changed 5@1 known", "changed 5@1 known", "removed 5@1 unknown"));
}

TEST(WorkerRegistryTest, BlockSizeConflictKeepsTheOldRecord) {
  Fleet fleet(2);
  Diary diary(&fleet.router);
  fleet.registry.AddListener(&diary);
  WorkerPatch patch;
  patch.block_size_tokens = 32;
  const auto refused = fleet.registry.Update(WorkerId{1}, patch);
  EXPECT_EQ(ErrorReasonOf(refused.status()), ErrorReason::kBlockSizeConflict);
  EXPECT_EQ(fleet.registry.Find(WorkerId{1})->block_size_tokens, kBlockTokens);
  EXPECT_TRUE(diary.lines.empty());
}

TEST(WorkerRegistryTest, UpdateLeavesAbsentFieldsAlone) {
  Fleet fleet(1);
  WorkerPatch patch;
  patch.role = WorkerRole::kPrefill;
  patch.events = {{0, {.live = "tcp://127.0.0.1:1", .replay = "tcp://127.0.0.1:2"}}};
  WorkerSpec expected = *fleet.registry.Find(WorkerId{1});
  expected.role = WorkerRole::kPrefill;
  expected.events = *patch.events;
  EXPECT_EQ(*fleet.registry.Update(WorkerId{1}, patch), expected);
  EXPECT_EQ(*fleet.registry.Find(WorkerId{1}), expected);
}

// B54: a pod comes back under its old name with another address; the next decision must name the
// new one.
TEST(WorkerRegistryTest, B54_SameWorkerWithANewAddressIsDispatchedThere) {
  Fleet fleet(1);
  WorkerSpec moved = AWorker(1);
  moved.address = "http://10.9.9.9:8000";
  ASSERT_TRUE(fleet.registry.Register(moved).ok());
  EXPECT_EQ(fleet.service.Route(fleet.ARequest("r"))->address, moved.address);
}

TEST(WorkerRegistryTest, FullRangeIdsAreKept) {
  Fleet fleet(0);
  WorkerSpec spec = AWorker(1);
  spec.id = WorkerId{UINT64_MAX};
  spec.incarnation = Incarnation{kMaxIncarnation};
  ASSERT_TRUE(fleet.registry.Register(spec).ok());
  EXPECT_EQ(fleet.registry.List().front().id, WorkerId{UINT64_MAX});
  EXPECT_EQ(fleet.registry.Register(AWorker(2))->incarnation, Incarnation{kMaxIncarnation + 1});
}

TEST(WorkerRegistryTest, VersionMovesWithEveryChangeAndOnlyThen) {
  Fleet fleet(1);
  uint64_t version = fleet.registry.Version();
  ASSERT_TRUE(fleet.registry.Register(AWorker(1)).ok());
  EXPECT_EQ(fleet.registry.Version(), version) << "a repeated registration changes nothing";
  ASSERT_TRUE(fleet.registry.Drain(WorkerId{1}).ok());
  EXPECT_GT(fleet.registry.Version(), version);
  version = fleet.registry.Version();
  EXPECT_FALSE(fleet.registry.Remove(WorkerId{2}).ok());
  EXPECT_EQ(fleet.registry.Version(), version);
  ASSERT_TRUE(fleet.registry.Remove(WorkerId{1}).ok());
  EXPECT_GT(fleet.registry.Version(), version);
}

struct BadSpec {
  const char* what;
  void (*spoil)(WorkerSpec*);
  const char* message;
};

class WorkerSpecValidationTest : public testing::TestWithParam<BadSpec> {};

TEST_P(WorkerSpecValidationTest, NamesFieldValueAndLimit) {
  Fleet fleet(0);
  WorkerSpec spec = AWorker(1);
  GetParam().spoil(&spec);
  const auto refused = fleet.registry.Register(spec);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorReasonOf(refused.status()), ErrorReason::kInvalidRequest);
  EXPECT_THAT(ErrorText(refused.status()), HasSubstr(GetParam().message));
  EXPECT_TRUE(fleet.registry.List().empty());
}

INSTANTIATE_TEST_SUITE_P(
    Fields, WorkerSpecValidationTest,
    testing::Values(
        BadSpec{"NoAddress", [](WorkerSpec* s) { s->address.clear(); },
                "address must not be empty"},
        BadSpec{"LongAddress", [](WorkerSpec* s) { s->address.assign(1025, 'a'); },
                "address is 1025 bytes long, limit 1024"},
        BadSpec{"NoModel", [](WorkerSpec* s) { s->model_name.clear(); },
                "model_name must not be empty"},
        BadSpec{"LongGroup", [](WorkerSpec* s) { s->routing_group.assign(257, 'g'); },
                "routing_group is 257 bytes long, limit 256"},
        BadSpec{"NoBlockSize", [](WorkerSpec* s) { s->block_size_tokens = 0; },
                "block_size_tokens must be 1..65536, got 0"},
        BadSpec{"HugeBlockSize", [](WorkerSpec* s) { s->block_size_tokens = 65537; }, "got 65537"},
        BadSpec{"NoRanks", [](WorkerSpec* s) { s->dp_size = 0; }, "dp_size must be 1..1024, got 0"},
        BadSpec{"ManyRanks", [](WorkerSpec* s) { s->dp_size = 1025; }, "got 1025"},
        BadSpec{"RanksOverflow", [](WorkerSpec* s) { s->dp_start_rank = UINT32_MAX; },
                "dp_start_rank must be at most"},
        BadSpec{"HugeIncarnation", [](WorkerSpec* s) { s->incarnation = Incarnation{UINT64_MAX}; },
                "incarnation must be at most"},
        BadSpec{"EventsOfOtherRank",
                [](WorkerSpec* s) { s->events[1] = {.live = "tcp://h:1", .replay = ""}; },
                "events names dp_rank 1, outside the worker's ranks 0..0"},
        BadSpec{"EndpointWithoutScheme",
                [](WorkerSpec* s) { s->events[0] = {.live = "h:1", .replay = ""}; },
                "events[0].live must be tcp://HOST:PORT (HOST not *, PORT 1..65535) or ipc://PATH, "
                "got \"h:1\""},
        BadSpec{"ReplayOfAnotherTransport",
                [](WorkerSpec* s) { s->events[0] = {.live = "tcp://h:1", .replay = "inproc://x"}; },
                "events[0].replay must be tcp://HOST:PORT (HOST not *, PORT 1..65535) or "
                "ipc://PATH, got \"inproc://x\""},
        BadSpec{
            "ReplayWithoutLive",
            [](WorkerSpec* s) { s->events[0] = {.live = "", .replay = "tcp://h:1"}; },
            "events[0].replay is set, but live is empty: only an event plane has a use for that"}),
    [](const auto& param_info) { return std::string(param_info.param.what); });

TEST(WorkerSpecTest, EndpointsAreWhatAClientCanConnectTo) {
  const auto accepted = [](std::string endpoint) {
    WorkerSpec spec;
    spec.id = WorkerId{1};
    spec.address = "http://h:8000";
    spec.block_size_tokens = 16;
    spec.events[0] = {.live = std::move(endpoint), .replay = ""};
    return ValidateWorkerSpec(spec).ok();
  };
  for (const char* good : {"tcp://h:1", "tcp://10.0.0.1:65535", "tcp://[::1]:5557", "ipc:///tmp/x"})
    EXPECT_TRUE(accepted(good)) << good;
  for (const char* bad : {"tcp://*:5557", "tcp://:5557", "tcp://h", "tcp://h:", "tcp://h:0",
                          "tcp://h:65536", "tcp://h:-1", "tcp://h:*", "tcp://h:5557x", "tcp://",
                          "ipc://", "http://h:1", "nonsense://x"})
    EXPECT_FALSE(accepted(bad)) << bad;
}

TEST(WorkerRegistryTest, DeclaredRecordLeavesACallersOneAlone) {
  Fleet fleet(0);
  ASSERT_TRUE(fleet.registry.Register(AWorker(1)).ok());
  WorkerSpec declared = AWorker(1);
  declared.address = "http://declared:1";
  const auto answer = fleet.registry.RegisterDeclared({.spec = declared});
  EXPECT_EQ(ErrorReasonOf(answer.status()), ErrorReason::kIncarnationConflict);
  EXPECT_EQ(fleet.registry.Find(WorkerId{1})->address, AWorker(1).address);
}

TEST(WorkerRegistryTest, RemovalOfALifeSparesTheNextOne) {
  Fleet fleet(0);
  const Incarnation first = fleet.registry.RegisterDeclared({.spec = AWorker(1)})->incarnation;
  WorkerSpec callers = AWorker(1);
  callers.incarnation = Incarnation{99};
  ASSERT_TRUE(fleet.registry.Register(callers).ok());
  EXPECT_EQ(ErrorReasonOf(fleet.registry.RemoveLife(WorkerId{1}, first)),
            ErrorReason::kIncarnationConflict);
  EXPECT_TRUE(fleet.registry.RemoveLife(WorkerId{1}, Incarnation{99}).ok());
  EXPECT_EQ(ErrorReasonOf(fleet.registry.RemoveLife(WorkerId{1}, Incarnation{99})),
            ErrorReason::kUnknownWorker);
}

}  // namespace
}  // namespace kvrouter
