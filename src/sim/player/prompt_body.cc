#include "sim/player/prompt_body.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace kvrouter::sim {

std::string CompletionRequestBody(std::span<const TokenId> tokens, uint64_t max_tokens,
                                  std::string_view model_name) {
  std::string body = "{";
  if (!model_name.empty()) {
    body += fmt::format("\"model\":{},", nlohmann::json(std::string(model_name)).dump());
  }
  body += fmt::format("\"max_tokens\":{},\"stream\":true,\"prompt\":[", max_tokens);
  body.reserve(body.size() + tokens.size() * 7 + 2);
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i == 0 || tokens[i] != tokens[i - 1]) text = fmt::format("{},", tokens[i]);
    body += text;
  }
  if (!tokens.empty()) body.pop_back();  // the comma
  body += "]}";
  return body;
}

}  // namespace kvrouter::sim
