#include "sim/wire/completion_request.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/status_macros.h"
#include "sim/wire/sim_tokenizer.h"

namespace kvrouter::sim {
namespace {

using simdjson::ondemand::json_type;
using simdjson::ondemand::value;

absl::Status Bad(std::string message) { return absl::InvalidArgumentError(std::move(message)); }

bool IsNull(value member) {
  bool null = false;
  return member.is_null().get(null) == simdjson::SUCCESS && null;
}

absl::Status ReadTokenArray(value prompt, uint64_t limit_tokens, std::vector<TokenId>* tokens) {
  simdjson::ondemand::array items;
  if (prompt.get_array().get(items) != simdjson::SUCCESS) return Bad("prompt: broken array");
  for (auto item : items) {
    uint64_t token = 0;
    if (item.get_uint64().get(token) != simdjson::SUCCESS ||
        token > std::numeric_limits<TokenId>::max()) {
      return Bad(fmt::format("prompt[{}]: not a token id (0..4294967295)", tokens->size()));
    }
    if (tokens->size() == limit_tokens) {
      return Bad(fmt::format("prompt: more than {} tokens", limit_tokens));
    }
    tokens->push_back(static_cast<TokenId>(token));
  }
  return absl::OkStatus();
}

absl::Status TakeText(std::string_view text, uint64_t limit_tokens, std::vector<TokenId>* tokens) {
  if (text.size() > limit_tokens) {
    return Bad(fmt::format("prompt: {} tokens, the limit is {}", text.size(), limit_tokens));
  }
  *tokens = TextTokens(text);
  return absl::OkStatus();
}

absl::Status ReadPrompt(value prompt, uint64_t limit_tokens, std::vector<TokenId>* tokens) {
  json_type type{};
  if (prompt.type().get(type) != simdjson::SUCCESS) return Bad("prompt: broken value");
  if (type == json_type::array) return ReadTokenArray(prompt, limit_tokens, tokens);
  std::string_view text;
  if (prompt.get_string().get(text) != simdjson::SUCCESS) {
    return Bad("prompt: must be a text or an array of token ids");
  }
  return TakeText(text, limit_tokens, tokens);
}

template <typename Count>
absl::Status ReadCount(std::string_view name, value member, uint64_t limit, Count* count) {
  if (IsNull(member)) return absl::OkStatus();
  uint64_t number = 0;
  if (member.get_uint64().get(number) != simdjson::SUCCESS || number == 0 || number > limit) {
    return Bad(fmt::format("{}: must be in 1..{}", name, limit));
  }
  *count = static_cast<Count>(number);
  return absl::OkStatus();
}

absl::Status ReadFlag(std::string_view name, value member, bool* flag) {
  if (IsNull(member) || member.get_bool().get(*flag) == simdjson::SUCCESS) return absl::OkStatus();
  return Bad(fmt::format("{}: must be true or false", name));
}

absl::Status ReadStreamOptions(value member, CompletionRequest* request, bool* any) {
  if (IsNull(member)) return absl::OkStatus();
  *any = true;
  simdjson::ondemand::object options;
  if (member.get_object().get(options) != simdjson::SUCCESS)
    return Bad("stream_options: must be an object");
  for (auto field : options) {
    std::string_view name;
    value option;
    if (field.unescaped_key().get(name) != simdjson::SUCCESS ||
        field.value().get(option) != simdjson::SUCCESS) {
      return Bad("stream_options: broken member");
    }
    if (name == "include_usage") {
      KVR_RETURN_IF_ERROR(
          ReadFlag("stream_options.include_usage", option, &request->include_usage));
    } else if (name == "continuous_usage_stats") {
      KVR_RETURN_IF_ERROR(
          ReadFlag("stream_options.continuous_usage_stats", option, &request->continuous_usage));
    }
  }
  return absl::OkStatus();
}

// Members whose order in the body must not matter.
struct Parts {
  CompletionRequest request;
  bool has_stream_options = false;
  uint64_t min_tokens = 0;
  uint64_t max_completion_tokens = 0;   // 0: absent; beats max_tokens
  nlohmann::ordered_json conversation;  // of a chat
};

absl::Status ReadJson(std::string_view name, value member, nlohmann::ordered_json* into) {
  std::string_view text;
  if (simdjson::to_json_string(member).get(text) == simdjson::SUCCESS) {
    *into = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!into->is_discarded()) return absl::OkStatus();
  }
  return Bad(fmt::format("{}: broken JSON", name));
}

bool IsOfConversation(std::string_view name) {
  return name == "messages" || name == "tools" || name == "chat_template_kwargs" ||
         name == "add_generation_prompt";
}

absl::Status ReadMember(std::string_view name, value member, const CompletionLimits& limits,
                        Parts* parts) {
  CompletionRequest& request = parts->request;
  if (request.chat && IsOfConversation(name)) {
    return ReadJson(name, member, &parts->conversation[std::string(name)]);
  }
  if (!request.chat && name == "prompt") {
    return ReadPrompt(member, limits.prompt_tokens, &request.prompt_tokens);
  }
  if (name == "max_tokens") return ReadCount(name, member, limits.max_tokens, &request.max_tokens);
  if (name == "max_completion_tokens" && request.chat) {
    return ReadCount(name, member, limits.max_tokens, &parts->max_completion_tokens);
  }
  if (name == "min_tokens") return ReadCount(name, member, limits.max_tokens, &parts->min_tokens);
  if (name == "n") return ReadCount(name, member, limits.choices, &request.choices);
  if (name == "stream_options") {
    return ReadStreamOptions(member, &request, &parts->has_stream_options);
  }
  if (name == "kv_transfer_params") return ReadJson(name, member, &request.kv_transfer_params);
  if (name == "stream") return ReadFlag(name, member, &request.stream);
  if (name == "model") {
    std::string_view model;
    if (member.get_string().get(model) != simdjson::SUCCESS) return Bad("model: must be a text");
    request.model = model;
  } else if (name == "cache_salt") {
    if (!IsNull(member)) return Bad("cache_salt: not supported by the simulated engine");
  }
  return absl::OkStatus();
}

absl::Status ReadMembers(std::string_view body, const CompletionLimits& limits, Parts* parts) {
  // Kept between calls: its buffers grow to the largest body and are not allocated anew for each
  // prompt.
  thread_local simdjson::ondemand::parser parser;
  const simdjson::padded_string padded(body);
  simdjson::ondemand::document document;
  simdjson::ondemand::object members;
  if (parser.iterate(padded).get(document) != simdjson::SUCCESS ||
      document.get_object().get(members) != simdjson::SUCCESS) {
    return Bad("body: not a JSON object");
  }
  for (auto field : members) {
    std::string_view name;
    value member;
    if (field.unescaped_key().get(name) != simdjson::SUCCESS ||
        field.value().get(member) != simdjson::SUCCESS) {
      return Bad("body: broken JSON");
    }
    KVR_RETURN_IF_ERROR(ReadMember(name, member, limits, parts));
  }
  CompletionRequest& request = parts->request;
  if (parts->max_completion_tokens > 0) request.max_tokens = parts->max_completion_tokens;
  if (parts->has_stream_options && !request.stream)
    return Bad("stream_options: only with stream=true");
  if (parts->min_tokens > request.max_tokens) {
    return Bad(fmt::format("min_tokens: {} is more than max_tokens={}", parts->min_tokens,
                           request.max_tokens));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CompletionRequest> ParseCompletionRequest(std::string_view body,
                                                         const CompletionLimits& limits) {
  Parts parts;
  KVR_RETURN_IF_ERROR(ReadMembers(body, limits, &parts));
  if (parts.request.prompt_tokens.empty()) return Bad("prompt: missing or empty");
  return std::move(parts.request);
}

absl::StatusOr<CompletionRequest> ParseChatRequest(std::string_view body,
                                                   std::string_view template_name,
                                                   const CompletionLimits& limits) {
  Parts parts;
  parts.request.chat = true;
  KVR_RETURN_IF_ERROR(ReadMembers(body, limits, &parts));
  KVR_ASSIGN_OR_RETURN(const std::string text, RenderChat(parts.conversation, template_name));
  KVR_RETURN_IF_ERROR(TakeText(text, limits.prompt_tokens, &parts.request.prompt_tokens));
  return std::move(parts.request);
}

}  // namespace kvrouter::sim
