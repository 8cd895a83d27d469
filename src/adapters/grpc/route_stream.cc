#include "adapters/grpc/route_stream.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "adapters/grpc/answer_convert.h"
#include "adapters/grpc/request_convert.h"
#include "adapters/grpc/router_calls.h"
#include "adapters/grpc/status_convert.h"
#include "kvrouter/error.h"

namespace kvrouter {

RouteStream* RouteStream::Start(RoutingService* routing,
                                const grpc::CallbackServerContext* context) {
  const auto stream = std::make_shared<RouteStream>(routing, context);
  stream->self_ = stream;
  stream->Proceed();
  return stream.get();
}

// ---- What gRPC tells ----

void RouteStream::OnReadDone(bool ok) {
  if (ok) Handle(incoming_);
  incoming_.Clear();  // or a large one would stay until the next one comes
  {
    MutexLock lock(mu_);
    reading_ = false;
    half_closed_ = half_closed_ || !ok;
  }
  Proceed();
}

void RouteStream::OnWriteDone(bool ok) {
  {
    MutexLock lock(mu_);
    writing_ = false;
    broken_ = broken_ || !ok;
    if (outgoing_.has_route()) spare_ = std::move(outgoing_);
  }
  Proceed();
}

void RouteStream::OnCancel() {
  std::vector<std::pair<TicketId, std::string>> waiting;
  {
    MutexLock lock(mu_);
    broken_ = true;
    waiting.assign(waiting_.begin(), waiting_.end());
  }
  for (const auto& [ticket, request_id] : waiting) routing_->Abandon(request_id, ticket);
  Proceed();
}

void RouteStream::OnDone() {
  Bookings orphans;
  const std::shared_ptr<RouteStream> keep_until_return = std::move(self_);
  {
    MutexLock lock(mu_);
    done_ = true;
    // A break that came after OK was handed to gRPC shows only here.
    if (broken_ || context_->IsCancelled()) orphans.swap(bookings_);
    broken_ = broken_ || !orphans.empty();
  }
  for (const auto& [request_id, booking] : orphans) routing_->FreeBooking(request_id, booking);
}

// ---- What is done next ----

void RouteStream::Proceed() {
  const std::shared_ptr<RouteStream> keep_until_return = shared_from_this();
  bool write = false;
  bool read = false;
  bool finish = false;
  bool clean = false;
  {
    MutexLock lock(mu_);
    if (finished_) return;
    write = !broken_ && !writing_ && !answers_.empty();
    if (write) {
      outgoing_ = std::move(answers_.front());
      answers_.pop_front();
      writing_ = true;
    }
    read =
        !broken_ && !half_closed_ && !reading_ && answers_.size() + deciding_ < kMaxUnsentAnswers;
    reading_ = reading_ || read;
    clean = half_closed_ && answers_.empty() && deciding_ == 0;
    // Nothing outstanding: a read or write decided on but not started yet must not meet OnDone.
    finish = !reading_ && !writing_ && (broken_ || clean);
    finished_ = finish;
    clean = clean && !broken_;
  }
  if (write) StartWrite(&outgoing_);
  if (read) StartRead(&incoming_);
  if (finish) Finish(clean ? grpc::Status::OK : grpc::Status::CANCELLED);
}

void RouteStream::Answer(v1::StreamResponse response) {
  {
    MutexLock lock(mu_);
    if (done_) return;
    answers_.push_back(std::move(response));
  }
  Proceed();
}

v1::StreamResponse RouteStream::NewRouteAnswer() {
  std::optional<v1::StreamResponse> spare;
  {
    MutexLock lock(mu_);
    spare.swap(spare_);
  }
  if (!spare) return {};
  spare->mutable_route()->Clear();
  return *std::move(spare);
}

void RouteStream::Fail(uint64_t correlation_id, const absl::Status& status,
                       const std::string& request_id) {
  v1::StreamResponse response;
  response.set_correlation_id(correlation_id);
  v1::StreamError* error = response.mutable_error();
  error->set_code(static_cast<uint32_t>(status.code()));
  error->set_message(status.message().data(), status.message().size());
  *error->mutable_detail() = DetailOf(status);
  if (ErrorReasonOf(status) == ErrorReason::kDuplicateRequest) {
    if (const auto original = routing_->FindDecision(request_id)) {
      ToProto(request_id, *original, error->mutable_detail()->mutable_original_decision());
    }
  }
  Answer(std::move(response));
}

// ---- The calls ----

void RouteStream::Handle(const v1::StreamRequest& message) {
  const uint64_t correlation_id = message.correlation_id();
  v1::StreamResponse response;
  response.set_correlation_id(correlation_id);
  absl::Status status;
  switch (message.call_case()) {
    case v1::StreamRequest::kRoute:
      return Route(correlation_id, message.route());
    case v1::StreamRequest::kPrefillComplete:
      status = CallPrefillComplete(routing_, message.prefill_complete());
      response.mutable_prefill_complete();
      break;
    case v1::StreamRequest::kOutputBlock:
      status = CallOutputBlock(routing_, message.output_block());
      response.mutable_output_block();
      break;
    case v1::StreamRequest::kKeepAlive:
      status = CallKeepAlive(routing_, message.keep_alive());
      response.mutable_keep_alive();
      break;
    case v1::StreamRequest::kFree:
      status = CallFree(routing_, message.free(), response.mutable_free());
      if (status.ok()) {
        MutexLock lock(mu_);
        bookings_.erase(message.free().request_id());
      }
      break;
    case v1::StreamRequest::kReportLeg:
      status = CallReportLeg(routing_, message.report_leg());
      response.mutable_report_leg();
      break;
    case v1::StreamRequest::CALL_NOT_SET:
      status = MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest,
                         "no call is set in the message");
      break;
  }
  if (!status.ok()) return Fail(correlation_id, status);
  Answer(std::move(response));
}

