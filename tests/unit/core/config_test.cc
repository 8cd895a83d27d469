#include "kvrouter/config.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "kvrouter/error.h"

namespace kvrouter {
namespace {

// The message of the refusal; empty if accepted.
template <typename Change>
std::string Refusal(Change change) {
  RouterConfig config;
  change(config);
  const absl::Status status = Validate(config);
  if (status.ok()) return "";
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorReasonOf(status), ErrorReason::kInvalidRequest);
  return std::string(status.message());
}

TEST(ConfigTest, DefaultsAreValid) { EXPECT_TRUE(Validate(RouterConfig{}).ok()); }

TEST(ConfigTest, EveryWeightIsCheckedAndNamed) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  struct Field {
    const char* name;
    double CostWeights::*member;
    double max;
  };
  for (const Field& field :
       {Field{"overlap_score_credit", &CostWeights::overlap_score_credit, 1e300},
        Field{"overlap_score_credit_decay", &CostWeights::overlap_score_credit_decay, 1e300},
        Field{"prefill_load_scale", &CostWeights::prefill_load_scale, 1e300},
        Field{"decode_active_request_weight", &CostWeights::decode_active_request_weight, 1e300},
        Field{"host_cache_hit_weight", &CostWeights::host_cache_hit_weight, 1},
        Field{"disk_cache_hit_weight", &CostWeights::disk_cache_hit_weight, 1},
        Field{"shared_cache_multiplier", &CostWeights::shared_cache_multiplier, 1}}) {
    const auto with = [&](double value) {
      return Refusal([&](RouterConfig& c) { c.scheduler.weights.*field.member = value; });
    };
    EXPECT_EQ(with(0), "");
    EXPECT_EQ(with(field.max), "") << field.name;
    for (const double bad : {-0.1, nan, inf, -inf}) {
      EXPECT_EQ(with(bad).rfind(std::string(field.name) + " must be", 0), 0u)
          << field.name << " " << bad << ": " << with(bad);
    }
    if (field.max == 1) {
      EXPECT_NE(with(1.5), "");
    }
  }
}

TEST(ConfigTest, RangesOfTheRest) {
  const auto refusal = [](auto change) { return Refusal(change); };
  EXPECT_NE(refusal([](RouterConfig& c) { c.scheduler.router_temperature = -1; }), "");
  EXPECT_EQ(refusal([](RouterConfig& c) { c.scheduler.router_temperature = 2; }), "");
  EXPECT_NE(
      refusal([](RouterConfig& c) { c.scheduler.active_request_expiry = std::chrono::seconds(0); }),
      "");
  EXPECT_NE(refusal([](RouterConfig& c) {
              c.scheduler.expiry_check_period = std::chrono::milliseconds(-1);
            }),
            "");
  EXPECT_NE(refusal([](RouterConfig& c) { c.scheduler.max_bookings = 0; }), "");
  EXPECT_NE(refusal([](RouterConfig& c) { c.scheduler.max_bookings = 5'000'000; }), "");
  EXPECT_EQ(refusal([](RouterConfig& c) { c.scheduler.max_bookings = 4'000'000; }), "");
  EXPECT_NE(refusal([](RouterConfig& c) { c.max_partitions = 0; }), "");
  EXPECT_NE(refusal([](RouterConfig& c) { c.max_partitions = 4097; }), "");
  EXPECT_NE(refusal([](RouterConfig& c) { c.max_workers = 0; }), "");
  EXPECT_NE(refusal([](RouterConfig& c) { c.max_device_blocks = 0; }), "");
  EXPECT_NE(refusal([](RouterConfig& c) { c.max_lower_tier_blocks = 0; }), "");
  EXPECT_NE(refusal([](RouterConfig& c) { c.max_index_blocks = 0; }), "");
}

TEST(ConfigTest, OutputBlocksNeedActiveBlocks) {
  const auto refusal = Refusal([](RouterConfig& c) {
    c.scheduler.track_output_blocks = true;
    c.scheduler.track_active_blocks = false;
  });
  EXPECT_NE(refusal.find("track_output_blocks"), std::string::npos);
  EXPECT_NE(refusal.find("track_active_blocks"), std::string::npos);
}

}  // namespace
}  // namespace kvrouter
