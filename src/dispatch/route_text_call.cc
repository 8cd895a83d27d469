#include "dispatch/route_text_call.h"

#include <utility>

#include "dispatch/posted_event.h"
#include "kvrouter/error.h"

namespace kvrouter {

RouteTextCall::RouteTextCall(std::shared_ptr<DispatchContext> context, RouteTextRequest asked,
                             OpenAiEndpoint endpoint, Dispatcher::RouteTextDone done)
    : context_(std::move(context)),
      endpoint_(endpoint),
      asked_(std::move(asked)),
      done_(std::move(done)) {}

void RouteTextCall::Start(uint64_t number) {
  number_ = number;
  PostEvent(this, [](RouteTextCall& self) { self.Begin(); });
}

void RouteTextCall::Leave() {
  PostEvent(this, [](RouteTextCall& self) { self.End(std::nullopt); });
}

void RouteTextCall::Abort() {
  PostEvent(this, [](RouteTextCall& self) {
    self.End(MakeError(absl::StatusCode::kUnavailable, ErrorReason::kShuttingDown,
                       "the router is shutting down"));
  });
}

void RouteTextCall::Begin() {
  auto prepared =
      PreparedRequest::Of({context_->directory, *context_->settings->Current()}, endpoint_,
                          asked_.headers, std::move(asked_.body), asked_.routing_group);
  if (!prepared.ok()) {
    context_->routing->CountRefusal(prepared.status());
    End(prepared.status());
    return;
  }
  request_ = *std::move(prepared);
  id_ = asked_.request_id.empty() ? request_->headers().request_id : asked_.request_id;
  auto text = request_->TextToTokenize();
  if (!text) {
    OnIds(request_->ids());
    return;
  }
  context_->tokenizer->Tokenize(*std::move(text), [weak = weak_from_this()](TokenIds ids) {
    const auto self = weak.lock();
    if (!self) return;
    PostEvent(self.get(), [ids = std::move(ids)](RouteTextCall& call) { call.OnIds(ids); });
  });
}

void RouteTextCall::OnIds(TokenIds ids) {
  request_->SetIds(std::move(ids));
  if (!request_->ids()) context_->observer->OnFallback(DispatchFallback::kNotTokenized);
  RouteRequest route = request_->ToRoute();
  route.request_id = id_;
  route.book = asked_.book;
  route.may_wait = asked_.book;
  const bool plain = !request_->MayHaveTwoLegs();
  route.prefill_here = plain;
  route.has_prefill_result = plain;
  const auto wait = [this](TicketId ticket) -> RoutingService::Completion {
    ticket_ = ticket;
    return [weak = weak_from_this()](RoutingService::Answer answer) {
      const auto self = weak.lock();
      if (!self) return;
      PostEvent(self.get(),
                [answer = std::move(answer)](RouteTextCall& call) { call.OnDecision(answer); });
    };
  };
  auto answer = context_->routing->Submit(std::move(route), wait, &id_);
  if (answer) OnDecision(*std::move(answer));
}

void RouteTextCall::OnDecision(RoutingService::Answer answer) {
  ticket_ = kNoTicket;
  if (!answer.ok()) {
    End(answer.status());
    return;
  }
  End(RouteTextAnswer{
      .request_id = id_, .decision = *std::move(answer), .token_ids = request_->ids()});
}

void RouteTextCall::End(std::optional<absl::StatusOr<RouteTextAnswer>> answer) {
  ended_ = true;
  if (ticket_ != kNoTicket) context_->routing->Abandon(id_, ticket_);
  const auto done = std::exchange(done_, nullptr);
  if (answer) done(*std::move(answer));
  context_->live.Leave(number_, std::nullopt);
}

}  // namespace kvrouter
