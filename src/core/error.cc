#include "kvrouter/error.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

#include "absl/strings/cord.h"

namespace kvrouter {
namespace {

// Payload key inside absl::Status; the value is one byte, the reason.
constexpr char kPayloadUrl[] = "kvrouter/error_reason";
// The value is CURRENT LIMIT KIND CLASS.
constexpr char kQueuePayloadUrl[] = "kvrouter/queue_rejection";

constexpr std::array<std::string_view, kErrorReasonCount> kNames = {"unspecified",
                                                                    "invalid_request",
                                                                    "too_large",
                                                                    "no_workers",
                                                                    "all_overloaded",
                                                                    "pinned_overloaded",
                                                                    "pinned_not_allowed",
                                                                    "pinned_unavailable",
                                                                    "queue_limit",
                                                                    "unknown_partition",
                                                                    "unknown_request",
                                                                    "duplicate_request",
                                                                    "unknown_worker",
                                                                    "block_size_conflict",
                                                                    "incarnation_conflict",
                                                                    "shutting_down",
                                                                    "limit_reached",
                                                                    "feed_conflict",
                                                                    "block_naming_conflict",
                                                                    "queue_deadline"};
static_assert(!kNames.back().empty());

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

absl::Status MakeQueueLimitError(const QueueRejection& rejection) {
  absl::Status status =
      MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kQueueLimit,
                fmt::format("queue of policy class {} is full: {} {} wait, the limit is {}",
                            rejection.policy_class, rejection.current, rejection.limit_kind,
                            rejection.limit));
  status.SetPayload(kQueuePayloadUrl,
                    absl::Cord(fmt::format("{} {} {} {}", rejection.current, rejection.limit,
                                           rejection.limit_kind, rejection.policy_class)));
  return status;
}

std::optional<QueueRejection> QueueRejectionOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kQueuePayloadUrl);
  if (!payload) return std::nullopt;
  const std::string text(*payload);
  QueueRejection rejection;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (uint64_t* const number : {&rejection.current, &rejection.limit}) {
    const auto [next, error] = std::from_chars(at, end, *number);
    if (error != std::errc() || next == end) return std::nullopt;
    at = next + 1;
  }
  const std::string_view names(at, static_cast<size_t>(end - at));
  const size_t space = names.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  rejection.limit_kind = names.substr(0, space);
  rejection.policy_class = names.substr(space + 1);
  return rejection;
}

}  // namespace kvrouter
