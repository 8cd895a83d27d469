#include "adapters/http/ops.h"

#include <utility>

namespace kvrouter {

void AddOpsRoutes(HttpServer* server, std::function<std::string()> metrics_text) {
  server->Route("GET", "/live", [](const HttpRequest&) {
    return HttpResponse{.headers = {}, .body = R"({"status":"live"})"};
  });
  server->Route("GET", "/metrics", [metrics_text = std::move(metrics_text)](const HttpRequest&) {
    return HttpResponse{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                        .headers = {},
                        .body = metrics_text()};
  });
}

}  // namespace kvrouter
