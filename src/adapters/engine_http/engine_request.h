#ifndef KVROUTER_ADAPTERS_ENGINE_HTTP_ENGINE_REQUEST_H_
#define KVROUTER_ADAPTERS_ENGINE_HTTP_ENGINE_REQUEST_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "adapters/engine_http/engine_url.h"
#include "dispatch/engine_link.h"

namespace kvrouter {

// The head of the call's request as it goes on the wire; its body follows as it is. Fields of the
// connection, and fields that would not stay one line, are left out: they may come from a client.
// A method or path that cannot be sent is an error.
absl::StatusOr<std::string> FormatRequestHead(const EngineUrl& url, const EngineCall& call);

// Belongs to one connection, not to the message: never passed on in either direction. `name` in
// lower case.
bool IsConnectionField(std::string_view name);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_ENGINE_HTTP_ENGINE_REQUEST_H_
