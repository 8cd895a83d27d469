#include "sim/wire/wire_fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>
#include <utility>
#include <variant>

#include "adapters/http/http_server.h"
#include "base/bounded_queue.h"
#include "base/status_macros.h"
#include "sim/wire/json_response.h"
#include "sim/wire/token_routes.h"
#include "sim/wire/wire_engine.h"

namespace kvrouter::sim {
namespace {

using std::chrono::nanoseconds;

constexpr size_t kCommandCapacity = 65'536;
// How often the fleet thread looks for clients that left.
constexpr std::chrono::milliseconds kDesertedCheckPeriod{20};

struct SubmitCommand {
  size_t engine;
  CompletionRequest request;
  std::shared_ptr<HttpResponder> responder;
};
struct ResetCommand {
  size_t engine;
  std::shared_ptr<HttpResponder> responder;
};
struct CachedPrefixCommand {
  size_t engine;
  std::vector<std::vector<TokenId>> prompts;
  std::shared_ptr<HttpResponder> responder;
};
using Command = std::variant<SubmitCommand, ResetCommand, CachedPrefixCommand>;

// Real time to model time and back; both start at 0 with the fleet.
class ScaledClock {
 public:
  explicit ScaledClock(double speedup)
      : speedup_(speedup), start_(std::chrono::steady_clock::now()) {}

  MonotonicTime ModelNow() const {
    return Scale(std::chrono::steady_clock::now() - start_, speedup_);
  }
  // Real time until the model's `at`; at least 0, at most `limit`.
  nanoseconds RealUntil(MonotonicTime at, nanoseconds limit) const {
    const MonotonicTime now = ModelNow();
    if (at <= now) return nanoseconds{0};
    if (at == MonotonicTime::max()) return limit;
    return std::min(limit, Scale(at - now, 1 / speedup_) + nanoseconds{1});
  }

 private:
  static nanoseconds Scale(nanoseconds time, double factor) {
    return nanoseconds(static_cast<int64_t>(static_cast<double>(time.count()) * factor));
  }

  double speedup_;
  std::chrono::steady_clock::time_point start_;
};

std::string EndpointOf(const std::string& host, uint16_t base_port, uint32_t engine) {
  if (base_port == 0) return fmt::format("tcp://{}:*", host);
  return fmt::format("tcp://{}:{}", host, base_port + engine);
}

// As a node of a hybrid load balancer does: the rank in the header is the global one, and one that
// is not here is an error.
absl::Status CheckRank(std::string_view header, uint32_t dp_rank) {
  if (header.empty() || header == std::to_string(dp_rank)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("x-data-parallel-rank: '{}' is not served here, only {}", header, dp_rank));
}

uint64_t RandomSeed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

}  // namespace

struct WireFleet::Impl {
  FleetConfig config;
  ScaledClock clock;
  EventPublisher publisher;
  BoundedQueue<Command> commands{kCommandCapacity};
  std::vector<std::unique_ptr<WireEngine>> engines;
  std::vector<std::unique_ptr<HttpServer>> servers;
  std::atomic<bool> stopping{false};
  std::jthread thread;

  explicit Impl(FleetConfig fleet) : config(std::move(fleet)), clock(config.speedup) {}

