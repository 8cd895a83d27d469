#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <vector>

#include "kvrouter/error.h"
#include "kvrouter/router.h"
#include "support/core_builders.h"

namespace kvrouter {
namespace {

using namespace testing;  // NOLINT: the builders

class RouterWorkersTest : public ::testing::Test {
 protected:
  absl::Status Upsert(const WorkerSpec& spec) { return router_.UpsertWorker(spec); }
  void Cache(const std::vector<TokenId>& tokens, Target target, uint64_t incarnation = 1) {
    ASSERT_EQ(router_.Apply(StoredEvent(tokens, target, incarnation)).status, ApplyStatus::kOk);
  }
  uint64_t HolderBlocks() const { return router_.Snapshot().at(0).index_holder_blocks; }

  Router router_{RouterConfig{}, nullptr};
  const std::vector<TokenId> prompt_ = TokensFrom(0, 64);
};

// B02: one worker's eviction must not take the others' entries, nor counts below zero.
TEST_F(RouterWorkersTest, B02_RemovalTakesOnlyTheSendersShare) {
  ASSERT_TRUE(Upsert(AWorker(1)).ok());
  ASSERT_TRUE(Upsert(AWorker(2)).ok());
  const auto abc = TokensFrom(0, 48);
  Cache(abc, TargetOf(1));
  Cache(abc, TargetOf(2));
  const auto removed = AnEvent(TargetOf(1), Removed{{EngineHashesOf(abc)[1]}});
  EXPECT_EQ(router_.Apply(removed).status, ApplyStatus::kOk);
  EXPECT_EQ(OverlapOf(router_, abc, TargetOf(1)), 1u);
  EXPECT_EQ(OverlapOf(router_, abc, TargetOf(2)), 3u);
  EXPECT_EQ(router_.Apply(removed).status, ApplyStatus::kBlockNotFound);
  EXPECT_EQ(LoadOf(router_, TargetOf(1))->index_blocks, 2u);
  EXPECT_TRUE(router_.RemoveWorker(WorkerId{1}));
  EXPECT_EQ(router_.Apply(removed).status, ApplyStatus::kUnknownWorker);
  EXPECT_EQ(OverlapOf(router_, abc, TargetOf(2)), 3u);
  EXPECT_EQ(HolderBlocks(), 3u);
  EXPECT_EQ(LoadOf(router_, TargetOf(2))->index_blocks, 3u);
}

// B03: a cleared cache is empty, and stores that build on it are refused.
TEST_F(RouterWorkersTest, B03_ClearedMeansEmpty) {
  ASSERT_TRUE(Upsert(AWorker(1)).ok());
  ASSERT_TRUE(Upsert(AWorker(2)).ok());
  const auto ab = TokensFrom(0, 32);
  Cache(ab, TargetOf(1));
  Cache(ab, TargetOf(2));
  KvEvent cleared = AnEvent(TargetOf(1), Cleared{});
  cleared.tier = StorageTier::kHostPinned;  // applies whatever the tier
  EXPECT_EQ(router_.Apply(cleared).status, ApplyStatus::kOk);
  EXPECT_EQ(OverlapOf(router_, ab, TargetOf(1)), 0u);
  EXPECT_EQ(OverlapOf(router_, ab, TargetOf(2)), 2u);
  KvEvent child = StoredEvent(ab, TargetOf(1));
  auto& stored = std::get<Stored>(child.data);
  stored.parent = stored.blocks[0].engine_hash;
  stored.blocks.erase(stored.blocks.begin());
  EXPECT_EQ(router_.Apply(child).status, ApplyStatus::kParentBlockNotFound);
  Cache(ab, TargetOf(1));
  EXPECT_EQ(OverlapOf(router_, ab, TargetOf(1)), 2u);
  // An idle engine may never say so: registering a new life clears too.
  ASSERT_TRUE(Upsert(AWorker(1, 2)).ok());
  EXPECT_EQ(OverlapOf(router_, ab, TargetOf(1)), 0u);
  EXPECT_EQ(OverlapOf(router_, ab, TargetOf(2)), 2u);
}

// B16: what is still in the pipe when a worker leaves must not bring it back.
TEST_F(RouterWorkersTest, B16_LateEventsOfADepartedWorkerAreDropped) {
  ASSERT_TRUE(Upsert(AWorker(1)).ok());
  ASSERT_TRUE(Upsert(AWorker(2)).ok());
  const auto hundred = TokensFrom(0, 1600);
  Cache(hundred, TargetOf(1));
  EXPECT_TRUE(router_.RemoveWorker(WorkerId{1}));
  for (TokenId i = 0; i < 50; ++i) {
    const auto late = StoredEvent(TokensFrom(i * 1000, 160), TargetOf(1));
    EXPECT_EQ(router_.Apply(late).status, ApplyStatus::kUnknownWorker);
  }
  EXPECT_EQ(HolderBlocks(), 0u);
  EXPECT_EQ(router_.Snapshot()[0].index_unique_blocks, 0u);
  for (int i = 0; i < 20; ++i) {
    const auto decision = Decide(router_, ARequest(hundred));
    EXPECT_EQ(decision.target, TargetOf(2));
    EXPECT_EQ(decision.candidates.size(), 1u);
    EXPECT_FALSE(decision.best_overlap_target.has_value());
  }
  EXPECT_FALSE(LoadOf(router_, TargetOf(1)).has_value());
  EXPECT_FALSE(router_.RemoveWorker(WorkerId{1}));

  ASSERT_TRUE(Upsert(AWorker(1, 2)).ok());
  EXPECT_EQ(OverlapOf(router_, hundred, TargetOf(1)), 0u) << "a new life starts empty";
  EXPECT_EQ(router_.Apply(StoredEvent(hundred, TargetOf(1), 1)).status,
            ApplyStatus::kStaleIncarnation);
  EXPECT_EQ(OverlapOf(router_, hundred, TargetOf(1)), 0u);
  Cache(hundred, TargetOf(1), 2);
  EXPECT_EQ(OverlapOf(router_, hundred, TargetOf(1)), 100u);
}

// B54: a record replaced in place counts at once.
TEST_F(RouterWorkersTest, B54_ReplacedRecordTakesEffectWithTheNextReply) {
  WorkerSpec worker = AWorker(1);
  ASSERT_TRUE(Upsert(worker).ok());
  Cache(prompt_, TargetOf(1));
  const auto before = Decide(router_, ARequest(prompt_));
  worker.address = "http://moved";
  ASSERT_TRUE(Upsert(worker).ok());
  auto decision = Decide(router_, ARequest(prompt_));
  EXPECT_EQ(decision.address, "http://moved");
  EXPECT_EQ(decision.overlap_blocks, 4u) << "same life: its cache stays";
  EXPECT_TRUE(router_.IsLive(before.booking)) << "and its requests";

  worker.dp_size = 2;
  ASSERT_TRUE(Upsert(worker).ok());
  decision = Decide(router_, ARequest(prompt_));
  EXPECT_EQ(decision.candidate_count, 2u);

  worker.block_size_tokens = 32;
  ASSERT_TRUE(Upsert(worker).ok());
  decision = Decide(router_, ARequest(prompt_));
  EXPECT_EQ(decision.block_size_tokens, 32u);
  EXPECT_EQ(decision.isl_blocks, 2u);
  EXPECT_EQ(decision.best_overlap_blocks, 0);
  EXPECT_EQ(HolderBlocks(), 0u) << "blocks of the old size are gone";
}

TEST_F(RouterWorkersTest, B54_RemoveThenAddEndsAsAnUpdateDoes) {
  WorkerSpec worker = AWorker(1);
  ASSERT_TRUE(Upsert(worker).ok());
  router_.RemoveWorker(worker.id);
  worker.incarnation = Incarnation{2};
  worker.address = "http://moved";
  worker.dp_size = 2;
  worker.block_size_tokens = 32;
  ASSERT_TRUE(Upsert(worker).ok());
  const auto decision = Decide(router_, ARequest(prompt_));
  EXPECT_EQ(decision.address, "http://moved");
  EXPECT_EQ(decision.incarnation, Incarnation{2});
  EXPECT_EQ(decision.candidate_count, 2u);
  EXPECT_EQ(decision.block_size_tokens, 32u);
}

TEST_F(RouterWorkersTest, AnotherBlockSizeIsRefusedWhileOthersHaveTheFirst) {
  ASSERT_TRUE(Upsert(AWorker(1)).ok());
  WorkerSpec other = AWorker(2);
  other.block_size_tokens = 32;
  const auto status = Upsert(other);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReasonOf(status), ErrorReason::kBlockSizeConflict);
  ASSERT_TRUE(Upsert(AWorker(2)).ok());
  Cache(prompt_, TargetOf(2));
  other.address = "http://moved";
  EXPECT_EQ(ErrorReasonOf(Upsert(other)), ErrorReason::kBlockSizeConflict);
  EXPECT_EQ(Decide(router_, ARequest(prompt_)).address, "http://worker-2") << "old record stays";
  EXPECT_EQ(OverlapOf(router_, prompt_, TargetOf(2)), 4u);
}

TEST_F(RouterWorkersTest, AnEmptyPartitionTakesTheBlockSizeOfItsNextFirstWorker) {
  ASSERT_TRUE(Upsert(AWorker(1)).ok());
  router_.RemoveWorker(WorkerId{1});
  WorkerSpec other = AWorker(2);
  other.block_size_tokens = 32;
  ASSERT_TRUE(Upsert(other).ok());
  EXPECT_EQ(Decide(router_, ARequest(prompt_)).block_size_tokens, 32u);
}

TEST_F(RouterWorkersTest, NamingIsThatOfThePartitionsWorkers) {
  EXPECT_EQ(ErrorReasonOf(router_.Naming("default", "default").status()),
            ErrorReason::kUnknownPartition);
  WorkerSpec spec = AWorker(1);
  spec.block_size_tokens = 32;
  spec.is_eagle = true;
  ASSERT_TRUE(Upsert(spec).ok());
  const auto naming = router_.Naming("default", "default");
  ASSERT_TRUE(naming.ok());
  EXPECT_EQ(*naming, (BlockNaming{.block_size_tokens = 32, .is_eagle = true}));
}

TEST_F(RouterWorkersTest, ANewIncarnationStartsEmptyAndAnOlderOneIsRefused) {
  ASSERT_TRUE(Upsert(AWorker(1, 5)).ok());
  Cache(prompt_, TargetOf(1), 5);
  const auto decision = Decide(router_, ARequest(prompt_));
  ASSERT_TRUE(Upsert(AWorker(1, 6)).ok());
  EXPECT_EQ(OverlapOf(router_, prompt_, TargetOf(1)), 0u);
  EXPECT_FALSE(router_.IsLive(decision.booking));
  EXPECT_FALSE(router_.Finish(decision.booking, {})) << "releases of the old life are void";
  ExpectIdle(router_);
  const auto status = Upsert(AWorker(1, 5));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReasonOf(status), ErrorReason::kIncarnationConflict);
  EXPECT_EQ(Decide(router_, ARequest(prompt_)).incarnation, Incarnation{6});
}

