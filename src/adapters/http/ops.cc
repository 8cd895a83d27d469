#include "adapters/http/ops.h"

#include <fmt/format.h>

#include <utility>

#include "adapters/http/http_format.h"

namespace kvrouter {
namespace {

HttpResponse ReadinessAnswer(const Readiness& readiness) {
  HttpResponse answer = readiness.ready ? HttpResponse{} : ErrorResponse(503, readiness.reason);
  if (readiness.ready) {
    answer.body = fmt::format(R"({{"status":"ready","schedulable_workers":{}}})",
                              readiness.schedulable_workers);
  }
  return answer;
}

}  // namespace

void AddOpsRoutes(HttpServer* server, std::function<Readiness()> readiness,
                  std::function<std::string()> metrics_text) {
  server->Route("GET", "/live", [](const HttpRequest&) {
    return HttpResponse{.headers = {}, .body = R"({"status":"live"})"};
  });
  const auto answer_readiness = [readiness = std::move(readiness)](const HttpRequest&) {
    return ReadinessAnswer(readiness());
  };
  server->Route("GET", "/ready", answer_readiness);
  server->Route("GET", "/health", answer_readiness);
  server->Route("GET", "/metrics", [metrics_text = std::move(metrics_text)](const HttpRequest&) {
    return HttpResponse{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                        .headers = {},
                        .body = metrics_text()};
  });
}

}  // namespace kvrouter
