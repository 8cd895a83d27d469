#ifndef KVROUTER_DISPATCH_REQUEST_HEADERS_H_
#define KVROUTER_DISPATCH_REQUEST_HEADERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dispatch/engine_link.h"
#include "dispatch/openai_request.h"
#include "kvrouter/decision.h"
#include "service/steering_headers.h"

namespace kvrouter {

// What a client's headers ask of the router, and which of them its engine gets. Pure.
//
// Parity: Dynamo v1.4.1's names and aliases, and headers beat the body's nvext.
struct RequestHeaders : SteeringHeaders {
  std::string request_id;                // x-request-id, else x-dynamo-request-id; empty: none
  std::string session_id;                // CallerSessionId
  std::optional<TargetSelector> pinned;  // x-dynamo-worker-instance-id, x-dynamo-dp-rank
  std::optional<TargetSelector> pinned_prefill;  // x-dynamo-prefill-instance-id, …-dp-rank
  std::string tenant;                            // x-tenant-id, used as a cache salt
  std::string routing_group;                     // x-kvrouter-routing-group
  bool aggregated = false;                       // x-dynamo-routing-mode: aggregated
};

// INVALID_ARGUMENT naming the header, its value and the limit; a header that counts and is there
// twice, too. `nvext` fills in what no header says.
absl::StatusOr<RequestHeaders> ReadRequestHeaders(const HeaderList& headers, const NvExt& nvext);

// Empty if absent.
std::string_view FindHeader(const HeaderList& headers, std::string_view name);

// The client's end-to-end headers without those that speak to the router; the caller adds its own
// x-request-id. Encodings of the answer are not asked for: it has to be read.
HeaderList EngineHeaders(const HeaderList& headers);
// The same for a call of the router's own, whose body is JSON whatever the client called its own;
// vLLM takes nothing else.
HeaderList HeadersOfOwnCall(HeaderList engine_headers);
// What goes back: the engine's headers, but for its length and framing, which the door sets.
HeaderList ClientHeaders(HeaderList headers);

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_REQUEST_HEADERS_H_
