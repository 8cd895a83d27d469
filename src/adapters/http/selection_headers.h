#ifndef KVROUTER_ADAPTERS_HTTP_SELECTION_HEADERS_H_
#define KVROUTER_ADAPTERS_HTTP_SELECTION_HEADERS_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "adapters/http/http_server.h"

namespace kvrouter {

// What the headers of a selection request ask for. Pure functions.

// OK if the request says that its body is JSON, else UNIMPLEMENTED (the doors' 415).
absl::Status CheckJsonContent(const HttpRequest& request);

// A class of the queue is a word of [A-Za-z0-9_.-].
inline constexpr size_t kMaxPolicyClassBytes = 128;

struct SelectionHeaders {
  bool explain = false;  // x-route-explain: 1
  // x-dynamo-meta-policy-class; empty: none. Checked, not yet acting (docs/parity.md).
  std::string policy_class;
};

// INVALID_ARGUMENT for a value that cannot be meant, and for a header sent twice: which of the two
// counts would be anybody's guess.
absl::StatusOr<SelectionHeaders> ReadSelectionHeaders(const HttpRequest& request);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_SELECTION_HEADERS_H_
