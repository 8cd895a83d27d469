#ifndef KVROUTER_ADAPTERS_HTTP_SELECTION_HEADERS_H_
#define KVROUTER_ADAPTERS_HTTP_SELECTION_HEADERS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "adapters/http/http_server.h"
#include "kvrouter/decision.h"
#include "service/request_limits.h"
#include "adapters/http/selection_bodies.h"

namespace kvrouter {

// What the headers of a selection request ask for. Pure functions.

// OK if the request says that its body is JSON, else UNIMPLEMENTED (the doors' 415).
absl::Status CheckJsonContent(const HttpRequest& request);

struct SelectionHeaders {
  bool explain = false;  // x-route-explain: 1
  // x-dynamo-meta-policy-class, a word of [A-Za-z0-9_.-]; empty: none.
  std::string policy_class = {};
  std::optional<int32_t> priority = {};          // x-dynamo-request-priority
  std::optional<uint32_t> strict_priority = {};  // x-dynamo-request-strict-priority
};

// What they say beats what the body says.
void ApplyHeaders(const SelectionHeaders& headers, RouteRequest* route);
// The caller's name for the session: x-dynamo-session-id, else the body's, else the headers of
// agents, in the order of CallerSessionId. INVALID_ARGUMENT if it is too long, or a header sent
// twice.
absl::StatusOr<std::string> ReadSessionId(const HttpRequest& request, const SelectionBody& body);

// INVALID_ARGUMENT for a value that cannot be meant, and for a header sent twice: which of the two
// counts would be anybody's guess.
absl::StatusOr<SelectionHeaders> ReadSelectionHeaders(const HttpRequest& request);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_SELECTION_HEADERS_H_
