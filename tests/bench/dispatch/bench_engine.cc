#include "bench_engine.h"

#include <cstdlib>
#include <map>
#include <utility>

#include "base/mutex.h"

namespace kvrouter {
namespace {

constexpr std::string_view kEvent =
    "data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":1,\"model\":\"m\","
    "\"choices\":[{\"index\":0,\"text\":\" word\",\"logprobs\":null,\"finish_reason\":null}]}\n\n";

// Streams that never end, until their clients leave.
class HeldStreams {
 public:
  void Hold(std::shared_ptr<HttpResponder> responder) {
    uint64_t number = 0;
    {
      MutexLock lock(mu_);
      number = next_++;
      held_.emplace(number, responder);
    }
    responder->OnGone([this, number] {
      std::shared_ptr<HttpResponder> gone;  // released after the lock
      MutexLock lock(mu_);
      const auto found = held_.find(number);
      if (found == held_.end()) return;
      gone = std::move(found->second);
      held_.erase(found);
    });
  }

 private:
  Mutex mu_;
  uint64_t next_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, std::shared_ptr<HttpResponder>> held_ ABSL_GUARDED_BY(mu_);
};

// The body's fields that matter stand at its end, behind the long prompt.
size_t MaxTokens(std::string_view body) {
  static constexpr std::string_view kName = "\"max_tokens\":";
  const size_t at = body.rfind(kName);
  return at == std::string_view::npos
             ? 1
             : std::strtoul(std::string(body.substr(at + kName.size(), 10)).c_str(), nullptr, 10);
}

void Answer(const HttpRequest& request, const std::shared_ptr<HttpResponder>& responder,
            HeldStreams* held) {
  responder->Begin({.content_type = "text/event-stream", .headers = {}, .body = ""});
  if (request.body.rfind("\"hold\":true") != std::string::npos) {
    responder->Write(std::string(kEvent));
    return held->Hold(responder);
  }
  const size_t tokens = MaxTokens(request.body);
  for (size_t i = 0; i < tokens; ++i) responder->Write(std::string(kEvent));
  responder->Write("data: [DONE]\n\n");
  responder->End();
}

}  // namespace

std::unique_ptr<HttpServer> MakeBenchEngine(HttpServerConfig config) {
  auto server = std::make_unique<HttpServer>(std::move(config));
  auto held = std::make_shared<HeldStreams>();
  server->RouteAsync("POST", "/v1/completions",
                     [held](const HttpRequest& request, std::shared_ptr<HttpResponder> responder) {
                       Answer(request, responder, held.get());
                     });
  server->Route("GET", "/v1/models", [](const HttpRequest&) {
    return HttpResponse{.headers = {},
                        .body = R"({"object":"list","data":[{"id":"m","object":"model"}]})"};
  });
  server->Route("GET", "/health", [](const HttpRequest&) { return HttpResponse{}; });
  return server;
}

}  // namespace kvrouter