TEST_F(RouterWorkersTest, AnOlderLifeCannotSlipInThroughAnotherPartition) {
  ASSERT_TRUE(Upsert(AWorker(1, 5)).ok());
  WorkerSpec moved = AWorker(1, 4);
  moved.model_name = "other";
  EXPECT_EQ(ErrorReasonOf(Upsert(moved)), ErrorReason::kIncarnationConflict);
}

TEST_F(RouterWorkersTest, VanishedRanksLoseTheirBlocksAndBookings) {
  WorkerSpec worker = AWorker(1);
  worker.dp_size = 3;
  ASSERT_TRUE(Upsert(worker).ok());
  for (uint32_t rank = 0; rank < 3; ++rank) Cache(prompt_, TargetOf(1, rank));
  RouteRequest request = ARequest(prompt_);
  std::vector<BookingId> bookings;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    request.pinned = {.worker = WorkerId{1}, .dp_rank = rank};
    bookings.push_back(Decide(router_, request).booking);
  }
  worker.dp_start_rank = 1;  // ranks 1 and 2 stay
  worker.dp_size = 2;
  ASSERT_TRUE(Upsert(worker).ok());
  EXPECT_FALSE(router_.IsLive(bookings[0]));
  EXPECT_TRUE(router_.IsLive(bookings[1]));
  EXPECT_TRUE(router_.IsLive(bookings[2]));
  EXPECT_EQ(OverlapOf(router_, prompt_, TargetOf(1, 0)), 0u);
  EXPECT_EQ(OverlapOf(router_, prompt_, TargetOf(1, 2)), 4u);
  EXPECT_EQ(router_.Apply(StoredEvent(prompt_, TargetOf(1, 0))).status,
            ApplyStatus::kUnknownWorker);
  EXPECT_EQ(LoadOf(router_, TargetOf(1, 2))->active_requests, 1u);
  EXPECT_FALSE(LoadOf(router_, TargetOf(1, 0)).has_value());
}

