#include "dispatch/dispatcher.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <string_view>
#include <utility>

#include "dispatch/dispatch_context.h"
#include "dispatch/dispatched_request.h"
#include "dispatch/openai_request.h"
#include "dispatch/pass_through.h"
#include "dispatch/route_text_call.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

// Longer prompts are refused by the service's own, configurable limit.
constexpr uint64_t kMaxTokensOfAnswer = 16'777'216;

class NullObserver final : public DispatchObserver {
 public:
  void OnFirstToken(std::string_view, std::chrono::nanoseconds) override {}
  void OnLeg(LegKind, const Target&, LegResult, std::chrono::nanoseconds) override {}
  void OnFallback(DispatchFallback) override {}
  void OnOutgrown(OutgrownHold) override {}
  void OnTokenize(TokenizeOutcome, std::chrono::nanoseconds) override {}
  void OnOverlap(const DeliveredOverlap&) override {}
  void OnLeaseLeft(const Target&) override {}
  void OnEnd(const DispatchEnd&) override {}
  void OnLog(LogLevel, const std::string&) override {}
};

DispatchObserver* OrNull(DispatchObserver* observer) {
  static NullObserver null;
  return observer != nullptr ? observer : &null;
}

// Otherwise no engine could be sent it, and every one of them would seem to have failed.
bool IsSendable(std::string_view query) {
  return std::all_of(query.begin(), query.end(), [](char c) { return c > ' ' && c < '\x7f'; });
}

bool ListsModels(const DispatchRequest& request) {
  return request.method == "GET" && request.path == "/v1/models";
}

}  // namespace

class Dispatcher::Impl {
 public:
  Impl(const DispatchConfig& config, const Parts& parts)
      : context_(std::make_shared<DispatchContext>(config, parts.workers)) {
    context_->routing = parts.routing;
    context_->link = parts.link;
    context_->clock = parts.clock;
    context_->observer = OrNull(parts.observer);
    context_->tokenizer =
        std::make_shared<Tokenizer>(Tokenizer::Parts{.settings = context_->settings,
                                                     .link = parts.link,
                                                     .clock = parts.clock,
                                                     .observer = context_->observer,
                                                     .max_tokens = kMaxTokensOfAnswer});
    context_->probe = std::make_shared<RenderProbe>(RenderProbe::Parts{
        .link = parts.link, .clock = parts.clock, .settings = context_->settings});
  }

  void Serve(DispatchRequest request, std::shared_ptr<ClientReply> reply) {
    if (!IsSendable(request.query)) {
      Answer(
          request.path, DispatchOutcome::kRejected, 400,
          OpenAiError(400, "the query holds a byte that is no printable ASCII", "invalid_request"),
          reply.get());
      return;
    }
    if (ListsModels(request) && !ServesOneModel()) {
      Answer(request.path, DispatchOutcome::kSuccess, 200,
             ModelList(context_->directory.Partitions()), reply.get());
      return;
    }
    uint64_t number = 0;
    const std::string path = request.path;
    const auto endpoint = request.method == "POST" ? OpenAiEndpointOf(request.path) : std::nullopt;
    if (endpoint) {
      auto call =
          std::make_shared<DispatchedRequest>(context_, std::move(request), *endpoint, reply);
      if (Enter(call, path, reply.get(), &number)) call->Start(number);
      return;
    }
    auto call = std::make_shared<PassThrough>(context_, std::move(request), reply);
    if (Enter(call, path, reply.get(), &number))
      call->Start(number, turn_.fetch_add(1, std::memory_order_relaxed));
  }

