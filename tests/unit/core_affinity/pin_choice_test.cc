#include "core/affinity/pin_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "kvrouter/error.h"

namespace kvrouter {
namespace {

std::vector<Target> Targets(uint64_t workers, uint32_t ranks) {
  std::vector<Target> targets;
  for (uint64_t w = 1; w <= workers; ++w) {
    for (uint32_t r = 0; r < ranks; ++r) targets.push_back({.worker = WorkerId{w}, .dp_rank = r});
  }
  return targets;
}

TEST(RendezvousTest, NobodyThereNobodyChosen) { EXPECT_FALSE(RendezvousTarget(SessionKey{1}, {})); }

TEST(RendezvousTest, OrderDoesNotMatter) {
  auto targets = Targets(8, 2);
  const auto forward = RendezvousTarget(SessionKey{7}, targets);
  std::reverse(targets.begin(), targets.end());
  EXPECT_EQ(RendezvousTarget(SessionKey{7}, targets), forward);
}

TEST(RendezvousTest, SessionsSpreadEvenlyOverTargets) {
  const auto targets = Targets(4, 2);
  std::map<Target, int> counts;
  for (uint64_t s = 1; s <= 8000; ++s) ++counts[*RendezvousTarget(KeyOfHash(s), targets)];
  ASSERT_EQ(counts.size(), 8u);
  for (const auto& [target, count] : counts) EXPECT_NEAR(count, 1000, 6 * std::sqrt(1000 * 0.875));
}

TEST(RendezvousTest, OnlySessionsOfTheLeaverMove) {
  const auto before = Targets(8, 1);
  auto after = before;
  after.erase(after.begin() + 3);
  for (uint64_t s = 1; s <= 1000; ++s) {
    const auto was = RendezvousTarget(KeyOfHash(s), before);
    if (*was == before[3]) continue;
    EXPECT_EQ(RendezvousTarget(KeyOfHash(s), after), was) << s;
  }
}

TEST(SoftPinTest, StaysUpToTheBound) {
  const SoftPin pin{.max_cost_factor = 1.5, .max_extra_cost_blocks = 4};
  EXPECT_TRUE(KeepsPin(10, 10, pin));
  EXPECT_TRUE(KeepsPin(19, 10, pin));
  EXPECT_FALSE(KeepsPin(19.001, 10, pin));
  EXPECT_TRUE(KeepsPin(4, 0, pin)) << "an idle fleet: the extra blocks alone";
  EXPECT_FALSE(KeepsPin(4.001, 0, pin));
}

TEST(SoftPinTest, BadSettingsAreNamed) {
  EXPECT_TRUE(Validate(SoftPin{}).ok());
  for (const double bad : {0.99, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(ErrorReasonOf(Validate(SoftPin{.max_cost_factor = bad})),
              ErrorReason::kInvalidRequest);
  }
  EXPECT_EQ(Validate(SoftPin{.max_extra_cost_blocks = -1}).message(),
            "soft_pin.max_extra_cost_blocks must be finite and >= 0, got -1");
}

}  // namespace
}  // namespace kvrouter
