#include "bench_proxy.h"

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/mutex.h"

namespace kvrouter {
namespace {

// One request: what the engine says goes to the client, at the client's pace.
class PassingReply : public EngineReply, public std::enable_shared_from_this<PassingReply> {
 public:
  explicit PassingReply(std::shared_ptr<HttpResponder> client) : client_(std::move(client)) {}

  void Watch(const std::shared_ptr<EngineExchange>& exchange) {
    client_->OnGone([exchange] { exchange->Cancel(); });
    client_->OnDrained([self = weak_from_this(), exchange] {
      if (const auto reply = self.lock()) reply->drains_.fetch_add(1);
      exchange->Resume();
    });
    MutexLock lock(mu_);
    exchange_ = exchange;
  }

  void OnHead(EngineReplyHead head) override {
    HttpResponse response{.status = head.status, .headers = {}, .body = ""};
    for (auto& [name, value] : head.headers) {
      if (name == "content-type") {
        response.content_type = std::move(value);
      } else if (name != "date" && name != "server") {
        response.headers.emplace_back(std::move(name), std::move(value));
      }
    }
    client_->Begin(std::move(response));
  }
  void OnBody(std::string_view piece) override {
    const uint64_t drains_before = drains_.load();
    if (client_->Write(std::string(piece))) return;
    std::shared_ptr<EngineExchange> exchange;
    {
      MutexLock lock(mu_);
      exchange = exchange_.lock();
    }
    if (exchange == nullptr) return;
    exchange->Pause();
    if (drains_.load() != drains_before) exchange->Resume();  // there is room already
  }
  void OnEnd(EngineEnd end, std::string_view detail) override {
    if (end == EngineEnd::kComplete) return client_->End();
    client_->Complete({.status = 502, .headers = {}, .body = std::string(detail)});
    client_.reset();  // after the first byte: cut
  }

 private:
  std::shared_ptr<HttpResponder> client_;
  std::atomic<uint64_t> drains_{0};
  Mutex mu_;
  std::weak_ptr<EngineExchange> exchange_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

std::unique_ptr<HttpServer> MakeBenchProxy(HttpServerConfig config, std::string engine_url,
                                           HttpEngineLink* link) {
  auto server = std::make_unique<HttpServer>(std::move(config));
  server->RouteAsync("POST", "/v1/completions",
                     [link, url = std::move(engine_url)](HttpRequest& request,
                                                         std::shared_ptr<HttpResponder> responder) {
                       EngineCall call{
                           .base_url = url,
                           .path = request.path,
                           .headers = std::move(request.headers),
                           .body = std::make_shared<const std::string>(std::move(request.body))};
                       auto reply = std::make_shared<PassingReply>(std::move(responder));
                       reply->Watch(link->Send(std::move(call), reply));
                     });
  return server;
}

}  // namespace kvrouter
