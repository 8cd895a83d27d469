#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dispatch/dispatched_request.h"
#include "dispatch/kv_handshake.h"
#include "dispatch/posted_event.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

using LogLevel = DispatchObserver::LogLevel;

// Of a request without a total time, in place of 0, which is the link's default.
constexpr std::chrono::hours kForever{24 * 365};

// Clients choose ids, and engines the texts of errors; a line stays a line.
std::string OneLine(std::string_view text, char space) {
  std::string line(text.substr(0, 512));
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f' || (c == ' ' && space != ' ')) c = space;
  }
  return line;
}

// What a prefill worker says of it another worker would say, too.
bool IsClientsFault(int status) { return status == 400 || status == 413 || status == 422; }

DispatchFallback FallbackOf(HandshakeProblem problem) {
  switch (problem) {
    case HandshakeProblem::kMissing:
      return DispatchFallback::kHandshakeMissing;
    case HandshakeProblem::kLocal:
      return DispatchFallback::kHandshakeLocal;
    default:
      return DispatchFallback::kHandshakeInvalid;
  }
}

}  // namespace

// What the link tells of one leg.
class DispatchedRequest::LegReply final : public EngineReply {
 public:
  LegReply(std::shared_ptr<DispatchedRequest> request, uint32_t leg)
      : request_(std::move(request)), leg_(leg) {}

  void OnHead(EngineReplyHead head) override {
    PostEvent(request_.get(), [leg = leg_, head = std::move(head)](DispatchedRequest& request) {
      if (request.IsOut(leg)) request.OnHead(head);
    });
  }
  void OnBody(std::string_view piece) override {
    const auto handle = [leg = leg_](DispatchedRequest& request, std::string_view bytes) {
      if (!request.ended() && request.IsOut(leg)) request.OnBody(bytes);
    };
    request_->events().Run([&] { handle(*request_, piece); },
                           [&]() -> std::function<void()> {
                             return [request = request_, handle, copy = std::string(piece)] {
                               handle(*request, copy);
                             };
                           });
  }
  void OnEnd(EngineEnd end, std::string_view detail) override {
    PostEvent(request_.get(),
              [leg = leg_, end, text = std::string(detail)](DispatchedRequest& request) {
                if (request.IsOut(leg)) request.OnLegEnd(end, text);
              });
  }

 private:
  const std::shared_ptr<DispatchedRequest> request_;
  const uint32_t leg_;
};

std::chrono::nanoseconds DispatchedRequest::TimeLeft() const {
  if (config_->total_timeout.count() == 0) return kForever;
  return std::max(arrived_at_ + config_->total_timeout - context_->clock->Now(),
                  std::chrono::nanoseconds(1));
}

void DispatchedRequest::SendLeg(EngineLeg leg, const LegMessage& message) {
  leg.number = ++leg_number_;
  leg.sent_at = context_->clock->Now();
  EngineCall call;
  call.base_url = leg.where.address;
  call.path = target_;
  call.headers = request_->engine_headers();
  call.headers.emplace_back("x-request-id", message.request_id);
  const auto engine = context_->directory.Find(leg.where.target.worker);
  if (engine && engine->dp_size > 1)
    call.headers.emplace_back("x-data-parallel-rank", fmt::format("{}", leg.where.target.dp_rank));
  call.body = message.body;
  call.head_timeout = std::min(message.head_timeout, TimeLeft());
  call.idle_timeout = config_->idle_timeout;
  leg_ = std::move(leg);
  paused_ = false;
  leg_->exchange = context_->link->Send(
      std::move(call), std::make_shared<LegReply>(shared_from_this(), leg_->number));
}

void DispatchedRequest::SendProducer(const Leg& planned) {
  EngineLeg leg;
  leg.kind = planned.kind;
  leg.where = *planned.where;
  auto body = request_->ProducerBodyOf();
  if (!body) {
    GoOnWithoutProducer(planned.kind);
    return;
  }
  const auto timeout = planned.timeout.value_or(config_->prefill_timeout);
  leg.cancel_timer = context_->link->After(
      timeout, WeakEvent(this, [number = leg_number_ + 1](DispatchedRequest& self) {
        if (self.IsOut(number)) self.OnLegEnd(EngineEnd::kHeadTimeout, "over the leg's time");
      }));
  SendLeg(std::move(leg), {.body = std::move(body),
                           .request_id = planned.kind == LegKind::kKvSource ? id_ + "-kvmig" : id_,
                           .head_timeout = timeout});
}

