#include "sim/wire/completion_request.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <limits>

#include "base/status_macros.h"

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

absl::Status ReadPrompt(value prompt, uint64_t limit_tokens, std::vector<TokenId>* tokens) {
  json_type type{};
  if (prompt.type().get(type) != simdjson::SUCCESS) return Bad("prompt: broken value");
  if (type == json_type::array) return ReadTokenArray(prompt, limit_tokens, tokens);
  std::string_view text;
  if (prompt.get_string().get(text) != simdjson::SUCCESS) {
    return Bad("prompt: must be a text or an array of token ids");
  }
  if (text.size() > limit_tokens) {
    return Bad(fmt::format("prompt: {} tokens, the limit is {}", text.size(), limit_tokens));
  }
  tokens->reserve(text.size());
  for (const char c : text) tokens->push_back(static_cast<unsigned char>(c));
  return absl::OkStatus();
}

absl::Status ReadMaxTokens(value member, uint64_t limit, uint64_t* max_tokens) {
  if (IsNull(member)) return absl::OkStatus();
  if (member.get_uint64().get(*max_tokens) != simdjson::SUCCESS || *max_tokens == 0 ||
      *max_tokens > limit) {
    return Bad(fmt::format("max_tokens: must be in 1..{}", limit));
  }
  return absl::OkStatus();
}

absl::Status ReadStreamOptions(value member, bool* include_usage) {
  if (IsNull(member)) return absl::OkStatus();
  simdjson::ondemand::object options;
  if (member.get_object().get(options) != simdjson::SUCCESS)
    return Bad("stream_options: must be an object");
  for (auto field : options) {
    std::string_view name;
    if (field.unescaped_key().get(name) != simdjson::SUCCESS)
      return Bad("stream_options: broken member");
    if (name == "include_usage" &&
        field.value().get_bool().get(*include_usage) != simdjson::SUCCESS) {
      return Bad("stream_options.include_usage: must be true or false");
    }
  }
  return absl::OkStatus();
}

absl::Status ReadMember(std::string_view name, value member, const CompletionLimits& limits,
                        CompletionRequest* request) {
  if (name == "prompt") return ReadPrompt(member, limits.prompt_tokens, &request->prompt_tokens);
  if (name == "max_tokens") return ReadMaxTokens(member, limits.max_tokens, &request->max_tokens);
  if (name == "stream_options") return ReadStreamOptions(member, &request->include_usage);
  if (name == "stream") {
    if (!IsNull(member) && member.get_bool().get(request->stream) != simdjson::SUCCESS) {
      return Bad("stream: must be true or false");
    }
  } else if (name == "model") {
    std::string_view model;
    if (member.get_string().get(model) != simdjson::SUCCESS) return Bad("model: must be a text");
    request->model = model;
  } else if (name == "cache_salt") {
    if (!IsNull(member)) return Bad("cache_salt: not supported by the simulated engine");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CompletionRequest> ParseCompletionRequest(std::string_view body,
                                                         const CompletionLimits& limits) {
  CompletionRequest request;
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
    KVR_RETURN_IF_ERROR(ReadMember(name, member, limits, &request));
  }
  if (request.prompt_tokens.empty()) return Bad("prompt: missing or empty");
  return request;
}

}  // namespace kvrouter::sim
