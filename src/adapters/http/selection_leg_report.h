#ifndef KVROUTER_ADAPTERS_HTTP_SELECTION_LEG_REPORT_H_
#define KVROUTER_ADAPTERS_HTTP_SELECTION_LEG_REPORT_H_

#include <chrono>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "service/routing_service.h"

namespace kvrouter {

// "succeeded" or "failed", else INVALID_ARGUMENT.
absl::StatusOr<LegOutcome> ParseLegOutcome(std::string_view text);

// Of a query: a whole number of ms, at most a day, else INVALID_ARGUMENT.
absl::StatusOr<std::chrono::nanoseconds> ParseAfterMs(std::string_view text);

// {"outcome": "failed", "leg": "prefill", "worker_id": 7, "dp_rank": 0, "after_ms": 12}; only the
// outcome must be there, and no dp_rank without worker_id. Errors as of the selection API's bodies.
absl::StatusOr<LegNews> ReadLegReportBody(const std::string& body);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_SELECTION_LEG_REPORT_H_