  std::function<void()> RouteText(RouteTextRequest request, RouteTextDone done) {
    const auto endpoint = OpenAiEndpointOf(request.path);
    if (!endpoint) {
      done(MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest,
                     "path must be /v1/completions or /v1/chat/completions"));
      return [] {};
    }
    auto call = std::make_shared<RouteTextCall>(context_, std::move(request), *endpoint, done);
    uint64_t number = 0;
    const LiveCalls::Refusal refusal = context_->live.Enter(call, &number);
    if (refusal != LiveCalls::Refusal::kNone) {
      const absl::Status status = RefusalStatus(refusal);
      context_->routing->CountRefusal(status);
      done(status);
      return [] {};
    }
    call->Start(number);
    return [weak = std::weak_ptr<RouteTextCall>(call)] {
      if (const auto left = weak.lock()) left->Leave();
    };
  }

  DispatchSettings& settings() { return *context_->settings; }

  void Stop(std::chrono::nanoseconds grace) {
    context_->live.Stop(grace);
    context_->tokenizer->Stop();
    context_->probe->Stop();
  }

  DispatchCounters Counters() const {
    const LiveCalls::Figures live = context_->live.Read();
    const TokenCache::Figures cache = context_->tokenizer->CacheFigures();
    return {.live = live.live,
            .started = live.started,
            .ended = live.ended,
            .tokenize_cache_entries = cache.entries,
            .tokenize_cache_bytes = cache.bytes,
            .tokenize_cache_evicted = cache.evicted_total,
            .tokenize_in_flight = context_->tokenizer->InFlight(),
            .breakers_open = context_->tokenizer->OpenBreakers()};
  }

 private:
  static absl::Status RefusalStatus(LiveCalls::Refusal refusal) {
    if (refusal == LiveCalls::Refusal::kStopped) {
      return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kShuttingDown,
                       "the router is shutting down");
    }
    return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                     "max_live_requests requests are being served");
  }

  // False: the client got an error.
  bool Enter(std::shared_ptr<LiveCall> call, std::string_view path, ClientReply* reply,
             uint64_t* number) {
    const LiveCalls::Refusal refusal = context_->live.Enter(std::move(call), number);
    if (refusal == LiveCalls::Refusal::kNone) return true;
    const absl::Status status = RefusalStatus(refusal);
    const auto message = status.message();
    const int code = HttpStatusOf(status);
    Answer(
        path,
        refusal == LiveCalls::Refusal::kStopped ? DispatchOutcome::kShuttingDown
                                                : DispatchOutcome::kRejected,
        code,
        OpenAiError(code, {message.data(), message.size()}, ErrorReasonName(ErrorReasonOf(status))),
        reply);
    return false;
  }

  // Of a request that never was live; counted like those that were.
  void Answer(std::string_view path, DispatchOutcome outcome, int status, std::string body,
              ClientReply* reply) {
    context_->live.CountNeverLive(outcome);
    context_->observer->OnEnd({.path = path, .model = "", .outcome = outcome, .status = status});
    reply->Complete(status, {{"content-type", "application/json"}}, std::move(body));
  }

  bool ServesOneModel() const {
    std::set<std::string> names;
    for (const auto& partition : context_->directory.Partitions())
      names.insert(partition->model_name);
    return names.size() == 1;
  }

  const std::shared_ptr<DispatchContext> context_;
  std::atomic<uint64_t> turn_{0};
};

Dispatcher::Dispatcher(DispatchConfig config, const Parts& parts)
    : impl_(std::make_unique<Impl>(config, parts)) {}

Dispatcher::~Dispatcher() { impl_->Stop({}); }

void Dispatcher::Serve(DispatchRequest request, std::shared_ptr<ClientReply> reply) {
  impl_->Serve(std::move(request), std::move(reply));
}

std::function<void()> Dispatcher::RouteText(RouteTextRequest request, RouteTextDone done) {
  return impl_->RouteText(std::move(request), std::move(done));
}

absl::Status Dispatcher::CheckChange(const DispatchConfig& config) const {
  return impl_->settings().CheckChange(config);
}
void Dispatcher::Change(const DispatchConfig& config) { impl_->settings().Change(config); }

void Dispatcher::Stop(std::chrono::nanoseconds grace) { impl_->Stop(grace); }

DispatchCounters Dispatcher::Counters() const { return impl_->Counters(); }

}  // namespace kvrouter