  absl::Status AddEngine(uint32_t index);
  absl::Status StartServer(size_t engine);
  void AddRoutes(size_t engine, HttpServer& server);
  void AcceptCompletion(size_t engine, const HttpRequest& http, bool chat,
                        std::shared_ptr<HttpResponder> responder);
  absl::StatusOr<CompletionRequest> ReadCompletion(const HttpRequest& http, bool chat) const;
  void AcceptCachedPrefix(size_t engine, const HttpRequest& http,
                          std::shared_ptr<HttpResponder> responder);
  void Enqueue(Command command, HttpResponder& responder);
  void Run();
  void Execute(Command command);
};

absl::Status WireFleet::Impl::AddEngine(uint32_t index) {
  PublisherConfig events = config.events;
  events.live = EndpointOf(config.http_host, config.live_port, index);
  events.replay = EndpointOf(config.http_host, config.replay_port, index);
  KVR_ASSIGN_OR_RETURN(const size_t channel, publisher.AddEngine(events));
  WireEngine::Config engine{.model = config.model,
                            .model_name = config.model_name,
                            .dp_rank = config.dp_rank,
                            .hash_seed = config.same_hash_seed ? config.hash_seed : RandomSeed(),
                            .max_live_requests = config.max_live_requests};
  engines.push_back(std::make_unique<WireEngine>(std::move(engine), &publisher, channel));
  return absl::OkStatus();
}

absl::Status WireFleet::Impl::StartServer(size_t engine) {
  const size_t port = config.http_port == 0 ? 0 : config.http_port + engine;
  HttpServerConfig http;
  http.listen = fmt::format("{}:{}", config.http_host, port);
  http.max_connections = config.max_live_requests + 64;
  servers.push_back(std::make_unique<HttpServer>(http));
  AddRoutes(engine, *servers.back());
  return servers.back()->Start();
}

void WireFleet::Impl::AddRoutes(size_t engine, HttpServer& server) {
  server.Route("GET", "/health", [](const HttpRequest&) { return JsonResponse(200, ""); });
  AddTokenRoutes({.model_name = config.model_name,
                  .chat_template = config.chat_template,
                  .max_model_len_tokens = config.max_model_len_tokens,
                  .render = config.render_routes},
                 server);
  server.Route("GET", "/metrics", [this, engine](const HttpRequest&) {
    HttpResponse response;
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    response.body = EngineMetricsText(engines[engine]->Snapshot(), publisher.Counters(engine),
                                      config.model_name, config.dp_rank);
    return response;
  });
  for (const bool chat : {false, true}) {
    server.RouteAsync(
        "POST", chat ? "/v1/chat/completions" : "/v1/completions",
        [this, engine, chat](const HttpRequest& http, std::shared_ptr<HttpResponder> responder) {
          AcceptCompletion(engine, http, chat, std::move(responder));
        });
  }
  server.RouteAsync("POST", "/reset_prefix_cache",
                    [this, engine](const HttpRequest&, std::shared_ptr<HttpResponder> responder) {
                      Enqueue(ResetCommand{engine, responder}, *responder);
                    });
  server.RouteAsync(
      "POST", "/cached_prefix",
      [this, engine](const HttpRequest& http, std::shared_ptr<HttpResponder> responder) {
        AcceptCachedPrefix(engine, http, std::move(responder));
      });
}

// {"prompts": [[token, ...], ...]} -> {"blocks": [n, ...]}, all of one moment. No engine has this:
// it is how a test asks for the truth.
void WireFleet::Impl::AcceptCachedPrefix(size_t engine, const HttpRequest& http,
                                         std::shared_ptr<HttpResponder> responder) {
  const auto body = nlohmann::json::parse(http.body, nullptr, /*allow_exceptions=*/false);
  CachedPrefixCommand command{engine, {}, responder};
  try {
    command.prompts = body.at("prompts").get<std::vector<std::vector<TokenId>>>();
  } catch (const nlohmann::json::exception& error) {
    responder->Complete(JsonResponse(
        400, ErrorBody(fmt::format("prompts: {}", error.what()), "invalid_request_error", 400)));
    return;
  }
  Enqueue(std::move(command), *responder);
}

absl::StatusOr<CompletionRequest> WireFleet::Impl::ReadCompletion(const HttpRequest& http,
                                                                  bool chat) const {
  KVR_RETURN_IF_ERROR(CheckRank(http.Header("x-data-parallel-rank"), config.dp_rank));
  CompletionLimits limits;
  limits.prompt_tokens = config.max_model_len_tokens;
  KVR_ASSIGN_OR_RETURN(CompletionRequest request,
                       chat ? ParseChatRequest(http.body, config.chat_template, limits)
                            : ParseCompletionRequest(http.body, limits));
  request.request_id = http.Header("x-request-id");
  return request;
}

void WireFleet::Impl::AcceptCompletion(size_t engine, const HttpRequest& http, bool chat,
                                       std::shared_ptr<HttpResponder> responder) {
  absl::StatusOr<CompletionRequest> request = ReadCompletion(http, chat);
  if (!request.ok()) {
    const std::string message(request.status().message().data(), request.status().message().size());
    responder->Complete(JsonResponse(400, ErrorBody(message, "invalid_request_error", 400)));
    return;
  }
  if (!request->model.empty() && request->model != config.model_name) {
    const std::string message =
        fmt::format("model '{}' is not served here, only '{}'", request->model, config.model_name);
    responder->Complete(JsonResponse(404, ErrorBody(message, "not_found_error", 404)));
    return;
  }
  Enqueue(SubmitCommand{engine, *std::move(request), responder}, *responder);
}

void WireFleet::Impl::Enqueue(Command command, HttpResponder& responder) {
  if (commands.TryPush(std::move(command))) return;
  responder.Complete(
      JsonResponse(503, ErrorBody("the engine's queue is full", "service_unavailable", 503)));
}

void WireFleet::Impl::Run() {
  auto next_deserted_check = std::chrono::steady_clock::now() + kDesertedCheckPeriod;
  while (!stopping) {
    MonotonicTime next = MonotonicTime::max();
    for (const auto& engine : engines) next = std::min(next, engine->NextEventTime());
    std::optional<Command> command = commands.PopFor(clock.RealUntil(next, kDesertedCheckPeriod));
    for (; command.has_value(); command = commands.TryPop()) Execute(*std::move(command));
    const MonotonicTime now = clock.ModelNow();
    for (const auto& engine : engines) {
      if (engine->NextEventTime() <= now) engine->AdvanceTo(now);
    }
    if (std::chrono::steady_clock::now() < next_deserted_check) continue;
    next_deserted_check = std::chrono::steady_clock::now() + kDesertedCheckPeriod;
    for (const auto& engine : engines) engine->AbortDeserted(now);
  }
}

void WireFleet::Impl::Execute(Command command) {
  const MonotonicTime now = clock.ModelNow();
  if (auto* submit = std::get_if<SubmitCommand>(&command)) {
    engines[submit->engine]->Submit(std::move(submit->request), std::move(submit->responder), now);
    return;
  }
  if (const auto* question = std::get_if<CachedPrefixCommand>(&command)) {
    engines[question->engine]->AdvanceTo(now);
    const nlohmann::json answer = {
        {"blocks", engines[question->engine]->CachedPrefixBlocks(question->prompts)}};
    question->responder->Complete(JsonResponse(200, answer.dump()));
    return;
  }
  // vLLM answers 200 whether or not the cache could be dropped.
  const auto& reset = std::get<ResetCommand>(command);
  engines[reset.engine]->ResetPrefixCache(now);
  reset.responder->Complete(JsonResponse(200, ""));
}

WireFleet::WireFleet(FleetConfig config) : impl_(std::make_unique<Impl>(std::move(config))) {}

WireFleet::~WireFleet() { Stop(std::chrono::milliseconds(0)); }

absl::Status WireFleet::Start() {
  for (uint32_t i = 0; i < impl_->config.engines; ++i) KVR_RETURN_IF_ERROR(impl_->AddEngine(i));
  // Servers last: their threads read the list of engines, which must not grow any more.
  for (size_t i = 0; i < impl_->engines.size(); ++i) KVR_RETURN_IF_ERROR(impl_->StartServer(i));
  impl_->publisher.Start();
  impl_->thread = std::jthread([impl = impl_.get()] { impl->Run(); });
  return absl::OkStatus();
}

std::vector<EngineAddresses> WireFleet::Addresses() const {
  std::vector<EngineAddresses> addresses;
  for (size_t i = 0; i < impl_->servers.size(); ++i) {
    addresses.push_back({.http = "http://" + impl_->servers[i]->Address(),
                         .live = impl_->publisher.LiveEndpoint(i),
                         .replay = impl_->publisher.ReplayEndpoint(i)});
  }
  return addresses;
}

void WireFleet::Stop(std::chrono::milliseconds grace) {
  const auto deadline = std::chrono::steady_clock::now() + grace;
  for (const auto& server : impl_->servers) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    server->Stop(std::max(left, std::chrono::milliseconds(0)));
  }
  impl_->stopping = true;
  impl_->commands.Close();
  if (impl_->thread.joinable()) impl_->thread.join();
  impl_->publisher.Stop();
}

}  // namespace kvrouter::sim
