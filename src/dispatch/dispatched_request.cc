#include "dispatch/dispatched_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dispatch/explain_headers.h"
#include "dispatch/posted_event.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

// Longer ids of clients are replaced: legs put something behind them.
constexpr size_t kMaxClientIdBytes = 192;

std::string_view TextOf(const absl::Status& status) {
  const auto message = status.message();
  return {message.data(), message.size()};
}

}  // namespace

DispatchedRequest::DispatchedRequest(std::shared_ptr<DispatchContext> context,
                                     DispatchRequest request, OpenAiEndpoint endpoint,
                                     std::shared_ptr<ClientReply> client)
    : context_(std::move(context)),
      config_(context_->settings->Current()),
      endpoint_(endpoint),
      path_(request.path),
      target_(request.query.empty() ? request.path
                                    : fmt::format("{}?{}", request.path, request.query)),
      arrived_at_(context_->clock->Now()),
      received_(std::move(request)),
      client_(client),
      answer_(std::move(client), config_->max_held_reply_bytes, context_->observer) {}

void DispatchedRequest::Start(uint64_t number) {
  number_ = number;
  PostEvent(this, [](DispatchedRequest& self) { self.Begin(); });
}

void DispatchedRequest::Abort() {
  PostEvent(this, [](DispatchedRequest& self) { self.OnAbort(); });
}

void DispatchedRequest::Begin() {
  const auto weak = weak_from_this();
  if (config_->total_timeout.count() > 0) {
    cancel_deadline_ =
        context_->link->After(config_->total_timeout,
                              WeakEvent(this, [](DispatchedRequest& self) { self.OnDeadline(); }));
  }
  client_->OnGone(WeakEvent(this, [](DispatchedRequest& self) { self.OnGone(); }));
  client_->OnDrained(WeakEvent(this, [](DispatchedRequest& self) { self.OnDrained(); }));
  client_ = nullptr;
  auto prepared = PreparedRequest::Of({context_->directory, *config_}, endpoint_, received_.headers,
                                      std::move(received_.body));
  if (!prepared.ok()) {
    RefuseClient(prepared.status());
    return;
  }
  received_ = {};
  request_ = *std::move(prepared);
  id_ = request_->headers().request_id;
  if (id_.size() > kMaxClientIdBytes) id_.clear();
  auto text = request_->TextToTokenize();
  if (!text) {
    OnIds(request_->ids());
    return;
  }
  context_->tokenizer->Tokenize(*std::move(text), [weak](TokenIds ids) {
    const auto self = weak.lock();
    if (!self) return;
    PostEvent(self.get(),
              [ids = std::move(ids)](DispatchedRequest& request) { request.OnIds(ids); });
  });
}

void DispatchedRequest::OnIds(TokenIds ids) {
  if (ids) {
    request_->SetIds(std::move(ids));
  } else {
    Fallback(DispatchFallback::kNotTokenized);
  }
  const bool planned =
      request_->MayHaveTwoLegs() && (!request_->is_chat() || config_->two_leg_chat);
  Route(planned ? Ask::kPlanned : Ask::kPlain);
}

RouteRequest DispatchedRequest::RouteFor(Ask ask) const {
  RouteRequest route = request_->ToRoute();
  route.request_id = id_;
  route.excluded = excluded_;
  if (config_->total_timeout.count() > 0) route.deadline = arrived_at_ + config_->total_timeout;
  if (ask == Ask::kDecode || ask == Ask::kDecodePlain) route.phase = RequestPhase::kDecode;
  // Of a chat any two workers may become its pair, so all have to render alike.
  const bool alone = ask == Ask::kPlanned && request_->is_chat() &&
                     request_->partition().has_prefill &&
                     !context_->probe->AllAlike(request_->partition(), request_->engine_headers());
  if (alone) context_->observer->OnFallback(DispatchFallback::kPromptsMayDiffer);
  route.prefill_here = alone || ask == Ask::kPlain || ask == Ask::kDecodePlain;
  route.has_prefill_result = ask != Ask::kPlanned;
  return route;
}

void DispatchedRequest::Route(Ask ask) {
  ask_ = ask;
  ticket_ = kNoTicket;
  const uint32_t turn = ++turn_;
  if (place_ == Place::kNowhere) place_ = Place::kAsked;
  // Runs inside of Submit, so in this event.
  const auto wait = [this, turn](TicketId ticket) -> RoutingService::Completion {
    ticket_ = ticket;
    return [weak = weak_from_this(), turn](RoutingService::Answer answer) {
      const auto self = weak.lock();
      if (!self) return;
      PostEvent(self.get(), [turn, answer = std::move(answer)](DispatchedRequest& request) {
        request.OnDecision(turn, answer);
      });
    };
  };
  auto answer = context_->routing->Submit(RouteFor(ask), wait, &id_);
  if (answer) OnDecision(turn, *std::move(answer));
}

void DispatchedRequest::OnDecision(uint32_t turn, RoutingService::Answer answer) {
  if (turn != turn_) return;
  ticket_ = kNoTicket;
  if (!answer.ok()) {
    if (place_ == Place::kAsked) place_ = Place::kNowhere;
    OnRefusal(ask_, answer.status());
    return;
  }
  place_ = Place::kBooked;
  decision_ = *std::move(answer);
  decision_->candidates = {};  // much, and to be had from the router
  decision_->filtered_targets = {};
  if (!first_plan_) {
    first_plan_ = decision_->plan;
    ArmKeepAlive();
  }
  FollowPlan();
}

