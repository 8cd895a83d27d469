#include "adapters/openai/openai_door.h"

#include <iterator>
#include <string_view>
#include <utility>

#include "adapters/openai/http_client_reply.h"

namespace kvrouter {
namespace {

struct RouteEntry {
  const char* method;
  const char* path;
};
constexpr RouteEntry kRoutes[] = {
    {"POST", "/v1/completions"}, {"POST", "/v1/chat/completions"}, {"POST", "/v1/embeddings"},
    {"POST", "/tokenize"},       {"POST", "/detokenize"},          {"GET", "/v1/models"},
};

std::string_view CodeOf(int status) {
  switch (status) {
    case 400:
      return "malformed_request";
    case 404:
      return "route_not_found";
    case 405:
      return "method_not_allowed";
    case 408:
      return "request_timeout";
    case 413:
      return "body_too_large";
    case 431:
      return "headers_too_large";
    case 501:
      return "not_implemented";
    case 503:
      return "overloaded";
    default:
      return "internal_error";
  }
}

HttpServerConfig WithOpenAiErrors(HttpServerConfig config) {
  config.error_body = [](int status, std::string_view message) {
    return OpenAiError(status, message, CodeOf(status));
  };
  return config;
}

}  // namespace

OpenAiDoor::OpenAiDoor(HttpServerConfig config, Serve serve)
    : server_(WithOpenAiErrors(std::move(config))) {
  for (const RouteEntry& route : kRoutes) {
    server_.RouteAsync(route.method, route.path,
                       // The server sends no body to a HEAD; engines need not know of it.
                       [serve, method = std::string(route.method)](
                           HttpRequest& request, std::shared_ptr<HttpResponder> responder) {
                         serve({.method = method,
                                .path = std::move(request.path),
                                .query = std::move(request.query),
                                .headers = std::move(request.headers),
                                .body = std::move(request.body)},
                               std::make_shared<HttpClientReply>(std::move(responder)));
                       });
  }
}

}  // namespace kvrouter