void DispatchedRequest::SendServe(const LegTarget& where, std::optional<HeldHandshake> handshake) {
  EngineLeg leg;
  const bool second = ask_ == Ask::kDecode || ask_ == Ask::kDecodePlain;
  leg.kind = second ? LegKind::kDecode : LegKind::kServe;
  leg.where = where;
  const bool was_given = handshake.has_value();
  std::shared_ptr<const std::string> body;
  if (handshake && IsUsable(*handshake, where)) {
    body = request_->ConsumerBodyOf(handshake->params);
    leg.with_handshake = body != nullptr;
  }
  if (leg.with_handshake) {
    // Now it is certain that its blocks will be asked for.
    if (!second && !std::exchange(handshake->reported, true))
      Report(handshake->producer, LegOutcome::kSucceeded, handshake->took);
    if (request_->AsksUsage()) leg.handshake = std::move(handshake);
  } else {
    DropHandshake();
    if (strict_ && was_given && ask_ == Ask::kDecode) {
      RefuseClient(MakeError(absl::StatusCode::kUnavailable, ErrorReason::kUnspecified,
                             "what the prefill leg returned cannot be used any more"));
      return;
    }
    body = request_->PlainBody();
  }
  if (!body) {
    RefuseClient(MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest,
                           "body is not valid JSON"));
    return;
  }
  if (request_->AsksUsage()) answer_.WithholdUsage();
  const auto head_timeout = request_->openai().stream ? config_->head_timeout : TimeLeft();
  SendLeg(std::move(leg),
          {.body = std::move(body),
           // An engine may still be busy ending what it was sent under the id before.
           .request_id = retries_ == 0 ? id_ : fmt::format("{}-r{}", id_, retries_),
           .head_timeout = head_timeout});
}

bool DispatchedRequest::IsUsable(const HeldHandshake& handshake, const LegTarget& consumer) {
  if (context_->clock->Now() - handshake.since > config_->handshake_lease) {
    Fallback(DispatchFallback::kLeaseOver);
    return false;
  }
  const auto producer = context_->directory.Find(handshake.producer.target.worker);
  if (!producer || producer->incarnation != handshake.producer.incarnation) {
    Fallback(DispatchFallback::kProducerReplaced);
    return false;
  }
  if (handshake.producer.target.worker != consumer.target.worker &&
      !MayPull(handshake.producer.target.worker, consumer.target.worker)) {
    Fallback(DispatchFallback::kPromptsMayDiffer);
    return false;
  }
  return true;
}

void DispatchedRequest::OnHead(EngineReplyHead head) {
  leg_->head_at = context_->clock->Now();
  leg_->status = head.status;
  if (IsProducer(leg_->kind)) {
    leg_->headers = std::move(head.headers);
  } else {
    answer_.Head(std::move(head));
  }
}

void DispatchedRequest::OnBody(std::string_view piece) {
  if (IsProducer(leg_->kind)) {
    const size_t room = config_->max_held_reply_bytes - leg_->body.size();
    if (piece.size() > room && !std::exchange(leg_->too_long, true))
      context_->observer->OnOutgrown(OutgrownHold::kProducer);
    leg_->body += piece.substr(0, room);
    return;
  }
  const bool keeps_up = answer_.Body(piece);
  if (answer_.is_stream() && !answer_.begun() && answer_.error_inside() &&
      !answer_.refused_inside()) {  // of that one all is wanted
    OnServeFailed(LegResult::kServerError, "an error in place of output");
    return;
  }
  NoteProgress();
  if (keeps_up) return;
  paused_ = true;
  leg_->exchange->Pause();
}

