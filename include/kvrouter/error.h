#ifndef KVROUTER_ERROR_H_
#define KVROUTER_ERROR_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace kvrouter {

// Why a call failed. The status code alone is ambiguous (three of these are RESOURCE_EXHAUSTED), so
// every error of the core and the service carries one; doors put it on their wire (gRPC:
// kvrouter.v1.ErrorDetail.reason).
enum class ErrorReason : uint8_t {
  kUnspecified,
  kInvalidRequest,  // malformed: what, value and limit are in the message
  kTooLarge,        // over a size limit
  kNoWorkers,       // the partition has no worker that could serve this
  kAllOverloaded,   // there are eligible workers, all of them overloaded
  kPinnedOverloaded,
  kPinnedNotAllowed,   // the pin names a worker outside the allowed set
  kPinnedUnavailable,  // unknown, draining, or rank out of range
  kQueueLimit,
  kUnknownPartition,  // no worker was ever registered for this model and routing group
  kUnknownRequest,    // no live booking under this request id
  kDuplicateRequest,  // a booking of this id is live; details carry the original decision
  kUnknownWorker,
  kBlockSizeConflict,    // the partition has another block size
  kIncarnationConflict,  // the call speaks for an older life of the worker
  kShuttingDown,
  kLimitReached,         // one of our bounded containers is full; the message names it
  kFeedConflict,         // the rank's events come from elsewhere, or from a later stream
  kBlockNamingConflict,  // the partition's engines name blocks otherwise (EAGLE, image token)
  kQueueDeadline,        // it waited in the queue until its deadline
};
inline constexpr size_t kErrorReasonCount = static_cast<size_t>(ErrorReason::kQueueDeadline) + 1;

// Letters-only name as it appears on wires and in labels, e.g. "all_overloaded".
std::string_view ErrorReasonName(ErrorReason reason);

// A status of `code` that carries `reason`. REQUIRES: code is not OK.
absl::Status MakeError(absl::StatusCode code, ErrorReason reason, std::string_view message);

// kUnspecified if the status carries none.
ErrorReason ErrorReasonOf(const absl::Status& status);

// Which limit of the queue a request met.
struct QueueRejection {
  std::string policy_class;
  std::string limit_kind;  // requests, raw_isl_tokens, cached_tokens, max_waiting
  uint64_t current = 0;    // what waits
  uint64_t limit = 0;

  friend bool operator==(const QueueRejection&, const QueueRejection&) = default;
};

// RESOURCE_EXHAUSTED kQueueLimit that says and carries it.
absl::Status MakeQueueLimitError(const QueueRejection& rejection);

// Absent if the status carries none.
std::optional<QueueRejection> QueueRejectionOf(const absl::Status& status);

}  // namespace kvrouter

#endif  // KVROUTER_ERROR_H_
