#include "daemon/config_reload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "daemon/option_table.h"
#include "dispatch/dispatch_settings.h"
#include "kvrouter/router.h"

namespace kvrouter {
namespace {

using testing::HasSubstr;
using testing::Not;

LoadedOptions With(std::map<std::string, std::string> environment) {
  auto options = LoadOptions({}, environment);
  EXPECT_TRUE(options.ok()) << options.status();
  return options.ok() ? *options : LoadedOptions{};
}

TEST(PlanReloadTest, NamesEachSettingThatDiffersWithBothValuesAndItsOrigin) {
  const auto plan = PlanReload(With({{"DYN_ROUTER_TEMPERATURE", "0.5"}}),
                               With({{"DYN_ROUTER_PREFILL_LOAD_SCALE", "2"}}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->size(), 2u);
  EXPECT_EQ((*plan)[0].key, "router_prefill_load_scale");
  EXPECT_EQ((*plan)[0].from, "1");
  EXPECT_EQ((*plan)[0].to, "2");
  EXPECT_EQ((*plan)[0].source, "environment DYN_ROUTER_PREFILL_LOAD_SCALE");
  EXPECT_EQ((*plan)[1].key, "router_temperature");
  EXPECT_EQ((*plan)[1].from, "0.5");
  EXPECT_EQ((*plan)[1].to, "0");
  EXPECT_EQ((*plan)[1].source, "default");
}

TEST(PlanReloadTest, AnotherOriginOfTheSameValueIsNoChange) {
  const auto plan = PlanReload(With({}), With({{"DYN_ROUTER_TEMPERATURE", "0"}}));
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->empty());
}

TEST(PlanReloadTest, WhatNeedsARestartIsNamedAndNothingElseIsTakenOver) {
  const auto plan = PlanReload(With({}), With({{"DYN_ROUTER_TEMPERATURE", "1"},
                                               {"KVROUTER_MAX_BOOKINGS", "5"},
                                               {"KVROUTER_HTTP_LISTEN", "127.0.0.1:1"}}));
  ASSERT_EQ(plan.status().code(), absl::StatusCode::kFailedPrecondition);
  const std::string message(plan.status().message());
  EXPECT_THAT(message, HasSubstr("nothing was taken over"));
  EXPECT_THAT(message, HasSubstr("max_bookings (environment KVROUTER_MAX_BOOKINGS)"));
  EXPECT_THAT(message, HasSubstr("http_listen"));
  EXPECT_THAT(message, Not(HasSubstr("router_temperature")));
}

TEST(PlanReloadTest, ACreditThatBecomesOrCeasesToBeZeroNeedsARestart) {
  const LoadedOptions none = With({{"DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT", "0"}});
  EXPECT_THAT(std::string(PlanReload(With({}), none).status().message()),
              HasSubstr("router_kv_overlap_score_credit to or from 0"));
  EXPECT_FALSE(PlanReload(none, With({})).ok());
  EXPECT_TRUE(PlanReload(With({}), With({{"DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT", "0.5"}})).ok());
}

TEST(PlanReloadTest, OtherWorkersNeedARestart) {
  LoadedOptions next = With({});
  next.config.workers.emplace_back().id = WorkerId{1};
  next.workers_source = "file kv.yaml";
  EXPECT_THAT(std::string(PlanReload(With({}), next).status().message()),
              HasSubstr("workers (file kv.yaml)"));
}

PolicyClass AClass(std::string name, uint64_t quantum_tokens = 1) {
  PolicyClass c;
  c.name = std::move(name);
  c.quantum_tokens = quantum_tokens;
  return c;
}

PolicyProfile AProfile(const std::vector<PolicyClass>& classes) {
  PolicyProfile profile{.default_policy_family = "chat",
                        .uncached_isl_buckets = {{.min_tokens = 0, .bucket = "any"}},
                        .policy_classes = {AClass("chat-any")}};
  profile.policy_classes[0].policy_family = "chat";
  profile.policy_classes[0].cache_bucket = "any";
  profile.policy_classes.insert(profile.policy_classes.end(), classes.begin(), classes.end());
  return profile;
}

TEST(PlanReloadTest, OtherClassesUnderTheSamePathAreEachNamed) {
  LoadedOptions running = With({});
  running.config.policy_file = "p.yaml";
  LoadedOptions next = running;
  running.config.router.scheduler.queue.profile = AProfile({AClass("batch", 5), AClass("gone")});
  PolicyClass fresh = AClass("new");
  fresh.busy.tokens = 9;
  next.config.router.scheduler.queue.profile = AProfile({AClass("batch", 6), fresh});
  const auto plan = PlanReload(running, next);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->size(), 3u);
  EXPECT_EQ((*plan)[0].key, "router_policy_config:*/batch");
  EXPECT_EQ((*plan)[0].from, "fcfs quantum=5");
  EXPECT_EQ((*plan)[0].to, "fcfs quantum=6");
  EXPECT_EQ((*plan)[0].source, "file p.yaml");
  EXPECT_EQ((*plan)[1].key, "router_policy_config:*/gone");
  EXPECT_EQ((*plan)[1].to, "absent");
  EXPECT_EQ((*plan)[2].key, "router_policy_config:*/new");
  EXPECT_EQ((*plan)[2].from, "absent");
  EXPECT_EQ((*plan)[2].to, "fcfs quantum=1 prefill_busy_threshold=9");
}

TEST(PlanReloadTest, AnotherDefaultFamilyOrBucketOfOneModelIsNamed) {
  LoadedOptions running = With({});
  LoadedOptions next = running;
  running.config.router.scheduler.queue.model_profiles["m"] = AProfile({});
  PolicyProfile other = AProfile({});
  other.uncached_isl_buckets.push_back({.min_tokens = 10, .bucket = "long"});
  next.config.router.scheduler.queue.model_profiles["m"] = other;
  const auto plan = PlanReload(running, next);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->size(), 1u);
  EXPECT_EQ(plan->front().key, "router_policy_config:m");
  EXPECT_EQ(plan->front().to, "default_policy_family=chat any>=0 long>=10");
}

