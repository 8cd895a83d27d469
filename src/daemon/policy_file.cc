#include "daemon/policy_file.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <exception>
#include <initializer_list>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "daemon/config_file.h"

namespace kvrouter {
namespace {

// Reads the keys of one map; every key must be asked for.
class Keys {
 public:
  Keys(const YAML::Node& map, std::string file) : map_(map), file_(std::move(file)) {}

  absl::Status Error(const YAML::Node& node, std::string_view what) const {
    return absl::InvalidArgumentError(fmt::format("{}:{}: {}", file_, node.Mark().line + 1, what));
  }

  absl::Status CheckOnly(std::initializer_list<std::string_view> known) const {
    if (!map_.IsMap()) return Error(map_, "want a map");
    std::set<std::string> seen;
    for (const auto& entry : map_) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
      if (!seen.insert(key).second)
        return Error(entry.first, fmt::format("{} is given twice", key));
      bool is_known = false;
      for (const std::string_view name : known) is_known = is_known || name == key;
      if (!is_known) return Error(entry.first, fmt::format("unknown key '{}'", key));
    }
    return absl::OkStatus();
  }

  absl::Status Text(const char* key, std::string* out) const {
    const YAML::Node node = map_[key];
    if (!node) return absl::OkStatus();
    if (!node.IsScalar()) return Error(node, fmt::format("{}: want a single value", key));
    *out = node.Scalar();
    return absl::OkStatus();
  }

  template <typename Number>
  absl::Status Parse(const char* key, std::optional<Number>* out) const {
    const YAML::Node node = map_[key];
    if (!node || node.IsNull()) return absl::OkStatus();
    const std::string text = node.IsScalar() ? node.Scalar() : "";
    Number value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      return Error(node, fmt::format("{}: bad value '{}': want a number", key, text));
    }
    *out = value;
    return absl::OkStatus();
  }

  YAML::Node Find(const char* key) const { return map_[key]; }
  const std::string& file() const { return file_; }

 private:
  const YAML::Node map_;
  const std::string file_;
};

absl::StatusOr<PolicyClass> ReadClass(const YAML::Node& node, const std::string& file) {
  const Keys keys(node, file);
  KVR_RETURN_IF_ERROR(keys.CheckOnly(
      {"name", "policy_family", "cache_bucket", "queue_policy", "quantum", "prefill_busy_threshold",
       "prefill_busy_threshold_frac", "request_queue_limit_per_worker",
       "raw_isl_token_queue_limit_per_worker", "cached_token_queue_limit_per_worker"}));
  PolicyClass out;
  std::string order = "fcfs";
  std::optional<uint64_t> quantum_tokens;
  KVR_RETURN_IF_ERROR(keys.Text("name", &out.name));
  KVR_RETURN_IF_ERROR(keys.Text("policy_family", &out.policy_family));
  KVR_RETURN_IF_ERROR(keys.Text("cache_bucket", &out.cache_bucket));
  KVR_RETURN_IF_ERROR(keys.Text("queue_policy", &order));
  KVR_RETURN_IF_ERROR(keys.Parse("quantum", &quantum_tokens));
  KVR_RETURN_IF_ERROR(keys.Parse("prefill_busy_threshold", &out.busy.tokens));
  KVR_RETURN_IF_ERROR(keys.Parse("prefill_busy_threshold_frac", &out.busy.batch_share));
  KVR_RETURN_IF_ERROR(keys.Parse("request_queue_limit_per_worker", &out.request_limit_per_worker));
  KVR_RETURN_IF_ERROR(
      keys.Parse("raw_isl_token_queue_limit_per_worker", &out.raw_isl_token_limit_per_worker));
  KVR_RETURN_IF_ERROR(
      keys.Parse("cached_token_queue_limit_per_worker", &out.cached_token_limit_per_worker));
  out.quantum_tokens = quantum_tokens.value_or(1);
  if (order != "fcfs" && order != "wspt") {
    return keys.Error(node, fmt::format("queue_policy must be fcfs or wspt, got {}", order));
  }
  out.order = order == "wspt" ? QueueOrder::kWspt : QueueOrder::kFcfs;
  return out;
}

absl::StatusOr<UncachedBucket> ReadBucket(const YAML::Node& node, const std::string& file) {
  const Keys keys(node, file);
  KVR_RETURN_IF_ERROR(keys.CheckOnly({"min_tokens", "bucket"}));
  UncachedBucket out;
  std::optional<uint64_t> min_tokens;
  KVR_RETURN_IF_ERROR(keys.Parse("min_tokens", &min_tokens));
  KVR_RETURN_IF_ERROR(keys.Text("bucket", &out.bucket));
  if (!min_tokens) return keys.Error(node, "min_tokens is missing");
  out.min_tokens = *min_tokens;
  return out;
}

template <typename T, typename Read>
absl::Status ReadList(const Keys& keys, const char* key, const Read& read, std::vector<T>* out) {
  const YAML::Node list = keys.Find(key);
  if (!list) return absl::OkStatus();
  if (!list.IsSequence()) return keys.Error(list, fmt::format("{}: want a list", key));
  for (const YAML::Node& item : list) {
    KVR_ASSIGN_OR_RETURN(T value, read(item, keys.file()));
    out->push_back(std::move(value));
  }
  return absl::OkStatus();
}

absl::StatusOr<PolicyProfile> ReadProfile(const Keys& keys) {
  PolicyProfile profile;
  KVR_RETURN_IF_ERROR(keys.Text("default_policy_family", &profile.default_policy_family));
  KVR_RETURN_IF_ERROR(
      ReadList(keys, "uncached_isl_buckets", ReadBucket, &profile.uncached_isl_buckets));
  KVR_RETURN_IF_ERROR(ReadList(keys, "policy_classes", ReadClass, &profile.policy_classes));
  return profile;
}

absl::Status ReadProfiles(const YAML::Node& root, const std::string& path, QueueConfig* config) {
  const Keys keys(root, path);
  KVR_RETURN_IF_ERROR(keys.CheckOnly(
      {"default_policy_family", "uncached_isl_buckets", "policy_classes", "models"}));
  if (keys.Find("policy_classes") || keys.Find("default_policy_family") ||
      keys.Find("uncached_isl_buckets")) {
    KVR_ASSIGN_OR_RETURN(config->profile, ReadProfile(keys));
  }
  const YAML::Node models = keys.Find("models");
  if (models && !models.IsMap()) return keys.Error(models, "models: want a map by model name");
  for (const auto& entry : models) {
    const Keys of_model(entry.second, path);
    KVR_RETURN_IF_ERROR(
        of_model.CheckOnly({"default_policy_family", "uncached_isl_buckets", "policy_classes"}));
    const std::string model = entry.first.Scalar();
    if (config->model_profiles.contains(model))
      return keys.Error(entry.first, fmt::format("models: {} is given twice", model));
    KVR_ASSIGN_OR_RETURN(config->model_profiles[model], ReadProfile(of_model));
  }
  if (config->profile || !config->model_profiles.empty()) return absl::OkStatus();
  return keys.Error(root, "neither policy_classes nor models");
}

}  // namespace

absl::Status ReadPolicyFile(const std::string& path, QueueConfig* config) {
  config->profile.reset();
  config->model_profiles.clear();
  const absl::StatusOr<std::string> text = ReadConfigText(path);
  if (!text.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("router_policy_config: {}", std::string(text.status().message())));
  }
  try {
    return ReadProfiles(YAML::Load(*text), path, config);
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(
        fmt::format("router_policy_config {}: {}", path, error.what()));
  }
}

}  // namespace kvrouter
