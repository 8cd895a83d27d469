#include "dispatch/json_cursor.h"

#include <fmt/format.h>

#include "kvrouter/error.h"

namespace kvrouter {
namespace {

bool Is(JsonValue value, JsonType wanted) {
  JsonType type{};
  return value.type().get(type) == simdjson::SUCCESS && type == wanted;
}

absl::Status Invalid(std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest, message);
}

}  // namespace

absl::Status NotJson(simdjson::error_code error) {
  return Invalid(fmt::format("body is not valid JSON: {}", simdjson::error_message(error)));
}

absl::Status BadJsonField(std::string_view field, std::string_view problem) {
  return Invalid(fmt::format("{} {}", field, problem));
}

std::optional<std::string> StringOf(JsonValue value) {
  std::string_view text;
  if (!Is(value, JsonType::string) || value.get_string().get(text) != simdjson::SUCCESS)
    return std::nullopt;
  return std::string(text);
}

std::optional<bool> BoolOf(JsonValue value) {
  bool flag = false;
  if (!Is(value, JsonType::boolean) || value.get_bool().get(flag) != simdjson::SUCCESS)
    return std::nullopt;
  return flag;
}

std::optional<uint64_t> UnsignedOf(JsonValue value) {
  uint64_t number = 0;
  if (!Is(value, JsonType::number) || value.get_uint64().get(number) != simdjson::SUCCESS)
    return std::nullopt;
  return number;
}

std::optional<int64_t> SignedOf(JsonValue value) {
  int64_t number = 0;
  if (!Is(value, JsonType::number) || value.get_int64().get(number) != simdjson::SUCCESS)
    return std::nullopt;
  return number;
}

std::optional<double> DoubleOf(JsonValue value) {
  double number = 0;
  if (!Is(value, JsonType::number) || value.get_double().get(number) != simdjson::SUCCESS)
    return std::nullopt;
  return number;
}

bool IsNull(JsonValue value) { return Is(value, JsonType::null); }

std::string_view ScalarText(JsonValue value) {
  std::string_view text = value.raw_json_token();
  while (!text.empty() &&
         (text.back() == ' ' || text.back() == '\n' || text.back() == '\r' || text.back() == '\t'))
    text.remove_suffix(1);
  return text;
}

}  // namespace kvrouter
