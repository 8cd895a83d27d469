#ifndef KVROUTER_CORE_SCHEDULE_POLICY_CLASSES_H_
#define KVROUTER_CORE_SCHEDULE_POLICY_CLASSES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kvrouter/admission.h"

namespace kvrouter {

// The classes in which requests wait, as a policy file describes them: either *explicit* ones,
// which a request names, or a matrix of *families* (which a request names, or the default) and
// *buckets* by the tokens that remain to be computed:
//
//                    short (from 0)    long (from 4096)
//   interactive      class "i-short"   class "i-long"       every place of the matrix is filled
//   batch            class "b-short"   class "b-long"
//
// Without a file there is one class, "default". Parity: Dynamo v1.4.1 scheduling/policy_config.

// A valid profile, and which class a request belongs to. Immutable.
class PolicyClasses {
 public:
  // INVALID_ARGUMENT naming what is wrong.
  static absl::StatusOr<PolicyClasses> Make(const PolicyProfile& profile);

  // One class, "default". Any order.
  static PolicyClasses Single(QueueOrder order, const PrefillBusyThresholds& busy);

  // `wish` is what the request says (metadata key policy-class): the name of an explicit class,
  // else of a family, else the default family is taken. Uncached tokens choose the bucket.
  uint32_t ClassOf(std::string_view wish, uint64_t uncached_tokens) const;

  const PolicyClass& At(uint32_t policy_class) const { return classes_[policy_class]; }
  size_t size() const { return classes_.size(); }

 private:
  struct Family {
    std::string name;
    std::vector<uint32_t> class_of_bucket;
  };

  PolicyClasses() = default;
  absl::Status AddFamilies(const PolicyProfile& profile);

  std::vector<PolicyClass> classes_;
  std::vector<uint64_t> bucket_from_tokens_;  // ascending, the first is 0
  std::vector<Family> families_;
  size_t default_family_ = 0;
};

// Those of a model. REQUIRES: Validate(config).ok().
PolicyClasses ClassesFor(const QueueConfig& config, const std::string& model_name);

// OK, or INVALID_ARGUMENT naming the setting, the value and the range.
absl::Status Validate(const QueueConfig& config);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_SCHEDULE_POLICY_CLASSES_H_
