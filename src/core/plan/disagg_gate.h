#ifndef KVROUTER_CORE_PLAN_DISAGG_GATE_H_
#define KVROUTER_CORE_PLAN_DISAGG_GATE_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "core/plan/rule_check.h"

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

struct LengthGate {
  enum class Measure : uint8_t {
    kPrompt,    // tokens of the prompt; as the fork
    kUncached,  // minus what the decode worker holds: what would have to be computed
  };

  uint64_t min_remote_prefill_tokens = 0;  // 0: the length gate is off, continuations too
  Measure measure = Measure::kPrompt;
  bool local_continuations = false;
  std::chrono::seconds continuation_window{3600};  // > 0
};

struct ConditionalDisagg {
  enum class Policy : uint8_t { kIslBounding, kPrefillLoad, kIslOrLoad };

  bool enabled = false;
  Policy policy = Policy::kIslBounding;
  uint64_t eff_isl_threshold_tokens = 2048;
  double eff_isl_ratio_threshold = 0.7;  // 0..1
  // Share of max_num_batched_tokens; finite, >= 0. The load policies need it; whoever reads the
  // settings puts router_queue_threshold here if there is no value of its own.
  std::optional<double> prefill_busy_threshold = {};
  // Share of a decode worker's blocks; finite, >= 0. Absent: no guard.
  std::optional<double> decode_busy_threshold = {};
};

struct GateConfig {
  LengthGate length;
  ConditionalDisagg conditional;
};

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

enum class GateRule : uint8_t {
  kNoPrefillPool,  // local
  kShortPrompt,    // local
  kContinuation,   // local
  kFewNewTokens,   // local
  kPrefillBusy,    // local
  kDecodeBusy,     // remote: the guard spoke against what would have been local
  kPrefillPinned,  // remote
  kEmptyPrompt,    // remote
  kNoAdvice,       // remote
  kDefault,        // remote
};
inline constexpr int kGateRuleCount = 10;

// E.g. "short_prompt".
std::string_view GateRuleName(GateRule rule);

struct GateDecision {
  bool remote = false;
  GateRule rule = GateRule::kDefault;
  // What was compared, in order; the last one decided if a comparison did.
  absl::InlinedVector<RuleCheck, 6> checks;
  // A figure that a configured rule needs was not there: the gate works, but half blind.
  bool input_missing = false;
};

// REQUIRES: Validate(config).ok().
GateDecision DecideGate(const GateConfig& config, const GateInput& input);

// Whether DecideGate could use an advisory pick of this pool; without need none is made.
bool WantsDecodeAdvice(const GateConfig& config);
bool WantsPrefillAdvice(const GateConfig& config);

// One line for logs and explanations, e.g. "local short_prompt (prompt_tokens 9 < 16384: yes)".
std::string DescribeGate(const GateDecision& decision);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_PLAN_DISAGG_GATE_H_
