#include "ctl/bench/bench_lane.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <optional>
#include <string_view>
#include <utility>

#include "client/daemon_call.h"

namespace kvrouter::ctl {
namespace {

using Clock = BenchSchedule::Clock;

// "ERROR_REASON_NO_WORKERS" as in metrics: "NO_WORKERS".
std::string ReasonName(v1::ErrorReason reason) {
  constexpr std::string_view kPrefix = "ERROR_REASON_";
  std::string name = v1::ErrorReason_Name(reason);
  if (name.compare(0, kPrefix.size(), kPrefix) == 0) name.erase(0, kPrefix.size());
  return name.empty() ? std::to_string(static_cast<int>(reason)) : name;
}

}  // namespace

struct BenchLane::Outcome {
  std::optional<v1::RouteResponse> answer = std::nullopt;
  std::string code = {};      // of an error
  std::string reason = {};    // "-": the daemon gave none
  bool maybe_booked = false;  // the answer was lost
  bool unreachable = false;
};

// A RouteStream asked one message at a time. Its context has no deadline: CancelOverdue watches.
class BenchLane::Stream {
 public:
  explicit Stream(v1::Router::Stub* stub) : stream_(stub->RouteStream(&context_)) {}

  grpc::ClientContext* context() { return &context_; }
  // Nothing: the stream broke; Finish says why.
  std::optional<v1::StreamResponse> Ask(v1::StreamRequest request) {
    request.set_correlation_id(++asked_);
    v1::StreamResponse response;
    if (!stream_->Write(request) || !stream_->Read(&response)) return std::nullopt;
    if (response.correlation_id() != asked_) return std::nullopt;
    return response;
  }
  grpc::Status Finish() {
    stream_->WritesDone();
    v1::StreamResponse response;
    while (stream_->Read(&response)) {
    }
    return stream_->Finish();
  }

 private:
  grpc::ClientContext context_;
  const std::unique_ptr<grpc::ClientReaderWriter<v1::StreamRequest, v1::StreamResponse>> stream_;
  uint64_t asked_ = 0;
};

BenchLane::BenchLane(const Shared& shared, const std::shared_ptr<grpc::Channel>& channel)
    : shared_(shared), stub_(v1::Router::NewStub(channel)) {}

BenchLane::~BenchLane() = default;

void BenchLane::Run() {
  while (const std::optional<BenchSchedule::Turn> turn = shared_.schedule->Next()) {
    v1::RouteRequest request = shared_.prompts->Make(turn->n);
    request.set_request_id(fmt::format("{}-{}", shared_.run_id, turn->n));
    const Clock::time_point sent = Clock::now();
    const Outcome outcome =
        shared_.options->call == BenchCall::kRoute ? AskUnary(request) : AskOnStream(request);
    Note(outcome, *turn, sent);
    const bool booked = outcome.answer && outcome.answer->booked();
    if (booked || outcome.maybe_booked) Free(request.request_id(), booked);
    if (outcome.unreachable) {
      unreachable_ = true;
      shared_.schedule->Stop();
    }
  }
  CloseStream();
}

BenchLane::Outcome BenchLane::AskUnary(const v1::RouteRequest& request) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + shared_.timeout);
  v1::RouteResponse response;
  const grpc::Status status = stub_->Route(&context, request, &response);
  if (status.ok()) return {.answer = std::move(response)};
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  const std::optional<v1::ErrorDetail> detail = client::DetailOf(context);
  return {.code = std::string(client::CodeName(code)),
          .reason = detail ? ReasonName(detail->reason()) : "-",
          .maybe_booked = !detail && !shared_.options->advise,
          .unreachable = !detail && code == absl::StatusCode::kUnavailable};
}

