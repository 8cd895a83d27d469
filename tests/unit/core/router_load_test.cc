#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <vector>

#include "kvrouter/router.h"
#include "support/core_builders.h"

namespace kvrouter {
namespace {

using namespace testing;  // NOLINT: the builders
using std::chrono::seconds;

// B27: booked after the choice, a burst sees one snapshot and all goes to one worker.
TEST(RouterLoadTest, B27_ABurstSpreadsEvenly) {
  RecordingSink sink;
  Router router(RouterConfig{}, &sink);
  for (uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(router.UpsertWorker(AWorker(id)).ok());
  {
    std::vector<std::jthread> threads;
    for (TokenId t = 0; t < 8; ++t) {
      threads.emplace_back([&router, t] {
        for (TokenId i = 0; i < 25; ++i) {
          const auto tokens = TokensFrom((t * 25 + i) * 10'000, 320);
          EXPECT_TRUE(router.Submit(ARequest(tokens), {}).ok());
        }
      });
    }
  }
  std::map<Target, int> counts;
  for (const auto& decision : sink.Decisions()) ++counts[decision.target];
  ASSERT_EQ(counts.size(), 4u);
  for (const auto& [target, count] : counts) EXPECT_EQ(count, 50);
}

// B36: every order of the calls is defined, and nothing is left behind.
TEST(RouterLoadTest, B36_AnyOrderOfReleasesLeavesNothing) {
  Router router(RouterConfig{}, nullptr);
  for (uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(router.UpsertWorker(AWorker(id)).ok());
  const auto tokens = TokensFrom(0, 160);
  const RouteRequest request = ARequest(tokens);
  for (int round = 0; round < 20'000; ++round) {
    const MonotonicTime now = std::chrono::milliseconds(round);
    const auto first = Decide(router, request, now);
    ASSERT_TRUE(router.Finish(first.booking, now)) << "free without prefill done";
    const auto second = Decide(router, request, now);
    ASSERT_TRUE(router.PrefillComplete(second.booking, now));
    ASSERT_TRUE(router.PrefillComplete(second.booking, now)) << "twice is no error";
    ASSERT_TRUE(router.Finish(second.booking, now));
    ASSERT_FALSE(router.Finish(second.booking, now)) << "twice is known";
    ASSERT_FALSE(router.Finish(first.booking, now));
    ASSERT_FALSE(router.PrefillComplete(second.booking, now));
  }
  EXPECT_FALSE(router.Finish(kNoBooking, {}));
  EXPECT_FALSE(router.Finish(BookingId{~uint64_t{0}}, {}));
  ExpectIdle(router);
}

// Ten pairs of requests with 8,000 tokens in common: the second of each goes to the holder although
// nothing else differs.
TEST(RouterLoadTest, TheSecondOfAPairGoesToTheHolder) {
  RecordingSink sink;
  Router router(RouterConfig{}, &sink);
  for (uint64_t id = 1; id <= 8; ++id) ASSERT_TRUE(router.UpsertWorker(AWorker(id)).ok());
  double overlap_tokens = 0;
  double isl_tokens = 0;
  for (TokenId pair = 0; pair < 10; ++pair) {
    auto first = TokensFrom(pair * 100'000, 8000);
    auto second = first;
    const auto own_first = TokensFrom(pair * 100'000 + 50'000, 128);
    const auto own_second = TokensFrom(pair * 100'000 + 60'000, 128);
    first.insert(first.end(), own_first.begin(), own_first.end());
    second.insert(second.end(), own_second.begin(), own_second.end());

    const auto holder = Decide(router, ARequest(first));
    ASSERT_EQ(router.Apply(StoredEvent(first, holder.target)).status, ApplyStatus::kOk);
    ASSERT_TRUE(router.PrefillComplete(holder.booking, {}));
    ASSERT_TRUE(router.Finish(holder.booking, {}));
    const auto follower = Decide(router, ARequest(second));
    EXPECT_EQ(follower.target, holder.target) << "pair " << pair;
    overlap_tokens += follower.effective_overlap_blocks * follower.block_size_tokens;
    isl_tokens += static_cast<double>(follower.isl_tokens);
    ASSERT_TRUE(router.Finish(follower.booking, {}));
  }
  EXPECT_GE(overlap_tokens / isl_tokens, 0.96);
  ExpectIdle(router);
}

TEST(RouterLoadTest, LoadFollowsTheLifeOfARequest) {
  RouterConfig config;
  config.scheduler.track_output_blocks = true;
  Router router(config, nullptr);
  ASSERT_TRUE(router.UpsertWorker(AWorker(1)).ok());
  const auto tokens = TokensFrom(0, 64);
  const auto booking = Decide(router, ARequest(tokens)).booking;
  const auto load = [&] { return *LoadOf(router, TargetOf(1)); };
  EXPECT_EQ(load().active_prefill_tokens, 64u);
  EXPECT_EQ(load().active_decode_blocks, 4);
  EXPECT_EQ(load().active_requests, 1u);
  EXPECT_TRUE(router.PrefillComplete(booking, {}));
  EXPECT_EQ(load().active_prefill_tokens, 0u);
  EXPECT_TRUE(router.OutputTokens(booking, 17, {}, {}));
  EXPECT_EQ(load().active_decode_blocks, 6);
  EXPECT_TRUE(router.OutputBlock(booking, 0.5, {}));
  EXPECT_EQ(load().active_decode_blocks, 4) << "(4 + 3) / 2, rounded";
  EXPECT_TRUE(router.KeepAlive(booking, {}));
  EXPECT_TRUE(router.Finish(booking, {}));
  ExpectIdle(router);
}

TEST(RouterLoadTest, WithoutBlockTrackingOnlyPrefillAndRequestsCount) {
  RouterConfig config;
  config.scheduler.track_active_blocks = false;
  Router router(config, nullptr);
  ASSERT_TRUE(router.UpsertWorker(AWorker(1)).ok());
  const auto decision = Decide(router, ARequest(TokensFrom(0, 64)));
  EXPECT_EQ(decision.candidates[0].decode_blocks, 0);
  EXPECT_EQ(LoadOf(router, TargetOf(1))->active_decode_blocks, 0);
  EXPECT_EQ(LoadOf(router, TargetOf(1))->active_prefill_tokens, 64u);
}

TEST(RouterLoadTest, LiveSharedPrefixAttractsBeforeItsBlocksAreReported) {
  Router router(RouterConfig{}, nullptr);
  for (uint64_t id = 1; id <= 2; ++id) ASSERT_TRUE(router.UpsertWorker(AWorker(id)).ok());
  const auto tokens = TokensFrom(0, 64);
  const auto first = Decide(router, ARequest(tokens));
  router.PrefillComplete(first.booking, {});
  const auto second = Decide(router, ARequest(tokens));
  // Both cost 4 prefill + 4 blocks: on the first target all 4 are live already.
  EXPECT_EQ(second.tie_size, 2u);
  for (const auto& candidate : second.candidates) {
    EXPECT_EQ(candidate.decode_blocks, 4);
    EXPECT_EQ(candidate.additional_decode_blocks, candidate.target == first.target ? 0u : 4u);
  }
}

TEST(RouterLoadTest, SilentBookingsExpireInEveryPartition) {
  Router router(RouterConfig{}, nullptr);
  ASSERT_TRUE(router.UpsertWorker(AWorker(1)).ok());
  WorkerSpec other = AWorker(2);
  other.model_name = "other";
  ASSERT_TRUE(router.UpsertWorker(other).ok());
  const auto tokens = TokensFrom(0, 64);
  RouteRequest request = ARequest(tokens);
  std::vector<BookingId> silent = {Decide(router, request, seconds(10)).booking};
  const auto alive = Decide(router, request, seconds(10)).booking;
  request.model_name = "other";
  silent.push_back(Decide(router, request, seconds(10)).booking);
  EXPECT_TRUE(router.KeepAlive(alive, seconds(200)));
  EXPECT_TRUE(router.Expire(seconds(309)).empty());
  auto expired = router.Expire(seconds(310));
  std::sort(expired.begin(), expired.end());
  std::sort(silent.begin(), silent.end());
  EXPECT_EQ(expired, silent);
  EXPECT_FALSE(router.IsLive(silent[0]));
  EXPECT_TRUE(router.IsLive(alive));
  for (const auto& partition : router.Snapshot()) EXPECT_EQ(partition.bookings_expired_total, 1u);
  EXPECT_EQ(router.Expire(seconds(500)), std::vector{alive});
  ExpectIdle(router);
}

TEST(RouterLoadTest, ExpiryTimeIsConfigurable) {
  RouterConfig config;
  config.scheduler.active_request_expiry = seconds(1);
  Router router(config, nullptr);
  ASSERT_TRUE(router.UpsertWorker(AWorker(1)).ok());
  Decide(router, ARequest(TokensFrom(0, 64)), seconds(10));
  EXPECT_EQ(router.Expire(seconds(11)).size(), 1u);
}

TEST(RouterLoadTest, SnapshotShowsEveryTargetInOrder) {
  Router router(RouterConfig{}, nullptr);
  WorkerSpec wide = AWorker(7);
  wide.dp_size = 2;
  wide.role = WorkerRole::kDecode;
  ASSERT_TRUE(router.UpsertWorker(wide).ok());
  ASSERT_TRUE(router.UpsertWorker(AWorker(3, 9)).ok());
  const auto tokens = TokensFrom(0, 64);
  ASSERT_EQ(router.Apply(StoredEvent(tokens, TargetOf(7, 1))).status, ApplyStatus::kOk);
  const auto snapshots = router.Snapshot();
  ASSERT_EQ(snapshots.size(), 1u);
  EXPECT_EQ(snapshots[0].model_name, "default");
  EXPECT_EQ(snapshots[0].routing_group, "default");
  EXPECT_EQ(snapshots[0].block_size_tokens, 16u);
  EXPECT_EQ(snapshots[0].index_unique_blocks, 4u);
  EXPECT_EQ(snapshots[0].index_holder_blocks, 4u);
  EXPECT_GT(snapshots[0].index_bytes, 0u);
  ASSERT_EQ(snapshots[0].loads.size(), 3u);
  EXPECT_EQ(snapshots[0].loads[0].target, TargetOf(3));
  EXPECT_EQ(snapshots[0].loads[0].incarnation, Incarnation{9});
  EXPECT_EQ(snapshots[0].loads[1].target, TargetOf(7, 0));
  EXPECT_EQ(snapshots[0].loads[2].target, TargetOf(7, 1));
  EXPECT_EQ(snapshots[0].loads[2].role, WorkerRole::kDecode);
  EXPECT_EQ(snapshots[0].loads[2].index_blocks, 4u);
}

}  // namespace
}  // namespace kvrouter
