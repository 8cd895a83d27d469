#include "daemon/policy_changes.h"

#include <fmt/format.h>

#include <map>
#include <string_view>
#include <utility>

namespace kvrouter {
namespace {

// What is said, by key.
using Said = std::map<std::string, std::string>;

void Append(std::string_view name, const auto& value, std::string* text) {
  if (value) *text += fmt::format(" {}={}", name, *value);
}

std::string ClassText(const PolicyClass& c) {
  std::string text = fmt::format("{} quantum={}", c.order == QueueOrder::kWspt ? "wspt" : "fcfs",
                                 c.quantum_tokens);
  if (!c.policy_family.empty())
    text += fmt::format(" policy_family={} cache_bucket={}", c.policy_family, c.cache_bucket);
  Append("prefill_busy_threshold", c.busy.tokens, &text);
  Append("prefill_busy_threshold_frac", c.busy.batch_share, &text);
  Append("request_queue_limit_per_worker", c.request_limit_per_worker, &text);
  Append("raw_isl_token_queue_limit_per_worker", c.raw_isl_token_limit_per_worker, &text);
  Append("cached_token_queue_limit_per_worker", c.cached_token_limit_per_worker, &text);
  return text;
}

void AddProfile(std::string_view model, const PolicyProfile& profile, Said* said) {
  const std::string prefix = fmt::format("router_policy_config:{}", model);
  std::string buckets;
  for (const UncachedBucket& bucket : profile.uncached_isl_buckets)
    buckets += fmt::format(" {}>={}", bucket.bucket, bucket.min_tokens);
  said->emplace(prefix,
                fmt::format("default_policy_family={}{}", profile.default_policy_family, buckets));
  for (const PolicyClass& c : profile.policy_classes)
    said->emplace(fmt::format("{}/{}", prefix, c.name), ClassText(c));
}

Said WhatIsSaid(const QueueConfig& config) {
  Said said;
  if (config.profile) AddProfile("*", *config.profile, &said);
  for (const auto& [model, profile] : config.model_profiles) AddProfile(model, profile, &said);
  return said;
}

}  // namespace

std::vector<ClassChange> ClassChanges(const QueueConfig& before, const QueueConfig& after) {
  const Said from = WhatIsSaid(before);
  const Said to = WhatIsSaid(after);
  std::vector<ClassChange> changes;
  for (const auto& [key, text] : from) {
    const auto now = to.find(key);
    if (now == to.end()) {
      changes.push_back({key, text, "absent"});
    } else if (now->second != text) {
      changes.push_back({key, text, now->second});
    }
  }
  for (const auto& [key, text] : to)
    if (!from.contains(key)) changes.push_back({key, "absent", text});
  return changes;
}

}  // namespace kvrouter
