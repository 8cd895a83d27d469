#include "kvrouter/config.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string_view>

#include "base/status_macros.h"
#include "core/affinity/pin_choice.h"
#include "core/plan/disagg_gate.h"
#include "core/schedule/booking_id.h"
#include "core/schedule/busy_thresholds.h"
#include "core/schedule/outlier_ejection.h"
#include "core/schedule/policy_classes.h"
#include "kvrouter/error.h"
#include "kvrouter/limits.h"

namespace kvrouter {
namespace {

// What a BookingId has room for.
static_assert(kMaxBookingsLimit == kMaxBookingSlots);
static_assert(kMaxPartitionsLimit == kMaxPartitionIndexes);

constexpr double kUnbounded = std::numeric_limits<double>::max();

absl::Status OutOfRange(std::string_view field, std::string_view range, std::string_view value) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest,
                   fmt::format("{} must be {}, got {}", field, range, value));
}

// Finite, not NaN, and in [0, max].
absl::Status CheckWeight(std::string_view field, double value, double max) {
  if (std::isfinite(value) && value >= 0 && value <= max) return absl::OkStatus();
  return OutOfRange(field, max == kUnbounded ? "finite and >= 0" : fmt::format("in 0..{}", max),
                    fmt::format("{}", value));
}

absl::Status CheckCount(std::string_view field, uint64_t value, uint64_t max) {
  if (value >= 1 && value <= max) return absl::OkStatus();
  return OutOfRange(field, fmt::format("in 1..{}", max), fmt::format("{}", value));
}

template <typename Duration>
absl::Status CheckPeriod(std::string_view field, Duration value) {
  if (value.count() > 0) return absl::OkStatus();
  return OutOfRange(field, "> 0", fmt::format("{}", value.count()));
}

absl::Status ValidateWeights(const CostWeights& weights) {
  KVR_RETURN_IF_ERROR(
      CheckWeight("overlap_score_credit", weights.overlap_score_credit, kUnbounded));
  KVR_RETURN_IF_ERROR(
      CheckWeight("overlap_score_credit_decay", weights.overlap_score_credit_decay, kUnbounded));
  KVR_RETURN_IF_ERROR(CheckWeight("prefill_load_scale", weights.prefill_load_scale, kUnbounded));
  KVR_RETURN_IF_ERROR(CheckWeight("decode_active_request_weight",
                                  weights.decode_active_request_weight, kUnbounded));
  KVR_RETURN_IF_ERROR(CheckWeight("host_cache_hit_weight", weights.host_cache_hit_weight, 1));
  KVR_RETURN_IF_ERROR(CheckWeight("disk_cache_hit_weight", weights.disk_cache_hit_weight, 1));
  return CheckWeight("shared_cache_multiplier", weights.shared_cache_multiplier, 1);
}

absl::Status CheckTtl(std::string_view field, std::chrono::nanoseconds value) {
  constexpr std::chrono::nanoseconds kYear = std::chrono::hours(365 * 24);
  if (value.count() >= 0 && value <= kYear) return absl::OkStatus();
  return OutOfRange(field, "in 0..31536000 s",
                    fmt::format("{} s", std::chrono::duration<double>(value).count()));
}

absl::Status ValidateSource(const RouterConfig& config) {
  const OverlapSourceConfig& source = config.overlap_source;
  KVR_RETURN_IF_ERROR(CheckTtl("router_ttl_secs", source.router_ttl));
  if (source.predicted_ttl) {
    KVR_RETURN_IF_ERROR(CheckTtl("router_predicted_ttl_secs", *source.predicted_ttl));
    if (!source.use_kv_events) {
      return OutOfRange(
          "router_predicted_ttl_secs", "none unless router_kv_events is true",
          fmt::format("{}", std::chrono::duration<double>(*source.predicted_ttl).count()));
    }
  }
  if (source.shared_cache_type != SharedCacheType::kNone && !source.use_kv_events)
    return OutOfRange("shared_cache_type", "none unless router_kv_events is true", "external");
  return CheckCount("max_routed_blocks", source.max_routed_blocks, kMaxRoutedBlocksLimit);
}

