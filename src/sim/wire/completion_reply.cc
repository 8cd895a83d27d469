#include "sim/wire/completion_reply.h"

#include <nlohmann/json.hpp>

namespace kvrouter::sim {
namespace {

using Json = nlohmann::ordered_json;

// Texts may quote the client's bytes, which need not be UTF-8.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string DataLine(const Json& json) { return "data: " + Dump(json) + "\n\n"; }

std::string_view ObjectName(const CompletionHead& head, bool chunk) {
  if (!head.chat) return "text_completion";
  return chunk ? "chat.completion.chunk" : "chat.completion";
}

Json Head(const CompletionHead& head, bool chunk) {
  return {{"id", head.id},
          {"object", ObjectName(head, chunk)},
          {"created", head.created_s},
          {"model", head.model}};
}

Json FinishReason(bool finished) { return finished ? Json("length") : Json(nullptr); }

Json TextChoice(uint32_t index, std::string_view text, bool finished) {
  return {{"index", index},
          {"text", text},
          {"logprobs", nullptr},
          {"finish_reason", FinishReason(finished)},
          {"stop_reason", nullptr}};
}

Json DeltaChoice(uint32_t index, Json delta, bool finished) {
  Json choice = {{"index", index},
                 {"delta", std::move(delta)},
                 {"logprobs", nullptr},
                 {"finish_reason", FinishReason(finished)}};
  if (finished) choice["stop_reason"] = nullptr;
  return choice;
}

Json MessageChoice(uint32_t index, std::string_view text) {
  return {{"index", index},
          {"message", {{"role", "assistant"}, {"content", text}, {"tool_calls", Json::array()}}},
          {"logprobs", nullptr},
          {"finish_reason", FinishReason(true)},
          {"stop_reason", nullptr}};
}

Json Usage(const CompletionUsage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

std::string ChunkLine(const CompletionHead& head, Json choices, const CompletionUsage* usage) {
  Json chunk = Head(head, true);
  chunk["choices"] = std::move(choices);
  if (usage != nullptr) chunk["usage"] = Usage(*usage);
  return DataLine(chunk);
}

}  // namespace

std::string CompletionBody(const CompletionHead& head, std::span<const std::string> texts,
                           const CompletionUsage& usage, const Json& kv_transfer_params) {
  Json choices = Json::array();
  for (const std::string& text : texts) {
    const auto index = static_cast<uint32_t>(choices.size());
    choices.push_back(head.chat ? MessageChoice(index, text) : TextChoice(index, text, true));
  }
  Json body = Head(head, false);
  body["choices"] = std::move(choices);
  body["usage"] = Usage(usage);
  body["kv_transfer_params"] = kv_transfer_params;
  return Dump(body);
}

std::string CompletionChunk(const CompletionHead& head, const CompletionPiece& piece,
                            const CompletionUsage* usage) {
  Json choice = head.chat ? DeltaChoice(piece.choice, {{"content", piece.text}}, piece.last)
                          : TextChoice(piece.choice, piece.text, piece.last);
  return ChunkLine(head, Json::array({std::move(choice)}), usage);
}

std::string ChatOpening(const CompletionHead& head, uint32_t choice, const CompletionUsage* usage) {
  Json opening = DeltaChoice(choice, {{"role", "assistant"}, {"content", ""}}, false);
  return ChunkLine(head, Json::array({std::move(opening)}), usage);
}

std::string UsageChunk(const CompletionHead& head, const CompletionUsage& usage) {
  return ChunkLine(head, Json::array(), &usage);
}

std::string ErrorChunk(std::string_view message, std::string_view type, int code) {
  return "data: " + ErrorBody(message, type, code) + "\n\n";
}

std::string ErrorBody(std::string_view message, std::string_view type, int code) {
  return Dump(
      {{"error", {{"message", message}, {"type", type}, {"param", nullptr}, {"code", code}}}});
}

}  // namespace kvrouter::sim
