#include "sim/wire/engine_routes.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ascii.h"
#include "base/status_macros.h"
#include "sim/wire/completion_reply.h"
#include "sim/wire/completion_request.h"
#include "sim/wire/engine_metrics.h"
#include "sim/wire/faulty_answer.h"
#include "sim/wire/json_response.h"

namespace kvrouter::sim {
namespace {

using ResponderPtr = std::shared_ptr<HttpResponder>;

constexpr std::string_view kJsonType = "application/json";

void Post(const EngineRouteParts& parts, HttpResponder& responder, FleetLoop::Task task) {
  if (parts.loop->Post(parts.engine, std::move(task))) return;
  responder.Complete(
      JsonResponse(503, ErrorBody("the engine's queue is full", "service_unavailable", 503)));
}

// As a node of a hybrid load balancer does: the rank in the header is the global one, and one that
// is not here is an error.
absl::Status CheckRank(std::string_view header, uint32_t dp_rank) {
  if (header.empty() || header == std::to_string(dp_rank)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("x-data-parallel-rank: '{}' is not served here, only {}", header, dp_rank));
}

// Whether it may be read; else it is answered. vLLM takes a body for JSON only if it is called so,
// which curl's -d and Python's urllib do not do by themselves.
bool IsJson(const HttpRequest& http, HttpResponder& responder) {
  const std::string_view type = http.Header("content-type");
  if (http.method != "POST" || EqualsIgnoringCase(type.substr(0, type.find(';')), kJsonType))
    return true;
  responder.Complete(
      JsonResponse(400, ErrorBody("Unsupported Media Type: Only 'application/json' is allowed",
                                  "invalid_request_error", 400)));
  return false;
}

absl::StatusOr<CompletionRequest> ReadCompletion(const EngineRouteParts& parts,
                                                 const HttpRequest& http, bool chat) {
  KVR_RETURN_IF_ERROR(CheckRank(http.Header("x-data-parallel-rank"), parts.dp_rank));
  CompletionLimits limits;
  limits.prompt_tokens = parts.model.max_model_len_tokens;
  KVR_ASSIGN_OR_RETURN(CompletionRequest request,
                       chat ? ParseChatRequest(http.body, parts.model.chat_template, limits)
                            : ParseCompletionRequest(http.body, limits));
  request.request_id = http.Header("x-request-id");
  return request;
}

FaultLeg LegOf(const CompletionRequest& request) {
  switch (WhatIsAsked(request.kv_transfer_params)) {
    case KvAsk::kProduce:
      return FaultLeg::kProducer;
    case KvAsk::kConsume:
      return FaultLeg::kConsumer;
    case KvAsk::kNothing:
      break;
  }
  return FaultLeg::kPlain;
}

// Where the answer goes; null if a fault has seen to it.
ResponderPtr PassFaults(const EngineRouteParts& parts, const std::optional<FaultRule>& fault,
                        ResponderPtr responder) {
  if (!fault) return responder;
  return FaultyAnswer(*fault, std::move(responder), [loop = parts.loop, engine = parts.engine] {
    (void)loop->Post(engine, [](WireEngine& restarted, MonotonicTime) { restarted.Restart(); });
  });
}

void AcceptCompletion(const EngineRouteParts& parts, const HttpRequest& http, bool chat,
                      ResponderPtr responder) {
  if (!IsJson(http, *responder)) return;
  absl::StatusOr<CompletionRequest> request = ReadCompletion(parts, http, chat);
  if (!request.ok()) {
    const std::string message(request.status().message().data(), request.status().message().size());
    responder->Complete(JsonResponse(400, ErrorBody(message, "invalid_request_error", 400)));
    return;
  }
  if (!request->model.empty() && request->model != parts.model.model_name) {
    const std::string message = fmt::format("model '{}' is not served here, only '{}'",
                                            request->model, parts.model.model_name);
    responder->Complete(JsonResponse(404, ErrorBody(message, "not_found_error", 404)));
    return;
  }
  responder =
      PassFaults(parts, parts.faults->Take(http.path, LegOf(*request)), std::move(responder));
  if (responder == nullptr) return;
  HttpResponder& answer = *responder;
  Post(parts, answer,
       [request = *std::move(request), responder = std::move(responder)](
           WireEngine& engine, MonotonicTime now) mutable {
         engine.Submit(std::move(request), std::move(responder), now);
       });
}

// vLLM answers 200 whether or not the cache could be dropped.
void AcceptReset(const EngineRouteParts& parts, ResponderPtr responder) {
  HttpResponder& answer = *responder;
  Post(parts, answer, [responder](WireEngine& engine, MonotonicTime now) {
    engine.ResetPrefixCache(now);
    responder->Complete(JsonResponse(200, ""));
  });
}

// {"prompts": [[token, ...], ...]} -> {"blocks": [n, ...]}, all of one moment. No engine has this:
// it is how a test asks for the truth.
void AcceptCachedPrefix(const EngineRouteParts& parts, const HttpRequest& http,
                        ResponderPtr responder) {
  const auto body = nlohmann::json::parse(http.body, nullptr, /*allow_exceptions=*/false);
  std::vector<std::vector<TokenId>> prompts;
  try {
    prompts = body.at("prompts").get<std::vector<std::vector<TokenId>>>();
  } catch (const nlohmann::json::exception& error) {
    responder->Complete(JsonResponse(
        400, ErrorBody(fmt::format("prompts: {}", error.what()), "invalid_request_error", 400)));
    return;
  }
  HttpResponder& answer = *responder;
  Post(parts, answer,
       [prompts = std::move(prompts), responder](WireEngine& engine, MonotonicTime now) {
         engine.AdvanceTo(now);
         const nlohmann::json blocks = {{"blocks", engine.CachedPrefixBlocks(prompts)}};
         responder->Complete(JsonResponse(200, blocks.dump()));
       });
}

// Another engine asks for KV that is held here, see kv_side_channel.h.
void AcceptPull(const EngineRouteParts& parts, const HttpRequest& http, ResponderPtr responder) {
  const std::optional<FaultRule> fault = parts.faults->Take(http.path, FaultLeg::kAny);
  responder = PassFaults(parts, fault, std::move(responder));
  if (responder == nullptr) return;
  auto answer = [parts, body = http.body, responder] {
    Post(parts, *responder, [body, responder](WireEngine& engine, MonotonicTime now) {
      KvTransfer::PullAnswer pulled = engine.AnswerPull(body, now);
      responder->Complete(JsonResponse(pulled.status, std::move(pulled.body)));
    });
  };
  if (!fault || fault->kind != FaultKind::kSlowHandshake) return answer();
  parts.side_channel->After(fault->delay, std::move(answer));
}

}  // namespace

void AddEngineRoutes(const EngineRouteParts& parts, HttpServer& server) {
  const RequestGate gate = [parts](const HttpRequest& http,
                                   ResponderPtr responder) -> ResponderPtr {
    if (!IsJson(http, *responder)) return nullptr;
    return PassFaults(parts, parts.faults->Take(http.path, FaultLeg::kAny), std::move(responder));
  };
  AddTokenRoutes(parts.model, gate, server);
  server.Route("GET", "/health", [](const HttpRequest&) { return JsonResponse(200, ""); });
  server.Route("GET", "/metrics", [parts](const HttpRequest&) {
    HttpResponse response;
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    response.body = EngineMetricsText(parts.loop->Snapshot(parts.engine),
                                      parts.publisher->Counters(parts.engine),
                                      parts.model.model_name, parts.dp_rank);
    return response;
  });
  for (const bool chat : {false, true}) {
    server.RouteAsync("POST", chat ? "/v1/chat/completions" : "/v1/completions",
                      [parts, chat](const HttpRequest& http, ResponderPtr responder) {
                        AcceptCompletion(parts, http, chat, std::move(responder));
                      });
  }
  server.RouteAsync("POST", "/reset_prefix_cache",
                    [parts](const HttpRequest&, ResponderPtr responder) {
                      AcceptReset(parts, std::move(responder));
                    });
  server.RouteAsync("POST", "/cached_prefix",
                    [parts](const HttpRequest& http, ResponderPtr responder) {
                      AcceptCachedPrefix(parts, http, std::move(responder));
                    });
  server.RouteAsync("POST", "/kv_pull", [parts](const HttpRequest& http, ResponderPtr responder) {
    AcceptPull(parts, http, std::move(responder));
  });
}

}  // namespace kvrouter::sim