TEST_F(RouterWorkersTest, EventsOfUnknownRanksAndWorkersAreRefused) {
  WorkerSpec worker = AWorker(1);
  worker.dp_start_rank = 2;
  ASSERT_TRUE(Upsert(worker).ok());
  EXPECT_EQ(router_.Apply(StoredEvent(prompt_, TargetOf(1, 2))).status, ApplyStatus::kOk);
  EXPECT_EQ(router_.Apply(StoredEvent(prompt_, TargetOf(1, 1))).status,
            ApplyStatus::kUnknownWorker);
  EXPECT_EQ(router_.Apply(StoredEvent(prompt_, TargetOf(1, 3))).status,
            ApplyStatus::kUnknownWorker);
  EXPECT_EQ(router_.Apply(StoredEvent(prompt_, TargetOf(9))).status, ApplyStatus::kUnknownWorker);
  EXPECT_EQ(HolderBlocks(), 4u);
}

TEST_F(RouterWorkersTest, LowerTiersAreCountedApartFromTheDevice) {
  ASSERT_TRUE(Upsert(AWorker(1)).ok());
  KvEvent event = StoredEvent(prompt_, TargetOf(1));
  event.tier = StorageTier::kHostPinned;
  const ApplyResult result = router_.Apply(event);
  EXPECT_EQ(result.status, ApplyStatus::kOk);
  EXPECT_GT(result.blocks_stored, 0u);
  EXPECT_EQ(HolderBlocks(), 0u);
  EXPECT_EQ(router_.Snapshot().at(0).tier_blocks[1], result.blocks_stored);
  EXPECT_EQ(LoadOf(router_, TargetOf(1))->tier_blocks[1], result.blocks_stored);
}

