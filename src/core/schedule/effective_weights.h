#ifndef KVROUTER_CORE_SCHEDULE_EFFECTIVE_WEIGHTS_H_
#define KVROUTER_CORE_SCHEDULE_EFFECTIVE_WEIGHTS_H_

#include "absl/status/status.h"
#include "kvrouter/config.h"
#include "kvrouter/decision.h"

namespace kvrouter {

// What one request is scored with: the configuration with the request's overrides applied. Resolved
// once per request, before the scheduler's lock. Plain data.
struct EffectiveWeights {
  CostWeights cost;
  double temperature = 0;
  bool track_prefill_tokens = true;
  bool assume_kv_reuse = true;
};

// OK, or INVALID_ARGUMENT kInvalidRequest naming the field, the value and the range. NaN is out of
// every range.
absl::Status ValidateOverrides(const ConfigOverride& overrides);

// REQUIRES: config and overrides are valid.
// Parity: decay, host and disk weights and decode_active_request_weight cannot be overridden.
EffectiveWeights ResolveWeights(const SchedulerConfig& config, const ConfigOverride& overrides);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_SCHEDULE_EFFECTIVE_WEIGHTS_H_
