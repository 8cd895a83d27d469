#include "sim/wire/token_routes.h"

#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "sim/wire/completion_reply.h"
#include "sim/wire/completion_request.h"
#include "sim/wire/json_response.h"
#include "sim/wire/sim_tokenizer.h"

namespace kvrouter::sim {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kEmbeddingNumbers = 8;

absl::Status Bad(std::string message) { return absl::InvalidArgumentError(std::move(message)); }

absl::StatusOr<std::vector<TokenId>> TokenList(const Json& list, std::string_view name) {
  std::vector<TokenId> tokens;
  if (!list.is_array()) return Bad(fmt::format("{}: must be a list of token ids", name));
  tokens.reserve(list.size());
  for (const Json& item : list) {
    if (!item.is_number_unsigned() || item.get<uint64_t>() > UINT32_MAX) {
      return Bad(fmt::format("{}[{}]: not a token id (0..4294967295)", name, tokens.size()));
    }
    tokens.push_back(item.get<TokenId>());
  }
  return tokens;
}

absl::StatusOr<Json> Tokenize(const TokenRoutesConfig& config, const Json& body) {
  std::string text;
  if (body.contains("messages")) {
    KVR_ASSIGN_OR_RETURN(text, RenderChat(body, config.chat_template));
  } else if (body.contains("prompt") && body["prompt"].is_string()) {
    text = body["prompt"].get<std::string>();
  } else {
    return Bad("prompt: must be a text, unless there are messages");
  }
  const std::vector<TokenId> tokens = TextTokens(text);
  return Json{{"count", tokens.size()},
              {"max_model_len", config.max_model_len_tokens},
              {"tokens", tokens},
              {"token_strs", nullptr}};
}

absl::StatusOr<Json> Detokenize(const TokenRoutesConfig&, const Json& body) {
  if (!body.contains("tokens")) return Bad("tokens: missing");
  KVR_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, TokenList(body["tokens"], "tokens"));
  return Json{{"prompt", TokensText(tokens)}};
}

Json GenerateRequest(const TokenRoutesConfig& config, const CompletionRequest& request) {
  return {{"request_id", request.chat ? "chatcmpl-render" : "cmpl-render"},
          {"token_ids", request.prompt_tokens},
          {"features", nullptr},
          {"sampling_params", {{"n", request.choices}, {"max_tokens", request.max_tokens}}},
          {"model", config.model_name},
          {"stream", request.stream}};
}

CompletionLimits Limits(const TokenRoutesConfig& config) {
  CompletionLimits limits;
  limits.prompt_tokens = config.max_model_len_tokens;
  return limits;
}

absl::StatusOr<Json> RenderCompletion(const TokenRoutesConfig& config, const std::string& body) {
  KVR_ASSIGN_OR_RETURN(const CompletionRequest request,
                       ParseCompletionRequest(body, Limits(config)));
  return Json::array({GenerateRequest(config, request)});
}

absl::StatusOr<Json> RenderConversation(const TokenRoutesConfig& config, const std::string& body) {
  KVR_ASSIGN_OR_RETURN(const CompletionRequest request,
                       ParseChatRequest(body, config.chat_template, Limits(config)));
  return GenerateRequest(config, request);
}

Json Embedding(size_t index, const std::vector<TokenId>& tokens) {
  Json numbers = Json::array();
  for (size_t i = 0; i < kEmbeddingNumbers; ++i) {
    const std::string place =
        OutputText(PromptHash(tokens), {.choice = 0, .first_token = i, .tokens = 1});
    numbers.push_back(static_cast<double>(place[0]) / 128);
  }
  return {{"object", "embedding"}, {"index", index}, {"embedding", std::move(numbers)}};
}

