#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kvrouter/error.h"
#include "kvrouter/router.h"
#include "support/core_builders.h"

namespace kvrouter {
namespace {

using namespace testing;  // NOLINT: the builders

RouterConfig Weighted(double credit, double scale) {
  RouterConfig config;
  config.scheduler.weights.overlap_score_credit = credit;
  config.scheduler.weights.prefill_load_scale = scale;
  config.scheduler.router_temperature = scale;
  return config;
}

RouteRequest Advice(const std::vector<TokenId>& tokens) {
  RouteRequest request = ARequest(tokens);
  request.book = false;
  return request;
}

TEST(RouterReconfigureTest, ANewConfigurationDecidesWhatComesAfterAndBookingsStay) {
  Router router(Weighted(1, 1), nullptr);
  ASSERT_TRUE(router.UpsertWorker(AWorker(1)).ok());
  const auto tokens = TokensFrom(0, 64);
  const RouteDecision before = Decide(router, ARequest(tokens));
  EXPECT_EQ(before.config_generation, 1u);

  const auto generation = router.Reconfigure(Weighted(0.5, 3));
  ASSERT_TRUE(generation.ok()) << generation.status();
  EXPECT_EQ(*generation, 2u);
  EXPECT_EQ(router.ConfigGeneration(), 2u);
  EXPECT_TRUE(router.IsLive(before.booking));
  const RouteDecision after = Decide(router, ARequest(tokens));
  EXPECT_EQ(after.config_generation, 2u);
  EXPECT_EQ(after.weights.cost.overlap_score_credit, 0.5);
  EXPECT_EQ(after.weights.cost.prefill_load_scale, 3);
  EXPECT_EQ(after.temperature, 3);
  EXPECT_TRUE(router.Finish(before.booking, {}));
  EXPECT_TRUE(router.Finish(after.booking, {}));
  ExpectIdle(router);
}

TEST(RouterReconfigureTest, TheSameConfigurationIsNoNewGeneration) {
  Router router(Weighted(1, 1), nullptr);
  const auto generation = router.Reconfigure(Weighted(1, 1));
  ASSERT_TRUE(generation.ok());
  EXPECT_EQ(*generation, 1u);
}

TEST(RouterReconfigureTest, WhatCannotChangeIsRefusedWhole) {
  Router router(Weighted(1, 1), nullptr);
  const auto refused = [&](const char* what, const auto& edit) {
    RouterConfig config = Weighted(0.5, 2);  // which alone would do
    edit(config);
    EXPECT_EQ(router.Reconfigure(config).status().code(), absl::StatusCode::kFailedPrecondition)
        << what;
    EXPECT_EQ(*router.Config(), Weighted(1, 1)) << what;
    EXPECT_EQ(router.ConfigGeneration(), 1u) << what;
  };
  refused("credit to 0", [](auto& c) { c.scheduler.weights.overlap_score_credit = 0; });
  refused("bookings", [](auto& c) { c.scheduler.max_bookings = 5; });
  refused("seed", [](auto& c) { c.random_seed = 5; });
  refused("expiry", [](auto& c) { c.scheduler.active_request_expiry = std::chrono::seconds(5); });
  refused("output", [](auto& c) { c.scheduler.track_output_blocks = true; });
  refused("partitions", [](auto& c) { c.max_partitions = 5; });

  RouterConfig bad = Weighted(std::numeric_limits<double>::infinity(), 1);
  EXPECT_EQ(router.Reconfigure(bad).status().code(), absl::StatusCode::kInvalidArgument);
  bad = Weighted(1, 1);
  bad.shadow = ShadowPolicy{.weights = {}, .router_temperature = -1};
  EXPECT_EQ(router.Reconfigure(bad).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*router.Config(), Weighted(1, 1));
}

TEST(RouterReconfigureTest, CreditOfZeroStaysZero) {
  Router router(Weighted(0, 1), nullptr);
  EXPECT_EQ(router.Reconfigure(Weighted(1, 1)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(router.Reconfigure(Weighted(0, 2)).ok());
}

TEST(RouterReconfigureTest, OverloadThresholdsAreThoseInForce) {
  Router router({}, nullptr);
  ASSERT_TRUE(router.UpsertWorker(AWorker(1)).ok());
  const auto tokens = TokensFrom(0, 64);
  EXPECT_TRUE(Decide(router, ARequest(tokens)).booked);
  EXPECT_FALSE(LoadOf(router, TargetOf(1))->overloaded);

  RouterConfig strict;
  strict.scheduler.overload.active_prefill_tokens = 10;
  ASSERT_TRUE(router.Reconfigure(strict).ok());
  EXPECT_EQ(ErrorReasonOf(ErrorOf(router, ARequest(tokens))), ErrorReason::kAllOverloaded);
  EXPECT_TRUE(LoadOf(router, TargetOf(1))->overloaded);

  ASSERT_TRUE(router.Reconfigure({}).ok());
  EXPECT_TRUE(Decide(router, ARequest(tokens)).booked);
  EXPECT_FALSE(LoadOf(router, TargetOf(1))->overloaded);
}

// Run under ThreadSanitizer, too.
TEST(RouterReconfigureTest, EachDecisionIsMadeByOneConfigurationWhole) {
  // Every setting of a version is the version's own number.
  const auto version = [](uint64_t generation) {
    return Weighted(static_cast<double>(generation), static_cast<double>(generation));
  };
  Router router(version(1), nullptr);
  for (uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(router.UpsertWorker(AWorker(id)).ok());
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> failures{0};
  std::atomic<uint64_t> decisions{0};
  {
    std::vector<std::jthread> routing;
    for (int thread = 0; thread < 3; ++thread) {
      routing.emplace_back([&] {
        const auto tokens = TokensFrom(0, 64);
        uint64_t last_generation = 0;
        while (!stop) {
          const auto submission = router.Submit(Advice(tokens), {});
          if (!submission.ok()) {
            ++failures;
            continue;
          }
          const auto& decision = std::get<RouteDecision>(*submission);
          const auto expected = static_cast<double>(decision.config_generation);
          EXPECT_EQ(decision.weights.cost.overlap_score_credit, expected);
          EXPECT_EQ(decision.weights.cost.prefill_load_scale, expected);
          EXPECT_EQ(decision.temperature, expected);
          EXPECT_GE(decision.config_generation, last_generation) << "settings went back";
          last_generation = decision.config_generation;
          ++decisions;
        }
      });
    }
    for (uint64_t generation = 2; generation <= 200; ++generation) {
      const auto changed = router.Reconfigure(version(generation));
      EXPECT_TRUE(changed.ok()) << changed.status();
      EXPECT_EQ(changed.value_or(0), generation);
      const uint64_t seen = decisions;
      while (decisions < seen + 5 && failures == 0) std::this_thread::yield();
    }
    stop = true;
  }
  EXPECT_EQ(failures, 0u);
  EXPECT_GE(decisions, 900u);
}

// ---- The shadow policy ----

RouteDecision DecideWithShadow(double shadow_credit, std::optional<Target> pinned = {}) {
  RouterConfig config;
  config.shadow = ShadowPolicy{.weights = {}, .router_temperature = 0};
  config.shadow->weights.overlap_score_credit = shadow_credit;
  Router router(config, nullptr);
  for (uint64_t id = 1; id <= 2; ++id) EXPECT_TRUE(router.UpsertWorker(AWorker(id)).ok());
  const auto tokens = TokensFrom(0, 10 * kBlockSize);
  router.Apply(StoredEvent(tokens, TargetOf(1)));
  // 4 blocks of other work on the worker that holds the prompt.
  const auto other = TokensFrom(5000, 4 * kBlockSize);
  EXPECT_TRUE(router.Reserve({.route = ARequest(other), .target = TargetOf(1)}, {}).ok());
  RouteRequest request = ARequest(tokens);
  if (pinned) request.pinned = {.worker = pinned->worker};
  return Decide(router, request);
}

TEST(ShadowPolicyTest, SaysWhatItWouldHaveChosenAndWhatThatIsWorth) {
  // On worker 1: prefill 14 - 10, decode 4 + 10. On worker 2: prefill 10, decode 10.
  const RouteDecision decision = DecideWithShadow(0.1);
  EXPECT_EQ(decision.target, TargetOf(1));
  ASSERT_TRUE(decision.shadow);
  EXPECT_FALSE(decision.shadow->agrees);
  EXPECT_EQ(decision.shadow->target, TargetOf(2));
  EXPECT_EQ(decision.shadow->effective_overlap_blocks, 0);
  EXPECT_DOUBLE_EQ(decision.shadow->live_regret_blocks, 20 - 18);
  EXPECT_DOUBLE_EQ(decision.shadow->shadow_regret_blocks, (14 - 1 + 14) - 20);
}

TEST(ShadowPolicyTest, AgreesWhenItsCostsDoNotSpeakAgainstTheChoice) {
  const RouteDecision same = DecideWithShadow(1);
  ASSERT_TRUE(same.shadow);
  EXPECT_TRUE(same.shadow->agrees);
  EXPECT_EQ(same.shadow->effective_overlap_blocks, 10);
  EXPECT_EQ(same.shadow->shadow_regret_blocks, 0);
  // A tie by its costs: 14 - 8 + 14 on either.
  const RouteDecision tie = DecideWithShadow(0.8);
  ASSERT_TRUE(tie.shadow);
  EXPECT_TRUE(tie.shadow->agrees);
}

TEST(ShadowPolicyTest, IsNotAskedWhereThereIsNothingToChoose) {
  EXPECT_FALSE(DecideWithShadow(0.1, TargetOf(1)).shadow);
  Router router({}, nullptr);
  for (uint64_t id = 1; id <= 2; ++id) ASSERT_TRUE(router.UpsertWorker(AWorker(id)).ok());
  EXPECT_FALSE(Decide(router, ARequest(TokensFrom(0, 64))).shadow) << "there is no shadow";
}

TEST(ShadowPolicyTest, NeverActs) {
  const auto placements = [](bool with_shadow) {
    RouterConfig config;
    config.scheduler.router_temperature = 0.3;
    if (with_shadow) {
      config.shadow = ShadowPolicy{.weights = {}, .router_temperature = 1};
      config.shadow->weights.overlap_score_credit = 0;
    }
    Router router(config, nullptr);
    for (uint64_t id = 1; id <= 5; ++id) EXPECT_TRUE(router.UpsertWorker(AWorker(id)).ok());
    std::vector<Target> out;
    for (TokenId i = 0; i < 300; ++i) {
      const auto tokens = TokensFrom(1000 * (i % 7), (1 + i % 5) * kBlockSize);
      const RouteDecision decision = Decide(router, ARequest(tokens));
      out.push_back(decision.target);
      if (i % 2 == 0) router.Apply(StoredEvent(tokens, decision.target));
    }
    return out;
  };
  EXPECT_EQ(placements(false), placements(true));
}

}  // namespace
}  // namespace kvrouter
