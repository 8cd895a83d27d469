#include "dispatch/dispatch_config.h"

#include <fmt/format.h>

#include <string_view>

#include "base/status_macros.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

absl::Status Invalid(std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest, message);
}

absl::Status CheckPositive(std::string_view name, std::chrono::nanoseconds value) {
  if (value.count() > 0) return absl::OkStatus();
  return Invalid(fmt::format("{} must be > 0, got {} ns", name, value.count()));
}

absl::Status CheckPositive(std::string_view name, uint64_t value) {
  return value > 0 ? absl::OkStatus() : Invalid(fmt::format("{} must be > 0, got 0", name));
}

}  // namespace

absl::Status Validate(const DispatchConfig& config) {
  if (config.total_timeout.count() < 0) {
    return Invalid(
        fmt::format("total_timeout must be >= 0, got {} ns", config.total_timeout.count()));
  }
  if (config.routing_group.empty()) return Invalid("routing_group must not be empty");
  KVR_RETURN_IF_ERROR(CheckPositive("max_live_requests", uint64_t{config.max_live_requests}));
  KVR_RETURN_IF_ERROR(CheckPositive("head_timeout", config.head_timeout));
  KVR_RETURN_IF_ERROR(CheckPositive("idle_timeout", config.idle_timeout));
  KVR_RETURN_IF_ERROR(CheckPositive("prefill_timeout", config.prefill_timeout));
  KVR_RETURN_IF_ERROR(CheckPositive("handshake_lease", config.handshake_lease));
  KVR_RETURN_IF_ERROR(CheckPositive("keep_alive_period", config.keep_alive_period));
  KVR_RETURN_IF_ERROR(CheckPositive("max_held_reply_bytes", config.max_held_reply_bytes));
  const TokenizeConfig& tokenize = config.tokenize;
  KVR_RETURN_IF_ERROR(CheckPositive("tokenize.timeout", tokenize.timeout));
  KVR_RETURN_IF_ERROR(CheckPositive("tokenize.max_in_flight", uint64_t{tokenize.max_in_flight}));
  KVR_RETURN_IF_ERROR(
      CheckPositive("tokenize.breaker_failures", uint64_t{tokenize.breaker_failures}));
  return CheckPositive("tokenize.breaker_open", tokenize.breaker_open);
}

}  // namespace kvrouter
