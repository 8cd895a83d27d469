#ifndef KVROUTER_CORE_PLAN_DISAGG_GATE_H_
#define KVROUTER_CORE_PLAN_DISAGG_GATE_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "kvrouter/plan.h"

namespace kvrouter {

// Whether the decode worker computes a prompt itself ("local") or a prefill worker does so first
// ("remote"), and why. Pure: everything comes in with the call.
//
//   no prefill pool ───────────────────────────────────────────────> local   no_prefill_pool
//   length gate on:  length < min ─────────────────────────────────> local   short_prompt
//                    session seen within the window ───────────────> local   continuation
//   conditional on:  prefill pinned, prompt empty, no advice ──────> remote  prefill_pinned, ...
//                    few new tokens (isl), prefill busy (load):
//                       decode guard on and decode busy or unknown > remote  decode_busy
//                       else ──────────────────────────────────────> local   few_new_tokens or
//                                                                            prefill_busy
//   nothing spoke for local ───────────────────────────────────────> remote  default
//
// Every comparison is strict. The length gate comes first and knows no pins, as in the fork.
// Parity: the fork's length gate and continuations; Dynamo v1.4.1 conditional_disagg. Ours besides:
// the length gate over uncached tokens.

// OK, or INVALID_ARGUMENT naming the field, the value and the range.
absl::Status Validate(const GateConfig& config);

// The decode worker as the advisory pick has it.
struct DecodeAdvice {
  uint64_t cached_tokens = 0;  // of this prompt
  double potential_decode_blocks =
      0;                         // after admission: active + additional + the prompt's partial one
  uint64_t total_kv_blocks = 0;  // 0: unknown
};

// The prefill worker as the advisory pick has it.
struct PrefillAdvice {
  bool queue_rejected = false;  // no prefill worker takes more: busy whatever the figures
  uint64_t active_prefill_tokens = 0;
  uint64_t max_num_batched_tokens = 0;  // 0: unknown; kAssumedMaxBatchedTokens then
};

struct GateInput {
  bool prefill_pool_active = true;
  bool prefill_pinned = false;  // the caller names the prefill worker
  uint64_t isl_tokens = 0;
  // Since the last request of the same session; absent: there was none, or no session.
  std::optional<std::chrono::nanoseconds> session_idle = {};
  std::optional<DecodeAdvice> decode = {};    // absent: the pick failed, or its rank is unknown
  std::optional<PrefillAdvice> prefill = {};  // absent: not asked, or failed
};

// REQUIRES: Validate(config).ok().
GateDecision DecideGate(const GateConfig& config, const GateInput& input);

// Whether DecideGate could use an advisory pick of this pool; without need none is made.
bool WantsDecodeAdvice(const GateConfig& config);
bool WantsPrefillAdvice(const GateConfig& config);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_PLAN_DISAGG_GATE_H_