TEST_F(RouterWorkersTest, DrainingKeepsBookingsAndTakesNoPicks) {
  ASSERT_TRUE(Upsert(AWorker(1)).ok());
  const auto before = Decide(router_, ARequest(prompt_));
  WorkerSpec draining = AWorker(1);
  draining.draining = true;
  ASSERT_TRUE(Upsert(draining).ok());
  EXPECT_EQ(ErrorReasonOf(ErrorOf(router_, ARequest(prompt_))), ErrorReason::kNoWorkers);
  EXPECT_TRUE(LoadOf(router_, TargetOf(1))->draining);
  EXPECT_TRUE(router_.Finish(before.booking, {}));
  ASSERT_TRUE(Upsert(AWorker(1)).ok());
  EXPECT_EQ(Decide(router_, ARequest(prompt_)).target, TargetOf(1));
}

TEST_F(RouterWorkersTest, ChangingPartitionIsARemovalAndAnAddition) {
  ASSERT_TRUE(Upsert(AWorker(1)).ok());
  Cache(prompt_, TargetOf(1));
  const auto booked = Decide(router_, ARequest(prompt_));
  WorkerSpec moved = AWorker(1);
  moved.model_name = "other";
  ASSERT_TRUE(Upsert(moved).ok());
  EXPECT_FALSE(router_.IsLive(booked.booking));
  EXPECT_EQ(ErrorReasonOf(ErrorOf(router_, ARequest(prompt_))), ErrorReason::kNoWorkers);
  RouteRequest request = ARequest(prompt_);
  request.model_name = "other";
  const auto decision = Decide(router_, request);
  EXPECT_EQ(decision.best_overlap_blocks, 0);
  EXPECT_EQ(HolderBlocks(), 0u);
  EXPECT_EQ(router_.Apply(StoredEvent(prompt_, TargetOf(1))).status, ApplyStatus::kOk);
  EXPECT_EQ(Decide(router_, request).overlap_blocks, 4u);
}

TEST_F(RouterWorkersTest, ARefusedMoveLeavesTheWorkerWhereItWas) {
  ASSERT_TRUE(Upsert(AWorker(1)).ok());
  WorkerSpec big = AWorker(2);
  big.model_name = "other";
  big.block_size_tokens = 32;
  ASSERT_TRUE(Upsert(big).ok());
  WorkerSpec moved = AWorker(1);
  moved.model_name = "other";
  EXPECT_EQ(ErrorReasonOf(Upsert(moved)), ErrorReason::kBlockSizeConflict);
  EXPECT_EQ(Decide(router_, ARequest(prompt_)).target, TargetOf(1));
}

