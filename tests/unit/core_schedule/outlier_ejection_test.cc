#include "core/schedule/outlier_ejection.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kvrouter/error.h"

namespace kvrouter {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Effect = OutlierEjection::Effect;

constexpr Target kBroken{.worker = WorkerId{1}};
constexpr Target kOther{.worker = WorkerId{2}};

class OutlierEjectionTest : public ::testing::Test {
 protected:
  Effect Fail(Target target = kBroken, uint64_t targets = 8) {
    return ejection_.ReportFailure(target, milliseconds(5), targets, now_);
  }
  // Until it is out.
  void Eject(Target target = kBroken, uint64_t targets = 8) {
    for (int i = 0; i < 4; ++i) ASSERT_EQ(Fail(target, targets), Effect::kNone);
    ASSERT_EQ(Fail(target, targets), Effect::kEjected);
  }
  bool IsOut(Target target = kBroken) { return ejection_.IsEjected(target, now_); }

  MonotonicTime now_ = seconds(100);
  OutlierEjection ejection_{{}};
};

TEST_F(OutlierEjectionTest, FiveFastFailuresInARowTakeATargetOutForTenSeconds) {
  Eject();
  EXPECT_TRUE(IsOut());
  EXPECT_FALSE(IsOut(kOther));
  now_ += seconds(10) - std::chrono::nanoseconds(1);
  EXPECT_TRUE(IsOut());
  now_ += std::chrono::nanoseconds(1);
  EXPECT_FALSE(IsOut());
  EXPECT_EQ(ejection_.EjectionsTotal(), 1u);
}

TEST_F(OutlierEjectionTest, ASuccessEndsTheRow) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Fail(), Effect::kNone);
    if (i % 4 == 3) ejection_.ReportSuccess(kBroken, now_);
  }
  EXPECT_FALSE(IsOut());
}

TEST_F(OutlierEjectionTest, SlowFailuresSayNothing) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(ejection_.ReportFailure(kBroken, milliseconds(1001), 8, now_), Effect::kNone);
  }
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(ejection_.ReportFailure(kBroken, milliseconds(1000), 8, now_), Effect::kNone);
  }
  EXPECT_EQ(ejection_.ReportFailure(kBroken, milliseconds(1000), 8, now_), Effect::kEjected);
}

TEST_F(OutlierEjectionTest, AFailureOnTrialTakesItOutForTwiceAsLongUpToTheBound) {
  Eject();
  for (const int expected : {20, 40, 80, 160, 300, 300}) {
    now_ = ejection_.StatusOf(kBroken, now_).until;
    EXPECT_TRUE(ejection_.StatusOf(kBroken, now_).on_trial);
    EXPECT_EQ(Fail(), Effect::kEjected);
    EXPECT_EQ(ejection_.StatusOf(kBroken, now_).until - now_, seconds(expected));
  }
  EXPECT_EQ(ejection_.StatusOf(kBroken, now_).ejections, 7u);
}

TEST_F(OutlierEjectionTest, ASuccessOnTrialBringsItBackButNotItsGoodName) {
  Eject();
  now_ += seconds(10);
  ejection_.ReportSuccess(kBroken, now_);
  EXPECT_FALSE(ejection_.StatusOf(kBroken, now_).on_trial);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Fail(), Effect::kNone);
  EXPECT_EQ(Fail(), Effect::kEjected);
  EXPECT_EQ(ejection_.StatusOf(kBroken, now_).until - now_, seconds(20));
}

TEST_F(OutlierEjectionTest, FiveSuccessesInARowForgetTheEjections) {
  Eject();
  now_ += seconds(10);
  for (int i = 0; i < 5; ++i) ejection_.ReportSuccess(kBroken, now_);
  Eject();
  EXPECT_EQ(ejection_.StatusOf(kBroken, now_).until - now_, seconds(10));
}

TEST_F(OutlierEjectionTest, WhatWasDispatchedBeforeChangesNothingWhileOut) {
  Eject();
  ejection_.ReportSuccess(kBroken, now_);
  EXPECT_TRUE(IsOut());
  EXPECT_EQ(Fail(), Effect::kNone);
  EXPECT_EQ(ejection_.EjectionsTotal(), 1u);
}

TEST_F(OutlierEjectionTest, TheLastTargetIsNeverTakenOut) {
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Fail(kBroken, 1), Effect::kNone);
  EXPECT_EQ(Fail(kBroken, 1), Effect::kRefused);
  EXPECT_FALSE(IsOut());
  EXPECT_EQ(ejection_.RefusedTotal(), 1u);
}

TEST_F(OutlierEjectionTest, AtMostHalfAreOutAtOnceAndNeverAll) {
  const auto target = [](uint64_t i) { return Target{.worker = WorkerId{i}}; };
  Eject(target(1), 4);
  Eject(target(2), 4);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Fail(target(3), 4), Effect::kNone);
  EXPECT_EQ(Fail(target(3), 4), Effect::kRefused);
  EXPECT_EQ(ejection_.EjectedCount(now_), 2u);
  now_ += seconds(10);
  EXPECT_EQ(ejection_.EjectedCount(now_), 0u);
  EXPECT_EQ(Fail(target(3), 4), Effect::kEjected) << "looked at again when there is room";

  OutlierEjection all({.max_ejected_share = 1});
  for (uint64_t w = 1; w <= 3; ++w) {
    for (int i = 0; i < 5; ++i) all.ReportFailure(target(w), milliseconds(1), 3, now_);
  }
  EXPECT_EQ(all.EjectedCount(now_), 2u);
}

TEST_F(OutlierEjectionTest, ATargetThatLivesAnewStartsClean) {
  Eject();
  ejection_.Forget(kBroken);
  EXPECT_FALSE(IsOut());
  EXPECT_EQ(ejection_.StatusOf(kBroken, now_).ejections, 0u);
}

TEST_F(OutlierEjectionTest, ZeroFailuresSwitchItOff) {
  OutlierEjection off({.consecutive_failures = 0});
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(off.ReportFailure(kBroken, milliseconds(1), 8, now_), Effect::kNone);
  }
}

TEST_F(OutlierEjectionTest, BadSettingsAreNamed) {
  EXPECT_TRUE(Validate(OutlierEjection::Options{}).ok());
  EXPECT_EQ(Validate(OutlierEjection::Options{.fast_failure = milliseconds(0)}).message(),
            "outlier_ejection.fast_failure must be > 0, got 0 ms");
  EXPECT_FALSE(Validate(OutlierEjection::Options{.base_time = seconds(0)}).ok());
  EXPECT_EQ(Validate(OutlierEjection::Options{.max_time = seconds(9)}).message(),
            "outlier_ejection.max_time must be >= base_time (10 s), got 9 s");
  EXPECT_FALSE(Validate(OutlierEjection::Options{.max_ejected_share = std::nan("")}).ok());
}

}  // namespace
}  // namespace kvrouter
