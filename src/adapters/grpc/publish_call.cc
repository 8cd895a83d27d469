#include "adapters/grpc/publish_call.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "adapters/grpc/event_convert.h"
#include "adapters/grpc/request_convert.h"
#include "adapters/grpc/status_convert.h"
#include "base/status_macros.h"
#include "kvrouter/error.h"

namespace kvrouter {

PublishCall* PublishCall::Start(const Env& env, grpc::CallbackServerContext* context) {
  const auto call = std::make_shared<PublishCall>(env, context);
  call->self_ = call;
  call->Proceed();
  return call.get();
}

PublishCall::PublishCall(const Env& env, grpc::CallbackServerContext* context)
    : env_(env), context_(context), has_slot_(env.slots->Take()) {
  if (has_slot_) return;
  const absl::Status status = MakeError(
      absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
      fmt::format("{} Publish streams are open, which is the limit", PublishSlots::kSlots));
  env_.feeds->CountRefusal(status);
  MutexLock lock(mu_);
  error_ = status;
}

// ---- What gRPC tells ----

void PublishCall::OnReadDone(bool ok) {
  const absl::Status status = ok ? Handle(incoming_) : absl::OkStatus();
  incoming_.Clear();  // or a large one would stay until the next one comes
  {
    MutexLock lock(mu_);
    reading_ = false;
    half_closed_ = half_closed_ || !ok;
    if (error_.ok()) error_ = status;
  }
  Proceed();
}

void PublishCall::OnWriteDone(bool ok) {
  {
    MutexLock lock(mu_);
    writing_ = false;
    broken_ = broken_ || !ok;
  }
  Proceed();
}

void PublishCall::OnCancel() {
  std::shared_ptr<PublishStream> stream;
  {
    MutexLock lock(mu_);
    broken_ = true;
    stream = stream_;
  }
  if (stream) stream->Close();
  Proceed();
}

void PublishCall::OnDone() {
  const std::shared_ptr<PublishCall> keep_until_return = std::move(self_);
  std::shared_ptr<PublishStream> stream;
  {
    MutexLock lock(mu_);
    stream = stream_;
  }
  if (stream) stream->Close();
  if (has_slot_) env_.slots->GiveBack();
}

// ---- What is done next ----

void PublishCall::Proceed() {
  const std::shared_ptr<PublishCall> keep_until_return = shared_from_this();
  for (;;) {
    const Step step = Decide();
    if (step.finish) {
      Finish(step.error.ok() ? grpc::Status::OK : ToGrpcStatus(step.error, context_));
      return;
    }
    if (!step.write && !step.read) return;
    if (step.write) StartWrite(&outgoing_);
    if (step.read) StartRead(&incoming_);
    MutexLock lock(mu_);
    --starting_;
  }
}

PublishCall::Step PublishCall::Decide() {
  MutexLock lock(mu_);
  Step step;
  if (finished_) return step;
  if (stream_ && error_.ok()) error_ = stream_->Ended();
  const bool going_on = !broken_ && error_.ok();
  step.write = going_on && !writing_ && TakeNews();
  writing_ = writing_ || step.write;
  step.read = going_on && !half_closed_ && !reading_;
  reading_ = reading_ || step.read;
  if (step.write || step.read) {
    ++starting_;
    return step;
  }
  // A read may be outstanding when we end the call: it ends with it. A write must be done.
  step.finish = starting_ == 0 && !writing_ && (!going_on || (half_closed_ && !reading_));
  finished_ = step.finish;
  step.error = error_;
  if (step.finish && broken_ && error_.ok()) {
    step.error = absl::CancelledError("the stream broke");
  }
  return step;
}

bool PublishCall::TakeNews() {
  if (!stream_) return false;
  const std::optional<PublishStatus> status = stream_->TakeStatus();
  if (!status) return false;
  outgoing_.Clear();
  ToProto(*status, &outgoing_);
  return true;
}

// ---- Messages ----

absl::Status PublishCall::Handle(const v1::PublishRequest& message) {
  std::shared_ptr<PublishStream> stream;
  {
    MutexLock lock(mu_);
    stream = stream_;
  }
  if (message.message_case() == v1::PublishRequest::kStart) {
    const absl::Status status =
        stream ? InvalidMessage("start was sent before on this stream") : Open(message.start());
    env_.feeds->CountRefusal(status);
    return status;
  }
  if (!stream) {
    const absl::Status status = InvalidMessage("the first message of a stream must be start");
    env_.feeds->CountRefusal(status);
    return status;
  }
  switch (message.message_case()) {
    case v1::PublishRequest::kLive:
      if (message.live().sequence() == UINT64_MAX) {
        stream->OnBadMessage();
      } else {
        stream->OnLive(FromProto(message.live()));
      }
      break;
    case v1::PublishRequest::kReplayed:
      if (message.replayed().batch().sequence() == UINT64_MAX) {
        stream->OnBadMessage();
      } else {
        stream->OnReplayed(message.replayed().replay_id(), FromProto(message.replayed().batch()));
      }
      break;
    case v1::PublishRequest::kReplayEnd:
      stream->OnReplayEnd(message.replay_end().replay_id());
      break;
    case v1::PublishRequest::kStart:
    case v1::PublishRequest::MESSAGE_NOT_SET:
      stream->OnBadMessage();
      break;
  }
  return absl::OkStatus();
}

absl::Status PublishCall::Open(const v1::PublishStart& message) {
  KVR_ASSIGN_OR_RETURN(const PublishStart start, FromProto(message));
  KVR_ASSIGN_OR_RETURN(auto stream, env_.feeds->Open(start, [weak = weak_from_this()] {
    if (const auto call = weak.lock()) call->Proceed();
  }));
  bool too_late = false;
  {
    MutexLock lock(mu_);
    too_late = broken_;  // OnCancel came before the stream was there
    stream_ = stream;
  }
  if (too_late) stream->Close();
  return absl::OkStatus();
}

}  // namespace kvrouter
