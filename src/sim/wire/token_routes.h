#ifndef KVROUTER_SIM_WIRE_TOKEN_ROUTES_H_
#define KVROUTER_SIM_WIRE_TOKEN_ROUTES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "adapters/http/http_server.h"

namespace kvrouter::sim {

// What an engine answers without running its model: /v1/models, /tokenize, /detokenize,
// /v1/embeddings, and (`render`) /v1/completions/render and /v1/chat/completions/render.
struct TokenRoutesConfig {
  std::string model_name = "sim";
  std::string chat_template;  // name of it, sim_tokenizer.h
  uint64_t max_model_len_tokens = 2'000'000;
  bool render = true;
};

// Every request passes the gate, which returns where its answer goes, or null if it sees to the
// answer itself. Thread-safe.
using RequestGate = std::function<std::shared_ptr<HttpResponder>(
    const HttpRequest& http, std::shared_ptr<HttpResponder> responder)>;

// Thread safety: the routes share nothing but the configuration.
void AddTokenRoutes(const TokenRoutesConfig& config, const RequestGate& gate, HttpServer& server);

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_WIRE_TOKEN_ROUTES_H_
