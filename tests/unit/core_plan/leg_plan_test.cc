#include "core/plan/leg_plan.h"

#include <gtest/gtest.h>

#include "kvrouter/error.h"

namespace kvrouter {
namespace {

using absl::StatusCode;
using std::chrono::seconds;

LegTarget On(uint64_t worker, uint32_t dp_rank = 0) {
  return {.target = {.worker = WorkerId{worker}, .dp_rank = dp_rank},
          .incarnation = Incarnation{1},
          .address = "http://w" + std::to_string(worker)};
}

TEST(LegPlanTest, LocalIsOneLegThatIsRetriedElsewhere) {
  const LegPlan plan = LocalPlan({}, "r1", On(7, 2), seconds(50));
  ASSERT_EQ(plan.legs.size(), 1u);
  EXPECT_EQ(plan.legs[0].kind, LegKind::kServe);
  EXPECT_EQ(plan.legs[0].where->target.dp_rank, 2u);
  EXPECT_EQ(plan.legs[0].where->address, "http://w7");
  EXPECT_EQ(plan.legs[0].request_id, "r1");
  EXPECT_FALSE(plan.legs[0].max_tokens);
  EXPECT_EQ(plan.lease_deadline, seconds(350));
  EXPECT_EQ(FallbackOn(plan.legs[0], StatusCode::kUnavailable), LegFallback::kRetryElsewhere);
}

TEST(LegPlanTest, APrefillLegFallsBackToTheDecodeTarget) {
  const LegPlan plan = RemotePlan({}, "r1", On(1), On(7), seconds(0));
  ASSERT_EQ(plan.legs.size(), 2u);
  EXPECT_EQ(plan.legs[0].kind, LegKind::kPrefill);
  EXPECT_EQ(plan.legs[0].max_tokens, 1u);
  EXPECT_EQ(plan.legs[1].kind, LegKind::kDecode);
  EXPECT_FALSE(plan.legs[1].max_tokens) << "the request's own";
  for (const StatusCode code : {StatusCode::kUnavailable, StatusCode::kDeadlineExceeded,
                                StatusCode::kInternal, StatusCode::kNotFound}) {
    EXPECT_EQ(FallbackOn(plan.legs[0], code), LegFallback::kServeLocally);
  }
  EXPECT_EQ(FallbackOn(plan.legs[0], StatusCode::kResourceExhausted), LegFallback::kFail);
}

TEST(LegPlanTest, StrictDisaggregationFailsAsUnavailable) {
  const LegPlan plan =
      RemotePlan({.strict_disaggregation = true}, "r1", On(1), std::nullopt, seconds(0));
  EXPECT_FALSE(plan.legs[1].where) << "picked when the prefill leg returns";
  EXPECT_EQ(FallbackOn(plan.legs[0], StatusCode::kInternal), LegFallback::kFail);
  const absl::Status failed =
      ErrorOfFailedLeg(plan.legs[0], absl::Status(StatusCode::kInternal, "connection reset"));
  EXPECT_EQ(failed.code(), StatusCode::kUnavailable);
  EXPECT_EQ(failed.message(), "prefill leg failed: connection reset");
  const absl::Status full =
      MakeError(StatusCode::kResourceExhausted, ErrorReason::kAllOverloaded, "all are busy");
  EXPECT_EQ(ErrorOfFailedLeg(plan.legs[0], full), full) << "passed on as it is";
}

TEST(LegPlanTest, AMigrationIsASourceLegWithATimeoutAndThenTheTarget) {
  const LegPlan plan =
      MigratePlan({.kv_source_timeout = seconds(3)}, "r1", On(2), On(7), seconds(0));
  ASSERT_EQ(plan.legs.size(), 2u);
  const Leg& source = plan.legs[0];
  EXPECT_EQ(source.kind, LegKind::kKvSource);
  EXPECT_TRUE(source.kv_migration_source);
  EXPECT_EQ(source.request_id, "r1-kvmig");
  EXPECT_EQ(source.max_tokens, 1u);
  EXPECT_EQ(source.timeout, seconds(3));
  for (const StatusCode code : {StatusCode::kUnavailable, StatusCode::kResourceExhausted}) {
    EXPECT_EQ(FallbackOn(source, code), LegFallback::kRecompute) << "it never fails the request";
  }
  EXPECT_EQ(plan.legs[1].kind, LegKind::kServe);
  EXPECT_EQ(plan.legs[1].request_id, "r1");
  EXPECT_FALSE(plan.legs[1].kv_migration_source);
}

TEST(LegPlanTest, NamesAreThoseOfTheWire) {
  EXPECT_EQ(LegKindName(LegKind::kKvSource), "kv_source");
  EXPECT_EQ(LegFallbackName(LegFallback::kServeLocally), "serve_locally");
}

}  // namespace
}  // namespace kvrouter
