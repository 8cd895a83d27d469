#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string_view>
#include <vector>

#include "daemon/option_areas.h"
#include "daemon/option_builders.h"
#include "daemon/option_ranges.h"
#include "kvrouter/limits.h"

namespace kvrouter {
namespace {

// Parity: 0 and less switch it off.
Option OverlapRefreshOption() {
  using Seconds = std::chrono::duration<double>;
  constexpr double kMost = 31'536'000;
  return {
      "router-overlap-refresh-after-secs",
      "DYN_ROUTER_OVERLAP_REFRESH_AFTER_SECS",
      "A request that waited this long has its overlap looked up again when it goes, in s; 0 or "
      "less: never.",
      "seconds, at most 31536000",
      false,
      [](std::string_view text, DaemonConfig* config) -> absl::Status {
        double value = 0;
        if (!ParseNumber(text, &value) || !std::isfinite(value) || value > kMost)
          return Want("seconds, at most 31536000");
        config->router.scheduler.queue.overlap_refresh_after =
            std::chrono::duration_cast<std::chrono::nanoseconds>(Seconds(std::max(0.0, value)));
        return absl::OkStatus();
      },
      [](const DaemonConfig& config) {
        return fmt::format("{}",
                           Seconds(config.router.scheduler.queue.overlap_refresh_after).count());
      }};
}

}  // namespace

void AddAdmissionOptions(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(OptionalReal(
      "active-decode-blocks-threshold", "DYN_ACTIVE_DECODE_BLOCKS_THRESHOLD",
      KVR_SETTING(router.scheduler.overload.active_decode_blocks), 1,
      "A worker is overloaded while all its ranks use more than this share of their KV blocks; "
      "needs total_kv_blocks."));
  t.push_back(OptionalWhole(
      "active-prefill-tokens-threshold", "DYN_ACTIVE_PREFILL_TOKENS_THRESHOLD",
      KVR_SETTING(router.scheduler.overload.active_prefill_tokens), 0, kMaxU64,
      "A worker is overloaded while all its ranks have more prompt tokens than this to compute."));
  t.push_back(OptionalReal(
      "active-prefill-tokens-threshold-frac", "DYN_ACTIVE_PREFILL_TOKENS_THRESHOLD_FRAC",
      KVR_SETTING(router.scheduler.overload.active_prefill_tokens_frac), kUnbounded,
      "The same as a multiple of max_num_batched_tokens (unknown: 10000000)."));
  t.push_back(OptionalReal(
      "router-queue-threshold", "DYN_ROUTER_QUEUE_THRESHOLD",
      KVR_SETTING(router.scheduler.queue.busy.batch_share), kUnbounded,
      "Requests wait while all ranks that could serve them have more prompt tokens to compute than "
      "this multiple of max_num_batched_tokens; none: nobody ever waits."));
  t.push_back(OneOf<QueueOrder>(
      "router-queue-policy", "DYN_ROUTER_QUEUE_POLICY", KVR_SETTING(router.scheduler.queue.order),
      {{"fcfs", QueueOrder::kFcfs}, {"wspt", QueueOrder::kWspt}}, {},
      "Order of waiting requests: fcfs (first come) or wspt (fewest uncached tokens first)."));
  t.push_back(Words("router-policy-config", "DYN_ROUTER_POLICY_CONFIG", KVR_SETTING(policy_file),
                    "a path, or empty", Anything,
                    "YAML file of policy classes (docs/routing.md#queue); replaces "
                    "router-queue-threshold and router-queue-policy; empty: one class."));
  t.push_back(OverlapRefreshOption());
  t.push_back(Whole("max-waiting-requests", "KVROUTER_MAX_WAITING_REQUESTS",
                    KVR_SETTING(router.scheduler.queue.max_waiting), 1, kMaxBookingsLimit,
                    "Requests that may wait per partition."));
  t.push_back(Whole("outlier-consecutive-failures", "KVROUTER_OUTLIER_CONSECUTIVE_FAILURES",
                    KVR_SETTING(router.scheduler.outlier_ejection.consecutive_failures), 0,
                    1'000'000,
                    "A rank is taken out after this many fast failures in a row, as callers report "
                    "them; 0: never."));
  t.push_back(Whole("outlier-fast-failure-ms", "KVROUTER_OUTLIER_FAST_FAILURE_MS",
                    KVR_SETTING(router.scheduler.outlier_ejection.fast_failure), 1, kHourMs,
                    "A failure within this time of the dispatch is a fast one, in ms."));
  t.push_back(Whole("outlier-base-secs", "KVROUTER_OUTLIER_BASE_SECS",
                    KVR_SETTING(router.scheduler.outlier_ejection.base_time), 1, kDayMs / 1000,
                    "How long a rank is out the first time; doubles with every relapse, in s."));
  t.push_back(Whole("outlier-max-secs", "KVROUTER_OUTLIER_MAX_SECS",
                    KVR_SETTING(router.scheduler.outlier_ejection.max_time), 1, kDayMs / 1000,
                    "The longest it is out, in s."));
  t.push_back(Real("outlier-max-ejected-share", "KVROUTER_OUTLIER_MAX_EJECTED_SHARE",
                   KVR_SETTING(router.scheduler.outlier_ejection.max_ejected_share), 1,
                   "Most ranks of a partition that are out at once, as a share; never all."));
}

}  // namespace kvrouter
