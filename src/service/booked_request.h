#ifndef KVROUTER_SERVICE_BOOKED_REQUEST_H_
#define KVROUTER_SERVICE_BOOKED_REQUEST_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "kvrouter/decision.h"
#include "kvrouter/types.h"

namespace kvrouter {

// Of a request id, wherever ids are looked up.
inline size_t HashOfId(std::string_view request_id) {
  // Abseil's own string hash takes only absl::string_view, another type than std::string_view here.
  return std::hash<std::string_view>()(request_id);
}

// A request that was booked. Written once, then shared by those who keep it for their own reasons:
// the request table while it lives, the ring of recent decisions while it is recent.
struct BookedRequest {
  explicit BookedRequest(std::string_view id) : request_id(id), id_hash(HashOfId(id)) {}

  const std::string request_id;
  const size_t id_hash;
  RouteDecision decision;  // without its lists, which are the bulk of it
  MonotonicTime decided_at{};
};

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_BOOKED_REQUEST_H_