void DispatchedRequest::OnRefusal(Ask ask, const absl::Status& status) {
  const ErrorReason reason = ErrorReasonOf(status);
  if (reason == ErrorReason::kShuttingDown) {
    OnAbort();
  } else if (ask == Ask::kDecode || ask == Ask::kDecodePlain) {
    DropHandshake();
    if (strict_) {
      RefuseClient(status);
      return;
    }
    Fallback(DispatchFallback::kDecodeRefused);
    FreeBooking();
    Route(Ask::kPlain);
  } else if (reason == ErrorReason::kDuplicateRequest && !id_is_ours_) {
    // Clients choose their ids as they like; another live request has this one.
    id_.clear();
    id_is_ours_ = true;
    Route(ask);
  } else if (!failure_) {
    RefuseClient(status);
  } else if (last_resort_) {
    std::erase_if(excluded_,
                  [this](const TargetSelector& target) { return target.worker == *last_resort_; });
    last_resort_.reset();
    Route(Ask::kPlain);
  } else {
    GiveUp();
  }
}

void DispatchedRequest::FollowPlan() {
  const RouteDecision& decision = *decision_;
  const LegTarget target{
      .target = decision.target, .incarnation = decision.incarnation, .address = decision.address};
  if (request_->headers().explain && config_->explain_headers) {
    if (ask_ == Ask::kPlanned || explanation_.empty()) explanation_ = ExplanationOf(decision);
    std::optional<Target> prefill_worker;
    if (ask_ == Ask::kDecode && handshake_) prefill_worker = handshake_->producer.target;
    answer_.AddHeaders(ExplainHeaders(id_, decision, prefill_worker, explanation_));
  }
  if (ask_ == Ask::kDecode) {
    SendServe(target, std::exchange(handshake_, std::nullopt));
    return;
  }
  const Leg* const first =
      ask_ == Ask::kPlanned && decision.planning ? &decision.planning->legs.legs.front() : nullptr;
  if (first == nullptr || !IsProducer(first->kind)) {
    SendServe(target, std::nullopt);
    return;
  }
  strict_ = first->fallback == LegFallback::kFail;
  if (first->kind == LegKind::kKvSource &&
      !MayPull(first->where->target.worker, target.target.worker)) {
    Fallback(DispatchFallback::kPromptsMayDiffer);
    SendServe(target, std::nullopt);
    return;
  }
  SendProducer(*first);
}

bool DispatchedRequest::MayPull(WorkerId producer, WorkerId consumer) {
  return !request_->is_chat() || context_->probe->Alike(request_->partition(), producer, consumer,
                                                        request_->engine_headers());
}

void DispatchedRequest::RefuseClient(const absl::Status& status) {
  const int code = HttpStatusOf(status);
  const ErrorReason reason = ErrorReasonOf(status);
  FreeBooking();
  if (reason == ErrorReason::kUnknownPartition) {
    answer_.Fail(404, TextOf(status), "model_not_found", "model");
  } else {
    answer_.Fail(code, TextOf(status), ErrorReasonName(reason));
  }
  const bool late = status.code() == absl::StatusCode::kDeadlineExceeded;
  End({.outcome = late ? DispatchOutcome::kDeadline : DispatchOutcome::kRejected, .status = code});
}

void DispatchedRequest::OnGone() { End({.outcome = DispatchOutcome::kClientGone}); }

void DispatchedRequest::OnDeadline() {
  cancel_deadline_ = nullptr;
  StopLeg();
  FreeBooking();
  answer_.Fail(
      504,
      fmt::format(
          "the request was not answered within {} ms",
          std::chrono::duration_cast<std::chrono::milliseconds>(config_->total_timeout).count()),
      "timeout");
  End({.outcome = DispatchOutcome::kDeadline, .status = 504});
}

void DispatchedRequest::OnAbort() {
  StopLeg();
  FreeBooking();
  answer_.Fail(503, "the router is shutting down", "shutting_down");
  End({.outcome = DispatchOutcome::kShuttingDown, .status = 503});
}

void DispatchedRequest::OnDrained() {
  if (!std::exchange(paused_, false) || !leg_) return;
  leg_->exchange->Resume();
}

void DispatchedRequest::ArmKeepAlive() {
  cancel_keep_alive_ = context_->link->After(config_->keep_alive_period,
                                             WeakEvent(this, [](DispatchedRequest& self) {
                                               if (self.place_ == Place::kBooked)
                                                 self.context_->routing->KeepAlive(self.id_);
                                               self.ArmKeepAlive();
                                             }));
}

void DispatchedRequest::FreeBooking() {
  if (ticket_ != kNoTicket) {
    context_->routing->Abandon(id_, std::exchange(ticket_, kNoTicket));
  } else if (place_ == Place::kBooked) {
    context_->routing->Free(id_);
  }
  place_ = Place::kNowhere;
}

void DispatchedRequest::End(const Ended& ended) {
  ended_ = true;
  ++turn_;
  StopLeg();
  DropHandshake();
  FreeBooking();
  if (cancel_deadline_) cancel_deadline_();
  if (cancel_keep_alive_) cancel_keep_alive_();
  context_->observer->OnEnd(EndOf(ended));
  request_.reset();
  context_->live.Leave(number_, ended.outcome);
}

DispatchEnd DispatchedRequest::EndOf(const Ended& ended) const {
  const OpenAiUsage usage = answer_.usage();
  DispatchEnd end{
      .path = path_,
      .model = request_ ? std::string_view(request_->openai().model) : "",
      .outcome = ended.outcome,
      .status = ended.status,
      .streaming = request_ && request_->openai().stream,
      .plan = first_plan_,
      .since_arrival = context_->clock->Now() - arrived_at_,
      .prompt_tokens = usage.prompt_tokens.value_or(decision_ ? decision_->isl_tokens : 0),
      .output_tokens = answer_.output_tokens(),
      .retries = retries_};
  if (first_token_at_) end.first_token = *first_token_at_ - arrived_at_;
  return end;
}

}  // namespace kvrouter
