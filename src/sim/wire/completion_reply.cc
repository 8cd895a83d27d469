#include "sim/wire/completion_reply.h"

#include <nlohmann/json.hpp>

namespace kvrouter::sim {
namespace {

using Json = nlohmann::ordered_json;

std::string TokenText(uint64_t tokens) {
  std::string text;
  text.reserve(2 * tokens);
  for (uint64_t i = 0; i < tokens; ++i) text += " t";
  return text;
}

Json Head(const CompletionHead& head) {
  return {{"id", head.id},
          {"object", "text_completion"},
          {"created", head.created_s},
          {"model", head.model}};
}

Json Choice(uint64_t tokens, bool finished) {
  Json finish_reason = nullptr;
  if (finished) finish_reason = "length";
  return {{"index", 0},
          {"text", TokenText(tokens)},
          {"logprobs", nullptr},
          {"finish_reason", finish_reason},
          {"stop_reason", nullptr}};
}

Json Usage(const CompletionUsage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

std::string DataLine(const Json& json) { return "data: " + json.dump() + "\n\n"; }

}  // namespace

std::string CompletionBody(const CompletionHead& head, const CompletionUsage& usage) {
  Json body = Head(head);
  body["choices"] = Json::array({Choice(usage.completion_tokens, true)});
  body["usage"] = Usage(usage);
  return body.dump();
}

std::string CompletionChunk(const CompletionHead& head, uint64_t new_tokens, bool last) {
  Json chunk = Head(head);
  chunk["choices"] = Json::array({Choice(new_tokens, last)});
  return DataLine(chunk);
}

std::string UsageChunk(const CompletionHead& head, const CompletionUsage& usage) {
  Json chunk = Head(head);
  chunk["choices"] = Json::array();
  chunk["usage"] = Usage(usage);
  return DataLine(chunk);
}

std::string ErrorBody(std::string_view message, std::string_view type, int code) {
  const Json body = {
      {"error", {{"message", message}, {"type", type}, {"param", nullptr}, {"code", code}}}};
  // Messages quote the client's bytes, which need not be UTF-8.
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace kvrouter::sim