void DispatchedRequest::NoteProgress() {
  if (answer_.begun()) request_->ReleaseInputs();
  if (!answer_.output_begun()) return;
  if (!first_token_at_) {
    first_token_at_ = context_->clock->Now();
    held_at_.reset();  // pulled
    context_->routing->PrefillComplete(id_);
    context_->observer->OnFirstToken(path_, *first_token_at_ - arrived_at_);
  }
  // The router counts blocks, so it needs to know no more than where they begin.
  const uint64_t tokens = answer_.output_tokens();
  const uint64_t block_tokens = std::max<uint64_t>(decision_->block_size_tokens, 1);
  const uint64_t blocks = (decision_->isl_tokens + tokens + block_tokens - 1) / block_tokens;
  if (blocks == reported_blocks_) return;
  reported_blocks_ = blocks;
  context_->routing->OutputTokens(id_, tokens, std::nullopt);
}

void DispatchedRequest::OnLegEnd(EngineEnd end, std::string_view detail) {
  LegResult result = LegResultOf(end, leg_->status);
  if (IsProducer(leg_->kind)) {
    if (result == LegResult::kSucceeded && leg_->status != 200) result = LegResult::kBadHandshake;
    if (result == LegResult::kSucceeded) {
      OnHandshake();
    } else {
      OnProducerFailed(result, leg_->status > 0 && end == EngineEnd::kComplete
                                   ? fmt::format("status {}", leg_->status)
                                   : std::string(detail));
    }
    return;
  }
  if (end != EngineEnd::kComplete) {
    OnServeFailed(result, std::string(detail));
  } else if ((leg_->status == 400 || leg_->status == 422) && request_->AsksUsage()) {
    OnUsageRefused();
  } else if (result == LegResult::kServerError ||
             (result == LegResult::kRefused && leg_->with_handshake)) {
    OnServeFailed(result, fmt::format("status {}", leg_->status));
  } else if (!answer_.begun() && answer_.error_inside()) {
    // Older engines say 400 of whatever happened to them, so another one is asked. But nobody is
    // blamed, and what the engine said reaches the client if all say so.
    OnServeFailed(answer_.refused_inside() ? LegResult::kRefused : LegResult::kServerError,
                  "an error in place of output");
  } else if (!answer_.CanEnd()) {
    OnServeFailed(LegResult::kCut, "the stream ended before its output");
  } else {
    OnServed(result);
  }
}

void DispatchedRequest::OnHandshake() {
  const LegTarget producer = leg_->where;
  HandshakeReading reading;
  if (leg_->too_long) {
    reading.problem = HandshakeProblem::kInvalid;
    reading.detail = "the answer is too long";
  } else {
    reading = ReadHandshake(leg_->body, producer.address);
  }
  if (reading.problem != HandshakeProblem::kNone) {
    Fallback(FallbackOf(reading.problem));
    OnProducerFailed(LegResult::kBadHandshake, reading.detail);
    return;
  }
  const LegKind kind = leg_->kind;
  const auto took = context_->clock->Now() - leg_->sent_at;
  handshake_ = {
      .params = std::move(reading.handshake.params), .producer = producer, .since = leg_->head_at};
  held_at_ = producer;
  CloseLeg(LegResult::kSucceeded);
  Log(kind == LegKind::kKvSource ? LogLevel::kInfo : LogLevel::kDebug,
      kind == LegKind::kKvSource ? "KVMIGRATE: handshake obtained" : "event=handshake_obtained",
      producer, fmt::format("blocks={}", reading.handshake.blocks));
  if (kind == LegKind::kKvSource) {
    SendServe({.target = decision_->target,
               .incarnation = decision_->incarnation,
               .address = decision_->address},
              std::exchange(handshake_, std::nullopt));
    return;
  }
  Report(producer, LegOutcome::kSucceeded, took);
  Route(Ask::kDecode);
}

