#ifndef KVROUTER_SERVICE_STEERING_HEADERS_H_
#define KVROUTER_SERVICE_STEERING_HEADERS_H_

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvrouter/decision.h"
#include "kvrouter/session.h"

namespace kvrouter {

// What HTTP headers ask of the router, in one place for all doors that have them. Pure functions.
//
// Parity: Dynamo v1.4.1's names. INVALID_ARGUMENT naming the header, its value and the limit; also
// for a header that counts and is sent twice: which of the two is meant would be anybody's guess.

using HeaderSpan = std::span<const std::pair<std::string, std::string>>;  // names in lower case

// Its value without the white space around it; empty if absent.
absl::StatusOr<std::string_view> ReadHeader(HeaderSpan headers, std::string_view name);

absl::Status HeaderIsNoNumber(std::string_view name, std::string_view text, int64_t min,
                              uint64_t max);

// A whole number that Number can hold; nothing if absent.
template <typename Number>
absl::StatusOr<std::optional<Number>> ReadNumberHeader(HeaderSpan headers, std::string_view name) {
  const absl::StatusOr<std::string_view> text = ReadHeader(headers, name);
  if (!text.ok()) return text.status();
  if (text->empty()) return std::optional<Number>();
  Number number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || end != text->data() + text->size()) {
    return HeaderIsNoNumber(name, *text, std::numeric_limits<Number>::min(),
                            std::numeric_limits<Number>::max());
  }
  return std::optional<Number>(number);
}

struct SteeringHeaders {
  bool explain = false;  // x-route-explain: 1
  // x-dynamo-meta-policy-class, a word of [A-Za-z0-9_.-]; empty: none.
  std::string policy_class = {};
  std::optional<int32_t> priority = {};          // x-dynamo-request-priority
  std::optional<uint32_t> strict_priority = {};  // x-dynamo-request-strict-priority
};

absl::StatusOr<SteeringHeaders> ReadSteeringHeaders(HeaderSpan headers);
// What they say beats what the request says.
void ApplySteering(const SteeringHeaders& steering, RouteRequest* route);

// The names that a session goes by in headers, for CallerSessionId.
absl::StatusOr<SessionIdSources> ReadSessionHeaders(HeaderSpan headers);

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_STEERING_HEADERS_H_
