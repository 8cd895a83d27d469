#include "kvrouter/error.h"

#include <array>
#include <string>

#include "absl/strings/cord.h"

namespace kvrouter {
namespace {

// Payload key inside absl::Status; the value is one byte, the reason.
constexpr char kPayloadUrl[] = "kvrouter/error_reason";

constexpr std::array<std::string_view, 19> kNames = {
    "unspecified",       "invalid_request",      "too_large",        "no_workers",
    "all_overloaded",    "pinned_overloaded",    "pinned_not_allowed", "pinned_unavailable",
    "queue_limit",       "unknown_partition",    "unknown_request",  "duplicate_request",
    "unknown_worker",    "block_size_conflict",  "incarnation_conflict", "shutting_down",
    "limit_reached",     "feed_conflict",        "block_naming_conflict"};
static_assert(kNames.size() == static_cast<size_t>(ErrorReason::kBlockNamingConflict) + 1);

}  // namespace

std::string_view ErrorReasonName(ErrorReason reason) { return kNames[static_cast<size_t>(reason)]; }

absl::Status MakeError(absl::StatusCode code, ErrorReason reason, std::string_view message) {
  absl::Status status(code, {message.data(), message.size()});
  status.SetPayload(kPayloadUrl, absl::Cord(std::string(1, static_cast<char>(reason))));
  return status;
}

ErrorReason ErrorReasonOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayloadUrl);
  if (!payload || payload->size() != 1) return ErrorReason::kUnspecified;
  const auto value = static_cast<size_t>(static_cast<unsigned char>((*payload)[0]));
  return value < kNames.size() ? static_cast<ErrorReason>(value) : ErrorReason::kUnspecified;
}

}  // namespace kvrouter
