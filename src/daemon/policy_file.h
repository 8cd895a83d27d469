#ifndef KVROUTER_DAEMON_POLICY_FILE_H_
#define KVROUTER_DAEMON_POLICY_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "kvrouter/admission.h"

namespace kvrouter {

// The queue's classes from a YAML file, in the form Dynamo v1.4.1 takes (router_policy_config):
//
//   default_policy_family: interactive        of models that are not named below
//   uncached_isl_buckets: [{min_tokens: 0, bucket: short}, …]
//   policy_classes: [{name: …, policy_family: …, cache_bucket: …, queue_policy: fcfs,
//                     quantum: 4096, prefill_busy_threshold: …, prefill_busy_threshold_frac: …,
//                     request_queue_limit_per_worker: …, raw_isl_token_queue_limit_per_worker: …,
//                     cached_token_queue_limit_per_worker: …}, …]
//   models: {NAME: {the same three}, …}
//
// Replaces the profiles of `config`. Errors name the file, the line and the key; unknown keys are
// errors. What the profiles mean together is for Validate(QueueConfig) to check.
absl::Status ReadPolicyFile(const std::string& path, QueueConfig* config);

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_POLICY_FILE_H_
