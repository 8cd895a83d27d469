#ifndef KVROUTER_ADAPTERS_HTTP_SELECTION_HEADERS_H_
#define KVROUTER_ADAPTERS_HTTP_SELECTION_HEADERS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "adapters/http/http_server.h"
#include "adapters/http/selection_bodies.h"

namespace kvrouter {

// What the headers of a selection request say besides service/steering_headers.h. Pure functions.

// OK if the request says that its body is JSON, else UNIMPLEMENTED (the doors' 415).
absl::Status CheckJsonContent(const HttpRequest& request);

// The caller's name for the session: x-dynamo-session-id, else the body's, else the headers of
// agents, in the order of CallerSessionId. INVALID_ARGUMENT if it is too long, or a header sent
// twice.
absl::StatusOr<std::string> ReadSessionId(const HttpRequest& request, const SelectionBody& body);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_SELECTION_HEADERS_H_
