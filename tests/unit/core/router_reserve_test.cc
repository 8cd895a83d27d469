#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kvrouter/error.h"
#include "kvrouter/router.h"
#include "support/core_builders.h"

namespace kvrouter {
namespace {

using namespace testing;  // NOLINT: the builders

ReserveRequest AReservation(const std::vector<TokenId>& tokens, Target target) {
  return {.route = ARequest(tokens), .target = target};
}

ErrorReason ReserveError(Router& router, const ReserveRequest& request) {
  const auto decision = router.Reserve(request, {});
  EXPECT_FALSE(decision.ok());
  return ErrorReasonOf(decision.status());
}

class RouterReserveTest : public ::testing::Test {
 protected:
  RouterReserveTest() : router_(RouterConfig{}, &sink_) {
    for (uint64_t id = 1; id <= 2; ++id) EXPECT_TRUE(router_.UpsertWorker(AWorker(id)).ok());
    // Worker 1 has the first 3 of the prompt's 6 full blocks; the prompt has 4 tokens more.
    const std::vector<TokenId> cached(tokens_.begin(), tokens_.begin() + 48);
    EXPECT_EQ(router_.Apply(StoredEvent(cached, TargetOf(1))).status, ApplyStatus::kOk);
  }

  uint64_t PrefillTokens(uint64_t worker) {
    return LoadOf(router_, TargetOf(worker))->active_prefill_tokens;
  }

