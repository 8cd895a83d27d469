#include "dispatch/pass_through.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/json_text.h"
#include "dispatch/openai_request.h"
#include "dispatch/posted_event.h"

namespace kvrouter {
namespace {

constexpr std::chrono::hours kForever{24 * 365};

// Who may answer, the one whose turn it is first.
std::vector<KnownEngine> InTurn(const KnownPartition& partition, uint64_t turn) {
  std::vector<KnownEngine> engines;
  std::copy_if(partition.engines.begin(), partition.engines.end(), std::back_inserter(engines),
               [](const KnownEngine& engine) { return engine.role != WorkerRole::kPrefill; });
  if (engines.empty()) engines = partition.engines;
  if (!engines.empty()) {
    std::rotate(engines.begin(),
                engines.begin() + static_cast<std::ptrdiff_t>(turn % engines.size()),
                engines.end());
  }
  return engines;
}

}  // namespace

class PassThrough::Reply final : public EngineReply {
 public:
  Reply(std::shared_ptr<PassThrough> request, uint32_t attempt)
      : request_(std::move(request)), attempt_(attempt) {}

  void OnHead(EngineReplyHead head) override {
    PostEvent(request_.get(), [attempt = attempt_, head = std::move(head)](PassThrough& request) {
      if (request.attempt_ == attempt) request.answer_.Head(head);
    });
  }
  void OnBody(std::string_view piece) override {
    PostEvent(request_.get(),
              [attempt = attempt_, bytes = std::string(piece)](PassThrough& request) {
                if (request.attempt_ != attempt || request.answer_.Body(bytes)) return;
                request.paused_ = true;
                request.exchange_->Pause();
              });
  }
  void OnEnd(EngineEnd end, std::string_view detail) override {
    PostEvent(request_.get(),
              [attempt = attempt_, end, text = std::string(detail)](PassThrough& request) {
                if (request.attempt_ == attempt) request.OnEnd(end, text);
              });
  }

