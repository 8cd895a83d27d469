#ifndef KVROUTER_DISPATCH_JSON_CURSOR_H_
#define KVROUTER_DISPATCH_JSON_CURSOR_H_

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"

namespace kvrouter {

// Reading of JSON with simdjson's on-demand parser, which looks at a value when it is asked for it
// and skips what nobody wants, unchecked but for UTF-8 and quotes: whoever gets the bytes in the
// end judges them. Private to dispatch (simdjson stays out of other headers).

using JsonValue = simdjson::ondemand::value;
using JsonType = simdjson::ondemand::json_type;

// INVALID_ARGUMENT kInvalidRequest.
absl::Status NotJson(simdjson::error_code error);
absl::Status BadJsonField(std::string_view field, std::string_view problem);

// Nothing for a value of another type, which is left alone.
std::optional<std::string> StringOf(JsonValue value);
std::optional<bool> BoolOf(JsonValue value);
std::optional<uint64_t> UnsignedOf(JsonValue value);  // a whole number without point or exponent
std::optional<int64_t> SignedOf(JsonValue value);
std::optional<double> DoubleOf(JsonValue value);
bool IsNull(JsonValue value);
// The value's text as it lies there; of a string or another scalar.
std::string_view ScalarText(JsonValue value);

inline absl::StatusOr<JsonType> TypeOfJson(JsonValue value) {
  JsonType type{};
  if (const auto error = value.type().get(type); error != simdjson::SUCCESS) return NotJson(error);
  return type;
}

// Calls `visit(std::string_view key, JsonValue value)` for each member.
template <typename Visit>
absl::Status VisitMembers(simdjson::ondemand::object object, Visit visit) {
  for (auto member : object) {
    std::string_view key;
    JsonValue value;
    if (const auto error = member.unescaped_key().get(key); error != simdjson::SUCCESS)
      return NotJson(error);
    if (const auto error = member.value().get(value); error != simdjson::SUCCESS)
      return NotJson(error);
    KVR_RETURN_IF_ERROR(visit(key, value));
  }
  return absl::OkStatus();
}

// The same for a value, if it is an object.
template <typename Visit>
absl::Status VisitIfObject(JsonValue value, Visit visit) {
  KVR_ASSIGN_OR_RETURN(const JsonType type, TypeOfJson(value));
  if (type != JsonType::object) return absl::OkStatus();
  simdjson::ondemand::object object;
  if (const auto error = value.get_object().get(object); error != simdjson::SUCCESS)
    return NotJson(error);
  return VisitMembers(object, visit);
}

// Calls `visit(JsonValue element)` for each, if the value is an array.
template <typename Visit>
absl::Status VisitIfArray(JsonValue value, Visit visit) {
  KVR_ASSIGN_OR_RETURN(const JsonType type, TypeOfJson(value));
  if (type != JsonType::array) return absl::OkStatus();
  simdjson::ondemand::array array;
  if (const auto error = value.get_array().get(array); error != simdjson::SUCCESS)
    return NotJson(error);
  for (auto element : array) {
    JsonValue item;
    if (const auto error = element.get(item); error != simdjson::SUCCESS) return NotJson(error);
    KVR_RETURN_IF_ERROR(visit(item));
  }
  return absl::OkStatus();
}

// A text that is one object: `visit` as in VisitMembers. REQUIRES: kJsonPaddingBytes are readable
// behind the text.
inline constexpr size_t kJsonPaddingBytes = simdjson::SIMDJSON_PADDING;
template <typename Visit>
absl::Status VisitPaddedObject(simdjson::padded_string_view text, Visit visit) {
  // Kept: allocates for the largest text it has seen.
  thread_local simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  if (const auto error = parser.iterate(text).get(document); error != simdjson::SUCCESS)
    return NotJson(error);
  simdjson::ondemand::object object;
  if (const auto error = document.get_object().get(object); error != simdjson::SUCCESS) {
    return error == simdjson::INCORRECT_TYPE ? BadJsonField("body", "must be a JSON object")
                                             : NotJson(error);
  }
  KVR_RETURN_IF_ERROR(VisitMembers(object, visit));
  if (document.current_location().error() != simdjson::OUT_OF_BOUNDS)
    return BadJsonField("body", "has text behind the object");
  return absl::OkStatus();
}

template <typename Visit>
absl::Status VisitObject(const std::string& text, Visit visit) {
  if (text.capacity() - text.size() < kJsonPaddingBytes) {
    const simdjson::padded_string copy(text);
    return VisitPaddedObject(copy, visit);
  }
  return VisitPaddedObject(simdjson::padded_string_view(text.data(), text.size(), text.capacity()),
                           visit);
}

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_JSON_CURSOR_H_