BenchLane::Outcome BenchLane::AskOnStream(const v1::RouteRequest& request) {
  if (stream_ == nullptr) stream_ = std::make_unique<Stream>(stub_.get());
  v1::StreamRequest message;
  *message.mutable_route() = request;
  Watch(stream_->context());
  std::optional<v1::StreamResponse> response = stream_->Ask(std::move(message));
  const bool overdue = Unwatch();
  if (response && response->has_route()) {
    return {.answer = std::move(*response->mutable_route())};
  }
  if (response) {
    const v1::StreamError& error = response->error();
    return {.code = std::string(client::CodeName(static_cast<absl::StatusCode>(error.code()))),
            .reason = ReasonName(error.detail().reason())};
  }
  const grpc::Status status = CloseStream();
  auto code = static_cast<absl::StatusCode>(status.error_code());
  if (overdue) code = absl::StatusCode::kDeadlineExceeded;
  if (code == absl::StatusCode::kOk) code = absl::StatusCode::kInternal;  // out of order
  return {.code = std::string(client::CodeName(code)),
          .reason = "-",
          .maybe_booked = !shared_.options->advise,
          .unreachable = code == absl::StatusCode::kUnavailable};
}

void BenchLane::Note(const Outcome& outcome, const BenchSchedule::Turn& turn,
                     Clock::time_point sent) {
  if (shared_.options->rate_per_s > 0) tally_.late.Add(sent - turn.due);
  if (!outcome.answer) return tally_.CountError(outcome.code, outcome.reason);
  const Clock::time_point from = shared_.options->rate_per_s > 0 ? turn.due : sent;
  tally_.latency.Add(Clock::now() - from);
  ++tally_.answered;
  if (outcome.answer->booked()) ++tally_.booked;
  tally_.overlap_blocks += outcome.answer->overlap_blocks();
  tally_.isl_blocks += outcome.answer->isl_blocks();
}

void BenchLane::Free(const std::string& request_id, bool booked) {
  bool gone = false;
  if (stream_ != nullptr) {
    v1::StreamRequest message;
    message.mutable_free()->set_request_id(request_id);
    Watch(stream_->context());
    const std::optional<v1::StreamResponse> response = stream_->Ask(std::move(message));
    Unwatch();
    gone = response && response->has_free();
    if (!response) CloseStream();
  }
  absl::StatusCode freed = absl::StatusCode::kOk;
  if (!gone) freed = FreeBooking(stub_.get(), request_id, shared_.timeout);
  if (freed == absl::StatusCode::kOk) {
    if (booked) ++tally_.freed;
    return;
  }
  unreachable_ = unreachable_ || freed == absl::StatusCode::kUnavailable;
  not_freed_.push_back(request_id);
  if (!booked) return;
  // A daemon that takes bookings but does not give them back gets no more of them.
  tally_.CountError("FREE_FAILED", "-");
  shared_.schedule->Stop();
}

void BenchLane::Watch(grpc::ClientContext* context) {
  MutexLock lock(mu_);
  busy_context_ = context;
  busy_since_ = Clock::now();
  overdue_ = false;
}

bool BenchLane::Unwatch() {
  MutexLock lock(mu_);
  busy_context_ = nullptr;
  return overdue_;
}

void BenchLane::CancelOverdue() {
  MutexLock lock(mu_);
  if (busy_context_ == nullptr || Clock::now() - busy_since_ < shared_.timeout) return;
  overdue_ = true;
  busy_context_->TryCancel();
}

grpc::Status BenchLane::CloseStream() {
  if (stream_ == nullptr) return grpc::Status::OK;
  const std::unique_ptr<Stream> stream = std::move(stream_);
  Watch(stream->context());
  grpc::Status status = stream->Finish();
  Unwatch();
  return status;
}

absl::StatusCode FreeBooking(v1::Router::Stub* stub, const std::string& request_id,
                             std::chrono::milliseconds timeout) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  v1::FreeRequest request;
  request.set_request_id(request_id);
  v1::FreeResponse response;
  return static_cast<absl::StatusCode>(stub->Free(&context, request, &response).error_code());
}

}  // namespace kvrouter::ctl
