#ifndef KVROUTER_CORE_SCHEDULE_BUSY_THRESHOLDS_H_
#define KVROUTER_CORE_SCHEDULE_BUSY_THRESHOLDS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "kvrouter/admission.h"
#include "kvrouter/types.h"

namespace kvrouter {

// When a rank has too much on it. Two questions that look alike and are kept apart:
//
//   *busy*        requests wait in the queue until some rank is not (queue thresholds of a class)
//   *overloaded*  a worker is no candidate, and if all are, requests fail (overload thresholds)
//
// All thresholds are unset by default: never. Every comparison is strict: at the threshold is not
// above it. Pure functions. Parity: Dynamo v1.4.1 scheduling/queue and discovery/worker_monitor.

// Stands for the batch of a worker that does not say: so large that a share of it is never reached.
inline constexpr uint64_t kAssumedMaxBatchedTokens = 10'000'000;

bool IsPrefillBusy(uint64_t active_prefill_tokens, uint64_t max_num_batched_tokens,
                   const PrefillBusyThresholds& thresholds);

// OK, or INVALID_ARGUMENT naming the setting, the value and the range.
absl::Status Validate(const OverloadThresholds& thresholds);
absl::Status Validate(const PrefillBusyThresholds& thresholds);

// The two signals of a rank's decode memory, as last reported: blocks the engine says it uses, and
// blocks of live requests. Each report replaces one of them and says nothing of the other, so the
// latch that either of them sets is released only when neither, as last heard, is above. A signal
// never heard of is not above.
struct DecodeSignals {
  std::optional<double> kv_used_blocks = {};
  std::optional<double> active_decode_blocks = {};
};

// A rank as it is judged.
struct RankLoad {
  Target target;
  uint64_t active_prefill_tokens = 0;
  uint64_t max_num_batched_tokens = 0;  // 0: unknown
  uint64_t total_kv_blocks = 0;         // 0: unknown, the decode signals cannot be judged
  DecodeSignals decode = {};
};

enum class OverloadCause : uint8_t { kNone, kPrefillTokens, kPrefillShare, kDecodeBlocks };
// E.g. "prefill_tokens".
std::string_view OverloadCauseName(OverloadCause cause);

// The first cause, in the order of the enum's names.
OverloadCause OverloadOf(const RankLoad& rank, const OverloadThresholds& thresholds);

// overloaded[i] becomes whether the *worker* of ranks[i] is: only if all its ranks are. REQUIRES:
// ranks of a worker lie side by side.
void FindOverloadedWorkers(std::span<const RankLoad> ranks, const OverloadThresholds& thresholds,
                           std::vector<bool>* overloaded);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_SCHEDULE_BUSY_THRESHOLDS_H_