void DispatchedRequest::OnProducerFailed(LegResult result, std::string_view detail) {
  const LegKind kind = leg_->kind;
  const LegTarget where = leg_->where;
  const int status = leg_->status;
  const auto took = context_->clock->Now() - leg_->sent_at;
  AnswerPassing::HeldAnswer answer{{.status = status, .headers = std::move(leg_->headers)},
                                   std::move(leg_->body)};
  CloseLeg(result);
  const std::string why = fmt::format("leg={} result={} detail=\"{}\"", LegKindName(kind),
                                      LegResultName(result), OneLine(detail, ' '));
  Log(LogLevel::kWarning, "event=leg_failed", where, why);
  if (IsWorkersFault(result)) {
    Report(where, LegOutcome::kFailed, took);
  } else if (kind == LegKind::kKvSource) {
    // Whoever counts these lines counts this one, too, which speaks against no worker.
    Log(LogLevel::kInfo, "KVMIGRATE: producer dispatch failed", where, why);
  }
  if (kind == LegKind::kPrefill) {
    // The fleet is full, and serving it elsewhere would only move the load; or nothing else may be
    // tried, and no router failed.
    if (result == LegResult::kRefused && (status == 429 || (strict_ && IsClientsFault(status)))) {
      FreeBooking();
      answer_.Pass(std::move(answer));
      End({.outcome = DispatchOutcome::kEngineRefused, .status = status});
      return;
    }
    if (strict_) {
      RefuseClient(MakeError(
          absl::StatusCode::kUnavailable, ErrorReason::kUnspecified,
          fmt::format("prefill leg failed: {} {}", LegResultName(result), OneLine(detail, ' '))));
      return;
    }
  }
  GoOnWithoutProducer(kind);
}

void DispatchedRequest::GoOnWithoutProducer(LegKind kind) {
  if (kind == LegKind::kPrefill) {
    Fallback(DispatchFallback::kPrefillFailed);
    Route(Ask::kDecodePlain);
    return;
  }
  Fallback(DispatchFallback::kSourceFailed);
  SendServe({.target = decision_->target,
             .incarnation = decision_->incarnation,
             .address = decision_->address},
            std::nullopt);
}

// What it did not like may be what we added. If not, it will say so again,
// of the client's own bytes.
void DispatchedRequest::OnUsageRefused() {
  const LegTarget where = leg_->where;
  auto handshake = std::move(leg_->handshake);
  CloseLeg(LegResult::kRefused);
  answer_.Reset();
  request_->DoNotAskUsage();
  Fallback(DispatchFallback::kUsageRefused);
  SendServe(where, std::move(handshake));
}

void DispatchedRequest::OnServed(LegResult result) {
  const int status = leg_->status;
  held_at_.reset();
  answer_.ReadRest();
  if (result == LegResult::kSucceeded) {
    if (!first_token_at_) context_->routing->PrefillComplete(id_);
    if (answer_.output_tokens() > 0)
      context_->routing->OutputTokens(id_, answer_.output_tokens(), std::nullopt);
    NoteOverlap();
  }
  const bool broke = answer_.is_stream() && answer_.error_inside();
  Report(leg_->where,
         broke                             ? LegOutcome::kFailed
         : result == LegResult::kSucceeded ? LegOutcome::kSucceeded
                                           : LegOutcome::kUnknown,
         context_->clock->Now() - leg_->sent_at);
  CloseLeg(broke ? LegResult::kServerError : result);
  FreeBooking();
  answer_.End();
  End({.outcome = broke                             ? DispatchOutcome::kFailed
                  : result == LegResult::kSucceeded ? DispatchOutcome::kSuccess
                                                    : DispatchOutcome::kEngineRefused,
       .status = status});
}

void DispatchedRequest::NoteOverlap() {
  const OpenAiUsage usage = answer_.usage();
  if (!usage.cached_tokens || decision_->isl_tokens == 0) return;
  const bool pulled = leg_->with_handshake;
  if (pulled && decision_->leg == RequestPhase::kDecode) return;  // all of it came from elsewhere
  uint64_t predicted = decision_->expected_engine_hit_tokens;
  if (pulled && decision_->planning && decision_->planning->migration) {
    predicted = std::max(predicted, std::min(decision_->planning->migration->migratable_tokens,
                                             decision_->isl_tokens));
  }
  context_->observer->OnOverlap(
      {.target = leg_->where.target,
       .plan = pulled ? Plan::kMigrate : Plan::kLocal,
       .prompt_tokens = usage.prompt_tokens.value_or(decision_->isl_tokens),
       .predicted_tokens = predicted,
       .delivered_tokens = *usage.cached_tokens,
       .model = request_->partition().model_name});
}

