#include "core/schedule/policy_classes.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "kvrouter/error.h"

namespace kvrouter {
namespace {

PolicyClass Explicit(std::string name) {
  PolicyClass c;
  c.name = std::move(name);
  return c;
}

PolicyClass InMatrix(std::string name, std::string family, std::string bucket) {
  PolicyClass c = Explicit(std::move(name));
  c.policy_family = std::move(family);
  c.cache_bucket = std::move(bucket);
  return c;
}

PolicyProfile AProfile() {
  return {.default_policy_family = "interactive",
          .uncached_isl_buckets = {{.min_tokens = 0, .bucket = "short"},
                                   {.min_tokens = 4096, .bucket = "long"}},
          .policy_classes = {InMatrix("i-short", "interactive", "short"),
                             InMatrix("i-long", "interactive", "long"),
                             InMatrix("b-short", "batch", "short"),
                             InMatrix("b-long", "batch", "long"), Explicit("vip")}};
}

TEST(PolicyClassesTest, AWishNamesAnExplicitClassElseAFamilyElseTheDefaultIsTaken) {
  const auto classes = PolicyClasses::Make(AProfile());
  ASSERT_TRUE(classes.ok()) << classes.status();
  const auto name = [&](std::string_view wish, uint64_t uncached) {
    return classes->At(classes->ClassOf(wish, uncached)).name;
  };
  EXPECT_EQ(name("vip", 10), "vip");
  EXPECT_EQ(name("vip", 100'000), "vip");
  EXPECT_EQ(name("batch", 0), "b-short");
  EXPECT_EQ(name("batch", 4095), "b-short");
  EXPECT_EQ(name("batch", 4096), "b-long");
  EXPECT_EQ(name("", 4096), "i-long");
  EXPECT_EQ(name("nonsense", 5), "i-short");
  EXPECT_EQ(name("b-long", 5), "i-short") << "places of the matrix are not named directly";
}

TEST(PolicyClassesTest, WithoutAFileThereIsOneClass) {
  const auto classes = PolicyClasses::Single(QueueOrder::kLcfs, {.tokens = 5});
  EXPECT_EQ(classes.size(), 1u);
  EXPECT_EQ(classes.ClassOf("anything", 123), 0u);
  EXPECT_EQ(classes.At(0).name, "default");
  EXPECT_EQ(classes.At(0).order, QueueOrder::kLcfs);
  EXPECT_TRUE(classes.At(0).busy.IsSet());
}

TEST(PolicyClassesTest, WhatIsWrongIsNamed) {
  struct Row {
    std::string message;
    std::function<void(PolicyProfile*)> change;
  };
  for (const Row& row : std::vector<Row>{
           {"policy_classes must not be empty", [](auto* p) { p->policy_classes.clear(); }},
           {"no policy class for family batch bucket long",
            [](auto* p) { p->policy_classes.erase(p->policy_classes.begin() + 3); }},
           {"policy class vip is there twice",
            [](auto* p) { p->policy_classes.push_back(Explicit("vip")); }},
           {"policy classes i-short and x are both family interactive bucket short",
            [](auto* p) { p->policy_classes.push_back(InMatrix("x", "interactive", "short")); }},
           {"policy class x: cache_bucket huge is not in uncached_isl_buckets",
            [](auto* p) { p->policy_classes.push_back(InMatrix("x", "interactive", "huge")); }},
           {"policy class x must have both policy_family and cache_bucket, or neither",
            [](auto* p) { p->policy_classes.push_back(InMatrix("x", "interactive", "")); }},
           {"policy class name must match [A-Za-z0-9_.-]+, got \"a b\"",
            [](auto* p) { p->policy_classes[4].name = "a b"; }},
           {"policy class vip: queue_policy must be fcfs or wspt, got lcfs",
            [](auto* p) { p->policy_classes[4].order = QueueOrder::kLcfs; }},
           {"policy class vip: quantum must be in 1..1099511627776, got 0",
            [](auto* p) { p->policy_classes[4].quantum_tokens = 0; }},
           {"prefill_busy_threshold_frac must be finite and >= 0, got -1",
            [](auto* p) { p->policy_classes[4].busy.batch_share = -1; }},
           {"the first of uncached_isl_buckets must have min_tokens 0, got 1",
            [](auto* p) { p->uncached_isl_buckets[0].min_tokens = 1; }},
           {"uncached_isl_buckets must rise strictly, got 0 after 0",
            [](auto* p) { p->uncached_isl_buckets[1].min_tokens = 0; }},
           {"uncached_isl_buckets names short twice",
            [](auto* p) { p->uncached_isl_buckets[1].bucket = "short"; }},
           {"default_policy_family \"other\" is the family of no policy class",
            [](auto* p) { p->default_policy_family = "other"; }},
       }) {
    PolicyProfile profile = AProfile();
    row.change(&profile);
    const auto classes = PolicyClasses::Make(profile);
    EXPECT_EQ(classes.status().message(), row.message);
    EXPECT_EQ(ErrorReasonOf(classes.status()), ErrorReason::kInvalidRequest);
  }
}

}  // namespace
}  // namespace kvrouter
