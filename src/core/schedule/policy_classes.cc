#include "core/schedule/policy_classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/ascii.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "core/schedule/busy_thresholds.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

constexpr uint32_t kNoClass = std::numeric_limits<uint32_t>::max();

absl::Status Invalid(std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest, message);
}

bool IsName(std::string_view text) {
  constexpr std::string_view kOthers = "_.-";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return IsAsciiAlphanumeric(c) || kOthers.find(c) != std::string_view::npos;
  });
}

absl::Status CheckName(std::string_view what, std::string_view name) {
  if (IsName(name)) return absl::OkStatus();
  return Invalid(fmt::format("{} must match [A-Za-z0-9_.-]+, got \"{}\"", what, name));
}

absl::Status CheckBuckets(const std::vector<UncachedBucket>& buckets) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < buckets.size(); ++i) {
    KVR_RETURN_IF_ERROR(CheckName("uncached_isl_buckets bucket", buckets[i].bucket));
    if (!names.insert(buckets[i].bucket).second) {
      return Invalid(fmt::format("uncached_isl_buckets names {} twice", buckets[i].bucket));
    }
    if (i == 0 && buckets[i].min_tokens != 0) {
      return Invalid(fmt::format("the first of uncached_isl_buckets must have min_tokens 0, got {}",
                                 buckets[i].min_tokens));
    }
    if (i > 0 && buckets[i].min_tokens <= buckets[i - 1].min_tokens) {
      return Invalid(fmt::format("uncached_isl_buckets must rise strictly, got {} after {}",
                                 buckets[i].min_tokens, buckets[i - 1].min_tokens));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckClass(const PolicyClass& c) {
  KVR_RETURN_IF_ERROR(CheckName("policy class name", c.name));
  if (c.policy_family.empty() != c.cache_bucket.empty()) {
    return Invalid(fmt::format(
        "policy class {} must have both policy_family and cache_bucket, or neither", c.name));
  }
  if (!c.policy_family.empty()) {
    KVR_RETURN_IF_ERROR(CheckName("policy_family", c.policy_family));
  }
  if (c.order == QueueOrder::kLcfs) {
    return Invalid(
        fmt::format("policy class {}: queue_policy must be fcfs or wspt, got lcfs", c.name));
  }
  if (c.quantum_tokens < 1 || c.quantum_tokens > kMaxQuantumTokens) {
    return Invalid(fmt::format("policy class {}: quantum must be in 1..{}, got {}", c.name,
                               kMaxQuantumTokens, c.quantum_tokens));
  }
  return Validate(c.busy);
}

}  // namespace

absl::StatusOr<PolicyClasses> PolicyClasses::Make(const PolicyProfile& profile) {
  if (profile.policy_classes.empty()) return Invalid("policy_classes must not be empty");
  if (profile.policy_classes.size() > kMaxPolicyClasses) {
    return Invalid(fmt::format("policy_classes must be at most {}, got {}", kMaxPolicyClasses,
                               profile.policy_classes.size()));
  }
  KVR_RETURN_IF_ERROR(CheckBuckets(profile.uncached_isl_buckets));
  std::set<std::string_view> names;
  for (const PolicyClass& c : profile.policy_classes) {
    KVR_RETURN_IF_ERROR(CheckClass(c));
    if (!names.insert(c.name).second) {
      return Invalid(fmt::format("policy class {} is there twice", c.name));
    }
  }
  PolicyClasses classes;
  classes.classes_ = profile.policy_classes;
  KVR_RETURN_IF_ERROR(classes.AddFamilies(profile));
  return classes;
}

absl::Status PolicyClasses::AddFamilies(const PolicyProfile& profile) {
  const auto& buckets = profile.uncached_isl_buckets;
  for (const UncachedBucket& bucket : buckets) bucket_from_tokens_.push_back(bucket.min_tokens);
  for (uint32_t i = 0; i < classes_.size(); ++i) {
    const PolicyClass& c = classes_[i];
    if (c.policy_family.empty()) continue;
    const auto bucket = std::find_if(buckets.begin(), buckets.end(), [&](const UncachedBucket& b) {
      return b.bucket == c.cache_bucket;
    });
    if (bucket == buckets.end()) {
      return Invalid(fmt::format("policy class {}: cache_bucket {} is not in uncached_isl_buckets",
                                 c.name, c.cache_bucket));
    }
    auto family = std::find_if(families_.begin(), families_.end(),
                               [&](const Family& f) { return f.name == c.policy_family; });
    if (family == families_.end()) {
      families_.push_back({.name = c.policy_family,
                           .class_of_bucket = std::vector<uint32_t>(buckets.size(), kNoClass)});
      family = families_.end() - 1;
    }
    uint32_t& place = family->class_of_bucket[static_cast<size_t>(bucket - buckets.begin())];
    if (place != kNoClass) {
      return Invalid(fmt::format("policy classes {} and {} are both family {} bucket {}",
                                 classes_[place].name, c.name, c.policy_family, c.cache_bucket));
    }
    place = i;
  }
  for (const Family& family : families_) {
    for (size_t b = 0; b < buckets.size(); ++b) {
      if (family.class_of_bucket[b] == kNoClass) {
        return Invalid(
            fmt::format("no policy class for family {} bucket {}", family.name, buckets[b].bucket));
      }
    }
  }
  const auto by_default = std::find_if(families_.begin(), families_.end(), [&](const Family& f) {
    return f.name == profile.default_policy_family;
  });
  if (by_default == families_.end()) {
    return Invalid(fmt::format("default_policy_family \"{}\" is the family of no policy class",
                               profile.default_policy_family));
  }
  default_family_ = static_cast<size_t>(by_default - families_.begin());
  return absl::OkStatus();
}

PolicyClasses PolicyClasses::Single(QueueOrder order, const PrefillBusyThresholds& busy) {
  PolicyClasses classes;
  PolicyClass only;
  only.name = "default";
  only.order = order;
  only.busy = busy;
  classes.classes_.push_back(std::move(only));
  classes.bucket_from_tokens_ = {0};
  classes.families_ = {{.name = "default", .class_of_bucket = {0}}};
  return classes;
}

PolicyClasses ClassesFor(const QueueConfig& config, const std::string& model_name) {
  const auto of_model = config.model_profiles.find(model_name);
  const PolicyProfile* profile = of_model != config.model_profiles.end() ? &of_model->second
                                 : config.profile                        ? &*config.profile
                                                                         : nullptr;
  if (profile == nullptr) return PolicyClasses::Single(config.order, config.busy);
  auto classes = PolicyClasses::Make(*profile);
  KVR_CHECK(classes.ok(), "{}", classes.status().ToString());
  return *std::move(classes);
}

absl::Status Validate(const QueueConfig& config) {
  KVR_RETURN_IF_ERROR(Validate(config.busy));
  if (config.max_waiting < 1) return Invalid("queue max_waiting must be > 0, got 0");
  if (config.profile) KVR_RETURN_IF_ERROR(PolicyClasses::Make(*config.profile).status());
  for (const auto& [model_name, profile] : config.model_profiles) {
    const absl::Status status = PolicyClasses::Make(profile).status();
    if (status.ok()) continue;
    return Invalid(fmt::format("models: {}: {}", model_name,
                               std::string_view(status.message().data(), status.message().size())));
  }
  return absl::OkStatus();
}

uint32_t PolicyClasses::ClassOf(std::string_view wish, uint64_t uncached_tokens) const {
  const Family* family = &families_[default_family_];
  if (!wish.empty()) {
    for (uint32_t i = 0; i < classes_.size(); ++i) {
      if (classes_[i].policy_family.empty() && classes_[i].name == wish) return i;
    }
    for (const Family& f : families_) {
      if (f.name == wish) family = &f;
    }
  }
  const auto after =
      std::upper_bound(bucket_from_tokens_.begin(), bucket_from_tokens_.end(), uncached_tokens);
  return family->class_of_bucket[static_cast<size_t>(after - bucket_from_tokens_.begin()) - 1];
}

}  // namespace kvrouter