void DispatchedRequest::OnServeFailed(LegResult result, std::string detail) {
  const LegTarget where = leg_->where;
  const bool with_handshake = leg_->with_handshake;
  const auto took = context_->clock->Now() - leg_->sent_at;
  if (IsWorkersFault(result)) Report(where, LegOutcome::kFailed, took);
  Log(LogLevel::kWarning, "event=leg_failed", where,
      fmt::format("leg={} result={} detail=\"{}\"", LegKindName(leg_->kind), LegResultName(result),
                  OneLine(detail, ' ')));
  CloseLeg(result);
  std::string message =
      fmt::format("worker {} failed: {}: {}", static_cast<uint64_t>(where.target.worker),
                  LegResultName(result), OneLine(detail, ' '));
  if (answer_.begun()) {
    if (answer_.output_tokens() > 0)
      context_->routing->OutputTokens(id_, answer_.output_tokens(), std::nullopt);
    FreeBooking();
    answer_.Fail(StatusForClient(result), message, "engine_failed");
    End({.outcome = DispatchOutcome::kFailed, .status = StatusForClient(result)});
    return;
  }
  failure_ = {.result = result, .message = std::move(message), .answer = {}};
  if ((answer_.has_head() && !answer_.is_stream() && answer_.status() >= 400 &&
       (result == LegResult::kServerError || result == LegResult::kRefused)) ||
      (result == LegResult::kRefused && answer_.refused_inside()))
    failure_->answer = answer_.TakeHeld();
  answer_.Reset();
  DropHandshake();
  // Without the blocks of another it is a new request; that may be tried whatever was tried before.
  if (!with_handshake && retries_ >= config_->max_retries) {
    GiveUp();
    return;
  }
  ++retries_;
  Fallback(with_handshake ? DispatchFallback::kConsumerFailed
                          : DispatchFallback::kRetriedElsewhere);
  if (with_handshake && result == LegResult::kRefused) {
    SendServe(where, std::nullopt);  // the worker is well; it did not like our parameters
    return;
  }
  if (with_handshake && result == LegResult::kServerError) last_resort_ = where.target.worker;
  excluded_.push_back({.worker = where.target.worker, .dp_rank = std::nullopt});
  FreeBooking();
  Route(Ask::kPlain);
}

void DispatchedRequest::GiveUp() {
  FreeBooking();
  const bool refused = failure_->result == LegResult::kRefused;
  int status = StatusForClient(failure_->result);
  if (failure_->answer) {
    status = failure_->answer->head.status;
    answer_.Pass(*std::move(failure_->answer));
  } else {
    answer_.Fail(status, failure_->message, "engine_failed");
  }
  End({.outcome = refused ? DispatchOutcome::kEngineRefused : DispatchOutcome::kFailed,
       .status = status});
}

void DispatchedRequest::Report(const LegTarget& where, LegOutcome outcome,
                               std::chrono::nanoseconds took) {
  if (outcome == LegOutcome::kUnknown) return;
  context_->routing->ReportLeg(id_, {.outcome = outcome, .target = where.target, .after = took});
}

void DispatchedRequest::CloseLeg(LegResult result) {
  EngineLeg leg = *std::exchange(leg_, std::nullopt);
  if (leg.cancel_timer) leg.cancel_timer();
  // Of one that is over this does nothing.
  if (leg.exchange) leg.exchange->Cancel();
  context_->observer->OnLeg(leg.kind, leg.where.target, result,
                            context_->clock->Now() - leg.sent_at);
}

void DispatchedRequest::StopLeg() {
  if (leg_) CloseLeg(LegResult::kCancelled);
}

void DispatchedRequest::DropHandshake() {
  handshake_.reset();
  if (held_at_) context_->observer->OnLeaseLeft(std::exchange(held_at_, std::nullopt)->target);
}

void DispatchedRequest::Log(LogLevel level, std::string_view what, const LegTarget& where,
                            std::string_view detail) {
  context_->observer->OnLog(
      level, fmt::format("{} request_id={} worker={}/{}{}{}", what, OneLine(id_, '_'),
                         static_cast<uint64_t>(where.target.worker), where.target.dp_rank,
                         detail.empty() ? "" : " ", detail));
}

}  // namespace kvrouter