TEST_F(RouterWorkersTest, PartitionsDoNotSeeEachOther) {
  ASSERT_TRUE(Upsert(AWorker(1)).ok());
  WorkerSpec other = AWorker(2);
  other.routing_group = "blue";
  ASSERT_TRUE(Upsert(other).ok());
  Cache(prompt_, TargetOf(2));
  const auto in_default = Decide(router_, ARequest(prompt_));
  EXPECT_EQ(in_default.target, TargetOf(1));
  EXPECT_EQ(in_default.candidate_count, 1u);
  EXPECT_EQ(in_default.best_overlap_blocks, 0);
  RouteRequest request = ARequest(prompt_);
  request.routing_group = "blue";
  const auto in_blue = Decide(router_, request);
  EXPECT_EQ(in_blue.target, TargetOf(2));
  EXPECT_NE(in_blue.booking, in_default.booking);
  EXPECT_TRUE(router_.Finish(in_blue.booking, {}));
  EXPECT_TRUE(router_.IsLive(in_default.booking));
  EXPECT_EQ(router_.Snapshot().size(), 2u);
}

TEST_F(RouterWorkersTest, BadRecordsAreNamed) {
  const auto refused = [&](auto change) {
    WorkerSpec spec = AWorker(1);
    change(spec);
    return ErrorReasonOf(Upsert(spec)) == ErrorReason::kInvalidRequest;
  };
  EXPECT_TRUE(refused([](WorkerSpec& w) { w.incarnation = Incarnation{0}; }));
  EXPECT_TRUE(refused([](WorkerSpec& w) { w.block_size_tokens = 0; }));
  EXPECT_TRUE(refused([](WorkerSpec& w) { w.dp_size = 0; }));
  EXPECT_TRUE(refused([](WorkerSpec& w) { w.dp_size = kMaxDpSize + 1; }));
  EXPECT_TRUE(refused([](WorkerSpec& w) { w.dp_start_rank = ~uint32_t{0}; }));
  EXPECT_TRUE(refused([](WorkerSpec& w) { w.model_name.clear(); }));
  EXPECT_TRUE(refused([](WorkerSpec& w) { w.routing_group.clear(); }));
  EXPECT_TRUE(router_.Snapshot().empty());
}

TEST_F(RouterWorkersTest, BoundsOnWorkersAndPartitionsHold) {
  RouterConfig config;
  config.max_workers = 2;
  config.max_partitions = 2;
  Router router(config, nullptr);
  const auto in_model = [](uint64_t id, const char* model) {
    WorkerSpec spec = AWorker(id);
    spec.model_name = model;
    return spec;
  };
  ASSERT_TRUE(router.UpsertWorker(in_model(1, "a")).ok());
  ASSERT_TRUE(router.UpsertWorker(in_model(2, "b")).ok());
  const auto status = router.UpsertWorker(in_model(3, "a"));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReasonOf(status), ErrorReason::kLimitReached);
  EXPECT_TRUE(router.UpsertWorker(in_model(1, "a")).ok()) << "an update needs no place";
  EXPECT_EQ(ErrorReasonOf(router.UpsertWorker(in_model(1, "c"))), ErrorReason::kLimitReached);
  RouteRequest request = ARequest(prompt_);
  request.model_name = "a";
  EXPECT_EQ(Decide(router, request).target, TargetOf(1)) << "the refused move changed nothing";
}

TEST_F(RouterWorkersTest, AnEmptyPartitionGivesItsPlaceToANewOne) {
  RouterConfig config;
  config.max_partitions = 1;
  Router router(config, nullptr);
  std::set<BookingId> seen;
  RouteRequest request = ARequest(prompt_);
  for (uint64_t i = 1; i <= 20; ++i) {
    WorkerSpec spec = AWorker(1, i);
    spec.model_name = "model-" + std::to_string(i);
    request.model_name = spec.model_name;
    ASSERT_TRUE(router.UpsertWorker(spec).ok());
    for (int n = 0; n < 3; ++n) {
      const auto booking = Decide(router, request).booking;
      for (const BookingId stale : seen) ASSERT_FALSE(router.IsLive(stale));
      ASSERT_TRUE(router.Finish(booking, {}));
      ASSERT_TRUE(seen.insert(booking).second) << "booking ids are never reused";
    }
    router.RemoveWorker(spec.id);
    EXPECT_EQ(ErrorReasonOf(ErrorOf(router, request)), ErrorReason::kNoWorkers) << "still known";
  }
}

}  // namespace
}  // namespace kvrouter