// `input` is a text, a list of texts, a list of token ids or a list of such lists.
absl::StatusOr<std::vector<std::vector<TokenId>>> EmbeddingInputs(const Json& body) {
  std::vector<std::vector<TokenId>> inputs;
  const Json input = body.contains("input") ? body["input"] : Json();
  const bool is_one =
      input.is_string() || (input.is_array() && !input.empty() && input[0].is_number());
  const Json list = is_one ? Json::array({input}) : input;
  if (!list.is_array() || list.empty()) return Bad("input: must be a text, token ids, or a list");
  for (const Json& one : list) {
    if (one.is_string()) {
      inputs.push_back(TextTokens(one.get<std::string>()));
      continue;
    }
    KVR_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, TokenList(one, "input"));
    inputs.push_back(std::move(tokens));
  }
  return inputs;
}

absl::StatusOr<Json> Embeddings(const TokenRoutesConfig& config, const Json& body) {
  KVR_ASSIGN_OR_RETURN(const auto inputs, EmbeddingInputs(body));
  Json data = Json::array();
  uint64_t prompt_tokens = 0;
  for (const std::vector<TokenId>& tokens : inputs) {
    data.push_back(Embedding(data.size(), tokens));
    prompt_tokens += tokens.size();
  }
  return Json{{"object", "list"},
              {"data", std::move(data)},
              {"model", config.model_name},
              {"usage", {{"prompt_tokens", prompt_tokens}, {"total_tokens", prompt_tokens}}}};
}

Json Models(const TokenRoutesConfig& config) {
  const Json model = {{"id", config.model_name},    {"object", "model"},
                      {"owned_by", "kvrouter-sim"}, {"root", config.model_name},
                      {"parent", nullptr},          {"max_model_len", config.max_model_len_tokens}};
  return {{"object", "list"}, {"data", {model}}};
}

HttpResponse Answer(const absl::StatusOr<Json>& answer) {
  if (answer.ok()) {
    return JsonResponse(200, answer->dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  const std::string message(answer.status().message().data(), answer.status().message().size());
  return JsonResponse(400, ErrorBody(message, "invalid_request_error", 400));
}

using JsonHandler = absl::StatusOr<Json> (*)(const TokenRoutesConfig&, const Json&);

HttpResponse AnswerJson(const TokenRoutesConfig& config, const std::string& body,
                        JsonHandler handler) {
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Answer(Bad("body: not a JSON object"));
  if (json.contains("model") && json["model"] != config.model_name) {
    const std::string message = fmt::format(
        "model {} is not served here, only '{}'",
        json["model"].dump(-1, ' ', false, Json::error_handler_t::replace), config.model_name);
    return JsonResponse(404, ErrorBody(message, "not_found_error", 404));
  }
  return Answer(handler(config, json));
}

}  // namespace

void AddTokenRoutes(const TokenRoutesConfig& config, const RequestGate& gate, HttpServer& server) {
  const auto add = [&](const char* method, const char* path,
                       std::function<HttpResponse(const HttpRequest&)> answer) {
    server.RouteAsync(method, path,
                      [gate, answer = std::move(answer)](const HttpRequest& http,
                                                         std::shared_ptr<HttpResponder> responder) {
                        const auto to = gate(http, std::move(responder));
                        if (to != nullptr) to->Complete(answer(http));
                      });
  };
  add("GET", "/v1/models",
      [config](const HttpRequest&) { return JsonResponse(200, Models(config).dump()); });
  const std::pair<const char*, JsonHandler> handlers[] = {
      {"/tokenize", Tokenize}, {"/detokenize", Detokenize}, {"/v1/embeddings", Embeddings}};
  for (const auto& [path, handler] : handlers) {
    add("POST", path, [config, handler = handler](const HttpRequest& http) {
      return AnswerJson(config, http.body, handler);
    });
  }
  if (!config.render) return;
  add("POST", "/v1/completions/render",
      [config](const HttpRequest& http) { return Answer(RenderCompletion(config, http.body)); });
  add("POST", "/v1/chat/completions/render",
      [config](const HttpRequest& http) { return Answer(RenderConversation(config, http.body)); });
}

}  // namespace kvrouter::sim
