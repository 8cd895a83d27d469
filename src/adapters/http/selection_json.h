#ifndef KVROUTER_ADAPTERS_HTTP_SELECTION_JSON_H_
#define KVROUTER_ADAPTERS_HTTP_SELECTION_JSON_H_

#include <fmt/format.h>
#include <simdjson.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"

namespace kvrouter {

// Strict reading of JSON objects with simdjson's on-demand parser, which never builds a tree: a
// value is read once, where it lies. It checks only what is visited, so every value is visited.
// Private to the selection and indexer doors (simdjson stays out of other headers).

using JsonValue = simdjson::ondemand::value;

// Deeper text is refused: nothing here nests by more than three.
inline constexpr int kMaxJsonDepth = 64;

absl::Status BadJson(std::string_view what);                          // not JSON
absl::Status BadField(std::string_view name, std::string_view what);  // JSON of another shape

// Which of the two an error on the value of field `name` is.
absl::Status ValueError(simdjson::error_code error, JsonValue value, std::string_view name,
                        std::string_view wanted);

// Visits a value nobody wants.
absl::Status SkipChecked(JsonValue value, int depth);

absl::Status ReadUnsigned(JsonValue value, std::string_view name, uint64_t max, uint64_t* out);
absl::Status ReadSigned(JsonValue value, std::string_view name, int64_t* out);
absl::Status ReadDouble(JsonValue value, std::string_view name, double* out);
absl::Status ReadBool(JsonValue value, std::string_view name, bool* out);
absl::Status ReadText(JsonValue value, std::string_view name, std::string* out);

// Token ids and hashes, of which a prompt has many thousands: the plain case of each element is
// read without a detour over Status, anything else by ReadUnsigned or ReadSigned, which say what is
// wrong.
template <typename T>
absl::Status ReadUnsignedArray(JsonValue value, std::string_view name, uint64_t max,
                               std::vector<T>* out) {
  simdjson::ondemand::array array;
  if (const auto error = value.get_array().get(array); error != simdjson::SUCCESS)
    return ValueError(error, value, name, "an array");
  for (auto element : array) {
    uint64_t number = 0;
    if (element.get_uint64().get(number) != simdjson::SUCCESS || number > max) {
      JsonValue item;
      if (const auto error = element.get(item); error != simdjson::SUCCESS)
        return BadJson(simdjson::error_message(error));
      KVR_RETURN_IF_ERROR(ReadUnsigned(item, name, max, &number));
    }
    out->push_back(static_cast<T>(number));
  }
  return absl::OkStatus();
}
template <typename T>
absl::Status ReadSignedArray(JsonValue value, std::string_view name, std::vector<T>* out) {
  simdjson::ondemand::array array;
  if (const auto error = value.get_array().get(array); error != simdjson::SUCCESS)
    return ValueError(error, value, name, "an array");
  for (auto element : array) {
    int64_t number = 0;
    if (element.get_int64().get(number) != simdjson::SUCCESS) {
      JsonValue item;
      if (const auto error = element.get(item); error != simdjson::SUCCESS)
        return BadJson(simdjson::error_message(error));
      KVR_RETURN_IF_ERROR(ReadSigned(item, name, &number));
    }
    out->push_back(static_cast<T>(static_cast<uint64_t>(number)));
  }
  return absl::OkStatus();
}

// `read(element, &item)` for each.
template <typename T, typename Read>
absl::Status ReadArray(JsonValue value, std::string_view name, Read read, std::vector<T>* out) {
  simdjson::ondemand::array array;
  if (const auto error = value.get_array().get(array); error != simdjson::SUCCESS)
    return ValueError(error, value, name, "an array");
  for (auto element : array) {
    JsonValue item;
    if (const auto error = element.get(item); error != simdjson::SUCCESS)
      return BadJson(simdjson::error_message(error));
    T read_item{};
    KVR_RETURN_IF_ERROR(read(item, &read_item));
    out->push_back(read_item);
  }
  return absl::OkStatus();
}

// One field of an object that is read into a T.
template <typename T>
struct JsonField {
  std::string_view name;
  absl::Status (*read)(JsonValue value, std::string_view name, T* out);
};

// Every known field at most once; null is as absent; the others are skipped.
template <typename T>
absl::Status ReadFields(simdjson::ondemand::object object, std::span<const JsonField<T>> fields,
                        T* out, int depth) {
  uint64_t seen = 0;  // REQUIRES: at most 64 fields
  for (auto member : object) {
    std::string_view key;
    JsonValue value;
    if (const auto error = member.unescaped_key().get(key); error != simdjson::SUCCESS)
      return BadJson(simdjson::error_message(error));
    if (const auto error = member.value().get(value); error != simdjson::SUCCESS)
      return BadJson(simdjson::error_message(error));
    size_t i = 0;
    while (i < fields.size() && fields[i].name != key) ++i;
    if (i == fields.size()) {
      KVR_RETURN_IF_ERROR(SkipChecked(value, depth));
      continue;
    }
    if ((seen >> i & 1) != 0) return BadField(fields[i].name, "sent twice");
    seen |= uint64_t{1} << i;
    simdjson::ondemand::json_type type{};
    if (const auto error = value.type().get(type); error != simdjson::SUCCESS)
      return BadJson(simdjson::error_message(error));
    if (type == simdjson::ondemand::json_type::null) {
      KVR_RETURN_IF_ERROR(SkipChecked(value, depth));
      continue;
    }
    KVR_RETURN_IF_ERROR(fields[i].read(value, fields[i].name, out));
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status ReadObject(JsonValue value, std::string_view name,
                        std::span<const JsonField<T>> fields, T* out, int depth) {
  simdjson::ondemand::object object;
  if (const auto error = value.get_object().get(object); error != simdjson::SUCCESS)
    return ValueError(error, value, name, "an object");
  return ReadFields(object, fields, out, depth);
}

// A whole body that is one object.
template <typename T>
absl::Status ReadJsonText(simdjson::padded_string_view text, std::span<const JsonField<T>> fields,
                          T* out) {
  thread_local simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  if (const auto error = parser.iterate(text).get(document); error != simdjson::SUCCESS)
    return BadJson(simdjson::error_message(error));
  simdjson::ondemand::object object;
  if (const auto error = document.get_object().get(object); error != simdjson::SUCCESS) {
    return error == simdjson::INCORRECT_TYPE ? BadField("body", "must be an object")
                                             : BadJson(simdjson::error_message(error));
  }
  KVR_RETURN_IF_ERROR(ReadFields(object, fields, out, 1));
  if (document.current_location().error() != simdjson::OUT_OF_BOUNDS)
    return BadJson("text after the end of the object");
  return absl::OkStatus();
}

// `body` with at least kBodyPaddingBytes of capacity behind its text is read in place, else copied.
template <typename T>
absl::Status ReadJsonBody(const std::string& body, std::span<const JsonField<T>> fields, T* out) {
  if (body.capacity() - body.size() < simdjson::SIMDJSON_PADDING) {
    const simdjson::padded_string copy(body);
    return ReadJsonText<T>(copy, fields, out);
  }
  return ReadJsonText(simdjson::padded_string_view(body.data(), body.size(), body.capacity()),
                      fields, out);
}

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_SELECTION_JSON_H_