bool IsOfDispatch(const Option& option) {
  return option.name.starts_with("dispatch") || option.name.starts_with("tokenize");
}

// What the table promises to take over, router and dispatcher must be able to; what it does not,
// they must refuse, as far as it is theirs.
TEST(PlanReloadTest, TableAndPartsAgreeOnWhatCanChange) {
  std::map<std::string, std::string> changed = {
      {"router_kv_overlap_score_credit", "0.5"},
      {"router_kv_overlap_score_credit_decay", "0.5"},
      {"router_prefill_load_scale", "0.5"},
      {"router_decode_active_request_weight", "0.5"},
      {"router_host_cache_hit_weight", "0.5"},
      {"router_disk_cache_hit_weight", "0.5"},
      {"shared_cache_multiplier", "0.5"},
      {"router_temperature", "0.5"},
      {"router_track_active_blocks", "false"},
      {"router_assume_kv_reuse", "false"},
      {"router_track_prefill_tokens", "false"},
      {"decision_detail", "winner"},
      {"shadow_policy", "router_temperature=2"},
      {"log_level", "debug"},
      {"router_queue_threshold", "0.5"},
      {"router_queue_policy", "wspt"},
      {"router_policy_config", KVR_TEST_POLICY_FILE},
      {"router_overlap_refresh_after_secs", "7"},
      {"max_waiting_requests", "7"},
      {"outlier_consecutive_failures", "7"},
      {"outlier_fast_failure_ms", "7"},
      {"outlier_base_secs", "7"},
      {"outlier_max_secs", "777"},
      {"outlier_max_ejected_share", "0.25"},
      {"active_decode_blocks_threshold", "0.5"},
      {"active_prefill_tokens_threshold", "7"},
      {"active_prefill_tokens_threshold_frac", "0.5"},
      {"min_remote_prefill_tokens", "7"},
      {"min_remote_prefill_measure", "uncached"},
      {"router_conditional_disagg", "true"},
      {"router_conditional_disagg_config", R"({"eff_isl_threshold": 7})"},
      {"router_conditional_disagg_policy", "prefill_load"},
      {"router_conditional_disagg_eff_isl_threshold", "7"},
      {"router_conditional_disagg_eff_isl_ratio_threshold", "0.5"},
      {"router_conditional_disagg_prefill_busy_threshold", "0.5"},
      {"router_conditional_disagg_decode_busy_threshold", "0.5"},
      {"strict_disaggregation", "true"},
      {"kv_migration", "dry"},
      {"kv_migration_min_tokens", "7"},
      {"kv_migration_min_gain_tokens", "7"},
      {"kv_migration_prefill_tokens_per_s", "7"},
      {"kv_migration_transfer_us_per_block", "7"},
      {"kv_source_timeout_ms", "7"},
      {"max_index_blocks", "7"},
      {"dispatch_routing_group", "other"},
      {"dispatch_total_timeout_secs", "7"},
      {"dispatch_head_timeout_secs", "7"},
      {"dispatch_silence_timeout_secs", "7"},
      {"dispatch_prefill_timeout_secs", "7"},
      {"dispatch_max_retries", "7"},
      {"dispatch_handshake_lease_secs", "7"},
      {"dispatch_keep_alive_secs", "7"},
      {"dispatch_max_held_reply_bytes", "7"},
      {"dispatch_two_leg_chat", "false"},
      {"dispatch_explain_headers", "false"},
      {"dispatch_ask_usage", "true"},
      {"tokenize", "false"},
      {"tokenize_timeout_secs", "7"},
      {"tokenize_max_cached_text_bytes", "7"},
      {"tokenize_max_in_flight", "7"},
      {"tokenize_breaker_failures", "7"},
      {"tokenize_breaker_open_secs", "7"}};
  for (const Option& option : OptionTable()) {
    const auto it = changed.find(option.Key());
    if (!option.reloadable) {
      EXPECT_EQ(it, changed.end()) << option.name;
      continue;
    }
    ASSERT_NE(it, changed.end()) << option.name << ": another value is missing in this test";
    const LoadedOptions next = With({{option.environment, it->second}});
    EXPECT_TRUE(PlanReload(With({}), next).ok()) << option.name;
    Router router(With({}).config.router, nullptr);
    const auto generation = router.Reconfigure(next.config.router);
    ASSERT_TRUE(generation.ok()) << option.name << ": " << generation.status();
    EXPECT_EQ(*generation, option.name == "log-level" || IsOfDispatch(option) ? 1u : 2u)
        << option.name;
    const DispatchConfig before = With({}).config.dispatch.dispatch;
    const DispatchConfig& after = next.config.dispatch.dispatch;
    EXPECT_EQ(after != before, IsOfDispatch(option)) << option.name;
    DispatchSettings settings(before);
    EXPECT_TRUE(settings.CheckChange(after).ok()) << option.name;
    settings.Change(after);
    EXPECT_EQ(*settings.Current(), after) << option.name;
  }
}

TEST(PlanReloadTest, WhatTheDispatcherWasBuiltWithIsRefused) {
  for (const auto& [environment, value] : std::map<std::string, std::string>{
           {"KVROUTER_DISPATCH_MAX_LIVE_REQUESTS", "7"}, {"KVROUTER_TOKENIZE_CACHE_BYTES", "7"}}) {
    SCOPED_TRACE(environment);
    const LoadedOptions next = With({{environment, value}});
    EXPECT_FALSE(PlanReload(With({}), next).ok());
    const DispatchSettings settings(With({}).config.dispatch.dispatch);
    EXPECT_EQ(settings.CheckChange(next.config.dispatch.dispatch).code(),
              absl::StatusCode::kFailedPrecondition);
  }
}

}  // namespace
}  // namespace kvrouter
