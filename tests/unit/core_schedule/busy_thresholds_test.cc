#include "core/schedule/busy_thresholds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kvrouter/error.h"

namespace kvrouter {
namespace {

RankLoad Rank(uint64_t worker, uint32_t dp_rank = 0) {
  return {.target = {.worker = WorkerId{worker}, .dp_rank = dp_rank},
          .max_num_batched_tokens = 8192,
          .total_kv_blocks = 1000};
}

OverloadCause PrefillCause(uint64_t active, const OverloadThresholds& thresholds,
                           uint64_t batch = 8192) {
  RankLoad rank = Rank(1);
  rank.active_prefill_tokens = active;
  rank.max_num_batched_tokens = batch;
  return OverloadOf(rank, thresholds);
}

TEST(PrefillBusyTest, UnsetIsNever) {
  EXPECT_FALSE(PrefillBusyThresholds{}.IsSet());
  EXPECT_FALSE(IsPrefillBusy(std::numeric_limits<uint64_t>::max(), 1, {}));
}

TEST(PrefillBusyTest, TokensAreComparedStrictly) {
  const PrefillBusyThresholds t{.tokens = 100};
  EXPECT_FALSE(IsPrefillBusy(99, 8192, t));
  EXPECT_FALSE(IsPrefillBusy(100, 8192, t));
  EXPECT_TRUE(IsPrefillBusy(101, 8192, t));
}

TEST(PrefillBusyTest, AShareIsOfTheBatchAndNotTruncated) {
  const PrefillBusyThresholds t{.batch_share = 0.5};
  EXPECT_FALSE(IsPrefillBusy(4095, 8191, t));
  EXPECT_TRUE(IsPrefillBusy(4096, 8191, t));  // 4095.5
  EXPECT_FALSE(IsPrefillBusy(5'000'000, 0, t)) << "10,000,000 when unknown";
  EXPECT_TRUE(IsPrefillBusy(5'000'001, 0, t));
  EXPECT_TRUE(IsPrefillBusy(1, 8192, {.batch_share = 0.0}));
  EXPECT_FALSE(IsPrefillBusy(0, 8192, {.batch_share = 0.0}));
}

TEST(PrefillBusyTest, EitherThresholdIsEnough) {
  const PrefillBusyThresholds t{.tokens = 100, .batch_share = 0.5};
  EXPECT_TRUE(IsPrefillBusy(101, 8192, t));
  EXPECT_TRUE(IsPrefillBusy(60, 100, t));
}

TEST(OverloadTest, PrefillTokensAreComparedStrictly) {
  const OverloadThresholds t{.active_prefill_tokens = 100};
  EXPECT_EQ(PrefillCause(99, t), OverloadCause::kNone);
  EXPECT_EQ(PrefillCause(100, t), OverloadCause::kNone);
  EXPECT_EQ(PrefillCause(101, t), OverloadCause::kPrefillTokens);
}

TEST(OverloadTest, AShareOfTheBatchIsTruncated) {
  const OverloadThresholds t{.active_prefill_tokens_frac = 0.5};
  EXPECT_EQ(PrefillCause(4095, t, 8191), OverloadCause::kNone);  // trunc(4095.5) = 4095
  EXPECT_EQ(PrefillCause(4096, t, 8191), OverloadCause::kPrefillShare);
  EXPECT_EQ(PrefillCause(0, {.active_prefill_tokens_frac = 0.9}, 1), OverloadCause::kNone);
  EXPECT_EQ(PrefillCause(1, {.active_prefill_tokens_frac = 0.9}, 1), OverloadCause::kPrefillShare);
  EXPECT_EQ(PrefillCause(5'000'000, t, 0), OverloadCause::kNone);
  EXPECT_EQ(PrefillCause(5'000'001, t, 0), OverloadCause::kPrefillShare);
}

TEST(OverloadTest, TheDecodeLatchHoldsUntilBothSignalsAreDown) {
  const OverloadThresholds t{.active_decode_blocks = 0.9};
  RankLoad rank = Rank(1);
  const auto overloaded = [&] { return OverloadOf(rank, t) == OverloadCause::kDecodeBlocks; };
  EXPECT_FALSE(overloaded()) << "nothing heard";
  rank.decode.kv_used_blocks = 900;
  EXPECT_FALSE(overloaded()) << "at";
  rank.decode.kv_used_blocks = 901;
  EXPECT_TRUE(overloaded());
  rank.decode.active_decode_blocks = 10;
  EXPECT_TRUE(overloaded()) << "the other signal does not release it";
  rank.decode.active_decode_blocks = 950;
  rank.decode.kv_used_blocks = 5;
  EXPECT_TRUE(overloaded()) << "it holds by the other one now";
  rank.decode.active_decode_blocks = 900;
  EXPECT_FALSE(overloaded());
}

TEST(OverloadTest, WithoutACapacityDecodeIsNotJudged) {
  RankLoad rank = Rank(1);
  rank.total_kv_blocks = 0;
  rank.decode.kv_used_blocks = 1e9;
  EXPECT_EQ(OverloadOf(rank, {.active_decode_blocks = 0.9}), OverloadCause::kNone);
}

TEST(OverloadTest, AWorkerIsOverloadedOnlyIfAllItsRanksAre) {
  std::vector<RankLoad> ranks = {Rank(1, 0), Rank(1, 1), Rank(2, 0), Rank(3, 0), Rank(3, 1)};
  for (const size_t i : {0, 2, 3, 4}) ranks[i].active_prefill_tokens = 101;
  std::vector<bool> overloaded;
  FindOverloadedWorkers(ranks, {.active_prefill_tokens = 100}, &overloaded);
  EXPECT_EQ(overloaded, (std::vector<bool>{false, false, true, true, true}));
  FindOverloadedWorkers(ranks, {}, &overloaded);
  EXPECT_EQ(overloaded, std::vector<bool>(5, false)) << "no thresholds, never";
  FindOverloadedWorkers({}, {.active_prefill_tokens = 100}, &overloaded);
  EXPECT_TRUE(overloaded.empty());
}

TEST(OverloadTest, BadThresholdsAreNamed) {
  EXPECT_TRUE(Validate(OverloadThresholds{}).ok());
  EXPECT_EQ(Validate(OverloadThresholds{.active_decode_blocks = 1.1}).message(),
            "active_decode_blocks_threshold must be in 0..1, got 1.1");
  EXPECT_EQ(Validate(OverloadThresholds{.active_prefill_tokens_frac = -1}).message(),
            "active_prefill_tokens_threshold_frac must be finite and >= 0, got -1");
  EXPECT_EQ(ErrorReasonOf(Validate(OverloadThresholds{.active_decode_blocks = std::nan("")})),
            ErrorReason::kInvalidRequest);
  EXPECT_FALSE(Validate(PrefillBusyThresholds{.batch_share = -0.5}).ok());
  EXPECT_TRUE(Validate(PrefillBusyThresholds{.batch_share = 16}).ok());
}

}  // namespace
}  // namespace kvrouter