  const std::vector<TokenId> tokens_ = TokensFrom(0, 100);
  RecordingSink sink_;
  Router router_;
};

TEST_F(RouterReserveTest, BooksOnTheNamedTargetAlthoughAnotherIsCheaper) {
  const auto decision = router_.Reserve(AReservation(tokens_, TargetOf(2)), {});
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_EQ(decision->target, TargetOf(2));
  EXPECT_EQ(decision->address, "http://worker-2");
  EXPECT_EQ(decision->reason, DecisionReason::kPinned);
  EXPECT_TRUE(decision->booked);
  EXPECT_EQ(decision->effective_overlap_blocks, 0);
  EXPECT_EQ(decision->best_overlap_blocks, 3);
  EXPECT_EQ(PrefillTokens(2), 100u);
  EXPECT_TRUE(router_.Finish(decision->booking, {}));
  ExpectIdle(router_);
}

TEST_F(RouterReserveTest, WithoutFigureTheIndexSaysWhatIsCached) {
  const auto decision = router_.Reserve(AReservation(tokens_, TargetOf(1)), {});
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_EQ(decision->effective_overlap_blocks, 3);
  EXPECT_EQ(PrefillTokens(1), 52u);
}

TEST_F(RouterReserveTest, TheCallersFigureReplacesTheIndex) {
  auto request = AReservation(tokens_, TargetOf(1));
  request.effective_prefill_tokens = 12;
  const auto decision = router_.Reserve(request, {});
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_EQ(decision->effective_overlap_blocks, 5.5) << "(100 - 12) / 16";
  EXPECT_EQ(decision->overlap_blocks, 6u);
  EXPECT_EQ(decision->best_overlap_blocks, 3) << "still the index's";
  EXPECT_EQ(PrefillTokens(1), 12u);
  request.effective_prefill_tokens = 100;
  EXPECT_EQ(router_.Reserve(request, {})->effective_overlap_blocks, 0);
  EXPECT_EQ(PrefillTokens(1), 112u);
}

// A block size that is no power of two, so that tokens / block size is not exact.
TEST_F(RouterReserveTest, PrefillLoadIsTheCallersFigureToTheToken) {
  WorkerSpec worker = AWorker(7);
  worker.model_name = "odd";
  worker.block_size_tokens = 7;
  ASSERT_TRUE(router_.UpsertWorker(worker).ok());
  for (uint64_t tokens = 0; tokens <= 100; ++tokens) {
    auto request = AReservation(tokens_, TargetOf(7));
    request.route.model_name = "odd";
    request.effective_prefill_tokens = tokens;
    const auto decision = router_.Reserve(request, {});
    ASSERT_TRUE(decision.ok()) << decision.status();
    EXPECT_EQ(PrefillTokens(7), tokens);
    ASSERT_TRUE(router_.Finish(decision->booking, {}));
  }
}

TEST_F(RouterReserveTest, TheSinkHearsOnce) {
  ASSERT_TRUE(router_.Reserve(AReservation(tokens_, TargetOf(1)), {}).ok());
  ASSERT_EQ(sink_.Decisions().size(), 1u);
  EXPECT_TRUE(sink_.Decisions()[0].booked);
  EXPECT_EQ(sink_.Decisions()[0].effective_overlap_blocks, 3);
}

TEST_F(RouterReserveTest, TrackingFollowsTheCallThenTheFigureThenTheOverrideThenTheConfiguration) {
  auto request = AReservation(tokens_, TargetOf(2));
  const auto booked_tokens = [&] {
    const auto decision = router_.Reserve(request, {});
    EXPECT_TRUE(decision.ok()) << decision.status();
    const uint64_t tokens = PrefillTokens(2);
    EXPECT_TRUE(router_.Finish(decision->booking, {}));
    return tokens;
  };
  EXPECT_EQ(booked_tokens(), 100u) << "configuration";
  request.route.overrides.track_prefill_tokens = false;
  EXPECT_EQ(booked_tokens(), 0u) << "override";
  request.effective_prefill_tokens = 30;
  EXPECT_EQ(booked_tokens(), 30u) << "figure";
  request.track_prefill_tokens = false;
  EXPECT_EQ(booked_tokens(), 0u) << "call";
}

// An advice booked later, with the overlap it saw, whatever the index has learnt since.
TEST_F(RouterReserveTest, AnAdviceIsBookedWithTheOverlapItSaw) {
  RouteRequest route = ARequest(tokens_);
  route.book = false;
  const auto advice = Decide(router_, route);
  ASSERT_EQ(advice.target, TargetOf(1));
  ASSERT_EQ(router_.Apply(AnEvent(TargetOf(1), Cleared{})).status, ApplyStatus::kOk);
  auto request = AReservation(tokens_, advice.target);
  const double cached_tokens = advice.effective_overlap_blocks * advice.block_size_tokens;
  request.effective_prefill_tokens =
      advice.isl_tokens - static_cast<uint64_t>(std::llround(cached_tokens));
  const auto decision = router_.Reserve(request, {});
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_EQ(decision->effective_overlap_blocks, advice.effective_overlap_blocks);
  EXPECT_EQ(PrefillTokens(1), 52u);
}

TEST_F(RouterReserveTest, ErrorsAreThoseOfAPin) {
  EXPECT_EQ(ReserveError(router_, AReservation(tokens_, TargetOf(9))),
            ErrorReason::kPinnedUnavailable);
  EXPECT_EQ(ReserveError(router_, AReservation(tokens_, TargetOf(1, 1))),
            ErrorReason::kPinnedUnavailable);
  WorkerSpec draining = AWorker(2);
  draining.draining = true;
  ASSERT_TRUE(router_.UpsertWorker(draining).ok());
  EXPECT_EQ(ReserveError(router_, AReservation(tokens_, TargetOf(2))),
            ErrorReason::kPinnedUnavailable);
  auto request = AReservation(tokens_, TargetOf(1));
  request.effective_prefill_tokens = 101;
  EXPECT_EQ(ReserveError(router_, request), ErrorReason::kInvalidRequest);
  request.effective_prefill_tokens = {};
  request.route.model_name = "nobody";
  EXPECT_EQ(ReserveError(router_, request), ErrorReason::kUnknownPartition);
  ExpectIdle(router_);
  EXPECT_TRUE(sink_.Decisions().empty());
}

TEST_F(RouterReserveTest, PotentialLoadsSayWhatABookingWouldMake) {
  const auto live = router_.Reserve(AReservation(tokens_, TargetOf(2)), {});
  ASSERT_TRUE(live.ok()) << live.status();
  const auto longer = TokensFrom(0, 128);  // shares the 6 live blocks and has 2 more
  const auto potential = router_.PotentialLoads(ARequest(longer));
  ASSERT_TRUE(potential.ok()) << potential.status();
  ASSERT_EQ(potential->size(), 2u);
  const TargetPotentialLoad& holder = (*potential)[0];
  EXPECT_EQ(holder.target, TargetOf(1));
  EXPECT_EQ(holder.overlap_blocks, 3u);
  EXPECT_EQ(holder.potential_prefill_tokens, 80u);
  EXPECT_EQ(holder.potential_decode_blocks, 8);
  EXPECT_EQ(holder.active_requests, 0u);
  const TargetPotentialLoad& busy = (*potential)[1];
  EXPECT_EQ(busy.target, TargetOf(2));
  EXPECT_EQ(busy.overlap_blocks, 0u);
  EXPECT_EQ(busy.potential_prefill_tokens, 228u);
  EXPECT_EQ(busy.potential_decode_blocks, 8);
  EXPECT_EQ(busy.active_requests, 1u);

  for (const TargetPotentialLoad& load : *potential) {
    const auto booked = router_.Reserve(AReservation(longer, load.target), {});
    ASSERT_TRUE(booked.ok()) << booked.status();
    EXPECT_EQ(LoadOf(router_, load.target)->active_prefill_tokens, load.potential_prefill_tokens);
    EXPECT_EQ(LoadOf(router_, load.target)->active_decode_blocks, load.potential_decode_blocks);
  }
}

TEST_F(RouterReserveTest, PotentialLoadsBookNothingAndCoverTargetsThatCannotBePicked) {
  WorkerSpec draining = AWorker(2);
  draining.draining = true;
  ASSERT_TRUE(router_.UpsertWorker(draining).ok());
  RouteRequest request = ARequest(tokens_);
  request.allowed_workers.emplace();  // nobody
  request.overrides.track_prefill_tokens = false;
  const auto potential = router_.PotentialLoads(request);
  ASSERT_TRUE(potential.ok()) << potential.status();
  ASSERT_EQ(potential->size(), 2u);
  EXPECT_TRUE((*potential)[1].draining);
  EXPECT_EQ((*potential)[1].potential_prefill_tokens, 0u) << "prefill is not tracked";
  EXPECT_EQ((*potential)[1].potential_decode_blocks, 6);
  ExpectIdle(router_);
  EXPECT_TRUE(sink_.Decisions().empty());
  request.model_name = "nobody";
  EXPECT_EQ(ErrorReasonOf(router_.PotentialLoads(request).status()),
            ErrorReason::kUnknownPartition);
}

}  // namespace
}  // namespace kvrouter
