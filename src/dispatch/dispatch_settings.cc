#include "dispatch/dispatch_settings.h"

#include "base/status_macros.h"
#include "kvrouter/error.h"

namespace kvrouter {

absl::Status DispatchSettings::CheckChange(const DispatchConfig& config) const {
  KVR_RETURN_IF_ERROR(Validate(config));
  const auto current = Current();
  if (config.max_live_requests == current->max_live_requests &&
      config.tokenize.cache_bytes == current->tokenize.cache_bytes)
    return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kFailedPrecondition, ErrorReason::kInvalidRequest,
      "max_live_requests and tokenize.cache_bytes cannot change while the router runs");
}

}  // namespace kvrouter