absl::Status CheckAbove0(std::string_view field, double value) {
  if (std::isfinite(value) && value > 0) return absl::OkStatus();
  return OutOfRange(field, "finite and > 0", fmt::format("{}", value));
}

absl::Status ValidateSessions(const SessionConfig& sessions) {
  constexpr int64_t kYearSeconds = 365 * 24 * 3600;
  if (sessions.affinity_ttl &&
      (sessions.affinity_ttl->count() < 1 || sessions.affinity_ttl->count() > kYearSeconds)) {
    return OutOfRange("affinity_ttl", fmt::format("in 1..{} s", kYearSeconds),
                      fmt::format("{} s", sessions.affinity_ttl->count()));
  }
  KVR_RETURN_IF_ERROR(Validate(sessions.soft_pin));
  KVR_RETURN_IF_ERROR(
      CheckCount("max_sessions", sessions.max_sessions, std::numeric_limits<uint32_t>::max()));
  KVR_RETURN_IF_ERROR(CheckAbove0("hot_share_of_mean", sessions.hot_share_of_mean));
  KVR_RETURN_IF_ERROR(CheckCount("hot_min_requests", sessions.hot_min_requests,
                                 std::numeric_limits<uint32_t>::max()));
  return CheckPeriod("hot_half_life", sessions.hot_half_life);
}

}  // namespace

absl::Status Validate(const RouterConfig& config) {
  const SchedulerConfig& scheduler = config.scheduler;
  KVR_RETURN_IF_ERROR(ValidateWeights(scheduler.weights));
  KVR_RETURN_IF_ERROR(CheckWeight("router_temperature", scheduler.router_temperature, kUnbounded));
  if (config.shadow) {
    KVR_RETURN_IF_ERROR(ValidateWeights(config.shadow->weights));
    KVR_RETURN_IF_ERROR(CheckWeight("router_temperature of the shadow policy",
                                    config.shadow->router_temperature, kUnbounded));
  }
  if (scheduler.track_output_blocks && !scheduler.track_active_blocks) {
    return OutOfRange("track_output_blocks", "false unless track_active_blocks is true", "true");
  }
  KVR_RETURN_IF_ERROR(ValidateSource(config));
  KVR_RETURN_IF_ERROR(CheckPeriod("active_request_expiry", scheduler.active_request_expiry));
  KVR_RETURN_IF_ERROR(CheckPeriod("expiry_check_period", scheduler.expiry_check_period));
  KVR_RETURN_IF_ERROR(Validate(scheduler.overload));
  KVR_RETURN_IF_ERROR(Validate(scheduler.queue));
  KVR_RETURN_IF_ERROR(Validate(scheduler.outlier_ejection));
  KVR_RETURN_IF_ERROR(CheckCount("max_bookings", scheduler.max_bookings, kMaxBookingsLimit));
  KVR_RETURN_IF_ERROR(ValidateSessions(config.sessions));
  KVR_RETURN_IF_ERROR(Validate(config.gate));
  KVR_RETURN_IF_ERROR(CheckPeriod("kv_source_timeout", config.kv_source_timeout));
  KVR_RETURN_IF_ERROR(CheckCount("max_partitions", config.max_partitions, kMaxPartitionsLimit));
  KVR_RETURN_IF_ERROR(
      CheckCount("max_workers", config.max_workers, std::numeric_limits<uint32_t>::max()));
  KVR_RETURN_IF_ERROR(CheckCount("max_device_blocks", config.max_device_blocks,
                                 std::numeric_limits<uint32_t>::max()));
  KVR_RETURN_IF_ERROR(CheckCount("max_lower_tier_blocks", config.max_lower_tier_blocks,
                                 std::numeric_limits<uint32_t>::max()));
  return CheckCount("max_index_blocks", config.max_index_blocks, uint64_t{1} << 40);
}

}  // namespace kvrouter