void RouteStream::Route(uint64_t correlation_id, const v1::RouteRequest& message) {
  absl::StatusOr<RouteInput> input = FromProto(message);
  if (!input.ok()) {
    routing_->CountRefusal(input.status());
    return Fail(correlation_id, input.status());
  }
  struct Progress {
    std::string request_id;
    TicketId ticket{};
    bool decided = false;  // before Submit returned or after: guarded by mu_
  };
  std::shared_ptr<Progress> progress;  // of a request that waits
  std::string request_id;
  const auto wait = [this, correlation_id, &progress,
                     &request_id](TicketId ticket) -> RoutingService::Completion {
    progress = std::make_shared<Progress>();
    progress->request_id = request_id;
    progress->ticket = ticket;
    MutexLock lock(mu_);
    ++deciding_;
    return [self = shared_from_this(), correlation_id, progress](RoutingService::Answer answer) {
      self->Resolve(correlation_id, progress->request_id, progress->ticket, std::move(answer),
                    &progress->decided);
    };
  };
  std::optional<RoutingService::Answer> answer =
      routing_->Submit(std::move(input->request), wait, &request_id);
  if (answer) return Decided(correlation_id, request_id, std::move(*answer));
  bool leave = false;
  {
    MutexLock lock(mu_);
    if (progress->decided) return;
    waiting_.emplace(progress->ticket, progress->request_id);
    leave = broken_;  // OnCancel came before the id was there
  }
  if (leave) routing_->Abandon(progress->request_id, progress->ticket);
}

void RouteStream::Resolve(uint64_t correlation_id, const std::string& request_id, TicketId ticket,
                          RoutingService::Answer answer, bool* decided) {
  {
    MutexLock lock(mu_);
    *decided = true;
    waiting_.erase(ticket);
  }
  Decided(correlation_id, request_id, std::move(answer));
  {
    MutexLock lock(mu_);
    --deciding_;  // after the answer is queued: a clean end waits for both
  }
  Proceed();
}

void RouteStream::Decided(uint64_t correlation_id, const std::string& request_id,
                          RoutingService::Answer answer) {
  if (!answer.ok()) return Fail(correlation_id, answer.status(), request_id);
  if (answer->booked) Remember(request_id, answer->booking);
  v1::StreamResponse response = NewRouteAnswer();
  response.set_correlation_id(correlation_id);
  ToProto(request_id, *answer, response.mutable_route());
  Answer(std::move(response));
}

void RouteStream::Remember(const std::string& request_id, BookingId booking) {
  bool too_late = false;
  Bookings known;
  {
    MutexLock lock(mu_);
    too_late = done_;
    if (!too_late) bookings_[request_id] = booking;
    if (bookings_.size() >= sweep_at_) known = bookings_;
  }
  if (too_late) routing_->FreeBooking(request_id, booking);
  if (known.empty()) return;
  // A caller that frees elsewhere would make this grow for as long as its stream lives.
  absl::erase_if(
      known, [this](const auto& entry) { return routing_->HasBooking(entry.first, entry.second); });
  MutexLock lock(mu_);
  for (const auto& [gone_id, gone_booking] : known) {
    const auto it = bookings_.find(gone_id);
    if (it != bookings_.end() && it->second == gone_booking) bookings_.erase(it);
  }
  sweep_at_ = std::max<size_t>(1024, 2 * bookings_.size());
}

}  // namespace kvrouter
