#include "core/schedule/busy_thresholds.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "base/status_macros.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::max();

absl::Status CheckShare(std::string_view field, std::optional<double> value, double max) {
  if (!value || (std::isfinite(*value) && *value >= 0 && *value <= max)) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest,
                   max == kUnbounded
                       ? fmt::format("{} must be finite and >= 0, got {}", field, *value)
                       : fmt::format("{} must be in 0..{}, got {}", field, max, *value));
}

double BatchTokens(uint64_t max_num_batched_tokens) {
  return static_cast<double>(max_num_batched_tokens > 0 ? max_num_batched_tokens
                                                        : kAssumedMaxBatchedTokens);
}

bool IsAbove(std::optional<double> signal, double limit) { return signal && *signal > limit; }

constexpr std::array<std::string_view, 4> kCauseNames = {"none", "prefill_tokens", "prefill_share",
                                                         "decode_blocks"};
static_assert(kCauseNames.size() == static_cast<size_t>(OverloadCause::kDecodeBlocks) + 1);

}  // namespace

bool IsPrefillBusy(uint64_t active_prefill_tokens, uint64_t max_num_batched_tokens,
                   const PrefillBusyThresholds& thresholds) {
  if (thresholds.tokens && active_prefill_tokens > *thresholds.tokens) return true;
  return thresholds.batch_share &&
         static_cast<double>(active_prefill_tokens) >
             *thresholds.batch_share * BatchTokens(max_num_batched_tokens);
}

absl::Status Validate(const OverloadThresholds& thresholds) {
  KVR_RETURN_IF_ERROR(
      CheckShare("active_decode_blocks_threshold", thresholds.active_decode_blocks, 1));
  return CheckShare("active_prefill_tokens_threshold_frac", thresholds.active_prefill_tokens_frac,
                    kUnbounded);
}

absl::Status Validate(const PrefillBusyThresholds& thresholds) {
  return CheckShare("prefill_busy_threshold_frac", thresholds.batch_share, kUnbounded);
}

std::string_view OverloadCauseName(OverloadCause cause) {
  return kCauseNames[static_cast<size_t>(cause)];
}

OverloadCause OverloadOf(const RankLoad& rank, const OverloadThresholds& thresholds) {
  if (thresholds.active_prefill_tokens &&
      rank.active_prefill_tokens > *thresholds.active_prefill_tokens) {
    return OverloadCause::kPrefillTokens;
  }
  if (thresholds.active_prefill_tokens_frac) {
    const double limit_tokens = std::trunc(*thresholds.active_prefill_tokens_frac *
                                           BatchTokens(rank.max_num_batched_tokens));
    if (static_cast<double>(rank.active_prefill_tokens) > limit_tokens) {
      return OverloadCause::kPrefillShare;
    }
  }
  if (thresholds.active_decode_blocks && rank.total_kv_blocks > 0) {
    const double limit_blocks =
        *thresholds.active_decode_blocks * static_cast<double>(rank.total_kv_blocks);
    if (IsAbove(rank.decode.kv_used_blocks, limit_blocks) ||
        IsAbove(rank.decode.active_decode_blocks, limit_blocks)) {
      return OverloadCause::kDecodeBlocks;
    }
  }
  return OverloadCause::kNone;
}

void FindOverloadedWorkers(std::span<const RankLoad> ranks, const OverloadThresholds& thresholds,
                           std::vector<bool>* overloaded) {
  overloaded->assign(ranks.size(), false);
  if (!thresholds.IsSet()) return;
  for (size_t first = 0; first < ranks.size();) {
    size_t last = first;
    bool all = true;
    for (; last < ranks.size() && ranks[last].target.worker == ranks[first].target.worker; ++last) {
      all = all && OverloadOf(ranks[last], thresholds) != OverloadCause::kNone;
    }
    for (; first < last; ++first) (*overloaded)[first] = all;
  }
}

}  // namespace kvrouter