 private:
  const std::shared_ptr<PassThrough> request_;
  const uint32_t attempt_;
};

PassThrough::PassThrough(std::shared_ptr<DispatchContext> context, DispatchRequest request,
                         std::shared_ptr<ClientReply> client)
    : context_(std::move(context)),
      config_(context_->settings->Current()),
      arrived_at_(context_->clock->Now()),
      request_(std::move(request)),
      client_(client),
      answer_(std::move(client), config_->max_held_reply_bytes, context_->observer) {}

void PassThrough::Start(uint64_t number, uint64_t turn) {
  number_ = number;
  PostEvent(this, [turn](PassThrough& self) { self.Begin(turn); });
}

void PassThrough::Abort() {
  PostEvent(this, [](PassThrough& self) {
    self.Fail(503, "the router is shutting down", "shutting_down", DispatchOutcome::kShuttingDown);
  });
}

void PassThrough::Begin(uint64_t turn) {
  client_->OnGone(
      WeakEvent(this, [](PassThrough& self) { self.End(DispatchOutcome::kClientGone, 0); }));
  client_->OnDrained(WeakEvent(this, [](PassThrough& self) { self.OnDrained(); }));
  client_ = nullptr;
  if (!request_.body.empty()) {
    auto model = ReadModel(request_.body);
    if (!model.ok()) {
      const auto message = model.status().message();
      Fail(400, {message.data(), message.size()}, "invalid_request", DispatchOutcome::kRejected);
      return;
    }
    model_ = *std::move(model);
  }
  const auto served = context_->directory.Resolve(
      {.model = model_,
       .group = FindHeader(request_.headers, "x-kvrouter-routing-group"),
       .preferred_group = config_->routing_group});
  if (!served.ok()) {
    const auto message = served.status().message();
    Fail(model_.empty() ? 400 : 404, {message.data(), message.size()}, "model_not_found",
         DispatchOutcome::kRejected);
    return;
  }
  engines_ = InTurn(*served->partition, turn);
  if (engines_.empty()) {
    Fail(503,
         fmt::format("no worker of model \"{}\" takes requests", served->partition->model_name),
         "no_workers", DispatchOutcome::kRejected);
    return;
  }
  if (config_->total_timeout.count() > 0) {
    cancel_deadline_ =
        context_->link->After(config_->total_timeout, WeakEvent(this, [](PassThrough& self) {
                                self.Fail(504, "the request was not answered in time", "timeout",
                                          DispatchOutcome::kDeadline);
                              }));
  }
  if (!request_.body.empty()) body_ = std::make_shared<const std::string>(std::move(request_.body));
  Send();
}

void PassThrough::Send() {
  ++attempt_;
  paused_ = false;
  const auto total = config_->total_timeout;
  EngineCall call;
  call.base_url = engines_[next_engine_++].address;
  call.method = request_.method;
  call.path =
      request_.query.empty() ? request_.path : fmt::format("{}?{}", request_.path, request_.query);
  call.headers = EngineHeaders(request_.headers);
  const std::string_view id = FindHeader(request_.headers, "x-request-id");
  if (!id.empty()) call.headers.emplace_back("x-request-id", std::string(id));
  call.body = body_;
  call.head_timeout = total.count() > 0 ? total : std::chrono::nanoseconds(kForever);
  call.idle_timeout = config_->idle_timeout;
  exchange_ =
      context_->link->Send(std::move(call), std::make_shared<Reply>(shared_from_this(), attempt_));
}

void PassThrough::OnDrained() {
  if (std::exchange(paused_, false) && exchange_) exchange_->Resume();
}

void PassThrough::OnEnd(EngineEnd end, std::string_view detail) {
  const LegResult result = LegResultOf(end, answer_.status());
  exchange_ = nullptr;
  if (result == LegResult::kSucceeded || result == LegResult::kRefused) {
    const int status = answer_.status();
    answer_.End();
    End(result == LegResult::kSucceeded ? DispatchOutcome::kSuccess
                                        : DispatchOutcome::kEngineRefused,
        status);
    return;
  }
  if (!answer_.begun() && next_engine_ < engines_.size() && attempt_ <= config_->max_retries) {
    answer_.Reset();
    context_->observer->OnFallback(DispatchFallback::kRetriedElsewhere);
    Send();
    return;
  }
  if (result == LegResult::kServerError && !answer_.begun()) {
    const int status = answer_.status();
    answer_.End();
    End(DispatchOutcome::kFailed, status);
    return;
  }
  Fail(StatusForClient(result), fmt::format("worker failed: {}: {}", LegResultName(result), detail),
       "engine_failed", DispatchOutcome::kFailed);
}

void PassThrough::Fail(int status, std::string_view message, std::string_view code,
                       DispatchOutcome outcome) {
  answer_.Fail(status, message, code);
  End(outcome, status);
}

void PassThrough::End(DispatchOutcome outcome, int status) {
  ended_ = true;
  if (exchange_) exchange_->Cancel();
  exchange_ = nullptr;
  if (cancel_deadline_) cancel_deadline_();
  context_->observer->OnEnd({.path = request_.path,
                             .model = model_,
                             .outcome = outcome,
                             .status = status,
                             .since_arrival = context_->clock->Now() - arrived_at_,
                             .retries = attempt_ > 0 ? attempt_ - 1 : 0});
  context_->live.Leave(number_, outcome);
}

std::string ModelList(const std::vector<std::shared_ptr<const KnownPartition>>& partitions) {
  std::set<std::string_view> names;
  for (const auto& partition : partitions) names.insert(partition->model_name);
  std::string list = R"({"object":"list","data":[)";
  bool first = true;
  for (const std::string_view name : names) {
    if (!first) list.push_back(',');
    first = false;
    list += R"({"id":)";
    AppendJsonString(name, &list);
    list += R"(,"object":"model","created":0,"owned_by":"kvrouter"})";
  }
  list += "]}";
  return list;
}

}  // namespace kvrouter
