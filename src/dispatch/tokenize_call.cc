#include "dispatch/tokenize_call.h"

#include <limits>
#include <utility>

#include "base/status_macros.h"
#include "dispatch/json_cursor.h"

namespace kvrouter {
namespace {

absl::Status ReadIds(JsonValue value, uint64_t max_tokens, std::vector<TokenId>* ids) {
  return VisitIfArray(value, [&](JsonValue element) {
    const auto id = UnsignedOf(element);
    if (!id || *id > std::numeric_limits<TokenId>::max())
      return BadJsonField("tokens", "must be token ids");
    if (ids->size() >= max_tokens) return BadJsonField("tokens", "are more than are routed");
    ids->push_back(static_cast<TokenId>(*id));
    return absl::OkStatus();
  });
}

// {"tokens": […]} of /tokenize, {"token_ids": […]} of a render; a render of several sequences is a
// list, of which one is no use.
absl::Status ReadAnswer(const std::string& text, uint64_t max_tokens, std::vector<TokenId>* ids,
                        bool* any) {
  const auto read_member = [&](std::string_view key, JsonValue value) -> absl::Status {
    if (key != "tokens" && key != "token_ids") return absl::OkStatus();
    ids->clear();
    *any = true;
    return ReadIds(value, max_tokens, ids);
  };
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] != '[') return VisitObject(text, read_member);
  std::string wrapped;
  wrapped.reserve(text.size() + 16 + kJsonPaddingBytes);
  wrapped.append(R"({"list":)").append(text).append("}");
  int requests = 0;
  KVR_RETURN_IF_ERROR(VisitObject(wrapped, [&](std::string_view, JsonValue list) {
    return VisitIfArray(list, [&](JsonValue element) -> absl::Status {
      if (++requests > 1) return BadJsonField("render", "has several prompts");
      return VisitIfObject(element, read_member);
    });
  }));
  return absl::OkStatus();
}

TokenizeOutcome OutcomeOf(const CollectedAnswer& answer) {
  if (answer.end == EngineEnd::kHeadTimeout || answer.end == EngineEnd::kIdleTimeout)
    return TokenizeOutcome::kTimedOut;
  if (answer.end != EngineEnd::kComplete || answer.status >= 500) return TokenizeOutcome::kFailed;
  if (answer.status >= 300) return TokenizeOutcome::kRefused;
  return answer.too_long ? TokenizeOutcome::kBadAnswer : TokenizeOutcome::kEngine;
}

}  // namespace

std::string_view TokenizeUrl(TokenizePath path) {
  return path == TokenizePath::kTokenize ? "/tokenize" : "/v1/chat/completions/render";
}

std::string TokenizeBody(const OpenAiRequest& request, const JsonObject& body) {
  if (request.endpoint == OpenAiEndpoint::kChatCompletions) {
    return SelectMembers(
        body, {"model", "messages", "tools", "tool_choice", "documents", "add_generation_prompt",
               "continue_final_message", "add_special_tokens", "chat_template",
               "chat_template_kwargs", "reasoning_effort", "mm_processor_kwargs"});
  }
  std::string ask = SelectMembers(body, {"model", "add_special_tokens"});
  ask.pop_back();
  if (ask.size() > 1) ask.push_back(',');
  ask += R"("prompt":)";
  ask += body.text().substr(request.text_begin, request.text_bytes);
  ask.push_back('}');
  return ask;
}

TokenizeReading ReadTokenizeAnswer(const CollectedAnswer& answer, uint64_t max_tokens) {
  TokenizeReading reading;
  reading.outcome = OutcomeOf(answer);
  reading.not_offered = answer.end == EngineEnd::kComplete &&
                        (answer.status == 404 || answer.status == 405 || answer.status == 501);
  if (reading.not_offered) reading.outcome = TokenizeOutcome::kRefused;
  if (reading.outcome != TokenizeOutcome::kEngine) return reading;
  std::vector<TokenId> ids;
  bool any = false;
  if (!ReadAnswer(answer.body, max_tokens, &ids, &any).ok() || !any) {
    reading.outcome = TokenizeOutcome::kBadAnswer;
    return reading;
  }
  reading.ids = std::make_shared<const std::vector<TokenId>>(std::move(ids));
  return reading;
}

}  // namespace kvrouter
