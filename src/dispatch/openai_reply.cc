#include "dispatch/openai_reply.h"

#include <algorithm>
#include <string_view>

#include "base/status_macros.h"
#include "dispatch/json_cursor.h"

namespace kvrouter {
namespace {

struct Choice {
  bool has_text = false;
  uint64_t ids = 0;
};

bool IsSomething(JsonValue value) {
  JsonType type{};
  if (value.type().get(type) != simdjson::SUCCESS) return false;
  switch (type) {
    case JsonType::string:
      return ScalarText(value).size() > 2;
    case JsonType::array:
    case JsonType::object: {
      bool empty = true;
      if (type == JsonType::array) return value.count_elements().value_unsafe() > 0;
      simdjson::ondemand::object object;
      if (value.get_object().get(object) != simdjson::SUCCESS) return false;
      return object.is_empty().get(empty) == simdjson::SUCCESS && !empty;
    }
    default:
      return false;
  }
}

// What a message or its delta may bring: text, a tool call, reasoning under either of its names.
bool IsOutputField(std::string_view key) {
  return key == "content" || key == "tool_calls" || key == "reasoning_content" ||
         key == "reasoning" || key == "refusal" || key == "function_call" || key == "audio";
}

absl::Status ReadMessage(JsonValue value, Choice* choice) {
  return VisitIfObject(value, [choice](std::string_view key, JsonValue member) {
    if (IsOutputField(key) && IsSomething(member)) choice->has_text = true;
    return absl::OkStatus();
  });
}

absl::Status ReadChoice(JsonValue value, OpenAiReply* reply) {
  Choice choice;
  KVR_RETURN_IF_ERROR(
      VisitIfObject(value, [&](std::string_view key, JsonValue member) -> absl::Status {
        if (key == "delta" || key == "message") return ReadMessage(member, &choice);
        if (key == "text") choice.has_text = choice.has_text || IsSomething(member);
        if (key == "finish_reason") {
          if (const auto reason = StringOf(member)) {
            reply->finished = true;
            if (*reason == "error") reply->is_error = true;
          }
        }
        if (key == "token_ids") {
          return VisitIfArray(member, [&choice](JsonValue) {
            ++choice.ids;
            return absl::OkStatus();
          });
        }
        return absl::OkStatus();
      }));
  if (choice.has_text || choice.ids > 0) {
    reply->has_output = true;
    reply->output_tokens += std::max<uint64_t>(choice.ids, 1);
  }
  return absl::OkStatus();
}

absl::Status ReadUsage(JsonValue value, OpenAiUsage* usage) {
  return VisitIfObject(value, [usage](std::string_view key, JsonValue member) -> absl::Status {
    if (key == "prompt_tokens") usage->prompt_tokens = UnsignedOf(member);
    if (key == "completion_tokens") usage->completion_tokens = UnsignedOf(member);
    if (key != "prompt_tokens_details") return absl::OkStatus();
    return VisitIfObject(member, [usage](std::string_view detail, JsonValue figure) {
      if (detail == "cached_tokens") usage->cached_tokens = UnsignedOf(figure);
      return absl::OkStatus();
    });
  });
}

absl::Status ReadError(JsonValue value, OpenAiReply* reply) {
  reply->is_error = true;
  return VisitIfObject(value, [reply](std::string_view key, JsonValue member) {
    if (key == "code") reply->error_code = UnsignedOf(member).value_or(0);
    return absl::OkStatus();
  });
}

}  // namespace

OpenAiReply ReadOpenAiReply(const std::string& text) {
  OpenAiReply reply;
  std::optional<size_t> choices;  // of a list of them
  bool has_usage = false;
  const absl::Status read =
      VisitObject(text, [&](std::string_view key, JsonValue value) -> absl::Status {
        if (key == "choices") {
          KVR_ASSIGN_OR_RETURN(const JsonType type, TypeOfJson(value));
          if (type == JsonType::array) choices = 0;
          return VisitIfArray(value, [&](JsonValue choice) {
            ++*choices;
            return ReadChoice(choice, &reply);
          });
        }
        if (key == "usage") {
          KVR_ASSIGN_OR_RETURN(const JsonType type, TypeOfJson(value));
          has_usage = type == JsonType::object;
          return ReadUsage(value, &reply.usage);
        }
        if (key == "error" && !IsNull(value)) return ReadError(value, &reply);
        // As vLLM said it before it wrapped its errors.
        if (key == "object" && StringOf(value) == "error") reply.is_error = true;
        return absl::OkStatus();
      });
  if (!read.ok()) return {};
  reply.is_json = true;
  reply.only_usage = choices == size_t{0} && has_usage && !reply.is_error;
  return reply;
}

}  // namespace kvrouter
