#ifndef KVROUTER_ADMISSION_H_
#define KVROUTER_ADMISSION_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kvrouter {

// Who may be chosen and who has to wait, as configured. Plain data; every threshold is unset by
// default: never. Comparisons are strict: at the threshold is not above it. Names, defaults and
// ranges are Dynamo v1.4.1's, but for the outlier ejection, which is ours.

// Requests wait in the queue while all their targets are busy by these.
struct PrefillBusyThresholds {
  std::optional<uint64_t> tokens = {};
  std::optional<double> batch_share = {};  // of max_num_batched_tokens; finite, >= 0

  bool IsSet() const { return tokens || batch_share; }
  friend bool operator==(const PrefillBusyThresholds&, const PrefillBusyThresholds&) = default;
};

// A worker is no candidate while all its ranks are above one of these.
struct OverloadThresholds {
  std::optional<double> active_decode_blocks = {};        // share of the rank's blocks, 0..1
  std::optional<uint64_t> active_prefill_tokens = {};     // tokens
  std::optional<double> active_prefill_tokens_frac = {};  // of max_num_batched_tokens; >= 0

  bool IsSet() const {
    return active_decode_blocks || active_prefill_tokens || active_prefill_tokens_frac;
  }
  friend bool operator==(const OverloadThresholds&, const OverloadThresholds&) = default;
};

enum class QueueOrder : uint8_t {
  kFcfs,  // first come, first served
  kLcfs,  // last come; not in policy files
  kWspt,  // weighted shortest processing time: fewest uncached tokens per weight
};

// core/schedule/policy_classes.h says how these go together.
struct PolicyClass {
  std::string name;           // [A-Za-z0-9_.-]+
  std::string policy_family;  // with cache_bucket: a place in the matrix; both empty: explicit
  std::string cache_bucket;
  QueueOrder order = QueueOrder::kFcfs;
  uint64_t quantum_tokens = 1;  // 1..kMaxQuantumTokens. Its share of tokens against other classes
  // Requests wait while all their targets are busy by these. None set: the class never queues.
  PrefillBusyThresholds busy;
  // What may wait, times the number of workers; absent: without limit.
  std::optional<uint64_t> request_limit_per_worker = {};
  std::optional<uint64_t> raw_isl_token_limit_per_worker = {};
  std::optional<uint64_t> cached_token_limit_per_worker = {};

  friend bool operator==(const PolicyClass&, const PolicyClass&) = default;
};

inline constexpr uint64_t kMaxQuantumTokens = uint64_t{1} << 40;
inline constexpr size_t kMaxPolicyClasses = 1024;

struct UncachedBucket {
  uint64_t min_tokens = 0;
  std::string bucket;

  friend bool operator==(const UncachedBucket&, const UncachedBucket&) = default;
};

struct PolicyProfile {
  std::string default_policy_family;
  std::vector<UncachedBucket> uncached_isl_buckets = {};  // first from 0, strictly rising
  std::vector<PolicyClass> policy_classes = {};

  friend bool operator==(const PolicyProfile&, const PolicyProfile&) = default;
};

struct QueueConfig {
  // Of the one class "default" that there is without a profile.
  QueueOrder order = QueueOrder::kFcfs;
  PrefillBusyThresholds busy;
  // Of a policy file: for the models it names, and for all others.
  std::map<std::string, PolicyProfile> model_profiles;
  std::optional<PolicyProfile> profile;
  uint32_t max_waiting = 65'536;  // > 0. Waiting requests per partition
  // A request that waited this long has its overlap looked up again; 0: never.
  std::chrono::nanoseconds overlap_refresh_after = std::chrono::seconds(10);

  friend bool operator==(const QueueConfig&, const QueueConfig&) = default;
};

// core/schedule/outlier_ejection.h has the model.
struct OutlierEjectionConfig {
  uint32_t consecutive_failures = 5;             // N; 0: nobody is ever taken out
  std::chrono::milliseconds fast_failure{1000};  // > 0
  std::chrono::seconds base_time{10};            // > 0; the first time out
  std::chrono::seconds max_time{300};            // >= base_time
  double max_ejected_share = 0.5;                // 0..1

  friend bool operator==(const OutlierEjectionConfig&, const OutlierEjectionConfig&) = default;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADMISSION_H_
