#include "adapters/http/selection_json.h"

namespace kvrouter {

using simdjson::ondemand::json_type;

absl::Status BadJson(std::string_view what) {
  const std::string message = fmt::format("not valid JSON: {}", what);
  return absl::InvalidArgumentError(message);
}

absl::Status BadField(std::string_view name, std::string_view what) {
  const std::string message = fmt::format("{}: {}", name, what);
  return absl::OutOfRangeError(message);
}

absl::Status ValueError(simdjson::error_code error, JsonValue value, std::string_view name,
                        std::string_view wanted) {
  json_type type{};
  // What does not even begin like a JSON value has no type.
  if (value.type().get(type) != simdjson::SUCCESS ||
      (error != simdjson::INCORRECT_TYPE && error != simdjson::NUMBER_OUT_OF_RANGE &&
       !(error == simdjson::NUMBER_ERROR && type != json_type::number)))
    return BadJson(simdjson::error_message(error));
  return BadField(name, fmt::format("must be {}", wanted));
}

absl::Status SkipChecked(JsonValue value, int depth) {
  if (depth >= kMaxJsonDepth)
    return BadJson(fmt::format("nested deeper than {} levels", kMaxJsonDepth));
  json_type type{};
  if (const auto error = value.type().get(type); error != simdjson::SUCCESS)
    return BadJson(simdjson::error_message(error));
  simdjson::error_code error = simdjson::SUCCESS;
  switch (type) {
    case json_type::array: {
      simdjson::ondemand::array array;
      error = value.get_array().get(array);
      if (error != simdjson::SUCCESS) break;
      for (auto element : array) {
        JsonValue item;
        if (const auto bad = element.get(item); bad != simdjson::SUCCESS)
          return BadJson(simdjson::error_message(bad));
        KVR_RETURN_IF_ERROR(SkipChecked(item, depth + 1));
      }
      break;
    }
    case json_type::object: {
      struct Nothing {};
      Nothing nothing;
      return ReadObject<Nothing>(value, "", {}, &nothing, depth + 1);
    }
    case json_type::number: {
      double number = 0;
      error = value.get_double().get(number);
      break;
    }
    case json_type::string: {
      std::string_view text;
      error = value.get_string().get(text);
      break;
    }
    case json_type::boolean: {
      bool flag = false;
      error = value.get_bool().get(flag);
      break;
    }
    case json_type::null: {
      bool null = false;
      error = value.is_null().get(null);
      if (error == simdjson::SUCCESS && !null) return BadJson("a word that is no JSON value");
      break;
    }
  }
  return error == simdjson::SUCCESS ? absl::OkStatus() : BadJson(simdjson::error_message(error));
}

absl::Status ReadUnsigned(JsonValue value, std::string_view name, uint64_t max, uint64_t* out) {
  const auto error = value.get_uint64().get(*out);
  if (error == simdjson::SUCCESS && *out <= max) return absl::OkStatus();
  const std::string wanted = fmt::format("a whole number 0..{}", max);
  if (error == simdjson::SUCCESS) return BadField(name, fmt::format("must be {}", wanted));
  double number = 0;  // a number all the same, only not such a one?
  if (value.get_double().get(number) == simdjson::SUCCESS)
    return BadField(name, fmt::format("must be {}", wanted));
  return ValueError(error, value, name, wanted);
}

absl::Status ReadSigned(JsonValue value, std::string_view name, int64_t* out) {
  const auto error = value.get_int64().get(*out);
  if (error == simdjson::SUCCESS) return absl::OkStatus();
  double number = 0;
  if (value.get_double().get(number) == simdjson::SUCCESS)
    return BadField(name, "must be a signed 64-bit whole number");
  return ValueError(error, value, name, "a signed 64-bit whole number");
}

absl::Status ReadDouble(JsonValue value, std::string_view name, double* out) {
  const auto error = value.get_double().get(*out);
  return error == simdjson::SUCCESS ? absl::OkStatus() : ValueError(error, value, name, "a number");
}

absl::Status ReadBool(JsonValue value, std::string_view name, bool* out) {
  const auto error = value.get_bool().get(*out);
  return error == simdjson::SUCCESS ? absl::OkStatus()
                                    : ValueError(error, value, name, "true or false");
}

absl::Status ReadText(JsonValue value, std::string_view name, std::string* out) {
  std::string_view text;
  const auto error = value.get_string().get(text);
  if (error != simdjson::SUCCESS) return ValueError(error, value, name, "a text");
  *out = std::string(text);
  return absl::OkStatus();
}

}  // namespace kvrouter
