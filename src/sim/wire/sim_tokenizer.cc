#include "sim/wire/sim_tokenizer.h"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <utility>

#include "base/status_macros.h"
#include "kvrouter/block_hash.h"

namespace kvrouter::sim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kOutputLetters = "abcdefghijklmnopqrstuvwxyz      ";

absl::Status Bad(std::string message) { return absl::InvalidArgumentError(std::move(message)); }

// Bytes of a client need not be UTF-8.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<std::string> ContentText(const Json& content, size_t message) {
  if (content.is_null()) return std::string();
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) {
    return Bad(fmt::format("messages[{}].content: must be a text or a list of parts", message));
  }
  std::string text;
  for (const Json& part : content) {
    if (part.is_object() && part.contains("text") && part["text"].is_string()) {
      text += part["text"].get<std::string>();
    } else {
      text += "<|part|>" + Dump(part);
    }
  }
  return text;
}

absl::StatusOr<std::string> MessageText(const Json& message, size_t index) {
  if (!message.is_object() || !message.contains("role") || !message["role"].is_string()) {
    return Bad(fmt::format("messages[{}]: must be an object with a role", index));
  }
  std::string text = fmt::format("<|{}|>", message["role"].get<std::string>());
  for (const auto& [name, value] : message.items()) {
    if (name == "role" || name == "content" || value.is_null()) continue;
    text += fmt::format("<|{}|>{}", name, Dump(value));
  }
  if (message.contains("content")) {
    KVR_ASSIGN_OR_RETURN(const std::string content, ContentText(message["content"], index));
    text += content;
  }
  return text + "<|end|>\n";
}

}  // namespace

std::vector<TokenId> TextTokens(std::string_view text) {
  std::vector<TokenId> tokens;
  tokens.reserve(text.size());
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

std::string TokensText(std::span<const TokenId> tokens) {
  std::string text;
  text.reserve(tokens.size());
  for (const TokenId token : tokens) {
    if (token <= 0xff) {
      text += static_cast<char>(token);
    } else {
      fmt::format_to(std::back_inserter(text), "<|{}|>", token);
    }
  }
  return text;
}

absl::StatusOr<std::string> RenderChat(const Json& conversation, std::string_view template_name) {
  if (!conversation.contains("messages") || !conversation["messages"].is_array() ||
      conversation["messages"].empty()) {
    return Bad("messages: must be a list with at least one message");
  }
  std::string text;
  if (!template_name.empty()) text += fmt::format("<|template|>{}\n", template_name);
  for (const char* name : {"tools", "chat_template_kwargs"}) {
    if (!conversation.contains(name) || conversation[name].is_null()) continue;
    text += fmt::format("<|{}|>{}<|end|>\n", name, Dump(conversation[name]));
  }
  size_t index = 0;
  for (const Json& message : conversation["messages"]) {
    KVR_ASSIGN_OR_RETURN(const std::string one, MessageText(message, index++));
    text += one;
  }
  bool add_generation_prompt = true;
  if (conversation.contains("add_generation_prompt")) {
    if (!conversation["add_generation_prompt"].is_boolean()) {
      return Bad("add_generation_prompt: must be true or false");
    }
    add_generation_prompt = conversation["add_generation_prompt"].get<bool>();
  }
  if (add_generation_prompt) text += "<|assistant|>";
  return text;
}

uint64_t PromptHash(std::span<const TokenId> prompt_tokens) {
  const auto bytes = std::as_bytes(prompt_tokens);
  return HashBytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, 0);
}

std::string OutputText(uint64_t prompt_hash, const OutputRange& range) {
  std::string text;
  text.reserve(range.tokens);
  for (uint64_t i = 0; i < range.tokens; ++i) {
    const std::array<uint64_t, 2> place = {range.choice, range.first_token + i};
    const auto bytes = std::as_bytes(std::span(place));
    const uint64_t draw =
        HashBytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, prompt_hash);
    text += kOutputLetters[draw % kOutputLetters.size()];
  }
  return text;
}

}  // namespace kvrouter::sim
